"""Floats, bools and texts in the place of ints, bools and floats: TypeErrors, as PyTorch's parser
of arguments raises. Python and NumPy would compute with most of them."""

from __future__ import annotations

import numpy as np
import pytest

IMAGE, WEIGHT, SQUARE = "torch.ones(1, 3, 8, 8)", "torch.ones(4, 3, 3, 3)", "torch.eye(3)"
F = "torch.nn.functional"
CALLS = [
    f"torch.rot90({SQUARE}, 1.0)", f"{F}.conv2d({IMAGE}, {WEIGHT}, stride=1.0)",
    f"{F}.conv2d({IMAGE}, {WEIGHT}, stride=(1, 1.0))", f"{F}.conv2d({IMAGE}, {WEIGHT}, groups=1.0)",
    f"{F}.conv2d({IMAGE}, {WEIGHT}, padding=True)",
    f"{F}.conv_transpose2d({IMAGE}, torch.ones(3, 4, 3, 3), output_padding=1.0)",
    f"{F}.avg_pool2d({IMAGE}, 2.0)", f"{F}.avg_pool2d({IMAGE}, (2, 2.0))",
    f"{F}.avg_pool2d({IMAGE}, 2, ceil_mode=1)", f"{F}.max_pool2d({IMAGE}, 2.0)",
    f"{F}.max_pool2d({IMAGE}, 2, padding=1.0)", f"{F}.adaptive_avg_pool2d({IMAGE}, 2.0)",
    f"{F}.adaptive_avg_pool2d({IMAGE}, (2, 2.0))", f"{F}.layer_norm({SQUARE}, (3.0,))",
    f"{F}.batch_norm({IMAGE}, None, None, training=1)", f"{F}.dropout({SQUARE}, 0.5, 1)",
    f"{F}.embedding(torch.tensor([1]), {SQUARE}, padding_idx=1.0)",
    f"{F}.pixel_shuffle(torch.ones(1, 4, 2, 2), 2.0)", f"{F}.pad({SQUARE}, (1, 1), value='a')",
    f"{F}.gelu({SQUARE}, approximate=1)", f"{F}.threshold({SQUARE}, 'a', 1)",
    f"{F}.scaled_dot_product_attention(*[torch.ones(1, 2, 3)] * 3, is_causal=1)",
    *(f"torch.{name}({SQUARE})" for name in ("hstack", "vstack", "dstack", "column_stack")),
    f"torch.std({SQUARE}, 1, 1)", f"torch.var({SQUARE}, unbiased=1)", f"{SQUARE}.std(1, 1)",
    f"torch.var_mean({SQUARE}, 1, 1)", f"{SQUARE}.requires_grad_(1)",
    "torch.nn.Linear(1, 1).requires_grad_(None)",
    f"torch.svd({SQUARE}, 1)", f"torch.linalg.svd({SQUARE}, full_matrices=1)",
    f"torch.linalg.cholesky({SQUARE}, upper=1)", f"torch.linalg.pinv({SQUARE}, hermitian=1)",
    f"{SQUARE}.sum(1, keepdim=1)", f"{SQUARE}.mean(1, 1)", f"{SQUARE}.var(1, keepdim=1)",
    f"{SQUARE}.norm(2, 1, keepdim=1)", f"torch.any({SQUARE}, 1, keepdim=1)",
    f"torch.max({SQUARE}, 1, keepdim=1)", f"torch.sort({SQUARE}, descending=1)",
    f"torch.topk({SQUARE}, 1, largest=1)", f"torch.quantile({SQUARE}, 0.5, 1, keepdim=1)",
    f"torch.searchsorted({SQUARE}[0], {SQUARE}, right=1)", f"torch.cov({SQUARE}, correction=1.0)",
    f"torch.combinations({SQUARE}[0], 2, 1)", "torch.tril_indices(2.0, 2)",
    "torch.hann_window(4, 1)", "torch.fft.fftfreq(4.0)", f"torch.nonzero({SQUARE}, as_tuple=1)",
    f"{SQUARE}.view(3.0, 3)", f"torch.reshape({SQUARE}, (3.0, 3))", f"{SQUARE}.transpose(0.0, 1)",
    f"torch.nan_to_num({SQUARE}, 'a')", f"torch.addcmul(*[{SQUARE}] * 3, value='a')",
    f"{SQUARE}.contiguous(1)", f"{SQUARE}.contiguous(memory_format=1)",
    f"{F}.nll_loss({SQUARE}, torch.tensor([0, 1, 2]), ignore_index=1.0)",
    f"{F}.cross_entropy({SQUARE}, torch.tensor([0, 1, 2]), ignore_index=1.0)",
    f"{F}.kl_div({SQUARE}, {SQUARE}, reduction='sum', log_target=1)",
    f"{F}.avg_pool2d({IMAGE}, 2, divisor_override=1.0)",
    f"torch.embedding({SQUARE}, torch.tensor([1]), padding_idx=1.0)",
    f"{F}.embedding_bag(torch.tensor([1]), {SQUARE}, torch.tensor([0]), padding_idx=1.0)",
    "torch.set_grad_enabled('a')", "torch.set_grad_enabled(None)", "torch.randint(0, 5, 2)",
    "torch.randint(5, 2)", "torch.normal(0., 1.)", f"{SQUARE}.clamp('a')", f"{SQUARE}['a']",
    f"{SQUARE}[0, 'a']", f"{SQUARE}[['a']]", f"{SQUARE}.permute(None)", f"{SQUARE}.expand(None)",
    f"{SQUARE}.repeat('a')", f"{SQUARE}.permute(1, (0,))",
]


@pytest.mark.parametrize("call", CALLS)
def test_arguments_of_other_types_are_refused(torch, call):
    with pytest.raises(TypeError):
        eval(call, {"torch": torch})


@pytest.mark.parametrize(("call", "text"), [
    (f"{F}.avg_pool2d({IMAGE}, (2, 2.0))", "argument 'kernel_size' failed to unpack the object at "
     "pos 2 with error \"type must be tuple of ints,but got float\""),
    (f"{F}.adaptive_avg_pool2d({IMAGE}, (2.0, 2))", "argument 'output_size' .*must be tuple of "
     "ints, but found element of type float at pos 0"),
    (f"torch.svd({SQUARE}, some=1)", "argument 'some' must be bool, not int"),
    (f"torch.svd({SQUARE}, 1)", r"argument 'some' \(position 2\) must be bool, not int"),
    (f"torch.cov({SQUARE}, correction=1.0)", "argument 'correction' must be int, not float"),
    (f"{SQUARE}.view(3.0, 3)", r"^view\(\) received an invalid combination of arguments - got \("
     r"float, int\), but expected one of:\n \* \(torch.dtype dtype\)\n \* \(tuple of ints size\)"),
    (f"{SQUARE}.view(3, 3.0)", r"^view\(\): argument 'size' failed to unpack the object at pos 2 "
     "with error \"type must be tuple of ints,but got float\"$"),
    (f"{SQUARE}.reshape(3.0, 3)", r"^reshape\(\) takes 1 positional argument but 2 were given$"),
    (f"{SQUARE}.reshape((3, '3'))", r"^reshape\(\): argument 'shape' failed to unpack the object "
     "at pos 2 with error \"type must be tuple of ints,but got str\"$"),
    (f"{SQUARE}.reshape(None)", r"^reshape\(\): argument 'shape' \(position 1\) must be tuple of "
     "ints, not NoneType$"),
    (f"{SQUARE}.expand(3, 3.0)", r"^expand\(\): argument 'size' failed to unpack"),
    (f"{SQUARE}.repeat('a')", r"^repeat\(\): argument 'repeats' \(position 1\) must be tuple of "
     "ints, not str$"),
    (f"{SQUARE}.permute((0, 1.0))", r"^permute\(\): argument 'dims' failed to unpack"),
    (f"torch.tile({SQUARE}, (1, 2.0))", r"^tile\(\): argument 'dims' failed to unpack the object "
     "at pos 2"),
    (f"{SQUARE}.broadcast_to((3, 3.0))", r"^broadcast_to\(\): argument 'size' failed to unpack"),
    (f"{SQUARE}['a']", r"^new\(\): invalid data type 'str'$"),
])
def test_texts_name_the_argument(torch, call, text):
    with pytest.raises(TypeError, match=text):
        eval(call, {"torch": torch})


@pytest.mark.parametrize(("sizes", "text"), [
    ("2.5", "(position 1) must be tuple of ints, not float"),
    ("None", "(position 1) must be tuple of ints, not NoneType"),
    ("True", "(position 1) must be tuple of ints, not bool"),
    ("'a'", "(position 1) must be tuple of ints, not str"),
    ("{2}", "(position 1) must be tuple of ints, not set"),
    ("(2.5, 3)", "(position 1) must be tuple of ints, but found element of type float at pos 0"),
    ("2, 2.5", "failed to unpack the object at pos 2 with error \"type must be tuple of ints,but "
     "got float\""),
    ("[2, 3, None]", "failed to unpack the object at pos 3 with error \"type must be tuple of "
     "ints,but got NoneType\""),
    ("size=2.5", "must be tuple of ints, not float"),
    ("size=(2.5,)", "must be tuple of ints, not tuple"),
    ("2.5, 3", "2 were given"), ("", "1 required"),
])
@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty"])
def test_sizes_that_are_no_ints(torch, name, sizes, text):
    text = f"{name}() takes 1 positional argument but {text}" if "given" in text else \
        f'{name}() missing 1 required positional arguments: "size"' if "required" in text else \
        f"{name}(): argument 'size' {text}"
    owner = "torch.ones(1)" if name.startswith("new_") else "torch"
    with pytest.raises(TypeError) as caught:
        eval(f"{owner}.{name}({sizes})", {"torch": torch})
    assert str(caught.value).split("\n")[0] == text
    assert eval(f"{owner}.{name}((2, True)).shape", {"torch": torch}) == (2, 1)


def test_flags_are_bools(torch):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = 1
    with pytest.raises(TypeError, match="'requires_grad' .position 1. must be bool, not numpy"):
        x.requires_grad_(np.bool_(True))


def test_numbers_of_numpy(torch):
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match="argument 'keepdim' .*must be bool, not numpy.bool"):
        x.sum(1, keepdim=np.bool_(True))
    assert torch.nn.functional.avg_pool2d(x[None], np.int64(2)).shape == (1, 1, 1)
