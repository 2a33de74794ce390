"""nn.functional in archives: both libraries compute alike what either writes."""

from __future__ import annotations

import io
import linecache
import textwrap
from typing import Any

import pytest

import flambeau

IMAGE, PLANES, SERIES, VOLUME, ROWS = (1, 2, 6, 6), (1, 8, 9), (1, 2, 8), (1, 2, 4, 4, 4), (3, 4)
SIGNS = "torch.sign(x[:, 0] + 0.1)"
# The expression of x, and the shape of x.
CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    "adaptive_avg_pool3d": ("F.adaptive_avg_pool3d(x, 2)", VOLUME),
    "adaptive_max_pool1d": ("F.adaptive_max_pool1d(x, 4)", SERIES),
    "adaptive_max_pool2d": ("F.adaptive_max_pool2d(x, (2, 3), return_indices=True)", IMAGE),
    "affine_grid": ("F.affine_grid(x, [1, 1, 3, 3], align_corners=False)", (1, 2, 3)),
    "grid_sample": ("F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), padding_mode='border',"
                    " align_corners=True)", IMAGE),
    "grid_sample_nearest": ("F.grid_sample(x, x.permute(0, 2, 3, 1).tanh(), 'nearest', "
                            "'reflection', False)", IMAGE),
    "fold": ("F.fold(x, (4, 4), 2)", PLANES),
    "unfold": ("F.unfold(x, 3, padding=1, stride=2)", IMAGE),
    "max_pool1d": ("F.max_pool1d(x, 2, return_indices=True)[1]", SERIES),
    "max_pool3d": ("F.max_pool3d(x, 2, 1)", VOLUME),
    "avg_pool3d": ("F.avg_pool3d(x, 2)", VOLUME),
    "max_unpool1d": ("F.max_unpool1d(x[..., :2], torch.tensor([[[0, 3], [1, 2]]]), 2)", SERIES),
    "max_unpool2d": ("F.max_unpool2d(x[..., :1, :2], torch.tensor([[[[1, 6]], [[0, 7]]]]), 2)",
                     IMAGE),
    "lp_pool1d": ("F.lp_pool1d(x, 2, 2)", SERIES),
    "lp_pool2d": ("F.lp_pool2d(x.abs(), 3.0, 2, stride=1)", IMAGE),
    "local_response_norm": ("F.local_response_norm(x, 2)", IMAGE),
    "local_response_norm_1d": ("F.local_response_norm(x, 3, alpha=0.1, k=2.0)", SERIES),
    "embedding_bag": ("F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), x, mode='sum')", ROWS),
    "embedding_bag_offsets": ("F.embedding_bag(torch.tensor([0, 2, 1]), x, torch.tensor([0, 1]))",
                              ROWS),
    "interpolate_area": ("F.interpolate(x, scale_factor=0.5, mode='area')", IMAGE),
    "interpolate_exact": ("F.interpolate(x, size=(3, 4), mode='nearest-exact')", IMAGE),
    "interpolate_1d": ("F.interpolate(x, size=5, mode='linear', align_corners=True)", SERIES),
    "interpolate_antialiased": ("F.interpolate(x, size=(3, 3), mode='bilinear', antialias=True)",
                                IMAGE),
    "interpolate_recomputed": ("F.interpolate(x, scale_factor=1.7, mode='bilinear', "
                               "recompute_scale_factor=True)", IMAGE),
    "upsample": ("F.upsample(x, scale_factor=2.0, mode='bicubic')", IMAGE),
    "mse_summed": ("F.mse_loss(x, x * 2, size_average=False)", ROWS),
    "l1_unreduced": ("F.l1_loss(x, x * 2, reduce=False)", ROWS),
    "soft_margin_loss": ("F.soft_margin_loss(x, x.sign(), reduction='sum')", ROWS),
    "multilabel_margin_loss": ("F.multilabel_margin_loss(x, torch.tensor([[0, 2, -1, 1]] * 3))",
                               ROWS),
    "multilabel_soft_margin_loss": ("F.multilabel_soft_margin_loss(x, (x > 0).float())", ROWS),
    "hinge_embedding_loss": ("F.hinge_embedding_loss(x, x.sign(), margin=2.0)", ROWS),
    "margin_ranking_loss": ("F.margin_ranking_loss(x, x * 0.5, x.sign(), 0.3)", ROWS),
    "cosine_embedding_loss": (f"F.cosine_embedding_loss(x, x * 0.5 + 1, {SIGNS}, 0.1)", ROWS),
    "multi_margin_loss": ("F.multi_margin_loss(x, torch.tensor([0, 1, 3]), margin=0.5)", ROWS),
    "poisson_nll_loss": ("F.poisson_nll_loss(x, x.abs(), full=True)", ROWS),
    "gaussian_nll_loss": ("F.gaussian_nll_loss(x, x * 0.5, x.abs() + 0.1, full=True)", ROWS),
    "triplet_margin_loss": ("F.triplet_margin_loss(x, x * 0.9, x + 1, swap=True)", ROWS),
    "dropout3d": ("F.dropout3d(x, 0.5, training=False)", VOLUME),
    "ctc_loss": ("F.ctc_loss(x.unsqueeze(1).log_softmax(2), torch.tensor([[1, 2]]), "
                 "torch.tensor([3]), torch.tensor([2]), reduction='sum')", ROWS),
}


def function_of(torch: Any, name: str) -> Any:
    """A function of x that computes the expression."""
    text = f"def {name}(x):\n    return {CASES[name][0]}\n"
    file = f"<case {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"torch": torch, "F": torch.nn.functional, "__name__": "cases"}
    exec(compile(textwrap.dedent(text), file, "exec"), space)
    return space[name]


def result_of(torch: Any, function: Any, shape: tuple[int, ...]) -> Any:
    """The function's result as numbers, rounded as two libraries may differ."""
    count = 1
    for length in shape:
        count *= length
    x = torch.sin(torch.arange(float(count)) * 1.7).reshape(shape)

    def numbers(value: Any) -> Any:
        return [numbers(v) for v in value] if isinstance(value, tuple) else value.double().numpy()

    return numbers(function(x))


def archive_of(torch: Any, name: str) -> io.BytesIO:
    """The archive of a case."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(function_of(torch, name)), file)
    file.seek(0)
    return file


def assert_alike(result: Any, expected: Any) -> None:
    """Compare arrays, or lists of them."""
    if isinstance(expected, list):
        for a, b in zip(result, expected, strict=True):
            assert_alike(a, b)
    else:
        assert result.shape == expected.shape
        assert abs(result - expected).max() < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_an_archive_computes_what_the_function_does(name: str) -> None:
    loaded, shape = flambeau.jit.load(archive_of(flambeau, name)), CASES[name][1]
    assert_alike(result_of(flambeau, loaded, shape),
                 result_of(flambeau, function_of(flambeau, name), shape))


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_both_libraries_read_each_others_archives(name: str) -> None:
    pytorch, shape = pytest.importorskip("torch"), CASES[name][1]
    expected = result_of(pytorch, function_of(pytorch, name), shape)
    assert_alike(result_of(pytorch, pytorch.jit.load(archive_of(flambeau, name)), shape), expected)
    if name != "gaussian_nll_loss":  # which PyTorch does not script
        theirs = flambeau.jit.load(archive_of(pytorch, name))
        assert_alike(result_of(flambeau, theirs, shape), expected)


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_pytorch_reads_traced_functions(name: str) -> None:
    pytorch, shape = pytest.importorskip("torch"), CASES[name][1]
    if name in ("mse_summed", "l1_unreduced"):  # in an archive of flambeau's own
        return
    function, file = function_of(flambeau, name), io.BytesIO()
    flambeau.jit.save(flambeau.jit.trace(function, flambeau.ones(shape) * 0.5), file)
    file.seek(0)
    expected = result_of(pytorch, function_of(pytorch, name), shape)
    assert_alike(result_of(pytorch, pytorch.jit.load(file), shape), expected)
