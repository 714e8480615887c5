# SPDX-License-Identifier: Apache-2.0
"""A JAX classifier trained with warm-up and cosine decay of the learning rate."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from lapclock import LapClock

STEPS = 72
WARMUP = 12
EVERY = 4
SIZES = (512, 768, 10)


def start(random):
    return [(jnp.asarray(random.normal(0, 1 / math.sqrt(a), (a, b)), jnp.float32), jnp.zeros(b))
            for a, b in zip(SIZES, SIZES[1:])]


def loss_of(layers, inputs, labels):
    for weights, bias in layers[:-1]:
        inputs = jax.nn.gelu(inputs @ weights + bias)
    weights, bias = layers[-1]
    chances = jax.nn.log_softmax(inputs @ weights + bias)
    return -jnp.mean(jnp.take_along_axis(chances, labels[:, None], axis=1))


@functools.partial(jax.jit, static_argnames=("rate",))
def update(layers, inputs, labels, rate):
    loss, gradients = jax.value_and_grad(loss_of)(layers, inputs, labels)
    return jax.tree.map(lambda value, slope: value - rate * slope, layers, gradients), loss


def rate_at(step):
    if step < WARMUP:
        return 0.1 * (step + 1) / WARMUP
    return 0.05 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def main():
    random = np.random.default_rng(31)
    layers = start(random)
    inputs = [jnp.asarray(random.normal(0, 1, (3072, SIZES[0])), jnp.float32) for _ in range(4)]
    labels = [jnp.asarray(random.integers(0, 10, 3072)) for _ in range(4)]
    clock = LapClock()
    for step in range(STEPS):
        with clock.step():
            with clock.part("compile"):
                layers, loss = update(layers, inputs[step % 4], labels[step % 4], rate_at(step - step % EVERY))  # the cause
            with clock.part("operations"):
                loss.block_until_ready()
    print(f"loss {float(loss):.3f}")
    clock.save()


if __name__ == "__main__":
    main()
