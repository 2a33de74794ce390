"""Alerts of operators without a deterministic algorithm."""

import pytest


@pytest.fixture(autouse=True)
def _restore_mode(torch):
    yield
    torch.use_deterministic_algorithms(False)


def put(torch):
    return torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))


def unpool(torch):
    functional = torch.nn.functional
    maxima, indices = functional.max_pool2d(torch.ones(1, 1, 4, 4), 2, return_indices=True)
    return functional.max_unpool2d(maxima, indices, 2)


def resize(torch):
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 10, torch.quint8).resize_(10)


@pytest.mark.filterwarnings("ignore:.*quantize")
@pytest.mark.parametrize(("call", "name"), [
    (put, "put_"), (unpool, "max_unpooling2d_forward_out"), (resize, "quantized_resize_cpu_"),
])
def test_it_raises_or_warns_as_requested(torch, call, name):
    call(torch)
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match=f"^{name} does not have a deterministic implementation"):
        call(torch)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=f"^{name} does not have a deterministic implementation"):
        call(torch)


def test_sums_at_positions_are_deterministic(torch):
    torch.use_deterministic_algorithms(True)
    y = torch.zeros(3).put(torch.tensor([0, 0]), torch.ones(2), accumulate=True)
    assert y.tolist() == [2, 0, 0]
