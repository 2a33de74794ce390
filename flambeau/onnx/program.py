"""ONNXProgram: an exported model that runs, saves itself and takes other weights."""

from __future__ import annotations

import copy
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..export import ExportedProgram
from ..fx.qualified_names import torch_module
from ..native.foundation.user_frames import warn
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .errors import OnnxExporterWarning

__all__ = ["ONNXProgram"]

_LARGE_BYTES = 2**31 - 2**20  # protobuf's limit, less what is not weights


class ONNXProgram:
    """The result of `torch.onnx.export`: the model and the exported program it was built from.

    `model`: the model as the package onnx_ir represents it if that is installed, otherwise the
    ModelProto. `model_proto`: the ModelProto.
    """

    def __init__(self, model: Any, exported_program: ExportedProgram | None) -> None:
        self._model, self.exported_program = model, exported_program
        self._session: Any = None
        self._capture_strategy: str | None = None

    def __repr__(self) -> str:
        parts = (textwrap.indent(str(x), " " * 8) for x in (self.model, self.exported_program))
        return "ONNXProgram(\n    model=\n{}\n    ,\n    exported_program=\n{}\n)\n".format(*parts)

    @property
    def model(self) -> Any:
        """The model: an onnx_ir.Model if onnx_ir is installed, which may be changed in place."""
        if hasattr(self._model, "SerializeToString"):
            try:
                from onnx_ir import serde
            except ImportError:
                return self._model
            self._model = serde.deserialize_model(self._model)
        return self._model

    @model.setter
    def model(self, value: Any) -> None:
        self._model = value

    @property
    def model_proto(self) -> Any:
        """The model as an onnx.ModelProto."""
        if hasattr(self._model, "SerializeToString"):
            return self._model
        from onnx_ir import serde

        return serde.serialize_model(self._model)

    # ---------------------------------------------------------------- running

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Run the model with onnxruntime and return its results."""
        if self._session is None:
            self.initialize_inference_session()
        names = [value.name for value in self._session.get_inputs()]
        return _as_tensors(self._session.run(None, _feed(names, args, kwargs)))

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Run the model with the reference implementation in the package onnx."""
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(self.model_proto)
        return _as_tensors(evaluator.run(None, _feed(evaluator.input_names, args, kwargs)))

    def compute_values(self, value_names: Sequence[str], args: Any = (), kwargs: Any = None
                       ) -> tuple[Tensor, ...]:
        """Return the values with these names inside the model. Raises ValueError for others."""
        import onnx

        proto = copy.deepcopy(self.model_proto)
        known = {name for node in proto.graph.node for name in node.output}
        known |= {value.name for value in (*proto.graph.input, *proto.graph.initializer)}
        for name in value_names:
            if name not in known:
                raise ValueError(f"Value '{name}' not found in the model. "
                                 "Please provide a valid value name.")
        del proto.graph.output[:]
        proto.graph.output.extend(
            onnx.helper.make_empty_tensor_value_info(name) for name in value_names)
        part = ONNXProgram(onnx.shape_inference.infer_shapes(proto), None)
        return part(*args, **(kwargs or {}))

    def initialize_inference_session(
        self, initializer: Callable[[Any], Any] | None = None
    ) -> None:
        """Create the session that runs the model; `initializer` takes the model's bytes."""
        data = self.model_proto.SerializeToString()
        self._session = (initializer or _create_session)(data)

    def release(self) -> None:
        """Drop the session that runs the model."""
        self._session = None

    # ---------------------------------------------------------------- changing

    def optimize(self) -> None:
        """Remove nodes that copy a value, and nodes whose results nothing reads."""
        proto = copy.deepcopy(self.model_proto)
        remove_copies(proto.graph)
        self._model = proto
        self.release()

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Replace weights by name. Warns of names that the model does not have."""
        from onnx import numpy_helper

        proto = copy.deepcopy(self.model_proto)
        weights = {weight.name: weight for weight in proto.graph.initializer}
        for name, tensor in state_dict.items():
            if name not in weights:
                warn(f"Weight '{name}' not found in the model. Skipped applying.",
                     OnnxExporterWarning)
                continue
            array = tensor.detach().contiguous().numpy()
            weights[name].CopyFrom(numpy_helper.from_array(array, name))
        self._model = proto
        self.release()

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Give dynamic axes of inputs and outputs other names.

        Keys are names or axes, such as `program.model.graph.inputs[0].shape[0]`.
        """
        names = {str(getattr(axis, "value", axis)): new for axis, new in rename_mapping.items()}
        proto = copy.deepcopy(self.model_proto)
        for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in names:
                    dim.dim_param = names[dim.dim_param]
        self._model = proto

    # ---------------------------------------------------------------- files

    def save(self, destination: Any, *, include_initializers: bool = True,
             keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
             ) -> None:
        """Write the model to a path or a file.

        From 2 GB on, or with `external_data`, tensors go to a separate file beside it; raises
        TypeError if there is no path then. `include_initializers=False` leaves the weights out,
        `keep_initializers_as_inputs` makes them inputs, too.
        """
        import onnx

        proto = copy.copy(self.model_proto)
        if keep_initializers_as_inputs:
            proto.graph.input.extend(
                onnx.helper.make_tensor_value_info(w.name, w.data_type, list(w.dims))
                for w in proto.graph.initializer)
        if not include_initializers:
            del proto.graph.initializer[:]
        large = bool(external_data) or proto.ByteSize() > _LARGE_BYTES
        if large and hasattr(destination, "write"):
            raise TypeError("`destination` must be a path if the weights are saved beside it")
        if not large:
            onnx.save(proto, destination)
            return
        location = os.path.basename(str(destination)) + ".data"
        onnx.save(proto, destination, save_as_external_data=True, location=location,
                  size_threshold=0)


def _create_session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _feed(names: Sequence[str], args: Any, kwargs: Any) -> dict[str, np.ndarray]:
    """Return the inputs by name; arguments that are no tensors are part of the model."""
    leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    return {name: x.detach().contiguous().numpy()
            for name, x in zip(names, leaves, strict=False)}


def _as_tensors(arrays: Any) -> tuple[Tensor, ...]:
    return tuple(torch_module().from_numpy(np.asarray(array)) for array in arrays)


def remove_copies(graph: Any) -> None:
    """Remove Identity nodes except those that name outputs, and nodes that nothing reads."""
    needed = {value.name for value in graph.output}.union(*map(_read_inside, graph.node))
    source: dict[str, str] = {}
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = source.get(name, name)
        if node.op_type == "Identity" and node.output[0] not in needed:
            source[node.output[0]] = node.input[0]
    live: list[Any] = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            live.insert(0, copy.deepcopy(node))
            needed.update(node.input)
    del graph.node[:]
    graph.node.extend(live)


def read_names(nodes: Iterable[Any]) -> set[str]:
    """Return the names that nodes read, and those that their subgraphs read."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        names |= _read_inside(node)
    return names


def _read_inside(node: Any) -> set[str]:
    """Return the names that a node's subgraphs read."""
    parts = (read_names(a.g.node) for a in node.attribute if a.HasField("g"))
    return set().union(*parts)
