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


def test_types_are_struct_sequences(torch):
    """Not named tuples: libraries tell the two apart by `_fields` and the bases."""
    from importlib import import_module

    pytree = import_module(f"{torch.__name__}.utils._pytree")
    result = torch.ones(2, 2).min(0)
    kind = type(result)
    assert kind.__bases__ == (tuple,) and not hasattr(kind, "_fields")
    assert kind.__match_args__ == ("values", "indices")
    assert (kind.n_fields, kind.n_sequence_fields, kind.n_unnamed_fields) == (2, 2, 0)
    assert pytree.is_structseq_instance(result) and not pytree.is_namedtuple(result)
    assert kind(x for x in (1, 2)) == (1, 2)
    doubled = pytree.tree_map(lambda x: 2 * x, {"a": result})["a"]
    assert type(doubled) is kind and doubled.values.tolist() == [2.0, 2.0]
