"""Clip gradients before each update."""

from __future__ import annotations

from typing import Any

from ...nn.utils import clip_grad_norm_, clip_grad_value_
from ..events.order import Band


class GradientClipping:
    """Clips gradients by their total norm, by value, or both, before each update.

    The default step stays compiled, clipping included; in a custom step each optimizer's gradients
    are clipped when its `step` is called. `Trainer(clip_norm=...)` does the same for every fit.

    >>> from flambeau.train import Trainer
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False,
    ...                   callbacks=[GradientClipping(norm=1e-3)])
    >>> _ = trainer.fit((torch.full((4, 2), 1e3), torch.zeros(4, 1)), epochs=1)
    >>> bool(torch.nn.utils.get_total_norm([p.grad for p in trainer.net.parameters()]) < 2e-3)
    True
    """

    band = Band.CONTROL

    def __init__(self, norm: float | None = None, *, value: float | None = None) -> None:
        if norm is None and value is None:
            raise ValueError("GradientClipping takes norm, value, or both")
        for name, bound in (("norm", norm), ("value", value)):
            if bound is not None and not bound > 0:
                raise ValueError(f"GradientClipping: {name} is above 0, not {bound}")
        self.norm, self.value = norm, value
        self._saved_limits: tuple[Any, Any] | None = None
        self._hooks: list[Any] = []

    def on_run_start(self, run: Any) -> None:
        """Install the clipping: in the default step, or as hooks of a custom step's optimizers."""
        if run.own_step:
            self._hooks = [optimizer.register_step_pre_hook(self._clip)
                           for optimizer in run.optimizers.values()]
            return
        supervised = run.supervised
        self._saved_limits = (supervised.clip_norm, supervised.clip_value)
        supervised.clip_norm, supervised.clip_value = self.norm, self.value
        supervised.renew()

    def _clip(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if self.norm is not None:
            clip_grad_norm_(parameters, self.norm)
        if self.value is not None:
            clip_grad_value_(parameters, self.value)

    def on_run_end(self, run: Any) -> None:
        """Stop clipping."""
        self._unregister(run)

    def on_run_error(self, run: Any) -> None:
        """Stop clipping."""
        self._unregister(run)

    def _unregister(self, run: Any) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        if self._saved_limits is not None:
            run.supervised.clip_norm, run.supervised.clip_value = self._saved_limits
            self._saved_limits = None
            run.supervised.renew()
