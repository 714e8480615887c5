# SPDX-License-Identifier: Apache-2.0
"""Features of a frozen projection in JAX and a head in NumPy; each batch is padded to its own longest sequence."""

import jax
import jax.numpy as jnp
import numpy as np
from steptimer import StepTimer

STEPS = 80
timer = StepTimer()
COMPILING = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration")
compile_s = 0.0


def on_duration(event, seconds, **_):
    global compile_s
    if event.endswith(COMPILING):
        compile_s += seconds


@jax.jit
def pool(projection, tokens):
    return jnp.tanh(tokens @ projection).mean(1)


def main():
    jax.monitoring.register_event_duration_secs_listener(on_duration)
    rng = np.random.default_rng(0)
    projection = rng.normal(0, 0.1, (96, 768)).astype(np.float32)
    head = np.zeros((768, 8), np.float32)
    lengths = rng.permutation(np.arange(120, 120 + STEPS))
    for length in lengths:
        tokens = rng.normal(size=(32, int(length), 96)).astype(np.float32)
        labels = np.eye(8, dtype=np.float32)[rng.integers(0, 8, 32)]
        before = compile_s
        with timer.step():
            with timer.part("operations"):
                features = np.asarray(pool(projection, tokens))  # the cause
                scores = features @ head
                scores = np.exp(scores - scores.max(1, keepdims=True))
                probabilities = scores / scores.sum(1, keepdims=True)
                head -= 0.1 * features.T @ (probabilities - labels) / 32
                loss = -np.log((probabilities * labels).sum(1)).mean()
            timer.add("operations", before - compile_s)
            timer.add("compile", compile_s - before)
    print(f"last loss {float(loss):.3f}")
    timer.save()


if __name__ == "__main__":
    main()
