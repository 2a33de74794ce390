"""TensorBoard summaries: tensorboardX's, and those that only PyTorch writes."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
from tensorboardX import summary as base
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboardX.proto.tensor_pb2 import TensorProto
from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

_SCALAR_CLASS, _TENSOR_CLASS = 1, 2  # tensorboard's DataClass, field 4 of SummaryMetadata


def create_summary(tag: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Create a tensorboardX summary with the exact `tag`: keeps spaces and brackets."""
    summary = function(tag, *arguments, **options)
    summary.value[0].tag = tag
    return summary


def _build_metadata(plugin: str, data_class: int) -> Any:
    """Return the metadata that selects a plugin. Adds data_class, which tensorboardX lacks."""
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin))
    metadata.MergeFromString(bytes([4 << 3, data_class]))
    return metadata


def _tensor(array: np.ndarray, dtype: str, **content: Any) -> Any:
    sizes = [TensorShapeProto.Dim(size=size) for size in array.shape]
    return TensorProto(dtype=dtype, tensor_shape=TensorShapeProto(dim=sizes), **content)


def scalar(
    tag: str, value: float, new_style: bool = False, double_precision: bool = False
) -> Any:
    """Return a scalar summary: the old float32 field, or (new_style) a tensor."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value))  # infinite beyond float32
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=single)])
    empty = np.empty(())
    tensor = (
        _tensor(empty, "DT_DOUBLE", double_val=[value])
        if double_precision
        else _tensor(empty, "DT_FLOAT", float_val=[single])
    )
    metadata = _build_metadata("scalars", _SCALAR_CLASS)
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])


def tensor(tag: str, array: np.ndarray) -> Any:
    """Return a summary of a float array."""
    double = array.dtype == np.float64
    content = array.astype("<f8" if double else "<f4").tobytes()
    body = _tensor(array, "DT_DOUBLE" if double else "DT_FLOAT", tensor_content=content)
    metadata = _build_metadata("tensor", _TENSOR_CLASS)
    return Summary(value=[Summary.Value(tag=tag, tensor=body, metadata=metadata)])


def _build_default_edges() -> np.ndarray:
    upward = 1e-12 * 1.1 ** np.arange(int(np.log(1e32) / np.log(1.1)) + 1)
    return np.r_[-upward[::-1], 0, upward]


TENSORFLOW_EDGES = _build_default_edges()


def histogram(
    tag: str, values: np.ndarray, bins: Any = "tensorflow", max_bins: int | None = None
) -> Any:
    """Return a histogram. Ignores NaN and infinite values."""
    values = values.astype(np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        raise ValueError(f"add_histogram: {tag!r} has no finite element.")
    edges = TENSORFLOW_EDGES if isinstance(bins, str) and bins == "tensorflow" else bins
    return create_summary(tag, base.histogram, values, edges, max_bins)


def image(tag: str, pixels: np.ndarray, formats: str) -> Any:
    """Return an image, or several in a grid. `formats` names the axes."""
    if len(formats) != pixels.ndim or len(set(formats)) != len(formats):
        raise ValueError(
            f"dataformats={formats!r} names {len(formats)} axes, but the image has shape "
            f"{pixels.shape}"
        )
    return create_summary(tag, base.image, convert_to_bytes(pixels), dataformats=formats)


def convert_to_bytes(pixels: np.ndarray) -> np.ndarray:
    """Return uint8 unchanged; scale other values from [0, 1], clipped."""
    if pixels.dtype == np.uint8:
        return pixels
    scaled = np.nan_to_num(pixels.astype(np.float32)) * 255
    return scaled.clip(0, 255).astype(np.uint8)


def encode_gif(tag: str, frames: np.ndarray, fps: float) -> Any:
    """Encode frames (time, height, width, channels) as a GIF, with Pillow."""
    from PIL import Image

    pictures = [Image.fromarray(frame.squeeze(-1) if frame.shape[-1] == 1 else frame)
                for frame in frames]
    file = io.BytesIO()
    pictures[0].save(
        file, "GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0
    )
    _, height, width, channels = frames.shape
    encoded = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=encoded)])


def audio(tag: str, sound: np.ndarray, sample_rate: int) -> Any:
    """Encode sound in [-1, 1], (1, length) or (length,), as 16-bit WAV."""
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
    encoded = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(data),
        encoded_audio_string=file.getvalue(), content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=encoded)])


def hparams(
    hparam_dict: Any, metric_dict: Any, hparam_domain_discrete: Any = None
) -> tuple[Any, Any, Any]:
    """Return the summaries of a run's hyperparameters: experiment, session start, session end.

    Raises TypeError for a dictionary of another type, or for `hparam_domain_discrete` values that
    are no list of the hyperparameter's type; ValueError for other hyperparameters than numbers,
    strings and tensors with one element.
    """
    discrete = {} if hparam_domain_discrete is None else hparam_domain_discrete
    dictionaries = {"hparam_dict": hparam_dict, "metric_dict": metric_dict,
                    "hparam_domain_discrete": discrete}
    for argument, value in dictionaries.items():
        if not isinstance(value, dict):
            raise TypeError(f"parameter: {argument} should be a dictionary, nothing logged.")
    for name, values in discrete.items():
        if name not in hparam_dict or not isinstance(values, list) or not all(
            isinstance(value, type(hparam_dict[name])) for value in values
        ):
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of same "
                            f"type as hparam_dict[{name}].")
    plain = {name: _as_plain(name, value)
             for name, value in hparam_dict.items() if value is not None}
    experiment, start, end = base.hparams(plain, metric_dict)
    if discrete:
        data = experiment.value[0].metadata.plugin_data
        content = HParamsPluginData.FromString(data.content)
        for info in content.experiment.hparam_infos:
            values = discrete.get(info.name, ())
            info.domain_discrete.extend(_as_plain(info.name, value) for value in values)
        data.content = content.SerializeToString()
    return experiment, start, end


def _as_plain(name: str, value: Any) -> float | str:
    """Return a hyperparameter as a float or str. PyTorch's writer stores bools as numbers too."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return float(value)
    if getattr(value, "size", 0) == 1 or callable(getattr(value, "item", None)):
        return _as_plain(name, value.item())
    error = ValueError("value should be one of int, float, str, bool, or torch.Tensor")
    error.add_note(f"{name!r} is of type {type(value).__name__}.")
    raise error
