"""The observers that a node needs for its inputs and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....fx import Node
from ....nn import functional as F
from ....tensor.dtypes import float16, float32, quint8
from ..backend_config import BackendConfig
from ..observer import PlaceholderObserver
from ..qconfig import _is_reuse_input_qconfig
from .constraints import read_dtype_and_mode, is_argument, is_supported
from .custom_config import PrepareCustomConfig
from .match_utils import Match, has_no_tensors, list_nodes
from .utils import NodeInfo

_FLOAT = PlaceholderObserver.with_args(dtype=float32)
_QUINT8 = PlaceholderObserver.with_args(dtype=quint8)
_FLOAT_WEIGHTS = (F.layer_norm, F.group_norm, F.instance_norm)
# Positions of arguments that are not floating-point tensors; None: all but the first.
_INTEGER_ARGUMENTS: dict[NodeInfo, tuple[int, ...] | None] = {
    NodeInfo("call_method", name): places for name, places in (
        ("masked_fill", (1, 2)), ("permute", None), ("repeat", None), ("reshape", None),
        ("size", (1,)), ("transpose", None), ("unsqueeze", (1,)), ("unsqueeze_", (1,)),
        ("view", None))
}


@dataclass
class Expectation:
    """Constructors of the observers of a node's inputs and result; None for no observer."""

    input: Callable[[], Any] | None = _FLOAT
    output: Callable[[], Any] | None = _FLOAT
    weight: Callable[[], Any] | None = _FLOAT
    bias: Callable[[], Any] | None = _FLOAT
    weight_index: int | None = None
    bias_index: int | None = None
    shares: bool = False  # the result shares the input's observer
    reuses: bool = False  # its QConfig sets reuse_input_qconfig
    is_standalone: bool = False

    def find_for_argument(self, node: Node, arg: Node) -> Callable[[], Any] | None:
        """Return the observer's constructor for an argument of the node."""
        if is_argument(node, arg, "weight", self.weight_index):
            return None if node.target in _FLOAT_WEIGHTS else self.weight
        if is_argument(node, arg, "bias", self.bias_index):
            return self.bias
        return self.input


class Expectations:
    """The expectations of a graph's nodes, by their QConfigs and the patterns that match them."""

    def __init__(
        self, graph: Any, modules: dict[str, Any], matches: dict[str, Match],
        qconfigs: dict[str, Any], backend: BackendConfig,
    ) -> None:
        self.graph, self.modules, self.matches = graph, modules, matches
        self.qconfigs, self.backend = qconfigs, backend

    def describe(self, custom: PrepareCustomConfig) -> dict[Node, Expectation]:
        """Return each node's expectation: floats if the backend has no integer kernel."""
        self.expected = {node: Expectation() for node in self.graph.nodes}
        described: set[Node] = set()
        for name, match in self.matches.items():
            for node in list_nodes(match.bound):
                qconfig = self.qconfigs.get(name)
                if node not in described and qconfig is not None:
                    self.expected[node] = self._build_expectation(node, qconfig, match)
                described.add(node)
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        for index in custom.input_quantized_indexes:
            if index < len(inputs):
                self.expected[inputs[index]] = Expectation(_QUINT8, _QUINT8)
        for node in self.graph.nodes:
            if node.op.startswith("call_") and has_no_tensors(node, self.modules):
                self.expected[node] = Expectation(None, None)
            elif node.op == "output" and 0 in custom.output_quantized_indexes:
                self.expected[node] = Expectation(_QUINT8, _QUINT8)
        self._exempt_integers()
        for match in self.matches.values():
            if not self.is_supported(match):
                for node in list_nodes(match.bound):
                    empty = has_no_tensors(node, self.modules)
                    self.expected[node] = Expectation(None, None) if empty else Expectation()
        return self.expected

    def _build_expectation(self, node: Node, qconfig: Any, match: Match) -> Expectation:
        if has_no_tensors(node, self.modules):
            return Expectation(None, None)
        activation, weight = qconfig.activation(), qconfig.weight() if qconfig.weight else None
        dtype, is_dynamic = read_dtype_and_mode(activation)
        is_half = dtype is float16 and getattr(weight, "dtype", None) is float16 \
            and not is_dynamic
        config = self.backend._pattern_complex_format_to_config.get(node.target) \
            if node.op == "call_function" else None
        indices = {} if config is None else config._input_type_to_index
        return Expectation(
            qconfig.activation, qconfig.activation, qconfig.weight,
            PlaceholderObserver.with_args(dtype=float16 if is_half else float32),
            indices.get("weight"), indices.get("bias"), match.shares,
            _is_reuse_input_qconfig(qconfig), match.is_standalone)

    def _exempt_integers(self) -> None:
        """Exempt sizes and masks from observation, and what they are computed from."""
        for node in self.graph.nodes:
            info = NodeInfo(node.op, node.target)
            if info not in _INTEGER_ARGUMENTS:
                continue
            positions = _INTEGER_ARGUMENTS[info]
            for index in range(1, len(node.args)) if positions is None else positions:
                arg = node.args[index] if index < len(node.args) else ()
                for element in arg if isinstance(arg, (tuple, list)) else (arg,):
                    self._exempt(element)

    def _exempt(self, node: Any) -> None:
        while isinstance(node, Node):
            expected = self.expected[node]
            expected.input = expected.output = None
            match = self.matches.get(node.name)
            node = node.args[0] if match is not None and match.shares and node.args else None

    def is_supported(self, match: Match) -> bool:
        """Whether the backend supports the pattern in its QConfig's dtypes."""
        if match.config is None:
            return True
        root, last = match.root, match.last
        arguments = [(arg, self.expected[root]) for arg in (*root.args, *root.kwargs.values())]
        return any(is_supported(config, root, arguments, self.expected[last], match.qconfig)
                   for config in match.config.dtype_configs)
