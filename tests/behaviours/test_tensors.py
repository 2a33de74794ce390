"""Memory, views, conversion and printing: lines 18 to 24 of the behaviours."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest


def test_line_18_in_place_returns_self(torch):
    x = torch.tensor([-1.0, 2.0])
    assert x.abs() is not x
    assert x.tolist() == [-1.0, 2.0]
    assert x.abs_() is x
    assert x.tolist() == [1.0, 2.0]
    assert x.fill_(3.0) is x
    assert x.tolist() == [3.0, 3.0]


VIEWS = {
    # name: (view of arange(24.).reshape(4, 6), shape, stride, storage offset)
    "t": (lambda x: x.t(), (6, 4), (1, 6), 0),
    "view": (lambda x: x.view(2, 12), (2, 12), (12, 1), 0),
    "slice": (lambda x: x[1:4:2, 2:], (2, 4), (12, 1), 8),
    "expand": (lambda x: x[:1].expand(3, 6), (3, 6), (0, 1), 0),
    "expand column": (lambda x: x[:, :1].expand(4, 5), (4, 5), (6, 0), 0),
    "unfold": (lambda x: x.unfold(1, 3, 2), (4, 2, 3), (6, 2, 1), 0),
    "as_strided": (lambda x: x.as_strided((2, 3), (5, 2), 4), (2, 3), (5, 2), 4),
    "diagonal": (lambda x: x.diagonal(1), (4,), (7,), 1),
    "unbind": (lambda x: x.unbind(1)[2], (4,), (6,), 2),
    "chunk": (lambda x: x.chunk(2)[1], (2, 6), (6, 1), 12),
    "split": (lambda x: x.split([1, 5], 1)[1], (4, 5), (6, 1), 1),
    "narrow": (lambda x: x.narrow(0, 2, 2), (2, 6), (6, 1), 12),
    "select": (lambda x: x.select(0, 3), (6,), (1,), 18),
    "permute": (lambda x: x.view(2, 2, 6).permute(2, 0, 1), (6, 2, 2), (1, 12, 6), 0),
    "unsqueeze": (lambda x: x.unsqueeze(1), (4, 1, 6), (6, 6, 1), 0),
    "unflatten": (lambda x: x.unflatten(1, (2, 3)), (4, 2, 3), (6, 3, 1), 0),
    "movedim": (lambda x: x.view(2, 2, 6).movedim(0, 2), (2, 6, 2), (6, 1, 12), 0),
}


@pytest.mark.parametrize("name", list(VIEWS))
def test_line_19_views_share_the_storage(torch, name):
    make, shape, stride, offset = VIEWS[name]
    x = torch.arange(24.0).reshape(4, 6)
    view = make(x)
    assert tuple(view.shape) == shape
    assert view.stride() == stride
    assert view.storage_offset() == offset
    assert view.untyped_storage().nbytes() == 24 * 4
    assert view.untyped_storage().data_ptr() == x.data_ptr()
    assert view.data_ptr() == x.data_ptr() + 4 * offset
    x.view(-1)[offset] = -100.0
    assert view[(0,) * view.dim()].item() == -100.0
    assert view._version == x._version == 1


def test_line_19_real_and_imag_are_views(torch):
    z = torch.tensor([1 + 2j, 3 + 4j])
    assert z.real.stride() == z.imag.stride() == (2,)
    assert z.imag.storage_offset() == 1
    z.imag[0] = 7.0
    assert z[0].item() == 1 + 7j
    assert torch.view_as_real(z).data_ptr() == z.data_ptr()


def test_line_20_view_reshape_contiguous(torch):
    x = torch.arange(6).view(2, 3)
    with pytest.raises(RuntimeError, match=r"(?s)view size is not compatible.*reshape"):
        x.t().view(6)
    copied = x.t().reshape(6)
    assert copied.data_ptr() != x.data_ptr()
    assert copied.tolist() == [0, 3, 1, 4, 2, 5]
    assert x.reshape(3, 2).data_ptr() == x.data_ptr()
    assert x[:, 1:].reshape(2, 2, 1).data_ptr() == x[:, 1:].data_ptr()
    assert x.contiguous() is x
    assert not x.t().is_contiguous()
    assert x.t().contiguous().stride() == (2, 1)


def test_line_20_unsqueeze_is_view(torch):
    x = torch.arange(6).view(2, 3)
    for dim, shape in ((0, (1, 2, 3)), (1, (2, 1, 3)), (2, (2, 3, 1)), (-1, (2, 3, 1))):
        inserted = x.unsqueeze(dim)
        assert tuple(inserted.shape) == shape
        assert inserted.tolist() == x.view(shape).tolist()
        assert inserted.stride() == x.view(shape).stride()
    assert x.t().unsqueeze(1).tolist() == [[[0, 3]], [[1, 4]], [[2, 5]]]
    assert x.t().unsqueeze(1).data_ptr() == x.data_ptr()


def test_line_21_item_and_tolist(torch):
    assert type(torch.tensor(3).item()) is int
    assert type(torch.tensor([[2.5]]).item()) is float
    assert type(torch.tensor(True).item()) is bool
    assert type(torch.tensor(1j).item()) is complex
    for values in (torch.ones(2), torch.ones(0)):
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            values.item()
        for number in (float, int, complex):
            with pytest.raises(ValueError, match="only one element tensors"):
                number(values)
    assert torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor(5).tolist() == 5


def test_line_21_numpy_shares_memory(torch):
    x = torch.zeros(3)
    window = x.numpy()
    window[0] = 5
    x[1] = 6.0
    assert x.tolist() == [5.0, 6.0, 0.0]
    assert window.tolist() == [5.0, 6.0, 0.0]

    source = np.zeros((2, 3), dtype=np.int16)
    tensor = torch.from_numpy(source)
    tensor[0, 1] = 9
    assert tensor.dtype == torch.int16
    assert source[0, 1] == 9

    trained = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"(?s)requires grad.*detach\(\)\.numpy\(\)"):
        trained.numpy()
    assert trained.numpy(force=True).tolist() == [1.0, 1.0]


def test_line_22_to_the_same_place(torch):
    x = torch.ones(2)
    assert x.to("cpu") is x
    assert x.to(torch.float32) is x
    assert x.to(torch.device("cpu"), torch.float32) is x
    assert x.cpu() is x
    assert x.float() is x
    assert x.to(torch.float64) is not x
    assert x.to("cpu", copy=True) is not x


CUDA_PROGRAM = """
import {library} as torch
print(torch.cuda.is_available(), torch.cuda.device_count())
try:
    torch.ones(2).cuda()
except (RuntimeError, AssertionError) as error:
    print(type(error).__name__, error)
"""


def test_line_22_no_gpu_in_sight(torch):
    run = subprocess.run(
        [sys.executable, "-c", CUDA_PROGRAM.format(library=torch.__name__)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=False,
    )
    lines = run.stdout.splitlines()
    assert lines[0] == "False 0", run.stderr
    assert lines[1].split()[0] in ("RuntimeError", "AssertionError")
    assert "CUDA" in lines[1] or "NVIDIA" in lines[1]


def test_line_23_bool_len_in_and_iteration(torch):
    assert bool(torch.tensor([2.0]))
    assert not torch.tensor(0)
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value"):
        bool(torch.ones(2))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values"):
        bool(torch.ones(0))
    x = torch.arange(6).view(3, 2)
    assert len(x) == 3
    with pytest.raises(TypeError, match=r"len.. of a 0-d tensor"):
        len(torch.tensor(1))
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1))
    assert 3 in x
    assert 9 not in x
    assert torch.tensor(3) in x
    t = torch.tensor(2)
    assert 1 < t < 3
    assert not 2 < t < 3
    assert f"{torch.tensor(3.14159):.3f}" == "3.142"
    assert f"{torch.tensor(42):05d}" == "00042"
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert int(torch.tensor(3.9)) == 3
    assert float(torch.tensor([2])) == 2.0


def test_line_23_pickle_and_deepcopy(torch):
    x = torch.arange(6.0).view(2, 3).t().requires_grad_()
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert twin.tolist() == x.tolist()
        assert twin.stride() == (1, 3)
        assert twin.requires_grad
        assert twin.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match=r"(?s)created explicitly by the user.*deepcopy"):
        copy.deepcopy(x * 2)
    base = torch.zeros(4)
    pair = copy.deepcopy([base, base[1:]])
    pair[0][1] = 8.0
    assert pair[1].tolist() == [8.0, 0.0, 0.0]


def test_line_23_numpy_protocols(torch):
    x = torch.tensor([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype=np.int64).tolist() == [1, 2]
    assert x.__array_priority__ == 1000
    assert isinstance(np.float64(2) * x, torch.Tensor)
    assert np.sin(x.numpy()).tolist() == pytest.approx(torch.sin(x).tolist())


def test_line_23_dlpack(torch):
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = torch.from_dlpack(source)
    tensor[0, 0] = 9.0
    assert source[0, 0] == 9.0
    back = np.from_dlpack(torch.arange(4.0)[1:])
    assert back.tolist() == [1.0, 2.0, 3.0]
    assert torch.arange(3).__dlpack_device__() == (1, 0)


PRINTED = [
    (lambda t: t.tensor([0.1966, 0.1050, 0.0452]), "tensor([0.1966, 0.1050, 0.0452])"),
    (lambda t: t.tensor(3), "tensor(3)"),
    (lambda t: t.tensor(2.5, dtype=t.float64), "tensor(2.5000, dtype=torch.float64)"),
    (lambda t: t.tensor([]), "tensor([])"),
    (lambda t: t.tensor([1, -20, 300]), "tensor([  1, -20, 300])"),
    (lambda t: t.tensor([True, False]), "tensor([ True, False])"),
    (lambda t: t.tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda t: t.tensor([1e-8, 1.0]), "tensor([1.0000e-08, 1.0000e+00])"),
    (lambda t: t.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
    (lambda t: t.tensor([float("inf"), float("nan"), -1.5]), "tensor([    inf,     nan, -1.5000])"),
    (lambda t: t.tensor([1 + 2j, -0.5j]), "tensor([1.+2.0000j, -0.-0.5000j])"),
    (lambda t: t.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda t: t.ones(2, requires_grad=True) * 2, "tensor([2., 2.], grad_fn=<MulBackward0>)"),
    (lambda t: t.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda t: t.zeros(2, dtype=t.bfloat16), "tensor([0., 0.], dtype=torch.bfloat16)"),
    (
        lambda t: t.arange(6.0).view(2, 3) / 4,
        "tensor([[0.0000, 0.2500, 0.5000],\n        [0.7500, 1.0000, 1.2500]])",
    ),
    (lambda t: t.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (
        lambda t: t.nn.Parameter(t.tensor([1.5])),
        "Parameter containing:\ntensor([1.5000], requires_grad=True)",
    ),
    (lambda t: t.Size([2, 3]), "torch.Size([2, 3])"),
    (lambda t: t.ones(2, 3).shape, "torch.Size([2, 3])"),
    (lambda t: t.float32, "torch.float32"),
    (lambda t: t.device("cpu"), "device(type='cpu')"),
]


@pytest.mark.parametrize("row", range(len(PRINTED)))
def test_line_24_printing(torch, row):
    make, text = PRINTED[row]
    assert repr(make(torch)) == text


def test_line_24_sigmoid_prints_its_grad_fn(torch):
    out = torch.tensor([1.0, 2.0, 3.0], requires_grad=True).sigmoid()
    assert repr(out * (1 - out)) == (
        "tensor([0.1966, 0.1050, 0.0452], grad_fn=<MulBackward0>)"
    )


def test_line_24_summary_of_a_matrix(torch):
    text = repr(torch.arange(10000).view(100, 100))
    assert text.splitlines()[3] == "        ...,"
    assert text.splitlines()[0] == "tensor([[   0,    1,    2,  ...,   97,   98,   99],"


def test_line_24_options(torch):
    torch.set_printoptions(precision=2, sci_mode=False, threshold=5, edgeitems=1)
    assert repr(torch.tensor([1e-5, 3.14159])) == "tensor([0.00, 3.14])"
    assert repr(torch.arange(9)) == "tensor([0,  ..., 8])"
    torch.set_printoptions(profile="default")
    torch.set_printoptions(sci_mode=True)
    assert repr(torch.tensor([0.5])) == "tensor([5.0000e-01])"
    out = io.StringIO()
    print(torch.tensor([1.5]), file=out)
    assert out.getvalue() == "tensor([1.5000e+00])\n"


NO_NUMBERS = {
    "text": ("a", TypeError, "invalid data type 'str'"),
    "texts": (["a", "b"], ValueError, "too many dimensions 'str'"),
    "a text among numbers": ([1, "b"], TypeError, "invalid data type 'str'"),
    "dict": ({}, RuntimeError, "Could not infer dtype of dict"),
    "none": ([None], RuntimeError, "Could not infer dtype of NoneType"),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_line_21_what_is_no_number_is_refused(torch, name):
    data, error, words = NO_NUMBERS[name]
    with pytest.raises(error, match=words):
        torch.tensor(data)


def test_line_21_from_numpy_takes_arrays(torch):
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        torch.from_numpy([1, 2])
