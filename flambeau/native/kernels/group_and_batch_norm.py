"""Kernels of group norm, one group of an image at a time while it is in cache, and of batch norm
of small arrays, all passes over a channel in one call."""

from __future__ import annotations

from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Extent, Index, Kernel, Load, Loop, LoopKind, ReduceOp,
    Scalar, Size, Statement, Store, Type, Update,
)
from .expression_builder import Value, apply


class _NormKernelBuilder:
    """Collects the buffers and statements of a kernel of one element type."""

    def __init__(self, type: Type) -> None:
        self.type = type
        self.buffers: list[Buffer] = []
        self.body: list[Statement] = []

    def buffer(self, name: str) -> Buffer:
        """Add a buffer argument."""
        self.buffers.append(Buffer(self.type, name))
        return self.buffers[-1]

    def value(self, name: str, place: Affine) -> Value:
        """Add a buffer argument and load it at a position."""
        return Value(Load(self.buffer(name), place))


class _GroupKernelBuilder(_NormKernelBuilder):
    """Writes a kernel that processes one group after another: its channels, their pixels.

    Sizes: images, groups, channels of a group, pixels, elements of a group, of an image, channels.
    """

    def __init__(self, type: Type) -> None:
        super().__init__(type)
        self.image, self.group, self.channel = Index("image"), Index("group"), Index("channel")
        self.pixel, self.element = Index("pixel"), Index("element")
        names = ("images", "groups", "each", "pixels", "part", "whole", "channels")
        self.sizes = [Size(n) for n in names]
        self.images, self.groups, self.each, self.pixels, self.part, whole, channels = self.sizes
        start = ((self.image, whole), (self.group, self.part))
        self.flat = Affine(0, (*start, (self.element, 1)))
        self.place = Affine(0, (*start, (self.channel, self.pixels), (self.pixel, 1)))
        self.of_group = Affine(0, ((self.image, self.groups), (self.group, 1)))
        self.of_channel = Affine(0, ((self.group, self.each), (self.channel, 1)))
        self.each_image = Affine(0, ((self.image, channels), *self.of_channel.terms))

    def sum(self) -> Value:
        """Begin a sum."""
        accumulator = Accumulator(ReduceOp.SUM, self.type)
        self.body.append(Begin(accumulator))
        return Value(accumulator)

    def lanes(self, index: Index, extent: Extent, body: list[Statement]) -> Loop:
        """Vectorize a loop over adjacent elements."""
        return Loop(index, extent, body, LoopKind.VECTORIZED)

    def kernel(self, name: str) -> Kernel:
        """Return the kernel."""
        inner = Loop(self.group, self.groups, self.body, LoopKind.PARALLEL)
        nest = Loop(self.image, self.images, [inner], LoopKind.PARALLEL)
        return Kernel(name, self.buffers, [nest], self.sizes)


def _accumulate(total: Value, value: Value) -> Update:
    assert isinstance(total.expression, Accumulator)
    return Update(total.expression, value.expression)


def group_norm(type: Type, weight: bool, bias: bool) -> Kernel:
    """x, (weight), (bias), eps, 1 / elements of a group, mean, rstd, y."""
    r = _GroupKernelBuilder(type)
    x = r.buffer("x")
    w = r.value("weight", r.of_channel) if weight else None
    b = r.value("bias", r.of_channel) if bias else None
    eps, share = r.value("eps", Affine()), r.value("share", Affine())
    mean, rstd, y = r.buffer("mean"), r.buffer("rstd"), r.buffer("y")
    total, flat, here = r.sum(), Value(Load(x, r.flat)), Value(Load(x, r.place))
    r.body.append(r.lanes(r.element, r.part, [_accumulate(total, flat)]))
    center, squares = total * share, r.sum()
    centered = flat - center
    r.body.append(r.lanes(r.element, r.part, [_accumulate(squares, centered * centered)]))
    root = 1 / apply(Scalar.SQRT, squares * share + eps)
    normalized = (here - center) * (root if w is None else root * w)
    normalized = normalized if b is None else normalized + b
    store = Store(y, r.place, normalized.expression)
    r.body += [Loop(r.channel, r.each, [r.lanes(r.pixel, r.pixels, [store])]),
               Store(mean, r.of_group, center.expression),
               Store(rstd, r.of_group, root.expression)]
    return r.kernel("group_norm")


def group_norm_backward(type: Type, weight: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / elements of a group, of_g, of_product, gx.

    of_g and of_product: each channel's sums of g, and of g times x less the mean.
    """
    r = _GroupKernelBuilder(type)
    g, x = r.value("g", r.place), r.value("x", r.place)
    w = r.value("weight", r.of_channel) if weight else None
    mean, rstd = r.value("mean", r.of_group), r.value("rstd", r.of_group)
    share = r.value("share", Affine())
    of_g, of_product, gx = r.buffer("of_g"), r.buffer("of_product"), r.buffer("gx")
    along, straight = r.sum(), r.sum()
    first, two = (Accumulator(ReduceOp.SUM, type) for _ in range(2))
    total, product = Value(first), Value(two)
    sums = r.lanes(r.pixel, r.pixels, [_accumulate(total, g), _accumulate(product, g * (x - mean))])
    weighted = [v if w is None else v * w for v in (total, product)]
    r.body.append(
        Loop(
            r.channel,
            r.each,
            [
                Begin(first),
                Begin(two),
                sums,
                _accumulate(straight, weighted[0]),
                _accumulate(along, weighted[1]),
                Store(of_g, r.each_image, first),
                Store(of_product, r.each_image, two),
            ],
        )
    )
    slope = along * share * (rstd * rstd * rstd)
    gradient = g * (rstd if w is None else rstd * w) - (x - mean) * slope - straight * share * rstd
    store = Store(gx, r.place, gradient.expression)
    r.body.append(Loop(r.channel, r.each, [r.lanes(r.pixel, r.pixels, [store])]))
    return r.kernel("group_norm_backward")


class _ChannelKernelBuilder(_NormKernelBuilder):
    """Writes a kernel that processes one channel after another: its images, their pixels.

    Elements are x[image, channel, pixel], contiguous. Without pixels (`columns`) adjacent channels
    share a vector; otherwise adjacent pixels do.

    Sizes: images, channels, pixels, elements of an image; with `columns` images and channels only.
    """

    def __init__(self, type: Type, columns: bool) -> None:
        super().__init__(type)
        self.columns = columns
        self.image, self.channel, self.pixel = Index("image"), Index("channel"), Index("pixel")
        self.images, self.channels = Size("images"), Size("channels")
        self.pixels, image_elements = Size("pixels"), Size("image_elements")
        self.each = Affine(0, ((self.channel, 1),))
        if columns:
            self.sizes = [self.images, self.channels]
            self.place = Affine(0, ((self.image, self.channels), (self.channel, 1)))
        else:
            self.sizes = [self.images, self.channels, self.pixels, image_elements]
            self.place = Affine(0, (
                (self.image, image_elements), (self.channel, self.pixels), (self.pixel, 1)))

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
    x = r.value("x", r.place)
    w = r.value("weight", r.each) if weight else None
    b = r.value("bias", r.each) if bias else None
    eps, share = r.value("eps", Affine()), r.value("share", Affine())
    moving = [r.buffer("running_mean"), r.buffer("running_var")] if running else []
    names = ("momentum", "decay", "unbiased_share") if running else ()
    factors = [r.value(name, Affine()) for name in names]
    mean, rstd, y = r.buffer("mean"), r.buffer("rstd"), r.buffer("y")
    center = r.sum(x)[0] * share
    squares = r.sum((x - center) * (x - center))[0]
    root = 1 / apply(Scalar.SQRT, squares * share + eps)
    normalized = (x - center) * (root if w is None else root * w)
    r.store(y, normalized if b is None else normalized + b)
    if running:
        momentum, decay, unbiased_share = factors
        for buffer, batch in zip(moving, (center, squares * unbiased_share), strict=True):
            r.keep(buffer, Value(Load(buffer, r.each)) * decay + batch * momentum)
    r.keep(mean, center)
    r.keep(rstd, root)
    return r.kernel("batch_norm")


def batch_norm_backward(type: Type, weight: bool, columns: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / count, gx, of_weight, of_bias: batch_norm's cotangents."""
    r = _ChannelKernelBuilder(type, columns)
    g, x = r.value("g", r.place), r.value("x", r.place)
    w = r.value("weight", r.each) if weight else None
    mean, rstd, share = r.value("mean", r.each), r.value("rstd", r.each), r.value("share", Affine())
    gx, of_weight, of_bias = r.buffer("gx"), r.buffer("of_weight"), r.buffer("of_bias")
    total, product = r.sum(g, g * (x - mean))
    slope = product * share * rstd * rstd
    centered = g - total * share - (x - mean) * slope
    r.store(gx, centered * (rstd if w is None else rstd * w))
    r.keep(of_weight, product * rstd)
    r.keep(of_bias, total)
    return r.kernel("batch_norm_backward")
