"""Pruning: hold parts of a parameter at zero with a mask that a forward pre-hook applies.

`<name>` becomes `<name>_orig` (parameter) times `<name>_mask` (buffer).
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ... import ops
from ...native.foundation import public_names
from ...tensor import Tensor
from ..module import Module
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A way to choose what to prune: subclasses define PRUNING_TYPE and compute_mask.

    >>> class Negative(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> layer = nn.Linear(3, 2)
    >>> _ = Negative.apply(layer, "weight")
    >>> bool((layer.weight >= 0).all())
    True
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask for scores t: 0 where to prune, and wherever default_mask is 0."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the pruned tensor."""
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune a parameter; prune further if it is pruned already."""
        method = _chain_method(module, name, cls(*args, **kwargs))
        was_pruned = isinstance(method, PruningContainer)
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {scores.shape} vs {original.shape}"
            )
        if was_pruned:
            default = getattr(module, f"{name}_mask").detach().clone()
        else:
            default = ops.ones_like(original)
        # Compute the mask before changing the module: an error leaves it intact.
        mask = method.compute_mask(scores, default_mask=default)
        if not was_pruned:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return a pruned version of a tensor, without changing any module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{scores.shape} vs {t.shape}"
            )
        default = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module: Module) -> None:
        """Make the pruned values permanent."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = pruned.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _list_hooks(module: Module, name: str | None = None) -> dict[int, BasePruningMethod]:
    """The pruning hooks of a module, by key; only those on one parameter if a name is given."""
    return {
        key: hook
        for key, hook in module.__dict__.get("_forward_pre_hooks", {}).items()
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name)
    }


def _chain_method(module: Module, name: str, method: BasePruningMethod) -> BasePruningMethod:
    """Return the method, chained after any that prunes the parameter; remove the old hook."""
    method._tensor_name = name
    stored = _list_hooks(module, name)
    if len(stored) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        )
    for key, old in stored.items():
        del module._forward_pre_hooks[key]
        container = old if isinstance(old, PruningContainer) else PruningContainer(old)
        container.add_pruning_method(method)
        return container
    return method


class PruningContainer(BasePruningMethod):
    """Methods applied one after another; what any of them prunes is pruned.

    >>> layer = nn.Linear(4, 4)
    >>> _ = nn.utils.prune.l1_unstructured(layer, "weight", 4)
    >>> _ = nn.utils.prune.ln_structured(layer, "weight", 1, n=2, dim=0)
    >>> (hook,) = layer._forward_pre_hooks.values()
    >>> [type(method).__name__ for method in hook]
    ['L1Unstructured', 'LnStructured']
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{public_names.class_of(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        added: Any = (method,)  # PyTorch also accepts None
        self._pruning_methods += added

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Combine the earlier masks with the last method's mask on what is not pruned yet."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        unpruned: Any
        if method.PRUNING_TYPE == "unstructured":
            unpruned = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            unpruned = _index_channels(method, default_mask)
        elif method.PRUNING_TYPE == "global":
            unpruned = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[unpruned] = method.compute_mask(t[unpruned],
                                             default_mask=default_mask[unpruned]).to(mask.dtype)
        return mask


def _index_channels(method: Any, mask: Tensor) -> tuple:
    """An index of the channels along the method's axis that are not entirely pruned."""
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    n = mask.dim()
    if method.dim < -n:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {n}")
    axis = method.dim % n
    other_axes = [i for i in range(n) if i != axis]
    return (slice(None),) * axis + (mask.sum(dim=other_axes) != 0,)


# -------------------------------------------------------------------------- the methods


class Identity(BasePruningMethod):
    """Prune nothing.

    >>> nn.utils.prune.Identity().prune(torch.tensor([5., 6.]))
    tensor([5., 6.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask."""
        return default_mask


class _Amount(BasePruningMethod):
    """A method that prunes a fraction (float) or a number (int) of elements or channels."""

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def count(self, size: int) -> int:
        """The number of elements or channels to prune, out of `size`."""
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class RandomUnstructured(_Amount):
    """Prune elements at random.

    >>> nn.utils.prune.RandomUnstructured(3).prune(torch.ones(10)).sum()
    tensor(7.)
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask with `amount` random elements set to 0."""
        count = self.count(t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[ops.rand_like(t).view(-1).topk(count).indices] = 0
        return mask


class L1Unstructured(_Amount):
    """Prune the elements of smallest magnitude.

    >>> nn.utils.prune.L1Unstructured(amount=0.5).prune(torch.tensor([-3., 1., 2., -0.5]))
    tensor([-3.,  0.,  2., -0.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask with the `amount` smallest elements set to 0."""
        count = self.count(t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[t.abs().reshape(-1).topk(count, largest=False).indices] = 0
        return mask


class _Structured(_Amount):
    """A method that prunes whole channels along an axis."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask with the pruned channels set to 0."""
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        count = self.count(t.shape[self.dim])
        if not count:
            return default_mask
        mask = ops.zeros_like(t)
        mask[(slice(None),) * (self.dim % t.dim()) + (self.select(t, count),)] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    def select(self, t: Tensor, count: int) -> Tensor:
        """An index of the channels to keep when pruning `count`."""
        raise NotImplementedError(f"{type(self).__name__}.select")


class RandomStructured(_Structured):
    """Prune channels at random.

    >>> nn.utils.prune.RandomStructured(1, dim=0).prune(torch.ones(4, 2)).sum()
    tensor(6.)
    """

    def select(self, t: Tensor, count: int) -> Tensor:
        """Choose at random."""
        chance = ops.rand(t.shape[self.dim])
        return chance > chance.sort().values[count - 1]


class LnStructured(_Structured):
    """Prune the channels of smallest L_n norm.

    >>> nn.utils.prune.LnStructured(1, n=2, dim=0).prune(torch.tensor([[3., 4.], [1., 1.]]))
    tensor([[3., 4.],
            [0., 0.]])
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def select(self, t: Tensor, count: int) -> Tensor:
        """The channels of largest norm."""
        axis = self.dim % t.dim()
        norms = t.norm(self.n, [i for i in range(t.dim()) if i != axis])
        return norms.topk(norms.numel() - count).indices


class CustomFromMask(BasePruningMethod):
    """Prune where a given mask is 0.

    >>> method = nn.utils.prune.CustomFromMask(torch.tensor([1, 0]))
    >>> method.prune(torch.tensor([5., 6.]))
    tensor([5., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -------------------------------------------------------------------------- as functions


def identity(module: Any, name: str) -> Any:
    """Prune nothing, but create `_orig`, `_mask` and the hook.

    >>> layer = nn.utils.prune.identity(nn.Linear(2, 1), "weight")
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune a fraction or number of elements at random.

    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(4, 5), "weight", amount=3)
    >>> int((layer.weight == 0).sum())
    3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prune a fraction or number of elements, those of smallest magnitude.

    `amount` is a fraction of the elements, or an int, their number. `importance_scores` are
    compared instead of the values.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 5), "weight", amount=0.25)
    >>> int((layer.weight == 0).sum())
    5
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune a fraction or number of channels at random.

    >>> layer = nn.utils.prune.random_structured(nn.Linear(4, 5), "weight", amount=2, dim=1)
    >>> int((layer.weight == 0).all(0).sum())
    2
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Any:
    """Prune a fraction or number of channels, those of smallest L_n norm.

    >>> layer = nn.utils.prune.ln_structured(nn.Linear(4, 5), "weight", amount=2, n=2, dim=0)
    >>> int((layer.weight == 0).all(1).sum())
    2
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune where the mask is 0.

    >>> layer = nn.Linear(2, 1)
    >>> layer = nn.utils.prune.custom_from_mask(layer, "weight", torch.tensor([[1, 0]]))
    >>> layer.weight_mask
    tensor([[1., 0.]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters, compared with each other.

    >>> net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    >>> weights = [(layer, "weight") for layer in net]
    >>> nn.utils.prune.global_unstructured(weights, nn.utils.prune.L1Unstructured, amount=0.5)
    >>> sum(int((layer.weight == 0).sum()) for layer in net)
    12
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    targets = [(module, name, getattr(module, name)) for module, name in parameters]
    values = parameters_to_vector(scores.get((module, name), t) for module, name, t in targets)
    masks = parameters_to_vector(
        getattr(module, f"{name}_mask", ops.ones_like(t)) for module, name, t in targets
    )
    result = PruningContainer(method).compute_mask(values, masks)
    for module, name, t in targets:
        custom_from_mask(module, name, mask=result[: t.numel()].view_as(t))
        result = result[t.numel() :]


def remove(module: Any, name: str) -> Any:
    """Remove the hook and make the pruned values permanent.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 5), "weight", amount=3)
    >>> layer = nn.utils.prune.remove(layer, "weight")
    >>> sorted(layer.state_dict()), int((layer.weight == 0).sum())
    (['bias', 'weight'], 3)
    """
    for key, hook in _list_hooks(module, name).items():
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether the module or a descendant has a pruned parameter.

    >>> layer = nn.utils.prune.identity(nn.Linear(2, 1), "weight")
    >>> nn.utils.prune.is_pruned(layer), nn.utils.prune.is_pruned(nn.Linear(2, 1))
    (True, False)
    """
    return any(_list_hooks(child) for child in module.modules())


# -------------------------------------------------------------------------- amounts


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    highest = float("inf") if isinstance(amount, numbers.Integral) else 1
    if not 0 <= float(amount) <= highest:
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)
