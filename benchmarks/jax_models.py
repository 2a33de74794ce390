"""The six models as one writes them for JAX, with flax and optax: the whole step under jax.jit, its
state given up to it at each call, images channels last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

LETTERS = 65


class Perceptron(nn.Module):
    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x, train=True):
        for width in self.widths[:-1]:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.widths[-1])(x)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.Conv(32, (3, 3), padding="VALID")(x))
        x = nn.relu(nn.Conv(64, (3, 3), padding="VALID")(x))
        x = nn.Dropout(0.25, deterministic=not train)(nn.max_pool(x, (2, 2), (2, 2)))
        x = nn.relu(nn.Dense(128)(x.reshape(x.shape[0], -1)))
        return nn.log_softmax(nn.Dense(10)(nn.Dropout(0.5, deterministic=not train)(x)))


class Residual(nn.Module):
    outputs: int
    stride: int

    @nn.compact
    def __call__(self, x, train=True):
        def norm():
            return nn.BatchNorm(use_running_average=not train, momentum=0.9)

        def conv(size, stride):
            return nn.Conv(self.outputs, (size, size), (stride, stride),
                           padding=size // 2, use_bias=False)

        out = nn.relu(norm()(conv(3, self.stride)(x)))
        out = norm()(conv(3, 1)(out))
        if self.stride != 1 or x.shape[-1] != self.outputs:
            x = norm()(conv(1, self.stride)(x))
        return nn.relu(out + x)


class ResNet18(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Conv(64, (3, 3), padding=1, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            x = Residual(outputs, stride)(x, train)
            x = Residual(outputs, 1)(x, train)
        return nn.Dense(10)(x.mean((1, 2)))


class Block(nn.Module):
    width: int
    heads: int

    @nn.compact
    def __call__(self, x):
        n, t, _ = x.shape
        qkv = nn.Dense(3 * self.width)(nn.LayerNorm(epsilon=1e-5)(x))
        query, key, value = (
            x.reshape(n, t, self.heads, -1) for x in jnp.split(qkv, 3, axis=-1)
        )
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + nn.Dense(self.width)(mixed.reshape(n, t, self.width))
        out = nn.Dense(4 * self.width)(nn.LayerNorm(epsilon=1e-5)(x))
        return x + nn.Dense(self.width)(nn.gelu(out, approximate=False))


class GPT(nn.Module):
    layers: int
    width: int
    heads: int = 4

    @nn.compact
    def __call__(self, codes, train=True):
        x = nn.Embed(LETTERS, self.width)(codes)
        x = x + nn.Embed(64, self.width)(jnp.arange(codes.shape[1]))
        for _ in range(self.layers):
            x = Block(self.width, self.heads)(x)
        return nn.Dense(LETTERS, use_bias=False)(nn.LayerNorm(epsilon=1e-5)(x))


class Writer(nn.Module):
    width: int = 128

    @nn.compact
    def __call__(self, codes, train=True):
        x = nn.Embed(LETTERS, self.width)(codes)
        return nn.Dense(LETTERS)(nn.RNN(nn.OptimizedLSTMCell(self.width))(x))


def cross_entropy(out, y):
    return optax.softmax_cross_entropy_with_integer_labels(out, y).mean()


def negative_log_likelihood(out, y):
    return -jnp.take_along_axis(out, y[:, None], 1).mean()


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable]] = {
    "tiny_mlp": (lambda: Perceptron((64, 64, 2)), cross_entropy),
    "mlp": (lambda: Perceptron((256, 128, 10)), cross_entropy),
    "cnn": (Net, negative_log_likelihood),
    "resnet": (ResNet18, cross_entropy),
    "char_gpt": (lambda: GPT(4, 128), cross_entropy),
    "lstm": (Writer, cross_entropy),
}
SHAPES = {"tiny_mlp": (4,), "mlp": (784,), "cnn": (28, 28, 1), "resnet": (32, 32, 3),
          "char_gpt": (64,), "lstm": (50,)}
CLASSES = {"tiny_mlp": 2, "char_gpt": LETTERS, "lstm": LETTERS}


def batch_of(name: str, batch: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    shape, classes = (batch, *SHAPES[name]), CLASSES.get(name, 10)
    if classes == LETTERS:
        return tuple(jnp.asarray(random.integers(LETTERS, size=shape)) for _ in range(2))
    x = jnp.asarray(random.standard_normal(shape, np.float32))
    return x, jnp.asarray(random.integers(classes, size=batch))


def training(name: str, batch: int) -> tuple[Callable[[], Any], Callable[[], None]]:
    """One call of the whole step, and waiting until all that were called are done."""
    make, loss_of = MODELS[name]
    model, adam = make(), optax.adam(1e-3)
    x, y = batch_of(name, batch)
    key = jax.random.key(0)
    variables = model.init({"params": key, "dropout": key}, x)
    params, statistics = variables["params"], variables.get("batch_stats", {})

    def step(state, x, y):
        params, statistics, moments, key = state
        key, dropout = jax.random.split(key)

        def loss(params):
            out, changed = model.apply({"params": params, "batch_stats": statistics}, x,
                                       rngs={"dropout": dropout},
                                       mutable=["batch_stats"])
            return loss_of(out, y), changed.get("batch_stats", {})

        (value, statistics), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, moments = adam.update(grads, moments, params)
        return (optax.apply_updates(params, updates), statistics, moments, key), value

    run = jax.jit(step, donate_argnums=0)
    carry = {"state": (params, statistics, adam.init(params), key), "loss": None}

    def work() -> Any:
        carry["state"], carry["loss"] = run(carry["state"], x, y)
        return carry["loss"]

    return work, lambda: jax.block_until_ready(carry["state"])
