"""Reports of a splitter: supported targets, subgraphs, traffic between devices, and lowering."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..graph_module import GraphModule
from ..node import Node
from .graph_drawer import FxGraphDrawer
from .graph_manipulation import get_size_of_node
from .operator_support import OperatorSupportBase
from .shape_prop import ShapeProp
from .submodule_inputs import generate_inputs_for_submodules
from .tools_common import CALLABLE_NODE_OPS, get_node_target, is_node_output_tensor

_FILL = {True: "chartreuse1", False: "crimson"}  # by support


def describe_support(gm: GraphModule, support: OperatorSupportBase, dump_graph: bool) -> str:
    """Return the supported and unsupported targets with their arguments' dtypes."""
    modules = dict(gm.named_modules())
    decided = {node: support.is_node_supported(modules, node)
               for node in gm.graph.nodes if node.op in CALLABLE_NODE_OPS}
    seen: dict[bool, dict[str, dict[Any, None]]] = {True: defaultdict(dict), False:
                                                    defaultdict(dict)}
    for node, supported in decided.items():
        seen[supported][get_node_target(modules, node)][_list_argument_dtypes(node)] = None
    if dump_graph:
        _SupportDrawer(gm, decided).get_main_dot_graph().write_raw("node_support.dot")
    report = ""
    for supported, title in ((True, "Supported"), (False, "Unsupported")):
        report += f"\n{title} node types in the model:\n"
        for target, signatures in seen[supported].items():
            for positional, by_name in signatures:
                report += f"{target}: ({positional}, {dict(by_name)})\n"
    return report


def _list_argument_dtypes(node: Node) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    """Return the dtypes of positional (None: no tensor; none at the end) and named arguments."""
    positional = [_dtype(x) if isinstance(x, Node) else None for x in node.args]
    while positional and positional[-1] is None:
        positional.pop()
    by_name = ((k, _dtype(x)) for k, x in node.kwargs.items() if isinstance(x, Node))
    return tuple(positional), tuple(by_name)


def _dtype(node: Node) -> Any:
    return getattr(node.meta.get("tensor_meta"), "dtype", None)


class _SupportDrawer(FxGraphDrawer):
    """Draws a graph with the supported calls in green and the others in red."""

    def __init__(self, gm: GraphModule, decided: dict[Node, bool]) -> None:
        self._decided = decided
        super().__init__(gm, "describe_support", ignore_getattr=True)

    def _get_node_style(self, node: Node) -> dict[str, str]:
        style = super()._get_node_style(node)
        supported = self._decided.get(node)
        return {**style, "fillcolor": "AliceBlue" if supported is None else _FILL[supported]}


def subgraphs(splitter: Any, dump_graph: bool) -> str:
    """Return a report on a splitter's subgraphs, and try to lower and to run each."""
    parts = splitter.put_nodes_into_subgraphs()
    report = _describe_count("Before", parts)
    parts = splitter.remove_small_acc_subgraphs(parts)
    report += _describe_count("After", parts)
    for i, part in enumerate(parts):
        prefix = "_run_on_acc_" if part.is_acc else splitter.non_acc_submodule_name
        report += f"{prefix}{i}: {len(part.nodes)} node(s)\n"
    splitter.tag(parts)
    split = splitter.split(remove_tag=True)
    split.eval()
    if dump_graph:
        drawings = FxGraphDrawer(split, "preview", ignore_getattr=True).get_all_dot_graphs()
        for name, drawing in drawings.items():
            drawing.write_raw(f"{name}.dot")
    slowest, bottleneck = float(splitter.PCIe_BW), ""
    for node in split.graph.nodes:
        if node.op == "call_module" and "acc" in node.target:
            report += f"\nProcessing acc submodule {node.target}\n"
            part_report, qps = _lower(splitter, split, node.target)
            report += part_report
            if qps < slowest:
                slowest, bottleneck = qps, node.target
    return (f"{report}\nTheoretical max qps (bounds by PCIe bandwidth) for this model is {slowest},"
            f" bottleneck is submodule {bottleneck}.")


def _describe_count(moment: str, parts: list[Any]) -> str:
    on_acc = sum(part.is_acc for part in parts)
    return (f"{moment} removing small acc subgraphs, total {len(parts)} subgraphs are created:"
            f" {on_acc} acc subgraphs and {len(parts) - on_acc} cpu subgraphs.\n")


def _lower(splitter: Any, split: GraphModule, name: str) -> tuple[str, float]:
    """Return a report on one accelerator submodule, and its calls per second over the bus."""
    part = getattr(split, name)
    inputs = generate_inputs_for_submodules(split, splitter.sample_input, [name])[name]
    ShapeProp(part).propagate(*inputs)
    report = "Checking inputs...\n"
    sources = [n for n in part.graph.nodes if n.op == "placeholder"]
    text, read = _measure_traffic(part, "Input", sources)
    report += f"{text}Checking outputs...\n"
    text, written = _measure_traffic(part, "Output", part.graph.output_node().all_input_nodes)
    qps = splitter.PCIe_BW / max(read, written, 1)
    report += (f"{text}Total input size in bytes is {read}, total output size in bytes is "
               f"{written}, theoretical max qps (bounds by PCIe bandwidth) for this submodule is "
               f"{qps}.\n")
    step = "lowering"
    try:
        lowered = splitter._lower_model_to_backend(part, inputs)
        step = "inference"
        lowered(*inputs)
    except RuntimeError:
        culprit = splitter._find_culprit(part, inputs)
        return f"{report}Run into an error during {step}!\n{culprit}", qps
    return f"{report}Lowering and running succeed!\n", qps


def _measure_traffic(part: GraphModule, role: str, nodes: list[Node]) -> tuple[str, int]:
    """Return warnings about non-tensors, and the bytes of the tensors."""
    text, total_bytes = "", 0
    for node in nodes:
        if is_node_output_tensor(node):
            total_bytes += get_size_of_node(part, node)[0]
        else:
            text += (f"{role} {node.name} is not a tensor, this might cause problems during "
                     "lowering!\n")
    return text, total_bytes
