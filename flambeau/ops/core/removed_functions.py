"""Functions that PyTorch took out after 1.9: they raise, and name what to call instead."""

from __future__ import annotations

from typing import Any

from .registry import publish

_INSTEAD = {
    "lstsq": "torch.linalg.lstsq(A, B), whose arguments stand the other way round",
    "eig": "torch.linalg.eig(A), whose results are complex",
    "symeig": "torch.linalg.eigh(A, UPLO='U' if upper else 'L')",
    "solve": "torch.linalg.solve(A, B), whose arguments stand the other way round",
    "matrix_rank": "torch.linalg.matrix_rank(A, hermitian=symmetric)",
}


def _refuse(name: str, instead: str) -> None:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("This function was deprecated since version 1.9 and is now removed. "
                           f"torch.{name} is replaced by {instead}.")  # fmt: skip

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Removed: RuntimeError. Call {instead}.

    >>> torch.{name}(torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: This function was deprecated since version 1.9 and is now removed. ...
    """
    spaces = ("torch",) if name == "matrix_rank" else ("torch", "Tensor")
    publish(function, (name,), spaces)


for _name, _words in _INSTEAD.items():
    _refuse(_name, _words)
