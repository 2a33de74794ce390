"""Data, shapes and options that factories refuse, and the warnings they give."""

from __future__ import annotations

import numpy as np
import pytest

CASES = [
    (lambda t: t.tensor([t.ones(2), t.ones(2)]), ValueError,
     "only one element tensors can be converted to Python scalars"),
    (lambda t: t.tensor(2**63), ValueError, "Overflow when unpacking long long"),
    (lambda t: t.tensor(1j, dtype=t.float32), TypeError, "must be real number, not complex"),
    (lambda t: t.tensor([1], requires_grad=True), RuntimeError,
     "Only Tensors of floating point and complex dtype can require gradients"),
    (lambda t: t.ones(2, dtype=t.int64).requires_grad_(), RuntimeError,
     "only Tensors of floating point dtype can require gradients"),
    (lambda t: t.empty_strided((2, 3), (1,)), RuntimeError,
     "dimensionality of sizes (2) must match dimensionality of strides (1)"),
    (lambda t: t.arange(0, -1, 1), RuntimeError,
     "upper bound and lower bound inconsistent with step sign"),
    (lambda t: t.asarray([1, 2], copy=False), ValueError,
     "can't alias arbitrary sequence into a tensor."),
    (lambda t: t.asarray(t.ones(2), dtype=t.float64, copy=False), ValueError,
     "can't alias tensor with dtype 'Float' into dtype 'Double'."),
    (lambda t: t.from_numpy(np.zeros((3, 4), [("a", "f4"), ("b", "f8")])["b"]), ValueError,
     "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
     "reallocate the memory."),
    (lambda t: t.repeat_interleave(t.arange(4).reshape(2, 2)), RuntimeError,
     "repeat_interleave only accept 1D vector as repeat"),
    (lambda t: t.normal(t.ones(2), -t.ones(2)), RuntimeError,
     "normal expects all elements of std >= 0.0"),
    (lambda t: t.normal(t.ones(120), t.ones(2, 5)), RuntimeError,
     "The size of tensor a (120) must match the size of tensor b (5) at non-singleton dimension 1"),
    (lambda t: t.multinomial(t.ones(3), 5), RuntimeError,
     "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
    (lambda t: t.zeros(3, dtype=t.uint8).random_(0, 300), RuntimeError,
     "to - 1 is out of bounds for unsigned char"),
    (lambda t: t.device("cpu", -1), RuntimeError, "Device index must not be negative"),
    (lambda t: t.device("cpu:01"), RuntimeError, "Invalid device string: 'cpu:01'"),
    (lambda t: t.Size([1]) + [2], TypeError,  # noqa: RUF005
     "can only concatenate tuple (not list) to torch.Size"),
    (lambda t: t.Size(t.ones(3)), TypeError,
     "torch.Size() takes an iterable of 'int' (item 0 is 'Tensor')"),
    (lambda t: t.ones(2, 3).flip(), TypeError,
     'flip() missing 1 required positional arguments: "dims"'),
    (lambda t: t.movedim(t.ones(2, 3), [0, 0], [0, 1]), RuntimeError,
     "movedim: repeated dim in `source` ([0, 0])"),
    (lambda t: t.meshgrid(t.ones(2), t.ones(2, dtype=t.int64), indexing="ij"), RuntimeError,
     "meshgrid expects all tensors to have the same dtype"),
    (lambda t: t.diff(t.ones(3, 2), prepend=t.ones(1, 1)), RuntimeError,
     "diff expects the shape of tensor to prepend or append to match that of input except along "
     "the differencing dimension; input.size(0) = 3, but got tensor.size(0) = 1"),
    (lambda t: t.ones(3).apply_(lambda x: "s"), TypeError, "must be real number, not str"),
    (lambda t: t.unique(t.zeros(3, 0), dim=0), RuntimeError,
     "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"),
    (lambda t: t.nn.functional.embedding_bag(t.tensor([[11]]), t.ones(10, 3), mode="max"),
     RuntimeError,
     "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be 11"),
    (lambda t: (t.ones(2, requires_grad=True) * 2).backward(), RuntimeError,
     "grad can be implicitly created only for scalar outputs"),
]


@pytest.mark.parametrize(("call", "kind", "text"), CASES)
def test_texts(torch, call, kind, text):
    with pytest.raises(kind) as caught:
        call(torch)
    assert str(caught.value) == text


def test_tensors_in_a_list_are_numbers(torch):
    assert torch.tensor([torch.ones(1), torch.tensor(2.0)]).tolist() == [1, 2]
    assert torch.tensor([0j, 1 + 2j], dtype=torch.bool).tolist() == [False, True]


def test_warnings(torch):
    with pytest.warns(UserWarning, match="required to pass the indexing"):
        torch.meshgrid(torch.ones(2), torch.ones(2))
    with pytest.warns(UserWarning, match="A window was not provided"):
        torch.stft(torch.ones(16), 4, return_complex=True)
    with pytest.warns(UserWarning, match="does not match the computed number of elements"):
        torch.fft.fftfreq(4, out=torch.ones(2))


def test_empty_joins(torch):
    assert torch.cat([torch.empty(0), torch.empty(0)], 1).shape == (0,)
    assert torch.block_diag().shape == (1, 0)


def test_all_integers_from_a_bound(torch):
    x = torch.empty(50, dtype=torch.int64).random_(-(2**31), None)
    assert bool((x >= -(2**31)).all())


def test_copies_of_numbers(torch):
    x = torch.zeros(2, 2)
    x[0].copy_(3)
    z = torch.zeros(2, dtype=torch.complex64)
    z.imag = 2.5
    assert x.tolist() == [[3, 3], [0, 0]]
    assert z.tolist() == [2.5j, 2.5j]


def test_promotion_with_arrays(torch):
    x = torch.ones(2)
    assert (x - np.array([2, 3])).dtype is torch.float64
    assert (x * np.ones(2, np.float32)).dtype is torch.float32
    assert torch.mean(torch.ones(2, 3), dim=np.int64(0)).shape == (3,)


def test_capsules(torch):
    assert torch.asarray(torch.ones(2).__dlpack__()).tolist() == [1, 1]
    assert torch.from_dlpack(torch.ones(2).__dlpack__()).tolist() == [1, 1]
    with pytest.raises(TypeError, match="stream must be"):
        torch.ones(2).__dlpack__(stream=object())
