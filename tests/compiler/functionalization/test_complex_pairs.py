"""Complex numbers in compiled steps: pairs of reals in the graph, operators called as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

CALLS = 5


def complex_randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64)


def spectral_step() -> Any:
    """Weights of complex numbers between a transform and its inverse, with their optimizer."""
    w = nn.Parameter(0.1 * complex_randn(3, 2, 4))
    layer = nn.Linear(16, 4)
    optimizer = torch.optim.Adam([w, *layer.parameters()], lr=1e-2)

    def step(x: torch.Tensor) -> Any:
        optimizer.zero_grad()
        spectrum = torch.fft.rfft(x)
        mixed = torch.zeros(x.shape[0], 2, spectrum.shape[-1], dtype=torch.complex64)
        mixed[..., :4] = torch.einsum("bix,iox->box", spectrum[..., :4], w)
        loss = layer(torch.fft.irfft(mixed, n=16)).square().mean()
        loss.backward()
        optimizer.step()
        return loss, w.detach() * 1

    return step


def state_step() -> Any:
    z = complex_randn(4)

    def step(x: torch.Tensor) -> Any:
        z.mul_(x)
        return z.sum().abs() + x.sum(), z.clone()

    return step


def z_and_pairs() -> Any:
    z = complex_randn(3, 4)
    return z, torch.view_as_real(z)


def write_parts(z: torch.Tensor) -> Any:
    z.real.add_(1)
    z.imag.mul_(2)
    return z * 2, z.imag + 1


def two_on_one_memory(z: torch.Tensor) -> Any:
    y = z * 2
    return y, y[1:], y.real + 1


SCENES: dict[str, tuple[Callable[[], Any], Callable[[], tuple]]] = {
    "power spectrum": (lambda: lambda x: (torch.fft.rfft(x).abs() ** 2).sum(),
                       lambda: (torch.randn(3, 8),)),
    "parts are views": (lambda: lambda z: (torch.view_as_real(z * 2) + 1, z.real * 2, z.imag),
                        lambda: (complex_randn(2, 3),)),
    "parts are written": (lambda: write_parts, lambda: (complex_randn(2, 3),)),
    "a transpose": (lambda: lambda z: ((z * 2).t(), z.real + 1), lambda: (complex_randn(2, 3),)),
    "two on one memory": (lambda: two_on_one_memory, lambda: (complex_randn(3, 2),)),
    "a real number is copied over": (
        lambda: lambda x: (torch.zeros(3, dtype=torch.complex64).copy_(x), x + 1),
        lambda: (torch.randn(3),)),
    "drawn": (lambda: lambda x: (complex_randn(3) + x, x * 2), lambda: (torch.randn(3),)),
    "a number": (lambda: lambda z: (z.sum(), z.real.sum()), lambda: (complex_randn(2, 3),)),
    "no elements": (lambda: lambda z: (z * 2, z.real + 1), lambda: (complex_randn(0, 3),)),
    "double": (lambda: lambda x: torch.fft.fft(x.double() * 2).imag, lambda: (torch.randn(2, 5),)),
    "eigenvalues": (lambda: lambda x: torch.linalg.eigvals(x).abs().sum(),
                    lambda: (torch.randn(3, 3),)),
    "an argument and its pairs": (
        lambda: lambda z, r: (r.mul_(2), z + 1)[1], z_and_pairs),
    "training": (spectral_step, lambda: (torch.randn(2, 3, 16),)),
    "state": (state_step, lambda: (torch.randn(4),)),
}


def run(make: Callable[[], Any], arguments: Callable[[], tuple], compiled: bool) -> Any:
    torch.manual_seed(0)
    step = make()
    if compiled:
        step = torch.compile(step, mode="now")
    results = []
    for _ in range(CALLS):
        supplied = arguments()
        returned = step(*supplied)
        returned = returned if isinstance(returned, tuple) else (returned,)
        results += [(y.dtype, y.stride(), y.detach().numpy().copy())
                    for y in (*returned, *supplied)]
    return step, results


@pytest.mark.parametrize("name", SCENES)
def test_a_compiled_step_gives_what_the_eager_one_gives(name: str) -> None:
    make, arguments = SCENES[name]
    step, results = run(make, arguments, compiled=True)
    _, wanted = run(make, arguments, compiled=False)
    assert "kernel" in step.explain(), step.explain()
    for result, expected in zip(results, wanted, strict=True):
        assert result[:2] == expected[:2]  # dtype and strides
        np.testing.assert_allclose(result[2], expected[2], rtol=1e-4, atol=1e-5)


def test_returned_tensors_on_one_memory_stay_on_it() -> None:
    step = torch.compile(two_on_one_memory, mode="now")
    for _ in range(CALLS):
        y, part, _ = step(complex_randn(3, 2))
        part.zero_()
        assert (y[1:] == 0).all()
        assert (y[0] != 0).all()


def test_a_step_of_nothing_else_gets_no_program() -> None:
    """Its operators would be called as they are: nothing is gained."""
    step = torch.compile(lambda z: torch.fft.fft(z.log()), mode="now")
    for _ in range(CALLS):
        z = complex_randn(2)
        np.testing.assert_allclose(step(z).numpy(), torch.fft.fft(z.log()).numpy(), rtol=1e-6)
    assert "operators are complex" in step.explain()
