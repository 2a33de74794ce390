"""What a training step reads of modules, optimizers, tensors and hooks, and changes of it."""

from __future__ import annotations

import copy
import functools

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import Scene, compare
from .state_scenes import MOSTLY_SLOW

SCENES = {}


class Net(nn.Module):
    """Layers of several kinds, and plain attributes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        self.last = nn.Linear(4, 1)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.table = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})
        self.register_buffer("shift", torch.zeros(4))
        self.scale = 1.0
        self.activation = torch.tanh
        self.sizes = [1.0, 2.0]

    def forward(self, x):
        x = self.activation(self.norm(self.first(x))) * self.scale + self.shift
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x * self.table["a"]) * self.sizes[0]


def training(change, optimizer=torch.optim.SGD, net=Net, **options):
    """Registers a scene: `change(net, optimizer, log)` happens to a net that is trained."""

    def make():
        model = net()
        optim = optimizer(model.parameters(), lr=0.01, **options)
        log = []

        def step(x):
            optim.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optim.step()
            return loss.detach()

        state = [*model.parameters(), *model.buffers()]
        return Scene(step, lambda: change(model, optim, log), state=state, log=log)

    return make


def scene(change=None, **options):
    if change is None:
        return functools.partial(scene, **options)
    SCENES[change.__name__.replace("_", " ")] = training(change, **options)
    return change


# --------------------------------------------------------------------------------- modules


@scene
def a_plain_attribute(net, optimizer, log):
    net.scale = 2.0


@scene
def a_plain_attribute_past_setattr(net, optimizer, log):
    net.__dict__["scale"] = 2.0


@scene
def an_entry_of_a_list_of_a_module(net, optimizer, log):
    net.sizes[0] = 1.5


@scene
def an_activation(net, optimizer, log):
    net.activation = torch.sigmoid


@scene
def epsilon_of_a_norm(net, optimizer, log):
    net.norm.eps = 0.5


@scene
def epsilon_of_a_norm_past_setattr(net, optimizer, log):
    net.norm.__dict__["eps"] = 0.5


@scene
def a_parameter_past_setattr(net, optimizer, log):
    net.first._parameters["weight"] = nn.Parameter(torch.ones(4, 3))


@scene
def a_parameter_hidden_by_an_attribute(net, optimizer, log):
    object.__setattr__(net.first, "weight", torch.ones(4, 3))


@scene
def a_module_past_setattr(net, optimizer, log):
    net._modules["norm"] = nn.Identity()


@scene
def a_module_hidden_by_an_attribute(net, optimizer, log):
    object.__setattr__(net, "norm", nn.Identity())


@scene
def a_buffer_exchanged(net, optimizer, log):
    net.shift = torch.ones(4)


@scene
def a_buffer_past_setattr(net, optimizer, log):
    net._buffers["shift"] = torch.ones(4)


@scene
def a_buffer_written(net, optimizer, log):
    net.shift.fill_(1.0)


@scene
def a_buffer_whose_data_are_assigned(net, optimizer, log):
    net.shift.data = torch.ones(4)


@scene
def a_parameter_of_a_dict_exchanged(net, optimizer, log):
    net.table["a"] = nn.Parameter(torch.full((4,), 2.0))


@scene
def a_parameter_that_becomes_none(net, optimizer, log):
    net.first.bias = None


@scene
def a_parameter_unregistered(net, optimizer, log):
    bias = net.first.bias
    del net.first.bias
    net.first.register_buffer("bias", bias.detach() + 1)


@scene
def a_layer_more(net, optimizer, log):
    net.layers.append(nn.Linear(4, 4))


@scene
def a_layer_less(net, optimizer, log):
    del net.layers[0]


@scene
def layers_in_another_order(net, optimizer, log):
    net.layers[0], net.layers[1] = net.layers[1], net.layers[0]


@scene
def a_layer_twice(net, optimizer, log):
    net.layers[1] = net.layers[0]


@scene
def a_forward_of_the_object(net, optimizer, log):
    net.norm.forward = lambda x: x * 2


@scene
def a_forward_of_the_object_past_setattr(net, optimizer, log):
    net.norm.__dict__["forward"] = lambda x: x * 2


@scene
def a_forward_of_the_whole(net, optimizer, log):
    net.forward = lambda x: net.last(net.first(x))


@scene
def a_forward_of_a_class(net, optimizer, log):
    before = nn.LayerNorm.forward
    nn.LayerNorm.forward = lambda self, x: x * 2
    return lambda: setattr(nn.LayerNorm, "forward", before) or None


@scene
def a_call_of_a_class(net, optimizer, log):
    nn.LayerNorm.__call__ = lambda self, x: x * 2
    return lambda: delattr(nn.LayerNorm, "__call__") or None


@scene
def a_call_of_all_modules(net, optimizer, log):
    before = nn.Module.__call__

    def call(self, *args, **kwargs):
        log.append(type(self).__name__)
        return before(self, *args, **kwargs)

    nn.Module.__call__ = call
    return lambda: setattr(nn.Module, "__call__", before) or None


@scene
def a_call_impl_of_all_modules(net, optimizer, log):
    before = nn.Module._call_impl

    def call(self, *args, **kwargs):
        log.append(type(self).__name__)
        return before(self, *args, **kwargs)

    nn.Module._call_impl = call
    return lambda: setattr(nn.Module, "_call_impl", before) or None


@scene
def a_getattr_of_all_modules(net, optimizer, log):
    before = nn.Module.__getattr__

    def get(self, name):
        log.append(name)
        return before(self, name)

    nn.Module.__getattr__ = get
    return lambda: setattr(nn.Module, "__getattr__", before) or None


@scene
def a_class_of_a_module(net, optimizer, log):
    class Other(nn.LayerNorm):
        def forward(self, x):
            return x * 2

    net.norm.__class__ = Other


@scene
def a_module_in_half(net, optimizer, log):
    net.double()
    net.float()


@scene
def weights_tied(net, optimizer, log):
    net.layers[0].weight = net.layers[1].weight


@scene
def weights_loaded(net, optimizer, log):
    net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})


@scene
def weights_assigned(net, optimizer, log):
    net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()}, assign=True)


@scene
def a_weight_parametrized(net, optimizer, log):
    nn.utils.parametrizations.weight_norm(net.first)


@scene
def a_training_flag_past_setattr(net, optimizer, log):
    net.first.__dict__["training"] = False


@scene
def a_dropout_put_in(net, optimizer, log):
    net.norm = nn.Dropout(0.5)


@scene
def a_function_of_nn_functional(net, optimizer, log):
    before = F.linear
    F.linear = lambda x, w, b=None: before(x, w, b) * 1.1
    return lambda: setattr(F, "linear", before) or None


@scene
def a_method_of_tensors(net, optimizer, log):
    before = torch.Tensor.square
    torch.Tensor.square = lambda self: before(self) * 2
    return lambda: setattr(torch.Tensor, "square", before) or None


@scene
def backward_of_tensors(net, optimizer, log):
    before = torch.Tensor.backward

    def backward(self, *args, **kwargs):
        log.append(1)
        return before(self, *args, **kwargs)

    torch.Tensor.backward = backward
    return lambda: setattr(torch.Tensor, "backward", before) or None


@scene
def a_public_backward(net, optimizer, log):
    before = torch.autograd.backward

    def backward(*args, **kwargs):
        log.append(1)
        return before(*args, **kwargs)

    torch.autograd.backward = backward
    return lambda: setattr(torch.autograd, "backward", before) or None


# ----------------------------------------------------------------------------------- hooks


@scene
def a_hook_past_registration(net, optimizer, log):
    net.first._forward_hooks[12345] = lambda m, i, y: y * 2


@scene
def a_pre_hook_past_registration(net, optimizer, log):
    net.first._forward_pre_hooks[12345] = lambda m, i: (i[0] * 2,)


@scene
def a_hook_that_is_removed(net, optimizer, log):
    if not hasattr(net, "handle"):
        net.handle = net.first.register_forward_hook(lambda m, i, y: log.append(1))


@scene
def a_hook_on_the_whole(net, optimizer, log):
    return net.register_forward_hook(lambda m, i, y: y * 2).remove


@scene
def a_pre_hook_with_keywords(net, optimizer, log):
    net.first.register_forward_pre_hook(lambda m, a, k: ((a[0] * 2,), k), with_kwargs=True)


@scene
def a_backward_pre_hook(net, optimizer, log):
    net.first.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))


@scene
def a_global_pre_hook(net, optimizer, log):
    return nn.modules.module.register_module_forward_pre_hook(lambda m, i: log.append(1)).remove


@scene
def a_global_backward_hook(net, optimizer, log):
    return nn.modules.module.register_module_full_backward_hook(
        lambda m, i, o: log.append(type(m).__name__)).remove


@scene
def a_hook_of_a_parameter_past_registration(net, optimizer, log):
    net.first.weight.register_hook(lambda g: log.append(1))
    net.first.weight.register_hook(lambda g: g * 2)


@scene
def a_hook_of_a_new_parameter(net, optimizer, log):
    net.first.weight = nn.Parameter(torch.ones(4, 3))
    net.first.weight.register_hook(lambda g: log.append(1))


@scene
def a_saved_tensors_hook(net, optimizer, log):
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: (log.append(1), t)[1], lambda t: t)
    hooks.__enter__()
    return lambda: hooks.__exit__(None, None, None) and None


@scene
def anomaly_mode(net, optimizer, log):
    torch.autograd.set_detect_anomaly(True)
    return lambda: torch.autograd.set_detect_anomaly(False) and None


@scene
def a_dispatch_mode(net, optimizer, log):
    from flambeau.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            log.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    mode = Mode()
    mode.__enter__()
    return lambda: mode.__exit__(None, None, None) and None


# ------------------------------------------------------------------------------ optimizers


@scene
def the_rate_of_a_group(net, optimizer, log):
    optimizer.param_groups[0]["lr"] = 0.2


@scene
def the_rate_as_a_tensor(net, optimizer, log):
    optimizer.param_groups[0]["lr"] = torch.tensor(0.2)


@scene
def the_momentum_of_a_group(net, optimizer, log):
    optimizer.param_groups[0]["momentum"] = 0.9


@scene(momentum=0.9)
def nesterov(net, optimizer, log):
    optimizer.param_groups[0]["nesterov"] = True


@scene
def maximize(net, optimizer, log):
    optimizer.param_groups[0]["maximize"] = True


@scene
def a_group_more(net, optimizer, log):
    extra = nn.Parameter(torch.ones(2))
    extra.grad = torch.ones(2)
    optimizer.add_param_group({"params": [extra], "lr": 0.5})


@scene
def parameters_taken_out(net, optimizer, log):
    optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][:2]


@scene
def a_parameter_taken_out(net, optimizer, log):
    del optimizer.param_groups[0]["params"][0]


@scene
def a_group_exchanged(net, optimizer, log):
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.3}


@scene
def groups_exchanged(net, optimizer, log):
    optimizer.param_groups = [{**optimizer.param_groups[0], "lr": 0.3}]


@scene(momentum=0.9)
def state_cleared(net, optimizer, log):
    optimizer.state.clear()


@scene(momentum=0.9)
def state_written(net, optimizer, log):
    for state in optimizer.state.values():
        state["momentum_buffer"].zero_()


@scene(momentum=0.9)
def state_exchanged(net, optimizer, log):
    for state in optimizer.state.values():
        state["momentum_buffer"] = torch.zeros_like(state["momentum_buffer"])


@scene(optimizer=torch.optim.Adam)
def a_step_counter_set_back(net, optimizer, log):
    for state in optimizer.state.values():
        state["step"].zero_()


@scene(optimizer=torch.optim.Adam)
def a_step_counter_exchanged(net, optimizer, log):
    for state in optimizer.state.values():
        state["step"] = torch.tensor(10.0)


@scene(optimizer=torch.optim.Adam)
def state_loaded(net, optimizer, log):
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


@scene(optimizer=torch.optim.Adam)
def epsilon(net, optimizer, log):
    optimizer.param_groups[0]["eps"] = 0.1


@scene(optimizer=torch.optim.Adam)
def amsgrad(net, optimizer, log):
    optimizer.param_groups[0]["betas"] = (0.1, 0.2)


@scene(optimizer=torch.optim.Adam)
def capturable(net, optimizer, log):
    optimizer.param_groups[0]["capturable"] = True


@scene(optimizer=torch.optim.Adam)
def differentiable(net, optimizer, log):
    optimizer.param_groups[0]["differentiable"] = True


@scene(optimizer=torch.optim.Adam)
def differentiable_by_default(net, optimizer, log):
    optimizer.defaults["differentiable"] = True


@scene(optimizer=torch.optim.Adam)
def a_step_that_is_not_differentiable_by_default(net, optimizer, log):
    del optimizer.defaults["differentiable"]


@scene(optimizer=torch.optim.Adam)
def an_option_deleted(net, optimizer, log):
    del optimizer.param_groups[0]["eps"]


@scene(optimizer=torch.optim.AdamW)
def weight_decay_of_adamw(net, optimizer, log):
    optimizer.param_groups[0]["weight_decay"] = 0.5


@scene
def defaults_of_an_optimizer(net, optimizer, log):
    optimizer.defaults["lr"] = 5.0


@scene
def a_step_of_the_object(net, optimizer, log):
    optimizer.step = lambda: log.append(1)


@scene
def a_step_of_the_class(net, optimizer, log):
    before = torch.optim.SGD.step

    def step(self, closure=None):
        log.append(1)
        return before(self, closure)

    torch.optim.SGD.step = step
    return lambda: setattr(torch.optim.SGD, "step", before) or None


@scene
def zero_grad_of_the_object(net, optimizer, log):
    optimizer.zero_grad = lambda: log.append(1)


@scene
def zero_grad_of_the_class(net, optimizer, log):
    before = torch.optim.Optimizer.zero_grad

    def zero_grad(self, set_to_none=True):
        log.append(1)
        return before(self, set_to_none)

    torch.optim.Optimizer.zero_grad = zero_grad
    return lambda: setattr(torch.optim.Optimizer, "zero_grad", before) or None


@scene
def a_hook_past_registration_of_an_optimizer(net, optimizer, log):
    optimizer._optimizer_step_pre_hooks[999] = lambda *args: log.append(1)


@scene
def a_parameter_frozen(net, optimizer, log):
    net.last.weight.requires_grad = False


@scene
def all_parameters_frozen_but_one(net, optimizer, log):
    for p in [*net.parameters()][1:]:
        p.requires_grad_(False)


@scene
def the_data_of_a_parameter(net, optimizer, log):
    net.first.weight.data = torch.ones(4, 3)


@scene
def the_data_of_a_parameter_in_other_strides(net, optimizer, log):
    net.first.weight.data = torch.ones(3, 4).t()


@scene
def the_data_of_a_parameter_shared(net, optimizer, log):
    net.layers[0].weight.data = net.layers[1].weight.data


@scene
def set_of_a_parameter(net, optimizer, log):
    with torch.no_grad():
        net.first.weight.set_(torch.ones(4, 3))


@scene
def a_grad_put_in(net, optimizer, log):
    net.first.weight.grad = torch.ones(4, 3)


@scene
def grads_of_others(net, optimizer, log):
    extra = torch.ones(2, requires_grad=True)
    (extra * net.last.weight.sum()).sum().backward()


@scene
def grad_mode(net, optimizer, log):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    return lambda: torch.set_grad_enabled(before) and None


@scene
def precision_of_products(net, optimizer, log):
    torch.set_float32_matmul_precision("high")
    return lambda: torch.set_float32_matmul_precision("highest") and None


@scene
def threads(net, optimizer, log):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return lambda: torch.set_num_threads(before) and None


@scene
def deterministic_algorithms(net, optimizer, log):
    torch.use_deterministic_algorithms(True)
    return lambda: torch.use_deterministic_algorithms(False) and None


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_a_training_step_reads(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
