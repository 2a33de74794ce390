"""Memory formats of tensors like a COO tensor: only strided results have them."""

from __future__ import annotations

import pytest

import flambeau as torch

FORMATS = [torch.contiguous_format, torch.channels_last, torch.preserve_format]
LIKES = [torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like, torch.randn_like]


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("function", LIKES, ids=lambda function: function.__name__)
def test_sparse_results_have_no_format(function, form):
    with pytest.raises(RuntimeError, match="^memory format option is only supported by strided"):
        function(torch.eye(3).to_sparse(), memory_format=form)


@pytest.mark.parametrize("function", LIKES[:2], ids=lambda function: function.__name__)
def test_strided_results_have_the_format(function):
    s = torch.ones(2, 3, 4, 5).to_sparse()
    x = function(s, layout=torch.strided, memory_format=torch.channels_last)
    assert x.stride() == (60, 1, 15, 3)
    for form in (torch.contiguous_format, torch.preserve_format):
        assert function(s, layout=torch.strided, memory_format=form).is_contiguous()
    with pytest.raises(RuntimeError, match="^required rank 4 tensor to use channels_last format"):
        function(torch.eye(3).to_sparse(), layout=torch.strided,
                 memory_format=torch.channels_last)


def test_zeros_of_a_format_are_zeros():
    s = torch.ones(2, 3, 4, 5).to_sparse()
    x = torch.zeros_like(s, layout=torch.strided, memory_format=torch.channels_last)
    assert torch.equal(x, torch.zeros(2, 3, 4, 5))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_sparse_likes_of_dense_tensors(layout):
    x = torch.zeros_like(torch.ones(2, 3), layout=layout, dtype=torch.float64)
    assert (x.layout, x.shape, x.dtype, x._nnz()) == (layout, (2, 3), torch.float64, 0)
    for function in (torch.empty_like, torch.ones_like, torch.rand_like, torch.randn_like):
        with pytest.raises(NotImplementedError, match="^Could not run 'aten::empty_strided'"):
            function(torch.ones(2, 3), layout=layout)
    with pytest.raises(NotImplementedError, match="^Could not run 'aten::empty_strided'"):
        torch.full_like(torch.ones(2, 3), 2.0, layout=layout)
