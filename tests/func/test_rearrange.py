"""torch.func.rearrange: patterns, and what is refused."""

import pytest

PATTERNS = [
    ("a b c -> c b a", {}, (4, 3, 2)), ("a b c -> (a b) c", {}, (6, 4)),
    ("a b (c d) -> a d b c", {"c": 2}, (2, 2, 3, 2)), ("... c -> c ...", {}, (4, 2, 3)),
    ("a ... -> (a ...)", {}, (24,)), ("a b c -> a 1 (b c)", {}, (2, 1, 12)),
    ("a b c -> a () b c", {}, (2, 1, 3, 4)),
]
REFUSED = [
    ("a b -> b a", {}, r"Number of dimensions in pattern \(2\) must be equal"),
    ("a b c -> a b", {}, "Identifiers only on one side"),
    ("a a c -> a c", {}, "contains duplicate dimension 'a'"),
    ("a b c", {}, "single '->' separator"), ("a (b c -> a b c", {}, "Imbalanced parentheses"),
    ("a b c -> a b c", {"z": 2}, "Identifiers not found in rearrange expression"),
    ("a b c -> ... a b c", {}, "Ellipsis found in right side"),
    ("a b c -> (a (b c))", {}, "Axis composition is one-level"),
    ("a b _c -> a b _c", {}, "Invalid axis identifier: _c"),
    ("a b c! -> a", {}, "Unknown character '!'"),
    ("a b 2 -> a b 2", {}, "only supports unnamed axes of size 1"),
    ("(...) -> ...", {}, "Ellipsis is parenthesis in the left side"),
]


@pytest.mark.parametrize(("pattern", "lengths", "shape"), PATTERNS, ids=[p[0] for p in PATTERNS])
def test_shape_and_order(torch, pattern, lengths, shape):
    x = torch.arange(24).reshape(2, 3, 4)
    result = torch.func.rearrange(x, pattern, **lengths)
    assert result.shape == shape
    left, right = pattern.split("->")
    if "..." not in pattern:  # and back again
        known = {"c": 2} if lengths else {"b": 3} if "(" in right.replace("()", "") else {}
        back = torch.func.rearrange(result, f"{right} -> {left}".replace("()", "1"), **known)
        assert torch.equal(back, x)


@pytest.mark.parametrize(("pattern", "lengths", "text"), REFUSED, ids=[p[0] for p in REFUSED])
def test_refused(torch, pattern, lengths, text):
    with pytest.raises(ValueError, match=text):
        torch.func.rearrange(torch.zeros(2, 3, 4), pattern, **lengths)


@pytest.mark.parametrize(("lengths", "text"), [
    ({}, "cannot infer the sizes of two dimensions at once"),
    ({"c": 3}, "inferred dimension does not evenly fit into larger dimension: 4 vs"),
    ({"c": 2, "d": 3}, r"do not match \(4 != 6\) when matching dimension pack"),
])
def test_lengths_that_do_not_fit(torch, lengths, text):
    with pytest.raises(Exception, match=text) as info:
        torch.func.rearrange(torch.zeros(2, 3, 4), "a b (c d) -> a b c d", **lengths)
    assert type(info.value).__name__ == "DimensionBindError"


def test_lists_are_stacked_and_gradients_flow(torch):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = torch.func.rearrange([x, 2 * x], "n a b -> b (n a)")
    y[0].sum().backward()
    assert x.grad.tolist() == [[3, 0, 0], [3, 0, 0]]


def test_lengths_are_ints(torch):
    with pytest.raises(TypeError, match="axis lengths must be integers"):
        torch.func.rearrange(torch.zeros(2), "a -> a", a=2.0)
