"""Kernels of group norm, one group of an image at a time while it is in cache, and of batch norm
of small arrays, all passes over a channel in one call."""

from __future__ import annotations

from ..loop_ir.expression_builder import Value, apply
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Index, Kernel, Load, Loop, LoopKind, ReduceOp,
    Scalar, Size, Statement, Store, Type, Update,
)


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
        (self.images, self.groups, self.group_channels, self.pixels, self.group_elements,
         image_elements, channels) = self.sizes
        start = ((self.image, image_elements), (self.group, self.group_elements))
        self.flat = Affine(0, (*start, (self.element, 1)))
        self.place = Affine(0, (*start, (self.channel, self.pixels), (self.pixel, 1)))
        self.of_group = Affine(0, ((self.image, self.groups), (self.group, 1)))
        self.of_channel = Affine(0, ((self.group, self.group_channels), (self.channel, 1)))
        self.of_image_channel = Affine(0, ((self.image, channels), *self.of_channel.terms))

    def sum(self) -> Value:
        """Begin a sum."""
        accumulator = Accumulator(ReduceOp.SUM, self.type)
        self.body.append(Begin(accumulator))
        return Value(accumulator)

    def over_elements(self, *body: Statement) -> Loop:
        """Vectorize a loop over a group's elements."""
        return Loop(self.element, self.group_elements, list(body), LoopKind.VECTORIZED)

    def over_pixels(self, *body: Statement) -> Loop:
        """Vectorize a loop over a channel's pixels."""
        return Loop(self.pixel, self.pixels, list(body), LoopKind.VECTORIZED)

    def over_channels(self, *body: Statement) -> Loop:
        """Loop over a group's channels."""
        return Loop(self.channel, self.group_channels, list(body))

    def build(self, name: str) -> Kernel:
        """Return the finished kernel."""
        inner = Loop(self.group, self.groups, self.body, LoopKind.PARALLEL)
        nest = Loop(self.image, self.images, [inner], LoopKind.PARALLEL)
        return Kernel(name, self.buffers, [nest], self.sizes)


def _accumulate(total: Value, value: Value) -> Update:
    assert isinstance(total.expression, Accumulator)
    return Update(total.expression, value.expression)


def group_norm(type: Type, weight: bool, bias: bool) -> Kernel:
    """x, (weight), (bias), eps, 1 / elements of a group, mean, rstd, y."""
    kernel = _GroupKernelBuilder(type)
    x = kernel.buffer("x")
    w = kernel.value("weight", kernel.of_channel) if weight else None
    b = kernel.value("bias", kernel.of_channel) if bias else None
    eps, share = kernel.value("eps", Affine()), kernel.value("share", Affine())
    mean, rstd, y = kernel.buffer("mean"), kernel.buffer("rstd"), kernel.buffer("y")
    total, flat, here = kernel.sum(), Value(Load(x, kernel.flat)), Value(Load(x, kernel.place))
    kernel.body.append(kernel.over_elements(_accumulate(total, flat)))
    center, squares = total * share, kernel.sum()
    centered = flat - center
    kernel.body.append(kernel.over_elements(_accumulate(squares, centered * centered)))
    root = 1 / apply(Scalar.SQRT, squares * share + eps)
    normalized = (here - center) * (root if w is None else root * w)
    normalized = normalized if b is None else normalized + b
    store = Store(y, kernel.place, normalized.expression)
    kernel.body += [kernel.over_channels(kernel.over_pixels(store)),
                    Store(mean, kernel.of_group, center.expression),
                    Store(rstd, kernel.of_group, root.expression)]
    return kernel.build("group_norm")


def group_norm_backward(type: Type, weight: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / elements of a group, of_g, of_product, gx.

    of_g and of_product: each channel's sums of g, and of g times x less the mean.
    """
    kernel = _GroupKernelBuilder(type)
    g, x = kernel.value("g", kernel.place), kernel.value("x", kernel.place)
    w = kernel.value("weight", kernel.of_channel) if weight else None
    mean, rstd = kernel.value("mean", kernel.of_group), kernel.value("rstd", kernel.of_group)
    share = kernel.value("share", Affine())
    of_g, of_product, gx = kernel.buffer("of_g"), kernel.buffer("of_product"), kernel.buffer("gx")
    product_sum, gradient_sum = kernel.sum(), kernel.sum()
    totals = [Accumulator(ReduceOp.SUM, type) for _ in range(2)]
    of_channel = [Value(total) for total in totals]
    sums = kernel.over_pixels(*map(_accumulate, of_channel, (g, g * (x - mean))))
    weighted = [v if w is None else v * w for v in of_channel]
    kernel.body.append(kernel.over_channels(
        *map(Begin, totals), sums,
        _accumulate(gradient_sum, weighted[0]), _accumulate(product_sum, weighted[1]),
        Store(of_g, kernel.of_image_channel, totals[0]),
        Store(of_product, kernel.of_image_channel, totals[1]),
    ))
    slope = product_sum * share * (rstd * rstd * rstd)
    gradient = g * (rstd if w is None else rstd * w) - (x - mean) * slope \
        - gradient_sum * share * rstd
    store = Store(gx, kernel.place, gradient.expression)
    kernel.body.append(kernel.over_channels(kernel.over_pixels(store)))
    return kernel.build("group_norm_backward")


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
        self.of_channel = Affine(0, ((self.channel, 1),))
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

    def store_elements(self, buffer: Buffer, value: Value) -> None:
        """Store a value for each of a channel's elements."""
        self._sweep([Store(buffer, self.place, value.expression)])

    def store_of_channel(self, buffer: Buffer, value: Value) -> None:
        """Store a channel's number."""
        self.body.append(Store(buffer, self.of_channel, value.expression))

    def _sweep(self, body: list[Statement]) -> None:
        if not self.columns:
            body = [Loop(self.pixel, self.pixels, body, LoopKind.VECTORIZED)]
        self.body.append(Loop(self.image, self.images, body))

    def build(self, name: str) -> Kernel:
        """Return the finished kernel."""
        nest = Loop(self.channel, self.channels, self.body, LoopKind.PARALLEL)
        return Kernel(name, self.buffers, [nest], self.sizes)


def batch_norm(type: Type, weight: bool, bias: bool, running: bool, columns: bool) -> Kernel:
    """x, (weight), (bias), eps, 1 / count, (running mean, running variance, momentum, 1 - momentum,
    1 / (count - 1)), mean, rstd, y: channels normalized, the running statistics moved.
    """
    kernel = _ChannelKernelBuilder(type, columns)
    x = kernel.value("x", kernel.place)
    w = kernel.value("weight", kernel.of_channel) if weight else None
    b = kernel.value("bias", kernel.of_channel) if bias else None
    eps, share = kernel.value("eps", Affine()), kernel.value("share", Affine())
    moving = [kernel.buffer("running_mean"), kernel.buffer("running_var")] if running else []
    names = ("momentum", "decay", "unbiased_share") if running else ()
    factors = [kernel.value(name, Affine()) for name in names]
    mean, rstd, y = kernel.buffer("mean"), kernel.buffer("rstd"), kernel.buffer("y")
    center = kernel.sum(x)[0] * share
    squares = kernel.sum((x - center) * (x - center))[0]
    root = 1 / apply(Scalar.SQRT, squares * share + eps)
    normalized = (x - center) * (root if w is None else root * w)
    kernel.store_elements(y, normalized if b is None else normalized + b)
    if running:
        momentum, decay, unbiased_share = factors
        for buffer, batch in zip(moving, (center, squares * unbiased_share), strict=True):
            old = Value(Load(buffer, kernel.of_channel))
            kernel.store_of_channel(buffer, old * decay + batch * momentum)
    kernel.store_of_channel(mean, center)
    kernel.store_of_channel(rstd, root)
    return kernel.build("batch_norm")


def batch_norm_backward(type: Type, weight: bool, columns: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / count, gx, of_weight, of_bias: batch_norm's cotangents."""
    kernel = _ChannelKernelBuilder(type, columns)
    g, x = kernel.value("g", kernel.place), kernel.value("x", kernel.place)
    w = kernel.value("weight", kernel.of_channel) if weight else None
    mean, rstd = kernel.value("mean", kernel.of_channel), kernel.value("rstd", kernel.of_channel)
    share = kernel.value("share", Affine())
    gx, of_weight, of_bias = map(kernel.buffer, ("gx", "of_weight", "of_bias"))
    total, product = kernel.sum(g, g * (x - mean))
    slope = product * share * rstd * rstd
    centered = g - total * share - (x - mean) * slope
    kernel.store_elements(gx, centered * (rstd if w is None else rstd * w))
    kernel.store_of_channel(of_weight, product * rstd)
    kernel.store_of_channel(of_bias, total)
    return kernel.build("batch_norm_backward")
