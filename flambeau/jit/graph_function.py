"""Functions made of graphs: they run what the graph is, also after passes have changed it."""

from __future__ import annotations

import io
from typing import Any

from .graphs.following import follow_graph
from .graphs.nodes import Graph
from .graphs.writing import GraphWriter
from .torchscript.instantiation import create_program
from .torchscript.script_module import LoadedModule

__all__ = ["GraphFunction", "create_function_from_graph"]

_HOLDER = """class PlaceholderModule(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward({parameters}):
    return __torch__.{name}({arguments})
"""


class GraphFunction:
    """A function that runs a graph."""

    def __init__(self, name: str, graph: Graph) -> None:
        writer = GraphWriter([], f"__torch__.forked_by_{name}")
        text = writer.write(graph, name)
        inputs = [f"x{number}" for number, _ in enumerate(graph.inputs())]
        kinds = [value.type().annotation_str for value in graph.inputs()]
        parameters = ", ".join(["self: __torch__.PlaceholderModule", *(
            f"{x}: {kind}" for x, kind in zip(inputs, kinds, strict=True))])
        holder = _HOLDER.format(parameters=parameters, name=name, arguments=", ".join(inputs))
        code = {"__torch__": text + holder}
        for qualified, definition in writer.functions.items():
            space = qualified.rpartition(".")[0]
            code[space] = code.get(space, "") + definition
        program = create_program(code, writer.constants)
        self.name, self.__name__ = name, name
        self._function = program.find(f"__torch__.{name}")
        follow_graph(self._function, graph)
        self._module: LoadedModule = program.find("__torch__.PlaceholderModule").new()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def graph(self) -> Graph:
        """The graph that the function runs."""
        graph: Graph = self._function.own_graph
        return graph

    inlined_graph = graph

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the graph, which no executor optimizes for the arguments."""
        return self.graph

    @property
    def code(self) -> str:
        """The function in TorchScript."""
        return str(self._function.code)

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive of a module with the function as its forward."""
        self._module.save(f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the archive as bytes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()


def create_function_from_graph(name: str, graph: Graph) -> GraphFunction:
    """Return a function of a graph: torch._C._create_function_from_graph."""
    return GraphFunction(name, graph)
