# SPDX-License-Identifier: Apache-2.0
"""A JAX training of a fixed number of compiled steps on the GPU.

jax_train.py [STEPS]
"""

import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
if jax.default_backend() != "gpu":
    sys.exit(f"JAX has no GPU here, its backend is {jax.default_backend()}")
weights = jax.random.normal(jax.random.PRNGKey(0), (512, 512)) * 0.01
batch = jax.random.normal(jax.random.PRNGKey(1), (256, 512))


@jax.jit
def step(w, x):
    loss, gradient = jax.value_and_grad(lambda v: jnp.mean((jnp.tanh(x @ v) - x) ** 2))(w)
    return w - 0.1 * gradient, loss


for _ in range(steps):
    weights, loss = step(weights, batch)
print(f"steps={steps}\nloss={float(loss):.4f}")
