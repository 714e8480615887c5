# SPDX-License-Identifier: Apache-2.0
"""Uses jax.profiler three times, with the same 20 steps in it and around it; a gate before each.

jax_profiles.py DIR   its traces go to DIR/0, DIR/1, DIR/2
"""

import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import gates
import jax
import jax.numpy as jnp


@jax.jit
def step(w):
    return w - 0.01 * jax.grad(lambda v: jnp.mean(jnp.tanh(v @ v)))(w)


def work(w, count):
    for _ in range(count):
        w = step(w)
    return w.block_until_ready()


weights = work(jax.random.normal(jax.random.PRNGKey(0), (512, 512)) * 0.01, 5)
for number in range(3):
    gates.wait(number)
    weights = work(weights, 20)
    with jax.profiler.trace(f"{sys.argv[1]}/{number}"):
        weights = work(weights, 20)
    # Another profiler comes back on a thread of its own.
    time.sleep(0.5)
    weights = work(weights, 20)
print("rounds=3")
