"""torch.testing.assert_close: PyTorch's verdicts and messages."""

import math

import numpy as np
import pytest

VERDICTS = [
    ("T(1.), T(2.)", {}, """Scalars are not close!

Expected 2.0 but got 1.0.
Absolute difference: 1.0 (up to 1e-05 allowed)
Relative difference: 0.5 (up to 1.3e-06 allowed)"""),
    ("1e-9, 1e-10", {"rtol": 0, "atol": 0}, """Scalars are not equal!

Expected 1e-10 but got 1e-09.
Absolute difference: 9.000000000000001e-10
Relative difference: 9.0"""),
    ("T([[1., 2.], [3., 4.]]), T([[1., 2.5], [3., 9.]])", {}, """Tensor-likes are not close!

Mismatched elements: 2 / 4 (50.0%)
Greatest absolute difference: 5.0 at index (1, 1) (up to 1e-05 allowed)
Greatest relative difference: 0.5555555820465088 at index (1, 1) (up to 1.3e-06 allowed)"""),
    ("T([1, 2]), T([1, 3])", {}, """Tensor-likes are not equal!

Mismatched elements: 1 / 2 (50.0%)
Greatest absolute difference: 1 at index (1,)
Greatest relative difference: 0.3333333432674408 at index (1,)"""),
    ("[1, {'x': [2]}], [1, {'x': [3]}]", {}, """Scalars are not equal!

Expected 3 but got 2.
Absolute difference: 1
Relative difference: 0.3333333333333333

The failure occurred for item [1]['x'][0]"""),
    ("{'a': 1, 'b': 2}, {'a': 1, 'c': 2}", {}, """The keys of the mappings do not match:
Missing keys in the actual mapping: ['c']
Additional keys in the actual mapping: ['b']"""),
    ("[1, 2], [1]", {}, "The length of the sequences mismatch: 2 != 1"),
    ("True, False", {}, "Booleans mismatch: True is not False"),
    ("None, 1", {}, "None mismatch: None is not 1"),
    ("1.0, 1", {}, "The (d)types do not match: <class 'float'> != <class 'int'>."),
    ("torch.ones(2, 3).t(), torch.ones(3, 2)", {"check_stride": True},
     "The values for attribute 'stride()' do not match: (1, 3) != (2, 1)."),
    ("torch.eye(2).to_sparse(), torch.ones(2, 2).to_sparse()", {},
     "The number of specified values in sparse COO tensors does not match: 2 != 4"),
    ("torch.eye(2).to_sparse(), 2 * torch.eye(2).to_sparse()", {},
     """Sparse COO values are not close!

Mismatched elements: 2 / 2 (100.0%)
Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)
Greatest relative difference: 0.5 at index (0,) (up to 1.3e-06 allowed)"""),
]


@pytest.mark.parametrize(("pair", "options", "message"), VERDICTS, ids=[v[0] for v in VERDICTS])
def test_message(torch, pair, options, message):
    actual, expected = eval(pair, {"T": torch.tensor, "torch": torch})
    with pytest.raises(AssertionError) as info:
        torch.testing.assert_close(actual, expected, **options)
    assert str(info.value) == message


@pytest.mark.parametrize(("actual", "expected"), [
    ([1.0], "tensor"), ("tensor", 1.0), ("a", "a"), (3, "a"),
])
def test_what_cannot_be_compared(torch, actual, expected):
    pair = [torch.ones(2) if x == "tensor" else x for x in (actual, expected)]
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        torch.testing.assert_close(*pair)


def test_close_pairs(torch):
    close = torch.testing.assert_close
    close(math.sqrt(2.0), 2.0 / math.sqrt(2.0))
    close([torch.ones(1), 2.0, np.array(3.0)], (torch.ones(1), 2.0, np.array(3.0)))
    close(torch.nn.Parameter(torch.ones(2)), torch.ones(2))
    close(np.float32(1.0), 1.0)
    close(torch.tensor(math.nan), torch.tensor(math.nan), equal_nan=True)
    close(torch.ones(2, device="meta"), torch.zeros(2, device="meta"))
    close(torch.eye(2).to_sparse(), torch.eye(2), check_layout=False)


def test_an_array_and_a_tensor_cannot_be_compared(torch):
    with pytest.raises(TypeError, match="ndarray'> and <class"):
        torch.testing.assert_close(np.ones(2), torch.ones(2))


def test_one_tolerance_alone_is_refused(torch):
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified"):
        torch.testing.assert_close(1.0, 1.0, rtol=0.1)
