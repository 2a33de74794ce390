"""Category: what a tensor of a profile is for; CategoryDict: the categories of tensors."""

from __future__ import annotations

import enum

from .tensor_keys import TensorKey

__all__ = ["Category", "CategoryDict"]


class Category(enum.Enum):
    """What a tensor is for, with PyTorch's numbers."""

    INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, PARAMETER, OPTIMIZER_STATE = \
        range(1, 8)


class CategoryDict:
    """Categories by id, which count first, or by tensor and version."""

    def __init__(self) -> None:
        self._by_id: dict[int, Category] = {}
        self._by_version: dict[tuple[TensorKey, int], Category] = {}

    def set_by_id(self, key: TensorKey, category: Category) -> None:
        """Set the category of all versions of all tensors with the key's id."""
        self._by_id[key.id] = category

    def setdefault_by_id(self, key: TensorKey, category: Category) -> None:
        """Set the category of an id unless it has one."""
        self._by_id.setdefault(key.id, category)

    def setdefault_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        """Set the category of one version unless it has one."""
        self._by_version.setdefault((key, version), category)

    def get(self, key: TensorKey, version: int) -> Category | None:
        """Return the category of one version, or None."""
        return self._by_id.get(key.id) or self._by_version.get((key, version))
