"""Matrices that are singular up to rounding: what has a pivot of zero, and what is solved."""

from __future__ import annotations


def test_pivots_that_vanish_by_rounding_alone_stay(torch):
    """OpenBLAS leaves pivots of exactly zero in such matrices, MKL does not: kornia solves for
    null spaces."""
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.float64)
    assert torch.linalg.lu_factor_ex(x).info.item() == 0
    assert torch.linalg.inv(x).abs().max() > 1e15
    singular = 0
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        p = torch.rand(10, 2, generator=generator)
        q = p * torch.rand(2, generator=generator)
        ones, zeros = torch.ones(10, 1), torch.zeros(10, 1)
        a = torch.cat([zeros, zeros, zeros, -p, -ones, q[:, 1:] * p, q[:, 1:]], 1)
        b = torch.cat([p, ones, zeros, zeros, zeros, -q[:, :1] * p, -q[:, :1]], 1)
        rows = torch.cat([a, b])
        LU, pivots, info = torch.linalg.lu_factor_ex(rows.T @ rows)
        singular += int(info)
        null = torch.linalg.lu_solve(LU, pivots, torch.ones(9, 1))
        assert (rows @ (null / null.norm())).norm() < 1e-3
    assert singular == 0


def test_one_singular_matrix_of_a_batch(torch):
    x = torch.tensor([[[1.0, 2], [2, 4]], [[2.0, 0], [0, 4]]])
    inverse, info = torch.linalg.inv_ex(x)
    assert info.tolist() == [2, 0] and inverse[1].tolist() == [[0.5, 0.0], [0.0, 0.25]]
    solution, info = torch.linalg.solve_ex(x, torch.ones(3, 1, 2, 1))
    assert solution.shape == (3, 2, 2, 1) and info.tolist() == [2, 0]
    assert solution[:, 1].flatten().tolist() == [0.5, 0.25] * 3
    for seed in range(30):  # inverses and factors agree on what is singular
        rows = torch.randint(-4, 5, (4, 5), generator=torch.Generator().manual_seed(seed)).float()
        matrix = torch.cat([rows, rows[:1] + rows[1:2]])
        torch.linalg.inv_ex(matrix), torch.linalg.solve_ex(matrix, torch.ones(5, 1))


def test_right_sides_are_cast_to_a_triangular_matrix(torch):
    A, B = torch.eye(2, dtype=torch.float64) * 2, torch.ones(2, 1)
    assert torch.linalg.solve_triangular(A, B, upper=True).dtype is torch.float64
    assert torch.linalg.solve_triangular(A.float(), B.double(), upper=True).dtype is torch.float32
