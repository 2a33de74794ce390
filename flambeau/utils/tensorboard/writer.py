"""SummaryWriter: PyTorch's interface, encoded by tensorboardX."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
from tensorboardX import summary as base
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.utils import figure_to_image

from ...tensor.capture_marks import read_values
from ...tensor.tensor import Tensor
from . import embedding, summary
from .event_file import FileWriter


def as_array(value: Any) -> np.ndarray:
    """Return a tensor, array or number as a NumPy array; NotImplementedError for anything else."""
    if isinstance(value, Tensor):
        return read_values(value)
    if not isinstance(value, np.ndarray) and not np.isscalar(value):
        raise NotImplementedError(
            f"Got {type(value)}, but numpy array or torch tensor are expected.")
    return np.asarray(value)


def as_any(value: Any) -> np.ndarray:
    """Return a tensor, array, number or list as a NumPy array."""
    return as_array(value) if isinstance(value, Tensor) else np.asarray(value)


def number(value: Any) -> float:
    """Return a number or one-element tensor as a float."""
    if value.__class__ is float:
        return value
    if isinstance(value, str):
        raise NotImplementedError(
            "add_scalar: got a str, but caffe2's blob names are not supported; pass the number"
        )
    array = as_array(value)
    if array.size != 1:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions).             Was given size: "
            f"{array.size} and {array.ndim} dimensions.")
    return float(array.item())


class SummaryWriter:
    """Writes event files for TensorBoard to `log_dir`.

    The default `log_dir` is `runs/<date>_<host><comment>`. All methods accept tensors, NumPy arrays
    and numbers. `purge_step` hides what an earlier run wrote from that step on.

    >>> with SummaryWriter("runs/first") as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    ...     writer.add_histogram("weights", torch.arange(10), 2)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            timestamp = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{timestamp}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            if self.purge_step is not None:  # SessionLog.START: later steps are gone
                restart = Event(session_log=SessionLog(status=SessionLog.START))
                self.file_writer.add_event(restart, self.purge_step)
                self.purge_step = None
        else:
            self.file_writer.reopen()
        return self.file_writer

    def _open(self, directory: str) -> FileWriter:
        writer = self.all_writers.get(directory)
        if writer is None:
            writer = FileWriter(directory, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[directory] = writer
        writer.reopen()
        return writer

    def _add(self, values: Any, step: int | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(values, step, walltime)

    def get_logdir(self) -> str:
        """Return the directory of the event files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a point to the curve `tag`."""
        value = summary.scalar(tag, number(scalar_value), new_style, double_precision)
        self._add(value, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add several curves to one plot. Each is a separate run in a subdirectory."""
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            directory = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            encoded = summary.scalar(main_tag, number(value))
            self._open(directory).add_summary(encoded, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add an array of numbers."""
        self._add(summary.tensor(tag, as_any(tensor)), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add a histogram of `values`. `bins` are as in numpy.histogram."""
        value = summary.histogram(tag, as_array(values), bins, max_bins)
        self._add(value, global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float,
        bucket_limits: Any, bucket_counts: Any, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a precomputed histogram. The limits are the upper ends of the buckets."""
        limits, counts = as_any(bucket_limits), as_any(bucket_counts)
        if len(limits) != len(counts):
            raise ValueError(
                f"len(bucket_limits) != len(bucket_counts): {len(limits)} and {len(counts)}"
            )
        value = base.histogram_raw(
            tag, float(min), float(max), float(num), float(sum), float(sum_squares),
            limits.tolist(), counts.tolist(),
        )
        self._add(value, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add an image: uint8, or floats from 0 to 1."""
        self._add(summary.image(tag, as_array(img_tensor), dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add a batch of images as one grid."""
        self._add(summary.image(tag, as_array(img_tensor), dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add a matplotlib figure, or a list of them, as an image."""
        pictures = figure_to_image(figure, close)
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, pictures, global_step, walltime, formats)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Add videos (n, time, c, h, w), side by side, as a GIF: uint8, or floats from 0 to 1."""
        frames = summary.convert_to_bytes(as_array(vid_tensor))
        if frames.ndim != 5:
            raise ValueError(f"vid_tensor is (n, time, c, h, w), but has shape {frames.shape}")
        rows = np.concatenate(list(frames), axis=3)  # (time, c, h, n * w)
        value = summary.encode_gif(tag, rows.transpose(0, 2, 3, 1), fps)
        self._add(value, global_step, walltime)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:
        """Add an image with labeled boxes (n, 4): x and y of two corners."""
        image = summary.convert_to_bytes(as_array(img_tensor))
        boxes = as_array(box_tensor)
        if isinstance(labels, str):
            labels = [labels]
        value = summary.create_summary(
            tag, base.image_boxes, image, boxes, rescale, dataformats, labels
        )
        self._add(value, global_step, walltime)

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
        config_dict: Mapping[str, Any] | None = None, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a point cloud or mesh: vertices (n, points, 3), colors from 0 to 255, and faces."""
        parts = [part if part is None else as_any(part) for part in (vertices, colors, faces)]
        self._add(base.mesh(tag, *parts, config_dict), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Add audio, (1, length) with values from -1 to 1."""
        self._add(summary.audio(tag, as_array(snd_tensor), sample_rate), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a text, shown as Markdown."""
        self._add(base.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a precision-recall curve of binary labels and probabilities."""
        weight = None if weights is None else as_array(weights).ravel()
        value = summary.create_summary(
            tag, base.pr_curve, as_array(labels).ravel(), as_array(predictions).ravel(),
            num_thresholds, weight,
        )
        self._add(value, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
        true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
        global_step: int | None = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a precomputed precision-recall curve."""
        rows = [as_any(row)[:num_thresholds] for row in (
            true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall,
        )]
        value = summary.create_summary(tag, base.pr_curve_raw, *rows, num_thresholds)
        self._add(value, global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence]]) -> None:
        """Set the layout: {category: {chart: ["Multiline" or "Margin", tags]}}. Call it once."""
        self._add(base.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Set the layout to one chart with several curves."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Set the layout to one chart with a curve and its margin: tags of value, lower, upper."""
        assert len(tags) == 3
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Add a run to the hyperparameter table: its settings and metrics."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        summaries = summary.hparams(dict(hparam_dict), dict(metric_dict), hparam_domain_discrete)
        name = str(time.time()) if run_name is None else run_name
        with SummaryWriter(os.path.join(self.log_dir, name)) as inner:
            for entry in summaries:
                inner._add(entry, None, None)
            for tag, value in metric_dict.items():
                inner.add_scalar(tag, value, global_step)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Add points (n, dimensions) for the projector, with a label and an image of each."""
        pictures = None if label_img is None else as_array(label_img)
        step = 0 if global_step is None else global_step
        embedding.write(self.log_dir, as_array(mat), metadata, pictures, step, tag, metadata_header)

    def add_graph(self, model: Any, input_to_model: Any = None, **options: Any) -> NoReturn:
        """Raise NotImplementedError: there is no TorchScript graph to draw."""
        raise NotImplementedError("SummaryWriter.add_graph: flambeau has no TorchScript graphs")

    def add_onnx_graph(self, prototxt: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("SummaryWriter.add_onnx_graph")

    def flush(self) -> None:
        """Flush all event files, so that a reader sees everything so far."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Flush and close the files. Adding more reopens them."""
        for writer in self.all_writers.values():
            writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
