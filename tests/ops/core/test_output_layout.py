"""Where results lie in memory: random programs on permuted, expanded, sliced and channels-last
tensors give PyTorch's shapes, strides, offsets and dtypes."""

import random

import pytest

import flambeau

LAYOUTS = {
    "row-major": lambda lib, s: lib.ones(s),
    "reversed": lambda lib, s: lib.ones(s[::-1]).permute(*reversed(range(len(s)))),
    "rolled": lambda lib, s: lib.ones((*s[1:], s[0])).permute(len(s) - 1, *range(len(s) - 1)),
    "innermost second": lambda lib, s: lib.ones((s[0], *s[2:], s[1])).movedim(-1, 1),
    "every second": lambda lib, s: lib.ones((*s[:-1], 2 * s[-1]))[..., ::2],
    "with gaps": lambda lib, s: lib.ones((*s[:-1], s[-1] + 1))[..., :-1],
    "gaps, turned": lambda lib, s: lib.ones((2 * s[-1], *s[:-1][::-1]))[::2].permute(
        *reversed(range(len(s)))),
    "expanded": lambda lib, s: lib.ones((1, *s[1:])).expand(s),
    "expanded last": lambda lib, s: lib.ones((*s[:-1], 1)).expand(s),
    "shifted": lambda lib, s: lib.ones((s[0] + 1, *s[1:]))[1:],
}

# What a step of a program does with the tensor so far, `x`, and another one of its shape.
STEPS = {
    "add": lambda lib, x, y: x + y,
    "mul turned": lambda lib, x, y: y * x,
    "number": lambda lib, x, y: 2 - x,
    "broadcast": lambda lib, x, y: x + y[..., :1],
    "row": lambda lib, x, y: x * y[0],
    "pow": lambda lib, x, y: x.pow(2),
    "exp": lambda lib, x, y: x.exp(),
    "clamp": lambda lib, x, y: x.clamp(0, 1),
    "clamp by": lambda lib, x, y: x.clamp(min=y),
    "lerp": lambda lib, x, y: lib.lerp(x, y, 0.5),
    "where": lambda lib, x, y: lib.where(x > 0, y, x),
    "addcmul": lambda lib, x, y: lib.addcmul(x, y, x),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "equal": lambda lib, x, y: (x == y).float(),
    "gelu": lambda lib, x, y: lib.nn.functional.gelu(x),
    "clone": lambda lib, x, y: x.clone(),
    "double": lambda lib, x, y: x.double().float(),
    "like": lambda lib, x, y: lib.zeros_like(x),
    "empty like": lambda lib, x, y: lib.empty_like(y).copy_(x),
    "contiguous": lambda lib, x, y: x.contiguous(),
    "transpose": lambda lib, x, y: x.transpose(0, -1).clone().transpose(0, -1),
    "sum": lambda lib, x, y: x.sum(1, keepdim=True) + x,
    "mean": lambda lib, x, y: x.mean((0, -1), keepdim=True) * y,
    "amax": lambda lib, x, y: x.amax(0).unsqueeze(0).expand_as(x) - x,
    "max": lambda lib, x, y: x.max(1).values.unsqueeze(1) + y,
    "var": lambda lib, x, y: x.var(-1, keepdim=True) + x,
    "cumsum": lambda lib, x, y: x.cumsum(1),
    "softmax": lambda lib, x, y: x.softmax(-1),
    "sort": lambda lib, x, y: x.sort(-1).values,
    "flip": lambda lib, x, y: x.flip(0),
    "roll": lambda lib, x, y: x.roll(1, 1),
    "cat": lambda lib, x, y: lib.cat([x, y], 1)[:, : x.shape[1]],
    "cat clone": lambda lib, x, y: lib.cat([x, y], 1).narrow(1, 0, x.shape[1]).clone(),
    "stack": lambda lib, x, y: lib.stack([x, y]).sum(0),
    "gather": lambda lib, x, y: x.gather(1, lib.zeros_like(x, dtype=lib.int64)),
    "index_select": lambda lib, x, y: x.index_select(1, lib.arange(x.shape[1])),
    "indexed": lambda lib, x, y: x[lib.arange(x.shape[0])],
    "indexed inside": lambda lib, x, y: x[:, lib.arange(x.shape[1])],
    "masked_fill": lambda lib, x, y: x.masked_fill(y > 1, 0.0),
    "tril": lambda lib, x, y: x.tril(),
    "matmul": lambda lib, x, y: x @ lib.ones(x.shape[-1], x.shape[-1]),
    "linear": lambda lib, x, y: lib.nn.functional.linear(x, lib.ones(x.shape[-1], x.shape[-1])),
    "layer_norm": lambda lib, x, y: lib.nn.functional.layer_norm(x, x.shape[-1:]),
    "normalize": lambda lib, x, y: lib.nn.functional.normalize(x, dim=1),
    "pad": lambda lib, x, y: lib.nn.functional.pad(x, (1, 1))[..., 1:-1],
    "in place": lambda lib, x, y: x.clone().add_(y).mul_(2),
    "unsqueezed": lambda lib, x, y: x.unsqueeze(1).squeeze(1),
    "dropout": lambda lib, x, y: lib.nn.functional.dropout(x, 0.5),
}
IMAGE_STEPS = {
    "conv": lambda lib, x, y: lib.nn.functional.conv2d(x, lib.ones(3, 3, 3, 3), padding=1),
    "max_pool": lambda lib, x, y: lib.nn.functional.max_pool2d(x, 3, 1, 1),
    "avg_pool": lambda lib, x, y: lib.nn.functional.avg_pool2d(x, 3, 1, 1),
    "adaptive": lambda lib, x, y: lib.nn.functional.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive max": lambda lib, x, y: lib.nn.functional.adaptive_max_pool2d(x, (4, 5)),
    "batch_norm": lambda lib, x, y: lib.nn.functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda lib, x, y: lib.nn.functional.group_norm(x, 1),
    "bilinear": lambda lib, x, y: lib.nn.functional.interpolate(x, (4, 5), mode="bilinear"),
    "nearest": lambda lib, x, y: lib.nn.functional.interpolate(x, (4, 5)),
    "channels last": lambda lib, x, y: x.contiguous(memory_format=lib.channels_last),
    "reflect": lambda lib, x, y: lib.nn.functional.pad(x, (1, 1, 0, 0), mode="reflect")[..., 1:-1],
}
PROGRAMS = 700


def program(seed):
    """(shape, layout of the first tensor, layout of the other one, names of the steps)."""
    draw = random.Random(seed)
    shape = draw.choice([(3, 4), (2, 3, 4), (4, 1, 3), (2, 3, 4, 5), (2, 3, 4, 5)])
    steps = [*STEPS, *(IMAGE_STEPS if len(shape) == 4 else ())]
    layouts = draw.choices(list(LAYOUTS), k=2)
    return shape, *layouts, draw.choices(steps, k=draw.randint(1, 3))


def layouts_of(lib, shape, first, second, steps):
    """Shape, strides, offset, dtype and contiguity after each step.

    Strides of axes of length 1, along which nobody steps, may differ.
    """
    lib.manual_seed(0)
    x, y = LAYOUTS[first](lib, shape), LAYOUTS[second](lib, shape)
    seen = []
    for step in steps:
        x = (STEPS.get(step) or IMAGE_STEPS[step])(lib, x, y)
        strides = [s for s, n in zip(x.stride(), x.shape, strict=True) if n != 1]
        row = (tuple(x.shape), strides, x.storage_offset(), str(x.dtype), x.is_contiguous())
        last = len(shape) == 4 and x.is_contiguous(memory_format=lib.channels_last)
        seen.append((step, *row, last))
    return seen


@pytest.mark.parity
def test_random_programs():
    torch = pytest.importorskip("torch")
    wrong = []
    for seed in range(PROGRAMS):
        parts = program(seed)
        wanted = layouts_of(torch, *parts)
        actual = layouts_of(flambeau, *parts)
        if actual != wanted:
            at = next(i for i, (a, b) in enumerate(zip(actual, wanted, strict=True)) if a != b)
            wrong.append((seed, parts, "wanted", wanted[at], "found", actual[at]))
    assert not wrong, f"{len(wrong)} of {PROGRAMS}: {wrong[:5]}"


def test_copies_keep_the_order_of_axes(torch):
    x = torch.ones(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    assert x[:, :2].clone().stride() == (128, 1, 16, 2)
    assert torch.ones(10, 8)[:, ::2].t().clone().stride() == (1, 4)
    assert torch.empty_like(torch.ones(2, 8, 6)[:, ::2].permute(0, 2, 1)).stride() == (24, 1, 6)


def test_first_operand_decides(torch):
    x, y = torch.ones(4, 3).t(), torch.ones(3, 4)
    assert (x + y).stride() == (1, 3)
    assert (y + x).stride() == (4, 1)


def test_attention_heads_can_be_viewed(torch):
    q = torch.ones(2, 5, 4, 3).transpose(1, 2)
    y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert y.transpose(1, 2).view(2, 5, 12).shape == (2, 5, 12)


def test_attention_is_laid_out_as_its_query(torch):
    attend = torch.nn.functional.scaled_dot_product_attention
    q, wide = torch.ones(2, 4, 5, 3), torch.ones(2, 4, 5, 6)
    assert attend(q, q, q).stride() == (60, 15, 3, 1)
    rows = q.transpose(1, 2)
    assert attend(rows, rows, rows).stride() == (60, 3, 15, 1)
    assert attend(q, q, wide).stride() == (120, 30, 6, 1)


def test_new_axes_of_an_index_extend_over_the_next_one(torch):
    x = torch.ones(8, 8)
    assert x[..., None, :].stride() == (8, 8, 1)
    assert x[None, 0].stride() == (64, 1)
    assert x[0, ..., None].stride() == (1, 1)
    assert x[:, None, 1:].stride() == (8, 8, 1)


def test_resize_in_a_format(torch):
    x = torch.empty(0).resize_(1, 2, 2, 2, memory_format=torch.channels_last)
    assert x.stride() == (8, 1, 4, 2)
    y = torch.empty(0).resize_as_(x, memory_format=torch.preserve_format)
    assert y.stride() == (8, 1, 4, 2)


def test_views_of_eight_bit_floats_have_strides_of_their_own(torch):
    x = torch.ones(4, 5).to(torch.float8_e5m2)
    assert x[:, :1].expand(4, 5).stride() == (5, 0)
    assert x.unfold(1, 2, 1).stride() == (5, 1, 1)
    assert x[:, None, 1:].stride() == (5, 5, 1)
