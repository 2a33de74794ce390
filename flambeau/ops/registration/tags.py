"""Tag: properties that the definition of a custom operator declares."""

from __future__ import annotations

import enum
from collections.abc import Iterable

__all__ = ["Tag", "list_tags"]


class Tag(enum.Enum):
    """A property of an operator, with PyTorch's names and numbers.

    flambeau keeps tags for programs that read them; none changes how it runs an operator.

    >>> torch.library.define("docs::squared", "(Tensor x) -> Tensor", tags=torch.Tag.pointwise)
    >>> torch.ops.docs.squared.default.tags
    [<Tag.pointwise: 16>]
    """

    (core, cudagraph_unsafe, data_dependent_output, dynamic_output_shape, flexible_layout,
     generated, inplace, inplace_view, maybe_aliasing_or_mutating, needs_contiguous_strides,
     needs_exact_strides, needs_fixed_stride_order, nondeterministic_bitwise,
     nondeterministic_seeded, out, out_variant, pointwise, pt2_compliant_tag, reduction,
     view_copy) = range(20)


def list_tags(tags: Tag | Iterable[Tag] | None) -> list[Tag]:
    """Return tags as a list; definitions also take a single one, or None."""
    return [] if tags is None else [tags] if isinstance(tags, Tag) else list(tags)
