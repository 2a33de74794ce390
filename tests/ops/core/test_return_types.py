"""Results with named fields, and those that were written into `out`."""

from __future__ import annotations


def test_written_results_have_a_type_of_their_own(torch):
    x = torch.rand(3, 3)
    index = torch.empty(0, dtype=torch.int64)
    written = torch.max(x, 0, out=(torch.empty(0), index))
    assert type(written) is torch.return_types.max_out
    assert repr(written).startswith("torch.return_types.max_out(\nvalues=")
    assert written.indices is index
    assert type(torch.max(x, 0)) is torch.return_types.max
    solved = torch.triangular_solve(x, x, out=(torch.empty(0), torch.empty(0)))
    assert type(solved) is torch.return_types.triangular_solve_out
    parts = torch.linalg.qr(x, out=(torch.empty(0), torch.empty(0)))
    assert type(parts) is torch.return_types.linalg_qr_out
    for name in ("slogdet", "lu_unpack", "qr", "linalg_lu_factor", "linalg_ldl_factor_out"):
        assert hasattr(torch.return_types, name)  # before any call
    assert not hasattr(torch.return_types, "histogramdd_out")
