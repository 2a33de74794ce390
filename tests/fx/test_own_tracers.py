"""Tracers that libraries write from the parts of torch.fx._symbolic_trace."""

import flambeau as torch
from flambeau.fx import _symbolic_trace as st


def test_a_tracer_may_be_written_from_the_private_parts():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())

    class Own(st.Tracer):
        def trace(self, root, concrete_args=None):
            self.root, self.graph = root, st.Graph()
            self.tensor_attrs: dict[torch.Tensor | st.ScriptObject, str] = {}
            fn = type(root).forward
            fn, args = self.create_args_for_root(fn, True, concrete_args)
            seen: dict[str, st.Proxy] = {}

            def getattr_of(module, name):
                return self.getattr(name, st._orig_module_getattr(module, name), seen)

            def call(module, *args, **kwargs):
                def forward(*args, **kwargs):
                    return st._orig_module_call(module, *args, **kwargs)

                st._autowrap_check(patcher, module.forward.__globals__,
                                   self._autowrap_function_ids)
                return self.call_module(module, forward, args, kwargs)

            with st._Patcher() as patcher:
                patcher.patch_method(torch.nn.Module, "__getattr__", getattr_of, False)
                patcher.patch_method(torch.nn.Module, "__call__", call, deduplicate=False)
                st._patch_wrapped_functions(patcher)
                self.create_node("output", "output", (self.create_arg(fn(*args)),), {})
            return self.graph

    graph = Own().trace(model)
    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "call_module",
                                                 "output"]
    x = torch.ones(1, 2)
    assert torch.equal(torch.fx.GraphModule(model, graph)(x), model(x))
