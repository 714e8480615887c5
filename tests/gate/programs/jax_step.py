# SPDX-License-Identifier: Apache-2.0
# A jitted step of JAX. PLANT names what is slower.
import os

import jax
import jax.numpy as jnp

PLANT = os.environ.get("PLANT", "")


@jax.jit
def step(weights, x):
    def loss(w):
        hidden = jnp.tanh(x @ w)
        if PLANT == "twice":
            hidden = jnp.tanh(hidden @ w)
        return (hidden**2).mean()

    return weights - 0.1 * jax.grad(loss)(weights)


def main():
    weights = jnp.ones((768, 768)) * 0.01
    x = jnp.ones((256, 768))
    for number in range(150):
        with jax.profiler.StepTraceAnnotation("step", step_num=number):
            weights = step(weights, x)
            weights.block_until_ready()
    print(float(weights.sum()))


if __name__ == "__main__":
    main()
