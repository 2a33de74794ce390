"""DistributedDataParallel: a module whose gradients are averaged over the processes of a group."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.mode import is_grad_enabled
from ...tensor import Tensor
from ..module import Module

_BYTES_PER_MB = 1024 * 1024
_DEFAULT_BUCKET_MB = 25


def _import_distributed(name: str = "") -> Any:
    """A module of torch.distributed, loaded by name because it is a layer above nn."""
    return importlib.import_module(f"flambeau.distributed{name}")


class _JoinHook:
    """Take part in a step's collectives on behalf of a process without inputs."""

    def __init__(self, ddp: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        self._ddp, self._divides_by_all = ddp, divide_by_initial_world_size

    def main_hook(self) -> None:
        ddp = self._ddp
        backward = ddp._flambeau_count_syncing(False)
        ddp._sync_buffers()
        if backward:
            if not self._divides_by_all:
                ddp._flambeau_count_active(0)
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Broadcast the final state of a process that trained to the end."""
        self._ddp._flambeau_sync_final_state(is_last_joiner)


class DistributedDataParallel(Module):
    """Wrap a module as `module`, so that names in its state_dict start with "module.".

    Parameters and buffers are copied from rank 0. Each backward averages the gradients over the
    processes, in buckets of `bucket_cap_mb`, while it continues. Before each forward the buffers
    are copied from rank 0 (`broadcast_buffers`). If a forward does not use all parameters, set
    `find_unused_parameters=True`; with `gradient_as_bucket_view` the gradients stay in the buckets,
    which saves a copy. Raises ValueError before torch.distributed.init_process_group, RuntimeError
    for a module without trainable parameters or one that differs from rank 0's.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> net = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> list(net.state_dict())
    ['module.weight', 'module.bias']
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None,
        device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
        device: Any = None,
    ) -> None:
        super().__init__()
        if device_mesh is not None:
            process_group = device_mesh.get_group()
        self.process_group = _import_distributed(".process_group").require_member(process_group)
        named_parameters = _list_trainable(module)
        if not named_parameters:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have "
                               "any parameter that requires a gradient.")
        if device_ids:
            raise ValueError(
                f"DistributedDataParallel: device_ids={list(device_ids)} names GPUs, and flambeau "
                "has none. Leave device_ids out for modules on the CPU."
            )
        _check_initialized(named_parameters)
        self.module = module
        self.device_ids = self.output_device = None
        self.dim, self.broadcast_buffers = dim, broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        cap_mb = _DEFAULT_BUCKET_MB if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap = int(cap_mb * _BYTES_PER_MB)
        self._flambeau_buffer_hook: Any = None
        self._flambeau_called: Any = None  # the compiled module, inside torch.compile(self)()
        self._flambeau_divides_by_all = True
        if init_sync:
            self._flambeau_sync_initial_state([parameter for _, parameter in named_parameters])
        self._flambeau_make_reducer()

    def _flambeau_make_reducer(self) -> None:
        """Create the buckets, and the hooks that fill them."""
        named_parameters = _list_trainable(self.module)
        self.reducer = _import_distributed(".data_parallel").Reducer(
            [p for _, p in named_parameters], [name for name, _ in named_parameters],
            self.process_group, self.bucket_bytes_cap, self.gradient_as_bucket_view,
            self.find_unused_parameters or self.static_graph,
        )

    # ------------------------------------------------------------------------- forward

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        in_join = self._flambeau_announce_input(syncs)
        if self.require_forward_param_sync:
            self._sync_buffers()
        if syncs and in_join and not self._flambeau_divides_by_all:
            self.reducer.divisor = self._flambeau_count_active(1)
        outputs = (self._flambeau_called or self.module)(*inputs, **kwargs)
        if syncs:
            self.require_forward_param_sync = True
            self.reducer.prepare(outputs)
        else:
            self.require_forward_param_sync = not is_grad_enabled()
            self.reducer.disarm()
        return outputs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do not average gradients computed inside; the next backward outside averages them.

        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> net = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> with net.no_sync():
        ...     net(torch.ones(1, 2)).sum().backward()  # adds to the gradients of this process
        >>> torch.distributed.destroy_process_group()
        """
        previous, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = previous

    # --------------------------------------------------------------------- communication

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """Reduce each bucket with hook(state, bucket), which returns a Future of the new gradients.

        Call it once, before the first backward. Predefined hooks are in
        torch.distributed.algorithms.ddp_comm_hooks.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        names = list(inspect.signature(hook).parameters)
        if len(names) != 2:
            raise ValueError("Communication hook: hook takes a state and a bucket.")
        if self.reducer.comm_hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.set_comm_hook(state, hook)

    def _register_buffer_comm_hook(self, state: Any, hook: Callable, comm_hook_location: Any = None
                                   ) -> None:
        """Synchronize the buffers with hook(state, {name: buffer}) instead of copying rank 0's."""
        self._flambeau_buffer_hook = state, hook

    def _set_static_graph(self) -> None:
        """Set `static_graph=True`: every forward uses the same parameters."""
        self.static_graph = self.reducer.finds_unused = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Any) -> None:
        """Exclude parameters and buffers of a module, before it is wrapped."""
        module._ddp_params_and_buffers_to_ignore = list(names)
        for name, value in (*module.named_parameters(), *module.named_buffers()):
            if name in names:
                value.__dict__["_ddp_ignored"] = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Statistics of the reduction, by PyTorch's names."""
        return {"module_name": type(self.module).__name__, **self.reducer.figures()}

    def _flambeau_named_buffers(self) -> dict[str, Tensor]:
        ignored = self.parameters_to_ignore
        return {k: v for k, v in self.module.named_buffers() if k not in ignored}

    def _flambeau_sync_initial_state(self, parameters: list[Tensor]) -> None:
        tools = _import_distributed(".data_parallel")
        tools.check_same_parameters(parameters, self.process_group)
        ignored = self.parameters_to_ignore
        frozen = [p for name, p in self.module.named_parameters()
                  if not p.requires_grad and name not in ignored]
        state = [*parameters, *frozen, *self._flambeau_named_buffers().values()]
        tools.broadcast_tensors(state, self.process_group)

    def _sync_buffers(self) -> None:
        """Broadcast the buffers of rank 0."""
        if not self.broadcast_buffers:
            return
        buffers = self._flambeau_named_buffers()
        if buffers and self._flambeau_buffer_hook is not None:
            state, hook = self._flambeau_buffer_hook
            hook(state, buffers)
        elif buffers:
            _import_distributed(".data_parallel").broadcast_tensors(
                list(buffers.values()), self.process_group
            )

    # --------------------------------------------------------------------- uneven inputs

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """A context for loops in which some processes have fewer inputs than others.

        Gradients are divided by the number of all processes, or of those that still have inputs.
        """
        return _import_distributed(".algorithms.join").Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> Any:
        """The hook that torch.distributed.algorithms.Join runs when this process has no inputs."""
        self._flambeau_divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _JoinHook(self, self._flambeau_divides_by_all)

    join_device = property(lambda self: next(self.module.parameters()).device,
                           doc="Where the parameters are.")
    join_process_group = property(lambda self: self.process_group, doc="The group.")

    def _flambeau_announce_input(self, syncs: bool) -> bool:
        """In a `join`, announce an input to processes without any; return whether in a join."""
        config = getattr(self, "_join_config", None)
        if config is None or not config.enable:
            return False
        work = _import_distributed(".algorithms.join").Join.notify_join_context(self)
        if work is not None:
            work.wait()
        self._flambeau_count_syncing(syncs)
        return True

    def _flambeau_count_active(self, local: int) -> int:
        """The number of processes that still have inputs."""
        return self._flambeau_sum(local)

    def _flambeau_count_syncing(self, syncs: bool) -> int:
        """The number of processes that will average gradients in this step."""
        return self._flambeau_sum(int(syncs))

    def _flambeau_sum(self, value: int) -> int:
        from ... import ops

        total = ops.full((1,), value)
        _import_distributed().all_reduce(total, group=self.process_group)
        return int(total.item())

    def _flambeau_sync_final_state(self, is_last_joiner: bool) -> None:
        tools, dist = _import_distributed(".data_parallel"), _import_distributed()
        from ... import ops

        rank = self.process_group.rank()
        last = ops.full((1,), rank if is_last_joiner else -1)
        dist.all_reduce(last, dist.ReduceOp.MAX, group=self.process_group)
        state = [*self.module.parameters(), *self._flambeau_named_buffers().values()]
        tools.broadcast_tensors(state, self.process_group, int(last.item()))

    # ------------------------------------------------------------------------- copies

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "_join_config"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = _import_distributed(".process_group").require_member()
        self._flambeau_make_reducer()

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> tuple[Any, Any]:
        """Return the arguments unchanged: there is one device."""
        return inputs, kwargs

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Return the outputs unchanged: there is one device."""
        return outputs


def _check_initialized(named_parameters: list[tuple[str, Any]]) -> None:
    """Raise RuntimeError for a lazy module's parameter that has no shape yet."""
    for name, parameter in named_parameters:
        if hasattr(parameter, "initialize"):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with "
                "`DistributedDataParallel`. Run a dummy forward pass to correctly initialize "
                f"the modules (parameter {name})"
            )


def _list_trainable(module: Module) -> list[tuple[str, Any]]:
    """The names and parameters whose gradients are averaged."""
    ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
    return [(n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored]
