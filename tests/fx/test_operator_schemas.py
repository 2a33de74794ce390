"""Schemas as objects, and calls' arguments by the names and defaults that schemas say."""

from __future__ import annotations

import importlib
import inspect

import pytest


@pytest.fixture
def operator_schemas(torch):
    return importlib.import_module(f"{torch.__name__}.fx.operator_schemas")


def test_an_overload_has_its_schema(torch):
    schema = torch.ops.aten.add.Tensor._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("aten::add", "Tensor", False)
    last = schema.arguments[-1]
    assert (last.name, last.kwarg_only, last.default_value, last.has_default_value()) == \
        ("alpha", True, 1, True)
    assert [str(r.type) for r in schema.returns] == ["Tensor"]
    assert torch.ops.aten.add_.Tensor._schema.is_mutable
    assert torch.ops.aten.add_.Tensor._schema.arguments[0].alias_info.is_write
    assert torch.ops.aten.add.Tensor.name() == "aten::add.Tensor"
    assert torch.ops.aten.neg.default.name() == "aten::neg"
    assert "Scalar" in torch.ops.aten.add.overloads()


def test_a_schema_is_parsed(torch):
    text = "lib::f.x(Tensor(a!) x, int[2] k=[1, 2], *, Tensor? z=None) -> (Tensor(a!), int n)"
    schema = torch._C.parse_schema(text)
    assert schema == torch._C.parse_schema(text)
    assert [a.type.annotation_str for a in schema.arguments] == \
        ["Tensor", "List[int]", "Optional[Tensor]"]
    assert [a.default_value for a in schema.arguments[1:]] == [[1, 2], None]
    assert schema.arguments[1].N == 2
    assert [r.name for r in schema.returns] == ["", "n"]
    with pytest.raises(RuntimeError, match="expected"):
        torch._C.parse_schema("f(Tensor x)")


@pytest.mark.parametrize(("value", "annotation"), [
    (1, "int"), (True, "bool"), (1.5, "float"), ("a", "str"), (None, "NoneType"),
    ([1, 2], "List[int]"), ((1, [2.0]), "Tuple[int, List[float]]"), ({"a": 1}, "Dict[str, int]"),
    ([], None), ([1, "a"], None), (object(), None)])
def test_the_type_of_a_value(torch, value, annotation):
    inferred = torch._C._jit_try_infer_type(value)
    assert inferred.success() == (annotation is not None)
    if annotation:
        assert inferred.type().annotation_str == annotation
    else:
        assert inferred.reason()


def test_arguments_by_name_and_type(torch, operator_schemas):
    x = torch.ones(2)
    normalize = operator_schemas.normalize_function
    pair = normalize(torch.add, (x, 2), {}, (torch.Tensor, int), {},
                     normalize_to_only_use_kwargs=True)
    assert pair.args == () and pair.kwargs == {"input": x, "other": 2, "alpha": 1}
    pair = normalize(torch.sum, (x, [0]), {}, (torch.Tensor, list[int]), {})
    assert pair.kwargs == {"keepdim": False, "dtype": None}
    with pytest.raises(RuntimeError, match=r"to torch\.\S*add but the schema match was ambiguous"):
        normalize(torch.add, (x, 2), {})
    assert normalize(torch.add, (x, 2), {}, (torch.Tensor, str), {}) is None
    assert normalize(torch.relu, (x, x, x, x), {}) is None


def test_an_overload_chooses_for_itself(torch, operator_schemas):
    x = torch.ones(2)
    pair = operator_schemas.normalize_function(
        torch.ops.aten.add.Tensor, (x, x), {}, normalize_to_only_use_kwargs=True)
    assert set(pair.kwargs) == {"input", "other", "alpha"}
    pair = operator_schemas.normalize_function(
        torch.ops.aten.resize_as_, (x,), {"the_template": x}, normalize_to_only_use_kwargs=True)
    assert pair.kwargs["the_template"] is x


def test_python_functions_have_one_signature(torch, operator_schemas):
    assert operator_schemas.get_signature_for_torch_op(torch.nn.functional.dropout) is None
    signatures, schemas = operator_schemas.get_signature_for_torch_op(torch.relu, True)
    assert list(signatures[0].parameters) == ["input"]
    assert schemas[0].name == "aten::relu"
    pair = operator_schemas.normalize_function(torch.nn.functional.dropout, (torch.ones(2), 0.5))
    assert pair.kwargs == {"training": True, "inplace": False}


def test_a_keyword_of_python_is_positional(torch, operator_schemas):
    signatures = operator_schemas.get_signature_for_torch_op(torch.ops.aten.uniform_)
    kinds = {n: p.kind for n, p in signatures[0].parameters.items()}
    assert kinds["from"] is inspect.Parameter.POSITIONAL_ONLY


def test_writes_are_named(torch, operator_schemas):
    check = operator_schemas.check_for_mutable_operation
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="Tried to trace mutable operation aten::relu_"):
        check(torch.relu_, (x,), {})
    with pytest.raises(RuntimeError, match=r"Tried to trace mutable operation aten::relu\.out"):
        check(torch.relu, (x,), {"out": x})
    assert check(torch.relu, (x,), {}) is None


def test_all_public_functions_have_a_signature_or_none(torch, operator_schemas):
    for name in dir(torch):
        function = getattr(torch, name)
        if callable(function) and not isinstance(function, type):
            signatures = operator_schemas.get_signature_for_torch_op(function)
            assert signatures is None or isinstance(signatures, list)


@pytest.mark.parity
def test_arguments_are_those_of_pytorch():
    """Of all schemas in the table: names, types, defaults, what is written."""
    theirs = pytest.importorskip("torch")
    own = importlib.import_module("flambeau.ops.registration.aten_schemas")
    known = {str(s): s for s in theirs._C._jit_get_all_schemas()}
    seen = 0
    for name in own._read_lines():
        for schema in own.get_schemas(name).values():
            like = known.get(str(schema))
            if like is None:  # with a wildcard alias, which flambeau's table leaves out
                continue
            seen += 1
            for group in ("arguments", "returns"):
                for a, b in zip(getattr(schema, group), getattr(like, group), strict=True):
                    for field in ("name", "kwarg_only", "N", "is_out", "default_value"):
                        assert getattr(a, field) == getattr(b, field), (schema, a)
                    for field in ("type", "real_type"):
                        own_type, like_type = getattr(a, field), getattr(b, field)
                        assert str(own_type) == str(like_type), (schema, a)
                        assert own_type.annotation_str == like_type.annotation_str, (schema, a)
                    assert a.type.kind() == b.type.kind(), (schema, a)
                    assert a.has_default_value() == b.has_default_value(), schema
                    assert (a.alias_info is None) == (b.alias_info is None), schema
                    fields = ("is_write", "before_set", "after_set")
                    for field in fields[:1] if "[" in a.kind else fields:
                        assert getattr(a.alias_info, field, None) == \
                            getattr(b.alias_info, field, None), schema
            assert schema.is_mutable == like.is_mutable, schema
    assert seen > 1000
