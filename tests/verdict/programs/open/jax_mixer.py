# SPDX-License-Identifier: Apache-2.0
"""An MLP mixer in JAX: compiled at the first step, then steps of one shape."""

import jax
import jax.numpy as jnp
import numpy as np
from steptimer import StepTimer

STEPS = 110


def forward(params, x):
    for token, channel in params["blocks"]:
        x = x + jnp.einsum("bij,ik->bkj", jnp.tanh(x), token)
        x = x + jax.nn.gelu(x) @ channel
    return x.mean(1) @ params["head"]


def loss_of(params, x, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), y[:, None], -1))


@jax.jit
def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    return loss, jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)


def main():
    rng = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(rng.normal(0, 0.05, shape), jnp.float32)  # noqa: E731
    params = {"blocks": [(normal(64, 64), normal(192, 192)) for _ in range(3)], "head": normal(192, 10)}
    x = rng.normal(size=(32, 64, 192)).astype(np.float32)
    y = rng.integers(0, 10, 32)
    loss, params = train_step(params, x, y)
    loss.block_until_ready()
    timer = StepTimer()
    for _ in range(STEPS):
        with timer.step(), timer.part("operations"):
            loss, params = train_step(params, x, y)
            loss.block_until_ready()
    print(f"last loss {float(loss):.2f}")
    timer.save()


if __name__ == "__main__":
    main()
