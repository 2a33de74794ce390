"""TensorBoard's summaries as bytes: one `Summary.Value` a function, by the fields' numbers."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .picture import as_bytes, channels_last, png
from .protobuf import double, doubles, integer, message, single, text

_FLOAT, _DOUBLE, _STRING = 1, 2, 7  # tensorflow.DataType
_SCALAR_CLASS, _TENSOR_CLASS = 1, 2  # tensorboard's DataClass


def _value(tag: str, *fields: bytes) -> bytes:
    return message(1, text(1, tag), *fields)


def _metadata(plugin: str, content: bytes = b"", kind: int = 0) -> bytes:
    """SummaryMetadata: which plugin shows the value, and what it wants to know."""
    body = message(2, content) if content else b""
    return message(9, message(1, text(1, plugin), body), integer(4, kind))


def _tensor(dtype: int, shape: Sequence[int], content: bytes) -> bytes:
    sizes = b"".join(message(2, integer(1, size)) for size in shape)
    return message(8, integer(1, dtype), message(2, sizes), content)


def scalar(
    tag: str, value: float, new_style: bool = False, double_precision: bool = False
) -> bytes:
    """A number, as the older plain field (float32) or (new_style) as a tensor."""
    if not new_style:
        return _value(tag, single(2, value))
    body = double(6, value) if double_precision else single(5, value)
    tensor = _tensor(_DOUBLE if double_precision else _FLOAT, (), body)
    return _value(tag, tensor, _metadata("scalars", b"", _SCALAR_CLASS))


def histogram(
    tag: str, values: np.ndarray, bins: Any = "tensorflow", max_bins: int | None = None
) -> bytes:
    """How numbers are distributed. NaN and infinite ones are left out."""
    values = values.astype(np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        raise ValueError(f"add_histogram: {tag!r} has no finite element.")
    edges = TENSORFLOW_EDGES if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = np.histogram(values, edges)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.r_[limits[:-1:step], limits[-1]]
    filled = np.flatnonzero(counts)
    if not len(filled):
        raise ValueError(f"add_histogram: no element of {tag!r} is in a bin")
    first, last = int(filled[0]), int(filled[-1]) + 1
    # A bucket has only an upper limit: an empty one in front says where the first begins.
    return histogram_raw(
        tag, float(values.min()), float(values.max()), values.size, float(values.sum()),
        float(values.dot(values)), limits[first : last + 1], np.r_[0, counts[first:last]],
    )  # fmt: skip


def _edges() -> np.ndarray:
    upward = 1e-12 * 1.1 ** np.arange(int(np.log(1e32) / np.log(1.1)) + 1)
    return np.r_[-upward[::-1], 0, upward]


TENSORFLOW_EDGES = _edges()


def histogram_raw(
    tag: str, lowest: float, highest: float, count: float, total: float, squares: float,
    limits: Any, counts: Any,
) -> bytes:  # fmt: skip
    """A histogram that is counted already; `limits` are the buckets' upper ends."""
    if len(limits) != len(counts):
        raise ValueError(
            f"len(bucket_limits) != len(bucket_counts): {len(limits)} and {len(counts)}"
        )
    return _value(
        tag,
        message(
            5, double(1, lowest), double(2, highest), double(3, count), double(4, total),
            double(5, squares), doubles(6, limits), doubles(7, counts),
        ),
    )  # fmt: skip


def image(tag: str, pixels: np.ndarray, formats: str) -> bytes:
    """A picture, or several in a grid; `formats` names the axes."""
    pixels = as_bytes(channels_last(pixels, formats))
    height, width, channels = pixels.shape
    sizes = (integer(1, height), integer(2, width), integer(3, channels))
    return _value(tag, message(4, *sizes, message(4, png(pixels))))


def audio(tag: str, sound: np.ndarray, sample_rate: int) -> bytes:
    """Sound from -1 to 1, (1, length) or (length,), as 16-bit WAV."""
    samples = sound.squeeze()
    if samples.ndim != 1:
        raise ValueError(f"input tensor should be 1 dimensional, but has shape {sound.shape}")
    data = (samples.astype(np.float64).clip(-1, 1) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(data.tobytes())
    about = (single(1, sample_rate), integer(2, 1), integer(3, len(data)))
    return _value(tag, message(6, *about, message(4, file.getvalue()), text(5, "audio/wav")))


def note(tag: str, words: str) -> bytes:
    """A text, shown as Markdown."""
    tensor = _tensor(_STRING, (1,), message(8, words.encode("utf-8", "replace")))
    return _value(f"{tag}/text_summary", tensor, _metadata("text"))


def tensor(tag: str, array: np.ndarray) -> bytes:
    """An array of floats."""
    single_precision = array.dtype != np.float64
    content = array.astype("<f4" if single_precision else "<f8").tobytes()
    kind = _FLOAT if single_precision else _DOUBLE
    body = _tensor(kind, array.shape, message(4, content))
    return _value(tag, body, _metadata("tensor", b"", _TENSOR_CLASS))


def precision_recall(tag: str, rows: np.ndarray) -> bytes:
    """Rows (6, thresholds): true and false positives, true and false negatives, the two ratios."""
    content = rows.astype("<f4").tobytes()
    body = _tensor(_FLOAT, rows.shape, message(4, content))
    return _value(tag, body, _metadata("pr_curves", integer(2, rows.shape[1])))


def precision_recall_rows(
    labels: np.ndarray, predictions: np.ndarray, thresholds: int, weights: np.ndarray | None
) -> np.ndarray:
    """The counts and ratios at `thresholds` evenly spaced thresholds from 0 to 1."""
    bucket = np.floor(predictions.ravel() * (thresholds - 1)).astype(np.int64)
    weight = np.ones(bucket.size) if weights is None else np.asarray(weights, float).ravel()
    positive = labels.ravel().astype(np.float64) * weight
    negative = (1.0 - labels.ravel().astype(np.float64)) * weight
    hits = np.bincount(bucket, positive, thresholds)[::-1].cumsum()[::-1]
    alarms = np.bincount(bucket, negative, thresholds)[::-1].cumsum()[::-1]
    misses, passes = hits[0] - hits, alarms[0] - alarms
    precision = hits / np.maximum(hits + alarms, 1e-7)
    recall = hits / np.maximum(hits + misses, 1e-7)
    return np.stack([hits, alarms, passes, misses, precision, recall])


def layout(charts: Mapping[str, Mapping[str, Sequence]]) -> bytes:
    """The page of custom charts: {category: {chart: ["Multiline" or "Margin", tags]}}."""
    categories = []
    for title, contents in charts.items():
        fields = [text(1, title)]
        for name, (kind, tags) in contents.items():
            if kind == "Margin":
                value, lower, upper = tags
                series = message(1, text(1, value), text(2, lower), text(3, upper))
                fields.append(message(2, text(1, name), message(3, series)))
            else:
                fields.append(
                    message(2, text(1, name), message(2, *(text(1, tag) for tag in tags)))
                )
        categories.append(message(2, *fields))
    body = _tensor(_STRING, (), message(8, *categories))
    return _value("custom_scalars__config__", body, _metadata("custom_scalars"))


def hyperparameters(
    chosen: Mapping[str, Any],
    metrics: Mapping[str, Any],
    discrete: Mapping[str, Sequence] | None = None,
) -> tuple[bytes, bytes, bytes]:
    """What a run was given and what it is judged by: experiment, session start, session end."""
    infos, entries = [], []
    for name, value in chosen.items():
        if value is None:
            continue
        kind, encoded = _kind(name, value)
        domain = b""
        if discrete is not None and name in discrete:
            items = [message(1, _kind(name, item)[1]) for item in discrete[name]]
            domain = message(5, *items)
        infos.append(message(4, text(1, name), integer(4, kind), domain))
        entries.append(message(1, text(1, name), message(2, encoded)))
    tags = [message(5, message(1, text(2, name))) for name in metrics]
    plugin = "hparams"
    return (
        _value("_hparams_/experiment", _metadata(plugin, message(2, *infos, *tags))),
        _value("_hparams_/session_start_info", _metadata(plugin, message(3, *entries))),
        _value("_hparams_/session_end_info", _metadata(plugin, message(4, integer(1, 1)))),
    )


def _kind(name: str, value: Any) -> tuple[int, bytes]:
    """(type of a hyperparameter, its google.protobuf.Value)."""
    if isinstance(value, (bool, np.bool_)):
        return 2, b"\x20" + (b"\x01" if value else b"\x00")
    if isinstance(value, (int, float, np.integer, np.floating)):
        return 3, b"\x11" + struct.pack("<d", value)
    if isinstance(value, str):
        return 1, text(3, value)
    if getattr(value, "size", 0) == 1 or (callable(getattr(value, "item", None))):
        return _kind(name, value.item())
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor, but "
                     f"{name!r} is {type(value).__name__}")  # fmt: skip
