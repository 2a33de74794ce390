"""Floats of eight bits: what PyTorch's CPU computes of them, and the texts of its refusals."""

import pytest

import flambeau

KINDS = ["float8_e4m3fn", "float8_e5m2"]
FUNCTIONS = """
abs neg sin sqrt exp sigmoid relu floor reciprocal square erf lgamma digamma exp2 isnan isinf
isfinite signbit sgn deg2rad angle nan_to_num tril triu histc isneginf logical_not diff trace clone
""".split()
PAIRS = """
add sub mul div pow maximum fmod floor_divide atan2 lt eq ne logical_and copysign ldexp xlogy
isclose equal mm
""".split()


def outcomes(torch, kind):
    dtype = getattr(torch, kind)
    x = torch.tensor([[1.0, 2.0], [0.5, 0.25]]).to(dtype)
    mask = torch.ones(2, 2, dtype=torch.bool)
    calls = {name: (lambda name=name: getattr(torch, name)(x)) for name in FUNCTIONS}
    calls |= {f"{name} of two": (lambda name=name: getattr(torch, name)(x, x)) for name in PAIRS}
    calls |= {
        "x + 1": lambda: x + 1, "x * 2": lambda: x * 2.0, "x == 1": lambda: x == 1,
        "x + float": lambda: x + torch.ones(2, 2), "x + int": lambda: x + torch.ones(2, 2).long(),
        "x.add_": lambda: x.clone().add_(1), "clamp": lambda: x.clamp(0, 1),
        "masked_fill": lambda: x.masked_fill(mask, 0), "where": lambda: torch.where(mask, x, x),
        "scatter": lambda: x.scatter(0, torch.tensor([[0]]), 1.0), "x[0]": lambda: x[0],
        "lerp": lambda: torch.lerp(x, x, 0.5), "dot": lambda: torch.dot(x[0], x[0]),
        "bmm": lambda: torch.bmm(x[None], x[None]), "arange": lambda: torch.arange(3, dtype=dtype),
        "promote": lambda: torch.promote_types(dtype, torch.bool),
    }
    results = {}
    for name, call in calls.items():
        try:
            result = call()
            value = getattr(result, "dtype", result)
            results[name] = str(value).replace("flambeau", "torch")
        except (NotImplementedError, RuntimeError) as error:
            results[name] = f"{type(error).__name__}: {error}".partition("\n")[0]
    return results


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_what_pytorch_computes_and_how_it_refuses(kind):
    import torch

    ours, theirs = outcomes(flambeau, kind), outcomes(torch, kind)
    assert {k: v for k, v in ours.items() if v != theirs[k]} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_name_the_kernel(kind):
    x = flambeau.ones(2, 2).to(getattr(flambeau, kind))
    assert (x * x).dtype is x.dtype
    with pytest.raises(NotImplementedError, match='"add_stub" not implemented for .Float8'):
        x + 1
    with pytest.raises(NotImplementedError, match='"tril" not implemented'):
        flambeau.tril(x)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        x + flambeau.ones(2, 2)
