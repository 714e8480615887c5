"""Training loops that keep a clock of their own: real_steps.py KIND CLOCK [STEPS].

CLOCK gets one line for each step's begin and one for the last one's end: nanoseconds since 1970.
"""

import os
import sys
import time

CLOCK = []


def tick():
    CLOCK.append(time.time_ns())


def torch_loop(steps, layers, width, batch, workers=None, accumulation=1):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[layer for _ in range(layers) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())],
                                torch.nn.Linear(width, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    if workers is None:
        batches = ((torch.randn(batch, width), torch.randn(batch, 8)) for _ in range(steps * accumulation))
    else:
        data = torch.utils.data.TensorDataset(torch.randn(steps * batch * accumulation, width),
                                              torch.randn(steps * batch * accumulation, 8))
        batches = torch.utils.data.DataLoader(data, batch_size=batch, num_workers=workers)
    tick()
    for number, (inputs, targets) in enumerate(batches, 1):
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        if number % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
            tick()


def torch_inference(steps, layers, width, batch, epochs=6):
    """As a server does, or an evaluation: no optimizer and no loader; something else now and then."""
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[layer for _ in range(layers) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())])
    tick()
    for _ in range(epochs):
        answers = []
        for _ in range(steps // epochs):
            with torch.no_grad():
                answers.append(model(torch.randn(batch, width)).argmax(1))
            tick()
        torch.bincount(torch.cat(answers)).tolist()


def jax_loop(steps, layers, width, batch, block=True, fresh=False, epochs=1):
    import jax
    import jax.numpy as jnp
    import numpy
    keys = jax.random.split(jax.random.PRNGKey(0), layers)
    parameters = [jax.random.normal(key, (width, width)) / width for key in keys]

    def loss(parameters, inputs, targets):
        for weights in parameters:
            inputs = jnp.tanh(inputs @ weights)
        return jnp.mean((inputs - targets) ** 2)

    @jax.jit
    def update(parameters, inputs, targets):
        value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
        return [p - 0.01 * g for p, g in zip(parameters, gradients)], value

    evaluate = jax.jit(loss)
    random = numpy.random.default_rng(1)
    inputs, targets = random.normal(size=(2, batch, width)).astype("float32")
    parameters, _ = update(parameters, inputs, targets)
    tick()
    for _ in range(epochs):
        for _ in range(steps // epochs):
            if fresh:
                inputs = random.normal(size=(batch, width)).astype("float32")
            parameters, value = update(parameters, inputs, targets)
            if block:
                float(value)
            tick()
        if epochs > 1:
            for _ in range(max(1, steps // epochs // 5)):
                float(evaluate(parameters, inputs, targets))


def jax_batches(steps, batch, shape, classes=10):
    """A data set in NumPy, shuffled, a batch of copies each time."""
    import numpy
    random = numpy.random.default_rng(1)
    rows = max(batch * 20, 1000)
    inputs, targets = random.normal(size=(rows, *shape)).astype("float32"), random.integers(0, classes, rows)
    for _ in range(steps):
        chosen = random.integers(0, rows, batch)
        yield inputs[chosen], targets[chosen]


def jax_mlp(steps, width=512, batch=128):
    """A small network by hand, the loss printed every 50 steps."""
    import jax
    import jax.numpy as jnp
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    parameters = [(jax.random.normal(key, (a, b)) * 0.05, jnp.zeros(b)) for key, a, b in
                  zip(keys, (784, width, width), (width, width, 10))]

    def loss(parameters, inputs, targets):
        for weights, bias in parameters[:-1]:
            inputs = jax.nn.relu(inputs @ weights + bias)
        logits = inputs @ parameters[-1][0] + parameters[-1][1]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], axis=1))

    @jax.jit
    def update(parameters, inputs, targets):
        value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), value

    for number, (inputs, targets) in enumerate(jax_batches(steps, batch, (784,))):
        tick()
        parameters, value = update(parameters, inputs, targets)
        if number % 50 == 0:
            print(float(value))
    float(value)
    tick()


def jax_cnn(steps, batch=32):
    import jax
    import jax.numpy as jnp
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    parameters = {"a": jax.random.normal(keys[0], (3, 3, 1, 16)) * 0.1, "b": jax.random.normal(keys[1], (3, 3, 16, 32)) * 0.1,
                  "c": jax.random.normal(keys[2], (7 * 7 * 32, 10)) * 0.01}

    def loss(parameters, inputs, targets):
        for name in "ab":
            inputs = jax.lax.conv_general_dilated(inputs, parameters[name], (2, 2), "SAME",
                                                  dimension_numbers=("NHWC", "HWIO", "NHWC"))
            inputs = jax.nn.relu(inputs)
        logits = inputs.reshape(inputs.shape[0], -1) @ parameters["c"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], axis=1))

    @jax.jit
    def update(parameters, inputs, targets):
        value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), value

    losses = []
    for inputs, targets in jax_batches(steps, batch, (28, 28, 1)):
        tick()
        parameters, value = update(parameters, inputs, targets)
        losses.append(float(value))
    tick()


def jax_scan(epochs, inner=20, width=128, batch=64):
    """An epoch is one execution: lax.scan over its batches."""
    import jax
    import jax.numpy as jnp
    weights = jax.random.normal(jax.random.PRNGKey(0), (width, width)) * 0.05

    def loss(weights, inputs):
        return jnp.mean((jnp.tanh(inputs @ weights) @ weights.T - inputs) ** 2)

    def body(weights, inputs):
        value, gradient = jax.value_and_grad(loss)(weights, inputs)
        return weights - 0.01 * gradient, value

    epoch = jax.jit(lambda weights, inputs: jax.lax.scan(body, weights, inputs))
    for inputs, _ in jax_batches(epochs, inner * batch, (width,)):
        tick()
        weights, values = epoch(weights, inputs.reshape(inner, batch, width))
        float(values.mean())
    tick()


def jax_transformer(steps, width=128, length=64, batch=8):
    import jax
    import jax.numpy as jnp
    keys = jax.random.split(jax.random.PRNGKey(0), 7)
    shapes = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width), "up": (width, 4 * width),
              "down": (4 * width, width), "out": (width, 10)}
    parameters = {name: jax.random.normal(key, shape) * 0.05 for key, (name, shape) in zip(keys, shapes.items())}

    def loss(p, x, targets):
        scores = jax.nn.softmax((x @ p["q"]) @ (x @ p["k"]).transpose(0, 2, 1) / width ** 0.5)
        x = x + scores @ (x @ p["v"]) @ p["o"]
        x = x + jax.nn.gelu(x @ p["up"]) @ p["down"]
        logits = x.mean(1) @ p["out"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], axis=1))

    @jax.jit
    def update(parameters, inputs, targets):
        value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), value

    for inputs, targets in jax_batches(steps, batch, (length, width)):
        tick()
        parameters, value = update(parameters, inputs, targets)
        value.block_until_ready()
    tick()


def jax_rl(iterations, horizon=32, updates=4):
    """Iterations of acting in an environment of NumPy, and a few updates by what came of it."""
    import jax
    import jax.numpy as jnp
    import numpy
    random = numpy.random.default_rng(1)
    weights = jax.random.normal(jax.random.PRNGKey(0), (8, 4)) * 0.1
    act = jax.jit(lambda weights, state: jax.nn.softmax(state @ weights))

    @jax.jit
    def update(weights, states, actions, rewards):
        def loss(weights):
            chosen = jnp.take_along_axis(jax.nn.log_softmax(states @ weights), actions[:, None], axis=1)[:, 0]
            return -jnp.mean(chosen * rewards)
        value, gradient = jax.value_and_grad(loss)(weights)
        return weights - 0.01 * gradient, value

    for _ in range(iterations):
        tick()
        states, actions, rewards = [], [], []
        state = random.normal(size=(16, 8)).astype("float32")
        for _ in range(horizon):
            chances = numpy.asarray(act(weights, state))
            action = (chances.cumsum(1) > random.random((16, 1))).argmax(1)
            states.append(state)
            actions.append(action)
            rewards.append(state[:, 0] * (action == 1))
            state = (state * 0.9 + random.normal(size=state.shape) * 0.1).astype("float32")
        batch = [numpy.concatenate(part) for part in (states, actions, rewards)]
        for _ in range(updates):
            weights, value = update(weights, *batch)
        float(value)
    tick()


def jax_flax(steps, batch=128):
    """flax and optax, as their examples have it."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (256, 256):
                x = nn.relu(nn.Dense(width)(x))
            return nn.Dense(10)(x)

    network = Network()
    parameters = network.init(jax.random.PRNGKey(0), jnp.ones((1, 784)))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)

    @jax.jit
    def update(parameters, state, inputs, targets):
        def loss(parameters):
            logits = network.apply(parameters, inputs)
            return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
        value, gradients = jax.value_and_grad(loss)(parameters)
        changes, state = optimizer.update(gradients, state)
        return optax.apply_updates(parameters, changes), state, value

    for number, (inputs, targets) in enumerate(jax_batches(steps, batch, (784,))):
        tick()
        parameters, state, value = update(parameters, state, inputs, targets)
        if number % 100 == 99:
            print(float(value))
    float(value)
    tick()


def keras_fit(steps, width, batch, epochs=1, validate=False, fits=1):
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import numpy
    model = keras.Sequential([keras.layers.Dense(width, activation="relu"), keras.layers.Dense(width, activation="relu"),
                              keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    random = numpy.random.default_rng(1)
    rows = steps // (epochs * fits) * batch
    inputs, targets = random.normal(size=(rows, 64)), random.normal(size=(rows, 1))

    class Clock(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            tick()

        def on_train_end(self, logs=None):
            tick()

    held_out = (inputs[: rows // 5], targets[: rows // 5]) if validate else None
    for _ in range(fits):
        model.fit(inputs, targets, batch_size=batch, epochs=epochs, verbose=0, callbacks=[Clock()],
                  validation_data=held_out, validation_batch_size=batch)


def tensorflow_loop(steps, width, batch, accumulation=1, compiled_update=True, epochs=1, log_every=0):
    """A loop of the program's own around functions; with `accumulation` the optimizer is called every so many."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import tensorflow as tf
    model = keras.Sequential([keras.layers.Dense(width, activation="relu"), keras.layers.Dense(width, activation="relu"),
                              keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.001)
    model.build((batch, 64))
    optimizer.build(model.trainable_variables)

    def gradients_of(inputs, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs, training=True) - targets) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    @tf.function
    def gradients(inputs, targets):
        return gradients_of(inputs, targets)

    @tf.function
    def update(inputs, targets):
        optimizer.apply_gradients(zip(gradients_of(inputs, targets), model.trainable_variables))

    @tf.function
    def evaluate(inputs, targets):
        return tf.reduce_mean((model(inputs) - targets) ** 2)

    rows = steps // epochs * accumulation * batch
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal((rows, 64)), tf.random.normal((rows, 1)))).batch(batch)
    losses = keras.metrics.Mean()
    summed, number = None, 0
    tick()
    for _ in range(epochs):
        for inputs, targets in data:
            number += 1
            if compiled_update:
                update(inputs, targets)
            else:
                found = gradients(inputs, targets)
                summed = found if summed is None else [a + b for a, b in zip(summed, found)]
            if number % accumulation == 0:
                if not compiled_update:
                    optimizer.apply_gradients(zip(summed, model.trainable_variables))
                    summed = None
                if log_every > 0 and number % log_every == 0:
                    losses.update_state(evaluate(inputs, targets))
                    float(losses.result())
                tick()
        if epochs > 1:
            losses.reset_state()
            for inputs, targets in data.take(max(1, steps // epochs // 5)):
                losses.update_state(evaluate(inputs, targets))
            float(losses.result())


def numpy_loop(steps, width):
    import numpy
    random = numpy.random.default_rng(1)
    weights = random.normal(size=(width, width))
    tick()
    for _ in range(steps):
        inputs = random.normal(size=(256, width))
        hidden = numpy.tanh(inputs @ weights)
        weights -= 1e-6 * inputs.T @ (hidden - inputs)
        tick()


KINDS = {
    "torch": lambda steps: torch_loop(steps or 300, 4, 256, 128),
    "torch_tiny": lambda steps: torch_loop(steps or 3000, 1, 8, 4),
    "torch_loader": lambda steps: torch_loop(steps or 300, 4, 256, 128, workers=0),
    "torch_workers": lambda steps: torch_loop(steps or 300, 4, 256, 128, workers=2),
    "torch_accumulation": lambda steps: torch_loop(steps or 100, 4, 256, 128, workers=0, accumulation=4),
    "jax": lambda steps: jax_loop(steps or 300, 4, 512, 256),
    "jax_long": lambda steps: jax_loop(steps or 100, 8, 1024, 512),
    "jax_tiny": lambda steps: jax_loop(steps or 3000, 1, 8, 4),
    "jax_async": lambda steps: jax_loop(steps or 300, 4, 512, 256, block=False),
    "jax_input": lambda steps: jax_loop(steps or 300, 4, 512, 256, fresh=True),
    "jax_epochs": lambda steps: jax_loop(steps or 300, 4, 512, 256, fresh=True, epochs=6),
    "jax_epochs_same": lambda steps: jax_loop(steps or 300, 4, 512, 256, epochs=6),
    "jax_mlp": lambda steps: jax_mlp(steps or 500),
    "jax_cnn": lambda steps: jax_cnn(steps or 300),
    "jax_scan": lambda steps: jax_scan(steps or 100),
    "jax_transformer": lambda steps: jax_transformer(steps or 200),
    "jax_rl": lambda steps: jax_rl(steps or 100),
    "jax_flax": lambda steps: jax_flax(steps or 500),
    "jax_mlp_large": lambda steps: jax_mlp(steps or 200, 1024, 512),
    "jax_cnn_large": lambda steps: jax_cnn(steps or 100, 256),
    "jax_scan_large": lambda steps: jax_scan(steps or 60, 20, 512, 256),
    "jax_transformer_large": lambda steps: jax_transformer(steps or 80, 256, 128, 16),
    "jax_rl_large": lambda steps: jax_rl(steps or 60, 256, 16),
    "jax_flax_large": lambda steps: jax_flax(steps or 200, 1024),
    "torch_inference": lambda steps: torch_inference(steps or 300, 4, 256, 128),
    "keras": lambda steps: keras_fit(steps or 300, 512, 128),
    "keras_epochs": lambda steps: keras_fit(steps or 1200, 256, 32, epochs=12),
    "keras_validation": lambda steps: keras_fit(steps or 1200, 256, 32, epochs=12, validate=True),
    "keras_fits": lambda steps: keras_fit(steps or 1200, 256, 32, fits=12),
    "keras_few": lambda steps: keras_fit(steps or 300, 256, 32, epochs=30),
    "tensorflow": lambda steps: tensorflow_loop(steps or 300, 256, 64),
    "tensorflow_eager": lambda steps: tensorflow_loop(steps or 300, 256, 64, compiled_update=False),
    "tensorflow_epochs": lambda steps: tensorflow_loop(steps or 600, 256, 64, epochs=12),
    "tensorflow_logs": lambda steps: tensorflow_loop(steps or 600, 256, 64, log_every=4),
    "tensorflow_logs_eager": lambda steps: tensorflow_loop(steps or 600, 256, 64, compiled_update=False, log_every=10),
    "tensorflow_accumulation": lambda steps: tensorflow_loop(steps or 100, 256, 64, accumulation=4, compiled_update=False),
    "numpy": lambda steps: numpy_loop(steps or 200, 512),
}


if __name__ == "__main__":
    KINDS[sys.argv[1]](int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    with open(sys.argv[2], "w") as file:
        file.writelines(f"{time}\n" for time in CLOCK)
