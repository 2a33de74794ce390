"""torch._dynamo._trace_wrapped_higher_order_op: what attention masks are made under."""

from __future__ import annotations

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context in which `x[i]` may have a mapped tensor as its index, which it always may here."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None
