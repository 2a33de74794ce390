"""Embedding and EmbeddingBag: tables of vectors, looked up by index."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...autograd import no_grad
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A weight (num_embeddings, embedding_dim) drawn from N(0, 1), with a zero padding row."""

    weight: Tensor
    padding_idx: int | None

    def _flambeau_wrapped_padding(self, padding_idx: int | None, name: str) -> int | None:
        """The padding row counted from the front; AssertionError if out of range."""
        if padding_idx is None or padding_idx == 0:
            return padding_idx
        if not -self.num_embeddings <= padding_idx < self.num_embeddings:
            raise AssertionError(f"{name} must be within num_embeddings")
        return padding_idx % self.num_embeddings

    def _flambeau_set_weight(
        self, supplied: Tensor | None, device: Any, dtype: Any, requires_grad: bool = True
    ) -> None:
        shape = [self.num_embeddings, self.embedding_dim]
        if supplied is None:
            drawn = ops.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(drawn, requires_grad=requires_grad)
            self.reset_parameters()
        elif list(supplied.shape) == shape:
            self.weight = Parameter(supplied, requires_grad=requires_grad)
        else:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")

    def reset_parameters(self) -> None:
        """Redraw the table and zero the padding row."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _require_matrix(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    return embeddings.shape


class Embedding(_Table):
    """Lookup table: map indices (*) to rows of `weight`, (*, embedding_dim).

    The row `padding_idx` starts at zero and gets no gradient. `max_norm` rescales looked-up rows
    in place; `scale_grad_by_freq` divides gradients by the frequency of each index.
    Raises AssertionError for a padding_idx outside the table.

    >>> nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 9]])).shape
    torch.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = self._flambeau_wrapped_padding(padding_idx, "Padding_idx")
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._flambeau_set_weight(_weight, device, dtype, requires_grad=not _freeze)
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        settings = [f"{self.num_embeddings}, {self.embedding_dim}"]
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        for name, value in usual.items():
            if getattr(self, name) != value:
                settings.append(f"{name}={getattr(self, name)}")
        if self.sparse is not False:
            settings.append("sparse=True")
        return ", ".join(settings)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return an Embedding sharing the table `embeddings` (num, dim), frozen by default."""
        rows, columns = _require_matrix(embeddings)
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sum, mean or maximum of the rows of each bag of indices, without storing the rows.

    Input (n, bag) gives (n, embedding_dim); a flat input takes `offsets`, where each bag begins.
    `per_sample_weights` weights the rows, for mode "sum". Indices equal to padding_idx are skipped.

    >>> table = torch.tensor([[1., 2.], [3., 4.], [5., 6.]])
    >>> bag = nn.EmbeddingBag.from_pretrained(table, mode="sum")
    >>> bag(torch.tensor([0, 2, 1]), offsets=torch.tensor([0, 2]))  # bags [0, 2] and [1]
    tensor([[6., 8.],
            [3., 4.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = self._flambeau_wrapped_padding(padding_idx, "padding_idx")
        self._flambeau_set_weight(_weight, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        settings = [f"{self.num_embeddings}, {self.embedding_dim}"]
        usual = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        for name, value in usual.items():
            if getattr(self, name) != value:
                settings.append(f"{name}={getattr(self, name)!r}")
        settings.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            settings.append(f"padding_idx={self.padding_idx!r}")
        return ", ".join(settings)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return an EmbeddingBag sharing the table `embeddings` (num, dim), frozen by default."""
        rows, columns = _require_matrix(embeddings)
        bag = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
