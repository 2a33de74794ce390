"""LBFGS: full-batch quasi-Newton steps from a history of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd import enable_grad, no_grad
from ..tensor import Tensor
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer, ParamsT, check_learning_rate, number


class LBFGS(Optimizer):
    """Limited-memory BFGS (Nocedal and Wright, Numerical Optimization, section 7.2).

    A step evaluates `closure` up to `max_eval` times (default 1.25 `max_iter`) in `max_iter`
    iterations; `line_search_fn` is None (the step is `lr`) or "strong_wolfe". Raises ValueError for
    more than one parameter group.

    >>> x = torch.nn.Parameter(torch.tensor([5.0, -3.0]))
    >>> optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - torch.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()  # the loss before the step
    41.0
    >>> x.detach()
    tensor([1.0000, 2.0000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_learning_rate(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_eval, "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _flambeau_params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    # ---------------------------------------------------------------- parameters as one vector

    def _flambeau_flat_grad(self) -> Tensor:
        """Return all gradients as one vector, zeros for missing ones."""
        flat_grads = []
        for p in self._flambeau_params:
            grad = ops.zeros_like(p) if p.grad is None else p.grad
            grad = ops.view_as_real(grad) if grad.is_complex() else grad
            flat_grads.append(grad.reshape(-1))
        return ops.cat(flat_grads, 0)

    def _flambeau_move(self, t: Any, direction: Tensor) -> None:
        """Add t times the direction to the parameters."""
        offset = 0
        for p in self._flambeau_params:
            p = ops.view_as_real(p) if p.is_complex() else p
            segment = direction[offset : offset + p.numel()]
            p.add_(segment.view(p.shape), alpha=number(t))
            offset += p.numel()

    # ---------------------------------------------------------------- a step

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]  # as PyTorch's
        """Run up to `max_iter` iterations. `closure` computes the loss and its gradients; return
        its first result. Raises RuntimeError for an unknown line search."""
        group = self.param_groups[0]
        search = group["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, not {search!r}")
        closure = enable_grad()(closure)
        state = self.state[self._flambeau_params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        state["func_evals"] += 1
        grad = self._flambeau_flat_grad()
        if not grad.abs().max() <= group["tolerance_grad"]:  # NaN iterates too, as in PyTorch
            self._flambeau_iterate(closure, state, group, float(first), grad)
        return first

    def _flambeau_iterate(
        self, closure: Callable, state: dict[str, Any], group: dict[str, Any], loss: float,
        grad: Tensor,
    ) -> None:
        tolerance = group["tolerance_change"]
        evaluations, lr = 1, number(group["lr"])
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._flambeau_direction(state, group["history_size"], grad)
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = grad.clone()
            else:
                state["prev_flat_grad"].copy_(grad)
            previous_loss = state["prev_loss"] = loss
            t = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            state["d"], state["t"] = direction, t
            if slope > -tolerance:
                return
            is_last = iteration == group["max_iter"]
            start = Point(0, loss, grad, slope)
            budget = group["max_eval"] - evaluations
            end, used = self._flambeau_advance(closure, group, start, t, direction, budget, is_last)
            loss, grad, t = end.loss, end.grad, end.t
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if (
                is_last
                or evaluations >= group["max_eval"]
                or grad.abs().max() <= group["tolerance_grad"]
                or direction.mul(t).abs().max() <= tolerance
                or abs(loss - previous_loss) < tolerance
            ):
                return

    def _flambeau_advance(
        self, closure: Callable, group: dict[str, Any], start: Point, t: Any, direction: Tensor,
        budget: int, last: bool,
    ) -> tuple[Point, int]:
        """Move along the direction; return the end point and the number of evaluations."""
        if group["line_search_fn"] is None:
            self._flambeau_move(t, direction)
            if last:  # the loss here is not needed
                return Point(t, start.loss, start.grad, None), 0
            return Point(t, float(closure()), self._flambeau_flat_grad(), None), 1
        home = [p.clone() for p in self._flambeau_params]

        def evaluate(t: Any) -> Point:
            self._flambeau_move(t, direction)
            loss = float(closure())
            grad = self._flambeau_flat_grad()
            for p, value in zip(self._flambeau_params, home, strict=True):
                p.copy_(value)
            return Point(t, loss, grad, grad.dot(direction))

        longest = direction.abs().max()
        tolerance = group["tolerance_change"]
        end, used = strong_wolfe(evaluate, start, t, longest, tolerance, budget)
        self._flambeau_move(end.t, direction)
        return end, used

    @staticmethod
    def _flambeau_direction(state: dict[str, Any], history_size: int, grad: Tensor) -> Tensor:
        """Return the quasi-Newton direction (two-loop recursion) and record the last step."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        old_dirs, old_stps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y = grad.sub(state["prev_flat_grad"])
        s = state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys > 1e-10:
            if len(old_dirs) == history_size:
                for history in (old_dirs, old_stps, ro):
                    history.pop(0)
            old_dirs.append(y)
            old_stps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        alphas = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for i in reversed(range(len(old_dirs))):
            alphas[i] = old_stps[i].dot(q) * ro[i]
            q.add_(old_dirs[i], alpha=-number(alphas[i]))
        r = q.mul(state["H_diag"])
        for i in range(len(old_dirs)):
            beta = old_dirs[i].dot(r) * ro[i]
            r.add_(old_stps[i], alpha=number(alphas[i] - beta))
        return r
