"""Sobol sequences: PyTorch's points, plain and scrambled."""

import pytest


def test_points_in_order(torch):
    engine = torch.quasirandom.SobolEngine(2)
    expected = torch.tensor([[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]])
    assert torch.equal(engine.draw(4), expected)
    assert torch.equal(engine.reset().fast_forward(2).draw(2), expected[2:])
    assert engine.draw_base2(2).shape == (4, 2)
    with pytest.raises(ValueError, match="require n to be a power of 2"):
        engine.draw_base2(1)


def test_pieces_join(torch):
    whole = torch.quasirandom.SobolEngine(5, scramble=True, seed=7).draw(16)
    engine = torch.quasirandom.SobolEngine(5, scramble=True, seed=7)
    parts = [engine.draw(n) for n in (1, 4, 11)]
    assert torch.equal(torch.cat(parts), whole)
    assert whole.min() >= 0 and whole.max() < 1
    assert len(whole.unique(dim=0)) == 16


@pytest.mark.parity
@pytest.mark.parametrize("scramble", [False, True])
def test_as_pytorch(scramble):
    theirs, ours = pytest.importorskip("torch"), pytest.importorskip("flambeau")
    drawn = [
        lib.quasirandom.SobolEngine(37, scramble=scramble, seed=3).fast_forward(5).draw(40).tolist()
        for lib in (theirs, ours)
    ]
    assert drawn[0] == drawn[1]


def test_dimension_out_of_range(torch):
    with pytest.raises(ValueError, match=r"SobolEngine is \[1, 21201\]"):
        torch.quasirandom.SobolEngine(0)
