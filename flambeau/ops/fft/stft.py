"""Short-time Fourier transforms: frames of a signal, each transformed, and back again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from ...tensor.capture_marks import holds
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import PUBLIC
from ..core.registry import composite
from ..view.padding import constant_pad_nd
from ..view.strided import fold_windows
from .fft import FULL, NONE, ROOT, complex_transform, half_transform, real_transform, resize


def _describe(input: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None) -> str:
    shown = "None" if window is None else f"tensor of size {list(window.shape)}"
    return (f"{legacy_name(input.dtype)}{list(input.shape)}, n_fft={n_fft}, hop_length={hop}, "
            f"win_length={length}, window={shown}")


def _check_frames(
    name: str, described: str, n_fft: int, hop: int, length: int, window: Any
) -> None:
    if n_fft <= 0:
        raise RuntimeError(f"{name}({described}) : expected n_fft > 0, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(
            f"{name}({described}) : expected hop_length > 0, but got hop_length={hop}"
        )
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}({described}) : expected 0 < win_length <= n_fft, but got "
                           f"win_length={length}")
    if window is not None and (window._array.ndim != 1 or window.shape[0] != length):
        raise RuntimeError(
            f"{name}({described}) : expected a 1D window tensor of size equal to win_length="
            f"{length}, but got window with size {list(window.shape)}"
        )


def _fill_window(window: Tensor | None, like: Tensor, length: int, n_fft: int) -> Tensor:
    """The window in the middle of a frame of n_fft; ones where none is given."""
    if window is None:
        window = like.new_ones(length, dtype=like.dtype.to_real())
    left = (n_fft - length) // 2
    if length == n_fft:
        return window
    return constant_pad_nd(window, (left, n_fft - length - left))


def _pad_to_center(input: Tensor, n_fft: int, pad_mode: str) -> Tensor:
    rank = input._array.ndim
    signal = input.reshape((1,) * (3 - rank) + tuple(input.shape)) if rank < 3 else input
    half = n_fft // 2
    padded = PUBLIC["nn.functional"]["pad"](signal, [half, half], pad_mode)
    return padded.reshape((*padded.shape[3 - rank :],)) if rank < 3 else padded


def _warn_of_no_window(advice: str, applied: str = "applied,") -> None:
    warn(
        f"A window was not provided. A rectangular window will be {applied}{advice}To suppress "
        "this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, "
        "device=<device>)`.",
        UserWarning,
    )


@composite(autocast=Policy.FULL)
def stft(
    input: Tensor, n_fft: int, hop_length: Any = None, win_length: Any = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: Any = None, return_complex: bool | None = None,
    align_to_window: Any = None
) -> Tensor:
    """Compute the short-time Fourier transform of a signal.

    Each frame of n_fft samples, hop_length apart, is multiplied by the window and transformed.
    input (time) or (batch, time): result (batch, frequency, frame), complex with return_complex.

    >>> torch.stft(torch.ones(8), 4, return_complex=True).shape
    torch.Size([3, 9])
    """
    if window is None:
        _warn_of_no_window("which is known to cause spectral leakage. Other windows such as "
                           "torch.hann_window or torch.hamming_window are recommended to reduce "
                           "spectral leakage.")
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    described = _describe(input, n_fft, hop, length, window)
    if not (input.is_complex() or input.is_floating_point()):
        raise RuntimeError(f"stft({described}) : expected a tensor of floating point or complex "
                           "values")
    rank = input._array.ndim
    if rank not in (1, 2):
        raise RuntimeError(f"stft({described}) : expected a 1D or 2D tensor")
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        input = _pad_to_center(input, n_fft, pad_mode)
    signal = input if rank == 2 else input.unsqueeze(0)
    if not 0 < n_fft <= signal.shape[-1]:
        raise RuntimeError(f"stft({described}) : expected 0 < n_fft <= {signal.shape[-1]}, but got "
                           f"n_fft={n_fft}")
    _check_frames("stft", described, n_fft, hop, length, window)
    frames = signal.unfold(-1, n_fft, hop)  # (batch, frame, n_fft)
    if window is not None or length < n_fft:
        frames = frames * _fill_window(window, input, length, n_fft)
    y = _compute_spectra(frames, is_complex, onesided, ROOT if normalized else NONE)
    y = y.transpose(1, 2)
    y = y if rank == 2 else y.squeeze(0)
    return y if return_complex else PUBLIC["torch"]["view_as_real"](y)


def _compute_spectra(frames: Tensor, is_complex: bool, onesided: Any, scale: int) -> Tensor:
    if onesided is None:
        onesided = not is_complex
    if is_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    transform = real_transform if onesided else complex_transform
    return transform(frames, (2,), scale, True)


@composite(explains=True)
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False
) -> Tensor:
    """Invert stft: reconstruct the signal from the transforms of its frames.

    input (frequency, frame) or (batch, frequency, frame), complex: result (batch, time).

    >>> window, signal = torch.hann_window(16), torch.arange(64.)
    >>> frames = torch.stft(signal, 16, window=window, return_complex=True)
    >>> bool((torch.istft(frames, 16, window=window) - signal).abs().max() < 1e-3)
    True
    """
    if window is None:
        _warn_of_no_window("Please provide the same window used by stft to make the inversion "
                           "lossless.", "applied.")
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from "
                           "stft with return_complex=True.")
    described = _describe(input, n_fft, hop, size, window)
    _check_spectra(input, described, n_fft, onesided)
    _check_frames("istft", described, n_fft, hop, size, window)
    rank = input._array.ndim
    spectra = (input if rank == 3 else input.unsqueeze(0)).transpose(1, 2)
    full = _fill_window(window, input, size, n_fft)
    if onesided is None:
        onesided = input.shape[-2] != n_fft
    scale = ROOT if normalized else FULL
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        frames = complex_transform(spectra, (2,), scale, False)
    else:
        if window is not None and window.is_complex():
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        half = resize(spectra, (2,), (n_fft // 2 + 1,))
        frames = half_transform(half, (2,), scale, False, n_fft)
    y = _overlap_add(frames * full, full, hop, n_fft, center, length, described)
    return y if rank == 3 else y.squeeze(0)


def _check_spectra(input: Tensor, described: str, n_fft: int, onesided: Any) -> None:
    rank, shape = input._array.ndim, input.shape
    if rank not in (2, 3):
        raise RuntimeError(
            f"istft({described}) : expected a tensor with 2 or 3 dimensions, but got {rank}"
        )
    if not input._array.size:
        raise RuntimeError(f"istft({described}) : input tensor cannot be empty.")
    count = shape[-2]
    single = count != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if single else n_fft
    if count != expected:
        form = "n_fft / 2 + 1" if single else "n_fft"
        raise RuntimeError(
            f"istft({described}) : expected the frequency dimension (3rd to the last) of the input "
            f"tensor to match {form} when onesided={'True' if single else 'False'}, but got {count}"
        )


def _can_divide(envelope: np.ndarray) -> Any:
    return np.all(np.abs(envelope) > 1e-11)


def _overlap_add(
    frames: Tensor, window: Tensor, hop: int, n_fft: int, center: bool, length: int | None,
    described: str,
) -> Tensor:
    """The frames laid over each other, divided by the sum of the windows' squares."""
    batch, count = frames.shape[0], frames.shape[1]
    total = n_fft + hop * (count - 1)
    y = fold_windows(frames, (batch, total), 1, n_fft, hop)
    squares = (window * window).expand(1, count, n_fft)
    envelope = fold_windows(squares, (1, total), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    stop = min(end, total)
    y, envelope = (t.narrow(1, start, max(stop - start, 0)) for t in (y, envelope))
    if envelope._array.size and not holds(envelope, _can_divide):
        raise RuntimeError(f"istft({described}) window overlap add min: 1")
    y = y / envelope
    if end > total:
        warn("The length of signal is shorter than the length parameter. Result is being "
             "padded with zeros in the tail. Please check your center and hop_length "
             "settings.", UserWarning)
        y = constant_pad_nd(y, (0, end - total))
    return y
