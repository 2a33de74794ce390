"""Tensors from outside that a step asks about without computing with them: shapes, dtypes, flags
and classes may change between calls, with no value of theirs among the program's inputs."""

from __future__ import annotations

import pytest

from .source_scenes import compare_source

# By name: an expression, what happens between calls, and what `q` is at first.
SCENES = {
    "numel": ("T.numel(q)", "q.resize_(5)"),
    "size": ("tuple(q.size()), q.dim()", "q.data = T.ones(5, 2)"),
    "length": ("len(q)", "q.data = T.ones(5, 2)"),
    "stride": ("q.stride(), q.is_contiguous()", "q.data = T.ones(4, 2)[:, 0]"),
    "element_size": ("q.element_size()", "q.data = T.ones(3).double()"),
    "is_floating_point": ("T.is_floating_point(q)", "q.data = T.ones(3).long()"),
    "is_complex": ("T.is_complex(q)", "q.data = T.ones(3).cfloat()"),
    "is_signed": ("q.is_signed()", "q.data = T.ones(3).bool()"),
    "type": ("q.type()", "q.data = T.ones(3).bool()"),
    "result_type": ("str(T.result_type(q, 1.5))", "q.data = T.ones(3).double()"),
    "is_same_size": ("q.is_same_size(x)", "q.data = T.ones(2)"),
    "fans": ("T.nn.init._calculate_fan_in_and_fan_out(q)", "q.data = T.ones(5, 4)", "T.ones(3, 4)"),
    "zeros_like": ("T.zeros_like(q)", "q.data = T.ones(4).double()"),
    "new_zeros": ("q.new_zeros(3)", "q.data = T.ones(4).double()"),
    "expand_as": ("x[:1].expand_as(q)", "q.data = T.ones(4)"),
    "view_as": ("x.view_as(q)", "q.data = T.ones(1, 2)", "T.ones(2, 1)"),
    "type_as": ("x.type_as(q)", "q.data = T.ones(4).double()"),
    "to_another": ("x.to(q)", "q.data = T.ones(4).double()"),
    "has_history": ("q.grad_fn is None", "q.detach_()", "T.ones(2, requires_grad=True) * 2"),
    "is_conj": ("q.is_conj()", "q.data = q.conj()", "T.ones(2, dtype=T.complex64)"),
    "is_neg": ("q.is_neg()", "q.data = T.ones(2, dtype=T.complex64).conj().imag"),
    "isinstance": ("isinstance(q, T.nn.Parameter)", "q.__class__ = T.nn.Parameter"),
    "class": ("type(q) is T.Tensor", "q.__class__ = T.nn.Parameter"),
    "class_attribute": ("q.__class__ is T.Tensor", "q.__class__ = T.nn.Parameter"),
    "overridden_method": ("q.numel()", "q.__class__ = Wide"),
    "has_torch_function": ("T.overrides.has_torch_function((q,))", "q.__class__ = Wide"),
    "swapped": ("q.numel()", "T.utils.swap_tensors(q, T.ones(7))"),
    "is_lazy": ("T.nn.parameter.is_lazy(q.weight)", "q(T.ones(1, 2))", "T.nn.LazyLinear(2)"),
    "lazy_parameters": ("[T.nn.parameter.is_lazy(p) for p in q.parameters()]", "q(T.ones(1, 2))",
                        "T.nn.LazyLinear(2)"),
    "is_uninitialized": ("isinstance(q.weight, T.nn.UninitializedParameter)", "q(T.ones(1, 2))",
                         "T.nn.LazyLinear(2)"),
    "is_coalesced": ("q.is_coalesced()", "q._coalesced_(True)",
                     "T.sparse_coo_tensor([[0, 1]], [1., 2.], (3,))"),
    "parameters": ("sum(p.numel() for p in q.parameters())", "q.weight.data = T.ones(7, 2)",
                   "T.nn.Linear(2, 2)"),
    "weight": ("q.weight.numel()", "q.weight.data = T.ones(7, 2)", "T.nn.Linear(2, 2)"),
    "in_a_list": ("[t.numel() for t in q]", "q[0].data = T.ones(7)", "[T.ones(2)]"),
    "absent_member": ("hasattr(q, 'weight_g')", "T.nn.utils.weight_norm(q)", "T.nn.Linear(2, 2)"),
    "absent_buffer": ("getattr(q, 'scale', None) is None", "q._buffers['scale'] = T.ones(1)",
                      "T.nn.Linear(2, 2)"),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_question_is_asked_in_each_call(name: str) -> None:
    expression, change, start = (*SCENES[name], "T.ones(3)")[:3]
    compare_source(f"""
        class Wide(T.Tensor):
            def numel(self): return 17
        q = {start}
        def f(x): return x * 2, {expression}
        """, change)
