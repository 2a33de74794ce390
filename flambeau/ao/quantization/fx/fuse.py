"""fuse: fuse sequences of modules in a graph into one module each."""

from __future__ import annotations

from typing import Any

from ....fx import GraphModule, Node
from ....nn import functional as F
from ....nn import modules as nn_modules
from ..backend_config import BackendConfig, BackendPatternConfig, get_native_backend_config
from ..utils import MatchAllNode
from .match_utils import _is_match, bind, root_of, sort_patterns


def set_module(model: Any, path: str, module: Any) -> None:
    """Set the module at a path."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


def fuse(model: Any, is_qat: bool, backend: BackendConfig | None = None) -> Any:
    """Return the model with the sequences that its backend supports fused into one module each."""
    backend = get_native_backend_config() if backend is None else backend
    configs = sort_patterns({
        pattern: config for pattern, config in backend._pattern_complex_format_to_config.items()
        if config.fuser_method is not None})
    modules = dict(model.named_modules())
    fused: set[Node] = set()
    for last in reversed(list(model.graph.nodes)):
        if last in fused:
            continue
        for pattern, config in configs.items():
            if _is_match(modules, last, pattern):
                bound = bind(pattern, last)
                fused.update(_list_covered(bound, pattern))
                _fuse_match(model, modules, bound, pattern, config, is_qat)
                break
    return GraphModule(model, model.graph)


def _fuse_match(
    model: Any, modules: dict[str, Any], bound: Any, pattern: Any,
    config: BackendPatternConfig, is_qat: bool,
) -> None:
    """Replace the root by the fused module, and the last node's result by the root's."""
    root, last = root_of(bound, config), bound[0]
    if root.op != "call_module":
        raise AssertionError("Expecting module node to be a call_module Node")
    matched = _collect_modules(bound, pattern, modules, modules[str(root.target)].training)
    assert config.fuser_method is not None
    reverse = config._pattern_complex_format is None
    arguments = list(_flatten(matched))[::-1] if reverse else matched
    set_module(model, str(root.target), config.fuser_method(is_qat, *arguments))
    if config._extra_inputs_getter is not None:
        root.args = (*root.args, *config._extra_inputs_getter(bound))
    covered = _list_covered(bound, pattern)
    last.replace_all_uses_with(root)
    if root.args and any(isinstance(arg, Node) and arg > root for arg in root.args):
        last.append(root)
    for node in covered:
        if node is not root and not node.users:
            model.graph.erase_node(node)


def _list_covered(bound: Any, pattern: Any) -> list[Node]:
    """The nodes to remove, from the last one back; nodes that match any value stay."""
    if isinstance(pattern, tuple):
        return [node for b, p in zip(bound, pattern, strict=True) for node in _list_covered(b, p)]
    return [] if pattern is MatchAllNode or not isinstance(bound, Node) else [bound]


def _collect_modules(bound: Any, pattern: Any, modules: dict[str, Any], training: bool) -> Any:
    """Return the modules of a bound pattern, with a new one for each functional ReLU."""
    if isinstance(pattern, tuple):
        return tuple(_collect_modules(b, p, modules, training)
                     for b, p in zip(bound, pattern, strict=True))
    if pattern is MatchAllNode or not isinstance(bound, Node):
        return MatchAllNode
    if bound.op == "call_module":
        return modules[str(bound.target)]
    if bound.op == "call_function" and bound.target is F.relu:
        return nn_modules.ReLU().train(training)
    return bound.target


def _flatten(nested: Any) -> Any:
    for element in nested:
        if isinstance(element, tuple):
            yield from _flatten(element)
        else:
            yield element
