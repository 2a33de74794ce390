"""vmap of operators on matrices: an example that is a vector is refused."""

from __future__ import annotations

import pytest

NAMES = """
    linalg.inv linalg.inv_ex linalg.eigh linalg.eigvalsh linalg.eig linalg.svd linalg.svdvals
    linalg.qr linalg.cholesky linalg.lu_factor linalg.ldl_factor linalg.pinv linalg.matrix_rank
    linalg.matrix_exp cholesky_inverse geqrf
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_no_matrices(torch, name):
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    x = torch.eye(3) * 2
    with pytest.raises(RuntimeError):
        function(x[0])
    with pytest.raises(RuntimeError, match="dimension|2-D|matri"):
        torch.vmap(function)(x)
    torch.vmap(function)(torch.stack([x, x]))


def test_solutions_products_and_normalizations_of_vectors(torch):
    x, functional = torch.eye(3), torch.nn.functional
    calls = [
        lambda a: torch.linalg.solve(a, torch.ones(3)), lambda a: torch.addmm(a, a, a),
        lambda a: functional.batch_norm(a, None, None, training=True),
        lambda a: functional.group_norm(a, 1),
    ]
    for call in calls:
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            torch.vmap(call)(x)


def test_numbers_are_not_concatenated(torch):
    numbers, rows = torch.arange(3.0), torch.arange(6.0).view(2, 3)
    with pytest.raises((RuntimeError, IndexError)):
        torch.vmap(lambda x: torch.cat([x, x]))(numbers)
    ones = torch.ones(1)
    joined = torch.vmap(lambda x: torch.cat([ones, x], -1))(rows)
    assert joined.tolist() == [[1, 0, 1, 2], [1, 3, 4, 5]]
