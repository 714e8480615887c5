# SPDX-License-Identifier: Apache-2.0
"""A JAX training that says how many steps it made and how long each took by its own clock.

jax_steps.py [STEPS]
"""

import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
weights = jax.random.normal(jax.random.PRNGKey(0), (2048, 2048)) * 0.01
batches = [jax.random.normal(jax.random.PRNGKey(n), (4096, 2048)) for n in range(4)]


@jax.jit
def step(w, x):
    loss, gradient = jax.value_and_grad(lambda v: jnp.mean((jnp.tanh(jnp.tanh(x @ v) @ v) - x) ** 2))(w)
    return w - 0.1 * gradient, loss


def train(w):
    took = []
    for number in range(steps):
        start = time.perf_counter()
        w, loss = step(w, batches[number % 4])
        loss.block_until_ready()
        took.append(time.perf_counter() - start)
    return took, loss


took, loss = train(weights)
took.sort()
print(f"loss={float(loss):.4f}", flush=True)
print(f"steps={steps}\nstep_us={took[len(took) // 2] * 1e6:.0f}", file=sys.stderr, flush=True)
