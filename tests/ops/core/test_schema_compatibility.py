"""Compatibility of schemas, compared with PyTorch where it is installed, and types as texts."""

import itertools

import pytest

SCHEMAS = [
    "f(Tensor self, int a, int b=1) -> Tensor",
    "f(Tensor self, int a) -> Tensor",
    "f(Tensor self, int a, int b=1, int c=1) -> Tensor",
    "f(Tensor self, int a, int b=4) -> Tensor",
    "f(Tensor self, int a, int b=1, int[2] c=1) -> Tensor",
    "f(Tensor self, int a, int b) -> Tensor",
    "f(Tensor self, int a, int c=1, int b=1) -> Tensor",
    "f(Tensor self, int a=1, int b=1) -> Tensor",
    "f(Tensor self, int? a) -> Tensor",
    "f(Tensor self, Scalar a) -> Tensor?",
    "f(Tensor self, *, int a, Tensor(a!) out) -> Tensor(a!)",
    "f(Tensor self, *, int a, int b=1, Tensor(a!) out) -> Tensor(a!)",
    "f(Tensor self, *, int b=1, int a, Tensor(a!) out) -> Tensor(a!)",
    "f(Tensor self, *, int a, Tensor(d!) d, int b=1, Tensor(a!) out) -> Tensor(a!)",
    "f(Tensor self, *, int a, Tensor(b!) out) -> Tensor(b!)",
    "f.over(Tensor self) -> Tensor",
    "f(Tensor self, *, int a) -> Tensor",
    "f(Tensor self, *, int? a=1) -> Tensor",
    "f(Tensor self, ...) -> Tensor",
    "f(Tensor self) -> ...",
    "g(Tensor self) -> Tensor",
    "f(Tensor[] self) -> (Tensor, Tensor)",
    "f(Tensor?[] self) -> (Tensor a, Tensor)",
]
TYPES = {
    "ScalarType?": ("int?", "ScalarType?"), "SymInt[]": ("int[]", "SymInt[]"),
    "Tensor?[]": ("Tensor?[]", "Tensor?[]"), "Scalar": ("Scalar", "Scalar"),
    "Device?": ("Device?", "Device?"), "int[2]": ("int[]", "int[]"),
}


def test_every_pair_is_judged_as_by_pytorch(torch):
    theirs = pytest.importorskip("torch")
    for old, new in itertools.product(SCHEMAS, SCHEMAS):
        before, now = map(theirs._C.parse_schema, (old, new))
        try:
            expected = (now.is_backward_compatible_with(before),
                        *now.check_forward_compatible_with(before))
        except IndexError:  # PyTorch's own, where outputs follow fewer inputs
            continue
        before, now = map(torch._C.parse_schema, (old, new))
        assert expected == (now.is_backward_compatible_with(before),
                            *now.check_forward_compatible_with(before)), (old, new)


def test_options_may_be_added_before_outputs(torch):
    before, now = (torch._C.parse_schema(SCHEMAS[i]) for i in (10, 11))
    assert now.is_backward_compatible_with(before)
    assert not before.is_backward_compatible_with(now)
    assert now.check_forward_compatible_with(before) == (True, "")


@pytest.mark.parametrize("kind", TYPES)
def test_types_are_written_as_in_schemas(torch, kind):
    argument = torch._C.parse_schema(f"f({kind} a) -> ()").arguments[0]
    assert (argument.type.str(), argument.real_type.str()) == TYPES[kind]


def test_open_ends_have_no_defaults(torch):
    with pytest.raises(RuntimeError, match="with vararg .* can't have default value args"):
        torch._C.parse_schema("f(int a, int b=0, ...) -> int")


def test_all_schemas_survive_a_round_trip(torch):
    schemas = [schema for schema in torch._C._jit_get_all_schemas()
               if "PyObject" not in str(schema)]  # DTensor's, which PyTorch cannot parse
    assert len(schemas) > 1000
    assert all(torch._C.parse_schema(str(schema)) == schema for schema in schemas)


def test_schemas_are_listed_beside_names_of_collectives():
    import flambeau as torch
    from flambeau.distributed.tensor.debug import CommDebugMode

    assert CommDebugMode is not None
    assert any(schema.name == "aten::add" for schema in torch._C._jit_get_all_schemas())
