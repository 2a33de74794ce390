"""ZeroRedundancyOptimizer: shards the update and the optimizer state over the processes.

Rajbhandari, Rasley, Ruwase, He: ZeRO, SC 2020 (https://arxiv.org/abs/1910.02054), stage 1.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ...optim import Optimizer
from ...tensor import Tensor
from .. import objects
from ..algorithms.join import Join, Joinable, JoinHook, _JoinConfig
from ..data_parallel.state_sync import broadcast_tensors
from ..process_group import require_member

__all__ = ["ZeroRedundancyOptimizer"]


class _ZeroJoinHook(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Step with the others. DistributedDataParallel has averaged the gradients."""
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """`optimizer_class(params, **defaults)`, sharded: each process updates its parameters and
    broadcasts the new values.

    `state_dict()` works on process `to` after `consolidate_state_dict(to)`.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.optim import ZeroRedundancyOptimizer
    >>> net = nn.Linear(2, 1)
    >>> opt = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
    >>> net(torch.ones(1, 2)).sum().backward()
    >>> opt.step()
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, params: Iterable[Any], optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer with overlap_with_ddp=True is not "
                                      "implemented in flambeau")
        self.process_group = require_member(process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._join_config = _JoinConfig.disabled()
        self.initialized = False
        self._all_state_dicts: list[dict[str, Any]] = []
        super().__init__(params, defaults)
        self._loads = [0] * self.world_size
        self._owners: dict[int, int] = {}
        for group in self.param_groups:
            self._assign(group["params"])
        local_groups = [{**group, "params": self._list_own(group)} for group in self.param_groups]
        self.optim: Any = optimizer_class(local_groups, **defaults)
        for group, inner in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({k: v for k, v in inner.items() if k != "params"})
        self.initialized = True

    def _assign(self, parameters: list[Tensor]) -> None:
        """Assign each parameter, largest first, to the process with the fewest elements."""
        for parameter in sorted(parameters, key=lambda p: p.numel(), reverse=True):
            rank = self._loads.index(min(self._loads))
            self._loads[rank] += parameter.numel()
            self._owners[id(parameter)] = rank

    def _list_own(self, group: dict[str, Any]) -> list[Tensor]:
        return [p for p in group["params"] if self._owners[id(p)] == self.rank]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters and shard them too."""
        super().add_param_group(param_group)
        if self.initialized:
            group = self.param_groups[-1]
            self._assign(group["params"])
            self.optim.add_param_group({**group, "params": self._list_own(group)})

    def step(self, closure: Callable[[], float] | None = None, **kwargs: Any) -> Any:
        """Update this process's parameters and receive the others' updates."""
        joining = Join.notify_join_context(self)
        if joining is not None:
            joining.wait()
        for group, inner in zip(self.param_groups, self.optim.param_groups, strict=True):
            inner.update({k: v for k, v in group.items() if k != "params"})
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        for rank in range(self.world_size):
            owned = [p for group in self.param_groups for p in group["params"]
                     if self._owners[id(p)] == rank]
            broadcast_tensors(owned, self.process_group, rank)
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the processes' states on process `to`, if it is one of the group. All must call
        it."""
        if to not in self.process_group._ranks:
            self._all_state_dicts = []
            return
        target = self.process_group._ranks.index(to)
        result: list[Any] | None = [None] * self.world_size if self.rank == target else None
        objects.gather_object(self.optim.state_dict(), result, to, self.process_group)
        self._all_state_dicts = list(result or ())

    def state_dict(self) -> dict[str, Any]:
        """Return the unsharded state. Raises RuntimeError before `consolidate_state_dict`."""
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        state = super().state_dict()
        numbers = self._number_parameters()
        for rank, part in enumerate(self._all_state_dicts):
            owned = [p for group in self.param_groups for p in group["params"]
                     if self._owners[id(p)] == rank]
            for number, value in part["state"].items():
                state["state"][numbers[id(owned[number])]] = value
        state["state"] = dict(sorted(state["state"].items()))
        return state

    def _number_parameters(self) -> dict[int, int]:
        parameters = [p for group in self.param_groups for p in group["params"]]
        return {id(p): number for number, p in enumerate(parameters)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore this process's part of an unsharded state."""
        numbers = self._number_parameters()
        owned = [p for group in self.param_groups for p in self._list_own(group)]
        state = {number: copy.copy(state_dict["state"][numbers[id(p)]]) for number,
                 p in enumerate(owned)
                 if numbers[id(p)] in state_dict["state"]}
        groups = self.optim.state_dict()["param_groups"]
        for group, local, saved in zip(self.param_groups, groups, state_dict["param_groups"],
                                       strict=True):
            settings = {k: v for k, v in saved.items() if k != "params"}
            group.update(settings)
            local.update(settings)
        self.optim.load_state_dict({"state": state, "param_groups": groups})

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return a hook that steps with the processes that have inputs left."""
        return _ZeroJoinHook(self)

    join_device = property(lambda self: self.param_groups[0]["params"][0].device,
                           doc="Where the parameters are.")
    join_process_group = property(lambda self: self.process_group, doc="The group.")
