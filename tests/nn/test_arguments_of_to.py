"""The call forms of Module.to: what PyTorch's three signatures accept, and its text on others."""

import pytest

import flambeau

CALLS = [
    "", "None", "'cpu'", "device('cpu'), float64, True", "float64, True", "float64, True, False",
    "ones(1, dtype=float64), True", "tensor=ones(1, dtype=float64)", "other=ones(1)",
    "None, float64", "device='cpu', dtype=float64", "dtype=float64", "float64, memory_format=3",
    "float64, 3", "ones(1), float64", "'cpu', float64, 1", "None, None, None", "copy=False",
    "'cpu', float64, True, True", "float64, float64", "float64, device='cpu'", "'cpu', True",
    "'cpu', non_blocking=True", "float64, non_blocking=1", "memory_format=channels_last", "foo=1",
    "[1]", "float64, foo=1", "float64, copy=True", "float64, None", "'cpu', None, False, None",
    "float64, memory_format=None", "'cpu', 'cpu'", "int32", "tensor=None", "device=ones(1)",
    "dtype=3", "'cpu', float64, False, False, None", "1.5", "True", "'cpu', 1.5",
    "dtype=float64, foo=1", "device('cpu'), 1, foo=1, bar=channels_last", "Size([1]), float64",
    "nn.Parameter(ones(1)), 3", "'cpu', tensor=ones(1)", "'cpu', device='cpu'", "nn.Linear(1, 1)",
]


def move(lib, arguments):
    module = lib.nn.Linear(1, 1)
    try:
        result = eval(f"module.to({arguments})", {**vars(lib), "module": module, "nn": lib.nn})
    except (TypeError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return result is module, str(module.weight.dtype)


@pytest.mark.parity
@pytest.mark.parametrize("arguments", CALLS)
def test_a_call_of_to(arguments):
    torch = pytest.importorskip("torch")
    assert move(flambeau, arguments) == move(torch, arguments)


def test_a_number_in_the_place_of_non_blocking_is_refused():
    kind, text = move(flambeau, "float64, 3")
    assert kind == "TypeError"
    assert text.startswith("to() received an invalid combination of arguments - got (torch.dtype, "
                           "int), but expected one of:\n * (torch.device device = None, ")
