"""Batch norm kernels for small arrays: all passes over a channel in one call.

Elements are x[image, channel, pixel], contiguous. Without pixels (`columns`) adjacent channels
share a vector; otherwise adjacent pixels do.
"""

from __future__ import annotations

from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Index, Kernel, Load, Loop, LoopKind, ReduceOp, Scalar,
    Size, Statement, Store, Type, Update,
)
from .expression_builder import Value, apply


class _ChannelKernelBuilder:
    """Writes a kernel that processes one channel after another: its images, their pixels.

    Sizes: images, channels, pixels, elements of an image; with `columns` images and channels only.
    """

    def __init__(self, type: Type, columns: bool) -> None:
        self.type, self.columns = type, columns
        self.image, self.channel, self.pixel = Index("image"), Index("channel"), Index("pixel")
        self.images, self.channels = Size("images"), Size("channels")
        self.pixels, image_elements = Size("pixels"), Size("image_elements")
        self.each = Affine(0, ((self.channel, 1),))
        self.buffers: list[Buffer] = []
        self.body: list[Statement] = []
        if columns:
            self.sizes = [self.images, self.channels]
            self.place = Affine(0, ((self.image, self.channels), (self.channel, 1)))
        else:
            self.sizes = [self.images, self.channels, self.pixels, image_elements]
            self.place = Affine(0, (
                (self.image, image_elements), (self.channel, self.pixels), (self.pixel, 1)))

    def buffer(self, name: str) -> Buffer:
        """Add a buffer argument."""
        self.buffers.append(Buffer(self.type, name))
        return self.buffers[-1]

    def matrix(self, name: str) -> Value:
        """Add an argument with an element for each image, channel and pixel."""
        return Value(Load(self.buffer(name), self.place))

    def of_channels(self, name: str) -> Value:
        """Add an argument with an element for each channel."""
        return Value(Load(self.buffer(name), self.each))

    def number(self, name: str) -> Value:
        """Add an argument of one element."""
        return Value(Load(self.buffer(name), Affine()))

    def sum(self, *values: Value) -> list[Value]:
        """Sum values over a channel's elements, in one pass."""
        totals = [Accumulator(ReduceOp.SUM, self.type) for _ in values]
        self.body += map(Begin, totals)
        self._sweep([Update(total, value.expression)
                     for total, value in zip(totals, values, strict=True)])
        return [Value(total) for total in totals]

    def store(self, buffer: Buffer, value: Value) -> None:
        """Store a value for each of a channel's elements."""
        self._sweep([Store(buffer, self.place, value.expression)])

    def keep(self, buffer: Buffer, value: Value) -> None:
        """Store a channel's number."""
        self.body.append(Store(buffer, self.each, value.expression))

    def _sweep(self, body: list[Statement]) -> None:
        if not self.columns:
            body = [Loop(self.pixel, self.pixels, body, LoopKind.VECTORIZED)]
        self.body.append(Loop(self.image, self.images, body))

    def kernel(self, name: str) -> Kernel:
        """Return the kernel."""
        nest = Loop(self.channel, self.channels, self.body, LoopKind.PARALLEL)
        return Kernel(name, self.buffers, [nest], self.sizes)


def batch_norm(type: Type, weight: bool, bias: bool, running: bool, columns: bool) -> Kernel:
    """x, (weight), (bias), eps, 1 / count, (running mean, running variance, momentum, 1 - momentum,
    1 / (count - 1)), mean, rstd, y: channels normalized, the running statistics moved.
    """
    r = _ChannelKernelBuilder(type, columns)
    x = r.matrix("x")
    w = r.of_channels("weight") if weight else None
    b = r.of_channels("bias") if bias else None
    eps, share = r.number("eps"), r.number("share")
    moving = [r.buffer("running_mean"), r.buffer("running_var")] if running else []
    factors = [r.number(n) for n in ("momentum", "decay", "unbiased_share")] if running else []
    mean, rstd, y = r.buffer("mean"), r.buffer("rstd"), r.buffer("y")
    centre = r.sum(x)[0] * share
    squares = r.sum((x - centre) * (x - centre))[0]
    root = 1 / apply(Scalar.SQRT, squares * share + eps)
    normalized = (x - centre) * (root if w is None else root * w)
    r.store(y, normalized if b is None else normalized + b)
    if running:
        momentum, decay, unbiased_share = factors
        for buffer, batch in zip(moving, (centre, squares * unbiased_share), strict=True):
            r.keep(buffer, Value(Load(buffer, r.each)) * decay + batch * momentum)
    r.keep(mean, centre)
    r.keep(rstd, root)
    return r.kernel("batch_norm")


def batch_norm_backward(type: Type, weight: bool, columns: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / count, gx, of_weight, of_bias: batch_norm's cotangents."""
    r = _ChannelKernelBuilder(type, columns)
    g, x = r.matrix("g"), r.matrix("x")
    w = r.of_channels("weight") if weight else None
    mean, rstd, share = r.of_channels("mean"), r.of_channels("rstd"), r.number("share")
    gx, of_weight, of_bias = r.buffer("gx"), r.buffer("of_weight"), r.buffer("of_bias")
    total, product = r.sum(g, g * (x - mean))
    slope = product * share * rstd * rstd
    centred = g - total * share - (x - mean) * slope
    r.store(gx, centred * (rstd if w is None else rstd * w))
    r.keep(of_weight, product * rstd)
    r.keep(of_bias, total)
    return r.kernel("batch_norm_backward")
