"""Kernels of group norm, one group of an image at a time while it is in cache, and of batch norm
of small arrays, all passes over a channel in one call."""

from __future__ import annotations

from ..loop_ir.expression_builder import Value, apply
from ..loop_ir.index_notation import (
    Place, create_indices, load, nest, repeat, store, update, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Begin, Buffer, Kernel, Loop, ReduceOp, Scalar, Size, Statement, Type,
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

    def value(self, name: str, place: Place = 0) -> Value:
        """Add a buffer argument and load it at a position."""
        return load(self.buffer(name), place)

    def begin_sum(self) -> Accumulator:
        """Begin a sum."""
        total = Accumulator(ReduceOp.SUM, self.type)
        self.body.append(Begin(total))
        return total


class _GroupKernelBuilder(_NormKernelBuilder):
    """Writes a kernel that processes one group after another: its channels, their pixels.

    Sizes: images, groups, channels of a group, pixels, elements of a group, of an image, channels.
    """

    def __init__(self, type: Type) -> None:
        super().__init__(type)
        image, group, channel, pixel, element = create_indices("image group channel pixel element")
        names = ("images", "groups", "each", "pixels", "part", "whole", "channels")
        self.sizes = [Size(n) for n in names]
        images, groups, group_channels, pixels, group_elements, image_elements, channels = \
            self.sizes
        self.loops = (image, images), (group, groups)
        self.channel_loop, self.pixel_loop = (channel, group_channels), (pixel, pixels)
        self.element_loop = element, group_elements
        start = image * image_elements + group * group_elements
        self.flat, self.place = start + element, start + channel * pixels + pixel
        self.of_group, self.of_channel = image * groups + group, group * group_channels + channel
        self.of_image_channel = image * channels + self.of_channel

    def over_elements(self, *body: Statement) -> Loop:
        """Vectorize a loop over a group's elements."""
        return vectorize(*self.element_loop, *body)

    def over_pixels(self, *body: Statement) -> Loop:
        """Vectorize a loop over a channel's pixels."""
        return vectorize(*self.pixel_loop, *body)

    def over_channels(self, *body: Statement) -> Loop:
        """Loop over a group's channels."""
        return repeat(*self.channel_loop, *body)

    def build(self, name: str) -> Kernel:
        """Return the finished kernel."""
        return Kernel(name, self.buffers, [nest(self.body, *self.loops)], self.sizes)


def group_norm(type: Type, weight: bool, bias: bool) -> Kernel:
    """x, (weight), (bias), eps, 1 / elements of a group, mean, rstd, y."""
    kernel = _GroupKernelBuilder(type)
    x = kernel.buffer("x")
    w = kernel.value("weight", kernel.of_channel) if weight else None
    b = kernel.value("bias", kernel.of_channel) if bias else None
    eps, share = kernel.value("eps"), kernel.value("share")
    mean, rstd, y = kernel.buffer("mean"), kernel.buffer("rstd"), kernel.buffer("y")
    total, flat, here = kernel.begin_sum(), load(x, kernel.flat), load(x, kernel.place)
    kernel.body.append(kernel.over_elements(update(total, flat)))
    center, squares = Value(total) * share, kernel.begin_sum()
    centered = flat - center
    kernel.body.append(kernel.over_elements(update(squares, centered * centered)))
    root = 1 / apply(Scalar.SQRT, Value(squares) * share + eps)
    normalized = (here - center) * (root if w is None else root * w)
    normalized = normalized if b is None else normalized + b
    kernel.body += [kernel.over_channels(kernel.over_pixels(store(y, kernel.place, normalized))),
                    store(mean, kernel.of_group, center), store(rstd, kernel.of_group, root)]
    return kernel.build("group_norm")


def group_norm_backward(type: Type, weight: bool) -> Kernel:
    """g, x, (weight), mean, rstd, 1 / elements of a group, of_g, of_product, gx.

    of_g and of_product: each channel's sums of g, and of g times x less the mean.
    """
    kernel = _GroupKernelBuilder(type)
    g, x = kernel.value("g", kernel.place), kernel.value("x", kernel.place)
    w = kernel.value("weight", kernel.of_channel) if weight else None
    mean, rstd = kernel.value("mean", kernel.of_group), kernel.value("rstd", kernel.of_group)
    share = kernel.value("share")
    of_g, of_product, gx = kernel.buffer("of_g"), kernel.buffer("of_product"), kernel.buffer("gx")
    product_sum, gradient_sum = kernel.begin_sum(), kernel.begin_sum()
    totals = [Accumulator(ReduceOp.SUM, type) for _ in range(2)]
    of_channel = [Value(total) for total in totals]
    sums = kernel.over_pixels(*map(update, totals, (g, g * (x - mean))))
    weighted = [v if w is None else v * w for v in of_channel]
    kernel.body.append(kernel.over_channels(
        *map(Begin, totals), sums,
        update(gradient_sum, weighted[0]), update(product_sum, weighted[1]),
        store(of_g, kernel.of_image_channel, of_channel[0]),
        store(of_product, kernel.of_image_channel, of_channel[1]),
    ))
    slope = Value(product_sum) * share * (rstd * rstd * rstd)
    gradient = g * (rstd if w is None else rstd * w) - (x - mean) * slope \
        - Value(gradient_sum) * share * rstd
    kernel.body.append(kernel.over_channels(kernel.over_pixels(store(gx, kernel.place, gradient))))
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
        image, channel, pixel = create_indices("image channel pixel")
        images, channels, pixels = Size("images"), Size("channels"), Size("pixels")
        self.image_loop, self.channel_loop = (image, images), (channel, channels)
        self.pixel_loop = pixel, pixels
        self.of_channel: Place = channel
        self.sizes = [images, channels]
        if columns:
            self.place = image * channels + channel
        else:
            image_elements = Size("image_elements")
            self.sizes += [pixels, image_elements]
            self.place = image * image_elements + channel * pixels + pixel

    def sum(self, *values: Value) -> list[Value]:
        """Sum values over a channel's elements, in one pass."""
        totals = [self.begin_sum() for _ in values]
        self._sweep(list(map(update, totals, values)))
        return [Value(total) for total in totals]

    def store_elements(self, buffer: Buffer, value: Value) -> None:
        """Store a value for each of a channel's elements."""
        self._sweep([store(buffer, self.place, value)])

    def store_of_channel(self, buffer: Buffer, value: Value) -> None:
        """Store a channel's number."""
        self.body.append(store(buffer, self.of_channel, value))

    def _sweep(self, body: list[Statement]) -> None:
        if not self.columns:
            body = [vectorize(*self.pixel_loop, *body)]
        self.body.append(repeat(*self.image_loop, *body))

    def build(self, name: str) -> Kernel:
        """Return the finished kernel."""
        return Kernel(name, self.buffers, [nest(self.body, self.channel_loop)], self.sizes)


def batch_norm(type: Type, weight: bool, bias: bool, running: bool, columns: bool) -> Kernel:
    """x, (weight), (bias), eps, 1 / count, (running mean, running variance, momentum, 1 - momentum,
    1 / (count - 1)), mean, rstd, y: channels normalized, the running statistics moved.
    """
    kernel = _ChannelKernelBuilder(type, columns)
    x = kernel.value("x", kernel.place)
    w = kernel.value("weight", kernel.of_channel) if weight else None
    b = kernel.value("bias", kernel.of_channel) if bias else None
    eps, share = kernel.value("eps"), kernel.value("share")
    moving = [kernel.buffer("running_mean"), kernel.buffer("running_var")] if running else []
    names = ("momentum", "decay", "unbiased_share") if running else ()
    factors = [kernel.value(name) for name in names]
    mean, rstd, y = kernel.buffer("mean"), kernel.buffer("rstd"), kernel.buffer("y")
    center = kernel.sum(x)[0] * share
    squares = kernel.sum((x - center) * (x - center))[0]
    root = 1 / apply(Scalar.SQRT, squares * share + eps)
    normalized = (x - center) * (root if w is None else root * w)
    kernel.store_elements(y, normalized if b is None else normalized + b)
    if running:
        momentum, decay, unbiased_share = factors
        for buffer, batch in zip(moving, (center, squares * unbiased_share), strict=True):
            old = load(buffer, kernel.of_channel)
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
    share = kernel.value("share")
    gx, of_weight, of_bias = map(kernel.buffer, ("gx", "of_weight", "of_bias"))
    total, product = kernel.sum(g, g * (x - mean))
    slope = product * share * rstd * rstd
    centered = g - total * share - (x - mean) * slope
    kernel.store_elements(gx, centered * (rstd if w is None else rstd * w))
    kernel.store_of_channel(of_weight, product * rstd)
    kernel.store_of_channel(of_bias, total)
    return kernel.build("batch_norm_backward")
