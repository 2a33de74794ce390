"""state_dict and load_state_dict: keys, versions, strictness, assigning, extra state, hooks."""

from __future__ import annotations

import weakref
from collections import OrderedDict

import pytest


@pytest.fixture
def make(torch, nn):
    """Makes models with a child `layer` (weight, scale; buffer `steps`) and a parameter `bias`."""

    class Layer(nn.Module):
        _version = 3

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2, 2))
            self.scale = nn.Parameter(torch.tensor(1.0))
            self.register_buffer("steps", torch.tensor(4))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3))
            self.layer = Layer()

    return Model


KEYS = ["bias", "layer.weight", "layer.scale", "layer.steps"]


def test_keys_and_versions(make):
    state = make().state_dict()
    assert list(state) == KEYS
    assert isinstance(state, OrderedDict)
    assert state._metadata == {"": {"version": 1}, "layer": {"version": 3}}
    assert next(iter(make().layer.state_dict(prefix="p."))) == "p.weight"


def test_values_are_detached_references(torch, make):
    model = make()
    state = model.state_dict()
    assert not state["bias"].requires_grad
    state["bias"].fill_(2.0)
    assert model.bias.tolist() == [2.0] * 3
    assert model.state_dict(keep_vars=True)["bias"] is model.bias


def test_round_trip(torch, make):
    model, other = make(), make()
    with torch.no_grad():
        model.bias.fill_(5.0)
        model.layer.steps.fill_(9)
    result = other.load_state_dict(model.state_dict())
    assert str(result) == repr(result) == "<All keys matched successfully>"
    assert other.bias.tolist() == [5.0] * 3
    assert other.layer.steps.item() == 9
    model.bias.data.fill_(0.0)
    assert other.bias.tolist() == [5.0] * 3


def test_strict_errors_list_everything(torch, make):
    state = make().state_dict()
    del state["layer.weight"], state["bias"]
    state["layer.extra"] = state["other.x"] = torch.ones(1)
    state["layer.scale"] = torch.ones(4)
    with pytest.raises(RuntimeError) as caught:
        make().load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Model:\n\t"
        'Missing key(s) in state_dict: "bias", "layer.weight". \n\t'
        'Unexpected key(s) in state_dict: "other.x", "layer.extra". \n\t'
        "size mismatch for layer.scale: copying a param with shape torch.Size([4]) from "
        "checkpoint, the shape in current model is torch.Size([])."
    )


def test_not_strict(torch, make):
    model = make()
    state = OrderedDict(bias=torch.ones(3), extra=torch.ones(1))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == KEYS[1:]
    assert unexpected == ["extra"]
    assert model.bias.tolist() == [1.0] * 3
    assert repr(model.load_state_dict(state, strict=False)).startswith("_IncompatibleKeys(missing_")


def test_wrong_shapes_raise_even_when_not_strict(torch, make):
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        make().load_state_dict({"bias": torch.ones(4)}, strict=False)


def test_refusals(make):
    with pytest.raises(TypeError, match=r"Expected state_dict to be dict-like, got <class 'int'>"):
        make().load_state_dict(3)
    with pytest.raises(RuntimeError, match='While copying the parameter named "bias", expected'):
        make().load_state_dict({"bias": 3}, strict=False)


def test_one_element_loads_into_a_scalar(torch, make):
    model = make()
    model.load_state_dict({"layer.scale": torch.tensor([8.0])}, strict=False)
    assert model.layer.scale.item() == 8.0


def test_copying_keeps_dtype_and_identity(torch, make):
    model = make()
    bias = model.bias
    model.load_state_dict({"bias": torch.ones(3, dtype=torch.float64)}, strict=False)
    assert model.bias is bias
    assert bias.dtype == torch.float32
    assert bias.tolist() == [1.0] * 3


def test_assign_takes_the_tensors_themselves(torch, nn, make):
    model = make()
    model.bias.requires_grad_(False)
    bias = torch.ones(3, dtype=torch.float64)
    model.load_state_dict({"bias": bias}, strict=False, assign=True)
    assert type(model.bias) is nn.Parameter
    assert model.bias.dtype == torch.float64
    assert not model.bias.requires_grad
    bias.fill_(7.0)
    assert model.bias.tolist() == [7.0] * 3


def test_loading_into_meta_warns(torch, nn):
    layer = nn.Linear(2, 2, device="meta")
    state = nn.Linear(2, 2).state_dict()
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter"):
        layer.load_state_dict(state)
    layer.load_state_dict(state, assign=True)
    assert not layer.weight.is_meta


def test_extra_state(torch, nn):
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    model = nn.Sequential(Counting())
    model[0].count = 5
    state = model.state_dict()
    assert dict(state) == {"0._extra_state": {"count": 5}}
    other = nn.Sequential(Counting())
    other.load_state_dict(state)
    assert other[0].count == 5
    with pytest.raises(RuntimeError, match=r'Missing key.* "0\._extra_state"'):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match=r'Unexpected key.* "0\._extra_state"'):
        nn.Sequential(nn.Identity()).load_state_dict(state)


def test_a_subclass_reads_older_versions(torch, nn):
    class Renamed(nn.Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.new = nn.Parameter(torch.zeros(1))

        def _load_from_state_dict(self, state_dict, prefix, metadata, *rest):
            if metadata.get("version", 1) < 2:
                state_dict[prefix + "new"] = state_dict.pop(prefix + "old")
            super()._load_from_state_dict(state_dict, prefix, metadata, *rest)

    model = Renamed()
    assert str(model.load_state_dict({"old": torch.ones(1)})) == "<All keys matched successfully>"
    assert model.new.item() == 1.0


def test_hooks_around_saving(make):
    model, seen = make(), []
    model.register_state_dict_pre_hook(lambda m, prefix, keep_vars: seen.append(prefix))
    model.register_state_dict_post_hook(lambda m, state, *rest: state.__delitem__("bias"))
    assert list(model.state_dict()) == KEYS[1:]
    assert seen == [""]

    def returning(module, state, prefix, metadata):
        return state

    model.register_state_dict_post_hook(returning)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        model.state_dict()
    with pytest.raises(RuntimeError, match="previously registered via register_state_dict_post"):
        model._register_state_dict_hook(returning)


def test_a_private_hook_replaces_the_state(make):
    model = make()
    model._register_state_dict_hook(lambda m, state, prefix, meta: {"only": 1})
    assert model.state_dict() == {"only": 1}


def test_hooks_around_loading(torch, make):
    model, seen = make(), []

    def rename(module, state, prefix, *rest):
        seen.append(type(module).__name__)
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    model.layer.register_load_state_dict_pre_hook(rename)
    model.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    result = model.load_state_dict({"layer.kernel": torch.ones(2, 2)})
    assert seen == ["Layer"]
    assert result.missing_keys == []
    assert model.layer.weight.tolist() == [[1.0, 1.0]] * 2


def test_positional_arguments_are_deprecated(make):
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        state = make().state_dict(OrderedDict(), "p.")
    assert next(iter(state)) == "p.bias"


def test_swap_tensors(torch, nn):
    parameter, buffer = nn.Parameter(torch.ones(2)), torch.arange(3)
    parameter.note = "p"
    torch.utils.swap_tensors(parameter, buffer)
    assert type(buffer) is nn.Parameter and buffer.requires_grad and buffer.note == "p"
    assert type(parameter) is torch.Tensor and parameter.tolist() == [0, 1, 2]
    assert not hasattr(parameter, "note")
    watcher = weakref.ref(parameter)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        torch.utils.swap_tensors(parameter, buffer)
    assert watcher() is parameter


@pytest.mark.parametrize("assign", [False, True])
def test_loading_by_swaps_keeps_the_objects(torch, nn, assign):
    source = nn.BatchNorm1d(3).requires_grad_(False)
    with torch.device("cpu" if not assign else "meta"):
        target = nn.BatchNorm1d(3)
    before = dict(target.state_dict(keep_vars=True))
    torch.nn.init.constant_(source.weight, 5)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        target.load_state_dict(source.state_dict(), assign=assign)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    for name, tensor in target.state_dict(keep_vars=True).items():
        assert tensor is before[name], name
    assert target.weight.tolist() == [5, 5, 5] and target.weight.requires_grad
