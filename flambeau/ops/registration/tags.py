"""Tag: properties that the definition of an operator declares.

`aten_tags.txt` lists those of aten's operators, one overload per line. All but the ones marked "-"
have `pt2_compliant_tag` too, and overloads that are not listed have no other.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["Tag", "find_out_overload", "find_tags", "list_tags"]


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


@cache
def _read_lines() -> dict[str, list[str]]:
    text = (Path(__file__).parent / "aten_tags.txt").read_text("utf-8")
    return {name: tags for name, *tags in map(str.split, text.splitlines())}


def find_tags(name: str) -> list[Tag]:
    """Return the tags of aten's overload of this name.

    >>> from flambeau.ops.registration.tags import find_tags
    >>> [tag.name for tag in find_tags("add.Tensor")]
    ['core', 'pointwise', 'pt2_compliant_tag']
    """
    names = _read_lines().get(name, [])
    if "-" in names:
        return [Tag[n] for n in names if n != "-"]
    return [Tag[n] for n in sorted([*names, "pt2_compliant_tag"])]


@cache
def find_out_overload(name: str) -> str | None:
    """Return the overload of aten's operator that writes its result to `out`, or None if it has
    none or several.

    >>> from flambeau.ops.registration.tags import find_out_overload
    >>> find_out_overload("sin")
    'out'
    """
    overloads = [key.partition(".")[2] for key, tags in _read_lines().items()
                 if key.startswith(f"{name}.") and "out" in tags and "generated" not in tags]
    return overloads[0] if len(overloads) == 1 else None
