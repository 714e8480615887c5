"""Training loops in JAX, NumPy and plain Python that name no steps: python_loops.py KIND CLOCK [STEPS].

CLOCK as real_steps.py writes it. Each is written as its kind of program is, not as a detector would like it.
"""

import random
import sys
import time

CLOCK = []


def tick():
    CLOCK.append(time.time_ns())


def dense(widths):
    import jax
    import jax.numpy as jnp
    keys = jax.random.split(jax.random.PRNGKey(0), len(widths))
    return [(jax.random.normal(key, (a, b)) * (2 / a) ** 0.5, jnp.zeros(b)) for key, a, b in zip(keys, widths, widths[1:])]


def mean_loss(parameters, inputs, targets):
    import jax
    import jax.numpy as jnp
    for weights, bias in parameters[:-1]:
        inputs = jax.nn.relu(inputs @ weights + bias)
    logits = inputs @ parameters[-1][0] + parameters[-1][1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], axis=1))


def read_each_step(steps):
    """The loss is read in each step; two epochs' worth of data in one array."""
    import jax
    import numpy
    parameters = dense((784, 512, 512, 10))

    @jax.jit
    def update(parameters, inputs, targets):
        value, gradients = jax.value_and_grad(mean_loss)(parameters, inputs, targets)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), value

    generator = numpy.random.default_rng(1)
    images = generator.normal(size=(4000, 784)).astype("float32")
    labels = generator.integers(0, 10, 4000)
    losses = []
    for step in range(steps):
        tick()
        first = step * 128 % 3800
        parameters, value = update(parameters, images[first:first + 128], labels[first:first + 128])
        losses.append(float(value))
    tick()
    print(losses[0], losses[-1])


def read_every_ten(steps):
    """The loss is read every ten steps: those between are queued."""
    import jax
    import numpy
    parameters = dense((256, 1024, 1024, 10))

    @jax.jit
    def update(parameters, inputs, targets):
        value, gradients = jax.value_and_grad(mean_loss)(parameters, inputs, targets)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), value

    generator = numpy.random.default_rng(2)
    for step in range(steps):
        tick()
        inputs = generator.normal(size=(128, 256)).astype("float32")
        targets = generator.integers(0, 10, 128)
        parameters, value = update(parameters, inputs, targets)
        if step % 10 == 9:
            print(step, float(value))
    tick()


def big_convnet(steps):
    """Convolutions, a few hundred milliseconds each step."""
    import jax
    import jax.numpy as jnp
    import numpy
    keys = jax.random.split(jax.random.PRNGKey(0), 5)
    shapes = [(3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 64), (3, 3, 64, 128)]
    parameters = {"convolutions": [jax.random.normal(k, s) * (2 / (s[0] * s[1] * s[2])) ** 0.5 for k, s in zip(keys, shapes)],
                  "out": jax.random.normal(keys[4], (128, 10)) * 0.05}

    def loss(parameters, images, labels):
        x = images
        for number, kernel in enumerate(parameters["convolutions"]):
            stride = (2, 2) if number % 2 else (1, 1)
            x = jax.lax.conv_general_dilated(x, kernel, stride, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x)
        logits = x.mean((1, 2)) @ parameters["out"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))

    @jax.jit
    def train_step(parameters, images, labels):
        value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
        return jax.tree_util.tree_map(lambda p, g: p - 0.05 * g, parameters, gradients), value

    def augmented(generator, images):
        flipped = images[:, :, ::-1] if generator.random() < 0.5 else images
        return flipped + generator.normal(scale=0.02, size=images.shape).astype("float32")

    generator = numpy.random.default_rng(3)
    data = generator.normal(size=(256, 32, 32, 3)).astype("float32")
    answers = generator.integers(0, 10, 256)
    for step in range(steps):
        tick()
        rows = generator.integers(0, 256, 96)
        images = augmented(generator, data[rows])
        parameters, value = train_step(parameters, images, answers[rows])
        value.block_until_ready()
    tick()


def small_steps(steps):
    """A few milliseconds each, as in a tutorial."""
    import jax
    import jax.numpy as jnp
    import numpy
    weights = jnp.zeros((64, 256)), jax.random.normal(jax.random.PRNGKey(1), (256, 1)) * 0.1
    generator = numpy.random.default_rng(4)
    x = generator.normal(size=(4096, 64)).astype("float32")
    y = numpy.sin(x.sum(1, keepdims=True))

    def loss(weights, x, y):
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    gradient = jax.jit(jax.value_and_grad(loss))
    history = []
    for _ in range(steps):
        tick()
        value, (first, second) = gradient(weights, x, y)
        weights = weights[0] - 0.1 * first, weights[1] - 0.1 * second
        history.append(value.item())
    tick()


def scan_chunks(chunks, inner=25):
    """lax.scan over chunks of batches: the program's step is the chunk, nobody sees the batches."""
    import jax
    import jax.numpy as jnp
    import numpy
    parameters = dense((128, 256, 10))

    def body(parameters, batch):
        value, gradients = jax.value_and_grad(mean_loss)(parameters, *batch)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), value

    run_chunk = jax.jit(lambda parameters, batches: jax.lax.scan(body, parameters, batches))
    generator = numpy.random.default_rng(5)
    for chunk in range(chunks):
        tick()
        batches = (jnp.asarray(generator.normal(size=(inner, 128, 128)), dtype="float32"),
                   jnp.asarray(generator.integers(0, 10, (inner, 128))))
        parameters, values = run_chunk(parameters, batches)
        mean = float(values.mean())
        if chunk % 10 == 0:
            print(f"chunk {chunk}: {mean:.4f}", flush=True)
    tick()


class Loader:
    """Batches from a generator, in a new order each epoch."""

    def __init__(self, rows, batch):
        import numpy
        self.random = numpy.random.default_rng(6)
        self.inputs = self.random.normal(size=(rows, 512)).astype("float32")
        self.targets = self.random.integers(0, 10, rows)
        self.batch = batch

    def __iter__(self):
        order = self.random.permutation(len(self.inputs))
        for first in range(0, len(order) - self.batch + 1, self.batch):
            chosen = order[first:first + self.batch]
            yield self.inputs[chosen], self.targets[chosen]


class Trainer:
    def __init__(self, widths, rate):
        import jax
        self.parameters = dense(widths)
        self.rate = rate
        self.losses = []
        self.update = jax.jit(self._update)
        self.loss = jax.jit(mean_loss)

    def _update(self, parameters, inputs, targets):
        import jax
        value, gradients = jax.value_and_grad(mean_loss)(parameters, inputs, targets)
        return jax.tree_util.tree_map(lambda p, g: p - self.rate * g, parameters, gradients), value

    def train_step(self, batch):
        inputs, targets = batch
        self.parameters, value = self.update(self.parameters, inputs, targets)
        self.losses.append(float(value))

    def evaluate(self, loader):
        return sum(float(self.loss(self.parameters, *batch)) for batch in loader)

    def fit(self, training, held_out, epochs):
        for epoch in range(epochs):
            for batch in training:
                tick()
                self.train_step(batch)
            print(f"epoch {epoch}: {self.losses[-1]:.3f}, held out {self.evaluate(held_out):.3f}")


def class_trainer(steps, epochs=6, batch=128):
    """A class, a loader, an evaluation behind each epoch."""
    trainer = Trainer((512, 768, 768, 10), 0.02)
    trainer.fit(Loader(steps // epochs * batch, batch), Loader(8 * batch, batch), epochs)
    tick()


def adam_by_hand(steps):
    """Gradients by one function, Adam by another, both compiled; the loss is read every step for a running mean."""
    import jax
    import jax.numpy as jnp
    import numpy
    parameters = dense((784, 768, 10))
    zeros = jax.tree_util.tree_map(jnp.zeros_like, parameters)
    state = {"mean": zeros, "square": zeros, "count": 0}
    gradient = jax.jit(jax.value_and_grad(mean_loss))

    @jax.jit
    def adam(parameters, state, gradients, rate=1e-3):
        tree_map = jax.tree_util.tree_map
        count = state["count"] + 1
        mean = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
        square = tree_map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradients)
        changed = tree_map(lambda p, m, s: p - rate * (m / (1 - 0.9 ** count)) / (jnp.sqrt(s / (1 - 0.999 ** count)) + 1e-8),
                           parameters, mean, square)
        return changed, {"mean": mean, "square": square, "count": count}

    generator = numpy.random.default_rng(7)
    running = 0.0
    for step in range(steps):
        tick()
        inputs = generator.normal(size=(256, 784)).astype("float32")
        targets = generator.integers(0, 10, 256)
        value, gradients = gradient(parameters, inputs, targets)
        parameters, state = adam(parameters, state, gradients)
        running = 0.95 * running + 0.05 * float(value)
        if step % 50 == 0:
            print(step, running)
    tick()


def numpy_network(steps):
    """Backpropagation by hand."""
    import numpy
    generator = numpy.random.default_rng(8)
    first, second = generator.normal(size=(256, 512)) * 0.1, generator.normal(size=(512, 10)) * 0.1
    data = generator.normal(size=(4096, 256))
    labels = numpy.eye(10)[generator.integers(0, 10, 4096)]

    def forward(x):
        hidden = numpy.maximum(x @ first, 0)
        scores = numpy.exp(hidden @ second)
        return hidden, scores / scores.sum(1, keepdims=True)

    def backward(x, y, hidden, chances):
        error = (chances - y) / len(x)
        into = (error @ second.T) * (hidden > 0)
        return x.T @ into, hidden.T @ error

    for step in range(steps):
        tick()
        rows = generator.integers(0, 4096, 512)
        x, y = data[rows], labels[rows]
        hidden, chances = forward(x)
        changes = backward(x, y, hidden, chances)
        first -= 0.1 * changes[0]
        second -= 0.1 * changes[1]
    tick()


def numpy_long(steps):
    """k-means over many points: about 100 ms a turn, the distances the most of it."""
    import numpy
    generator = numpy.random.default_rng(9)
    points = generator.normal(size=(60000, 32))
    centers = points[:24].copy()
    for _ in range(steps):
        tick()
        distances = (points ** 2).sum(1)[:, None] - 2 * points @ centers.T + (centers ** 2).sum(1)
        nearest = distances.argmin(1)
        for number in range(len(centers)):
            chosen = points[nearest == number]
            if len(chosen):
                centers[number] = chosen.mean(0)
    tick()


def plain_perceptron(steps):
    """No library at all: a loop over examples in each step."""
    random.seed(10)
    examples = [([random.gauss(0, 1) for _ in range(40)], random.choice((-1, 1))) for _ in range(3000)]
    weights = [0.0] * 40
    for _ in range(steps):
        tick()
        errors = 0
        for inputs, target in examples:
            score = sum(w * x for w, x in zip(weights, inputs))
            if score * target <= 0:
                errors += 1
                weights = [w + 0.01 * target * x for w, x in zip(weights, inputs)]
        print(errors)
    tick()


KINDS = {
    "read_each_step": lambda steps: read_each_step(steps or 500),
    "read_every_ten": lambda steps: read_every_ten(steps or 400),
    "big_convnet": lambda steps: big_convnet(steps or 50),
    "small_steps": lambda steps: small_steps(steps or 1000),
    "scan_chunks": lambda steps: scan_chunks(steps or 80),
    "class_trainer": lambda steps: class_trainer(steps or 480),
    "adam_by_hand": lambda steps: adam_by_hand(steps or 400),
    "numpy_network": lambda steps: numpy_network(steps or 400),
    "numpy_long": lambda steps: numpy_long(steps or 80),
    "plain_perceptron": lambda steps: plain_perceptron(steps or 60),
}


if __name__ == "__main__":
    KINDS[sys.argv[1]](int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.writelines(f"{at}\n" for at in CLOCK)
