"""Basic indexing."""

from __future__ import annotations

import flambeau as torch


def test_the_second_derivative_of_an_element_is_an_array() -> None:
    """NumPy returns a number for `array[0]`; programs and recordings need its memory."""
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = torch.autograd.grad(w[0] ** 3, w, create_graph=True)
    (h,) = torch.autograd.grad((g**2).sum(), w)
    assert h.tolist() == [36.0, 0.0, 0.0]

    def step(x: torch.Tensor) -> torch.Tensor:
        (g,) = torch.autograd.grad(w[0] ** 3 * x, w, create_graph=True)
        (h,) = torch.autograd.grad((g**2).sum(), w)
        return h

    compiled = torch.compile(step, mode="now")
    for _ in range(4):
        assert compiled(torch.tensor(2.0)).tolist() == [144.0, 0.0, 0.0]
