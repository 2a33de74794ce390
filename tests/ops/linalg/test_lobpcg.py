"""lobpcg: both triangles of the matrix decide."""

from __future__ import annotations


def test_jacobian_of_the_largest_eigenvalue_is_symmetric(torch):
    x = torch.arange(36.0, dtype=torch.float64).sin().reshape(6, 6)
    matrix, step = x @ x.mT, 1e-5
    start = torch.eye(6, 1, dtype=torch.float64)

    def largest(a):
        return torch.lobpcg(a, k=1, X=start)[0].item()

    slopes = []
    for i, j in ((0, 3), (3, 0)):
        moved = matrix.clone()
        moved[i, j] += step
        slopes.append((largest(moved) - largest(matrix)) / step)
    assert abs(slopes[0] - slopes[1]) < 1e-4 and abs(slopes[0]) > 1e-3
