"""Fourier transforms against NumPy's, their derivatives, and short-time ones there and back."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

ALONG_ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL = {"rfft", "ihfft", "rfftn"}


def signal(name, *shape):
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape)
    return x if name in REAL else x + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 8])
@pytest.mark.parametrize("name", ALONG_ONE_AXIS)
def test_along_one_axis(name, n, norm):
    x = signal(name, 2, 5)
    for dim in (0, 1):
        wanted = getattr(np.fft, name)(x, n, dim, norm)
        y = getattr(torch.fft, name)(torch.from_numpy(x), n, dim, norm)
        np.testing.assert_allclose(y.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_over_many_axes(name):
    x = signal(name, 2, 5, 4)
    y = getattr(torch.fft, name)(torch.from_numpy(x), (4, 3), (0, 2), "ortho")
    wanted = getattr(np.fft, name)(x, (4, 3), (0, 2), "ortho")
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("name", ALONG_ONE_AXIS)
def test_derivatives(name):
    function = getattr(torch.fft, name)
    for n in (4, 5):
        x = torch.from_numpy(signal(name, 2, 4)).requires_grad_()
        assert gradcheck(lambda x, n=n: function(x, n), (x,))
        assert gradgradcheck(lambda x, n=n: function(x, n), (x,))


def test_single_precision_is_kept():
    assert torch.fft.fft(torch.ones(4)).dtype is torch.complex64
    assert torch.fft.irfft(torch.ones(3, dtype=torch.complex64)).dtype is torch.float32
    assert torch.fft.rfft(torch.ones(4, dtype=torch.int64)).dtype is torch.complex64


def test_frequencies_and_shifts():
    for n in (4, 5):
        wanted = np.fft.fftfreq(n, 0.5)
        np.testing.assert_allclose(torch.fft.fftfreq(n, 0.5).numpy(), wanted)
        x = torch.arange(n)
        assert torch.fft.fftshift(x).tolist() == np.fft.fftshift(x.numpy()).tolist()
        assert torch.equal(torch.fft.ifftshift(torch.fft.fftshift(x)), x)


@pytest.mark.parametrize(
    ("call", "words"),
    [(lambda: torch.fft.fft(torch.ones(2), n=0), r"Invalid number of data points \(0\)"),
     (lambda: torch.fft.fft(torch.ones(2), norm="x"), "Invalid normalization mode"),
     (lambda: torch.fft.rfft(torch.ones(2) * 1j), "rfft expects a real input tensor"),
     (lambda: torch.fft.fftn(torch.ones(2, 2), dim=(0, 0)), "FFT dims must be unique"),
     (lambda: torch.stft(torch.ones(8), 4), "return_complex parameter be given"),
     (lambda: torch.fft.fft(torch.ones(2, dtype=torch.float16)), "Unsupported dtype Half")],
)
def test_refusals(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_short_time_transforms_there_and_back(center, normalized):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 32)))
    window = torch.hann_window(8, dtype=torch.float64) + 0.1
    options = {"n_fft": 8, "hop_length": 2, "window": window, "center": center,
               "normalized": normalized}
    spectra = torch.stft(x, return_complex=True, **options)
    assert spectra.shape == (2, 5, 17 if center else 13)
    back = torch.istft(spectra, length=32, **options)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_windows():
    n = np.arange(6)
    np.testing.assert_allclose(torch.hann_window(6, dtype=torch.float64).numpy(),
                               0.5 - 0.5 * np.cos(2 * np.pi * n / 6), atol=1e-12)
    for name, wanted in (("hamming", np.hamming), ("blackman", np.blackman),
                         ("bartlett", np.bartlett), ("hann", np.hanning)):
        y = getattr(torch.signal.windows, name)(7, dtype=torch.float64)
        np.testing.assert_allclose(y.numpy(), wanted(7), atol=1e-12)
    kaiser = torch.kaiser_window(7, False, 5.0, dtype=torch.float64)
    np.testing.assert_allclose(kaiser.numpy(), np.kaiser(7, 5.0), atol=1e-12)
