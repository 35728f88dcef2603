"""One FedAvg round in JAX on the CPU: the clients batched, all steps in one jitted scan.

Written as a careful JAX user would: the round is a single compiled program (gathered batches, Adam written
out, averaging), the model's buffers are donated, and compiling is not timed. Clients are batched by `vmap`;
`map` (one client after another inside the program, whose state then fits the cache) is tried too, and the
faster one is measured. Convolutions are written as patches times a matrix: on the CPU that is four times
faster than XLA's own convolution and its gradients. XLA uses every core it is given.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cases import (
    BATCH, BETA1, BETA2, CASES, CLASSES, CLIENTS, EPSILON, LEARNING_RATE, SEED, arguments, make_data, measure,
)  # fmt: skip


def initial(case, rng):
    """Weights and biases uniform in +-1/sqrt(fan_in), as PyTorch draws them."""
    if case.network == "mlp":
        shapes = [(784, 100), (100, CLASSES)]
    else:
        shapes = [(6, 3, 5, 5), (16, 6, 5, 5), (400, 120), (120, 84), (84, CLASSES)]
    parameters = []
    for shape in shapes:
        fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        outputs = shape[1] if len(shape) == 2 else shape[0]
        bound = fan_in**-0.5
        parameters.append((
            jnp.asarray(rng.uniform(-bound, bound, shape), jnp.float32),
            jnp.asarray(rng.uniform(-bound, bound, outputs), jnp.float32),
        ))
    return parameters


def convolved(x, w):
    """A valid convolution of x [n, h, w, channels] with w [out, channels, k, k]: patches times a matrix."""
    out, channels, k, _ = w.shape
    n, height, width = x.shape[0], x.shape[1] - k + 1, x.shape[2] - k + 1
    shifts = [x[:, i : i + height, j : j + width, :] for i in range(k) for j in range(k)]
    patches = jnp.concatenate(shifts, axis=3).reshape(n * height * width, k * k * channels)
    matrix = w.transpose(2, 3, 1, 0).reshape(k * k * channels, out)
    return (patches @ matrix).reshape(n, height, width, out)


def pooled(x):
    """Max over 2x2 windows. As a reshape: the gradient of `reduce_window` is slower on the CPU."""
    n, height, width, channels = x.shape
    return x.reshape(n, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def logits_of(parameters, x):
    *hidden, (weight, bias) = parameters
    for w, b in hidden:
        if w.ndim == 4:
            # The bias and ReLU after the pool: the same values (both only rise), a quarter of the work.
            x = jax.nn.relu(pooled(convolved(x, w)) + b)
        else:
            x = jax.nn.relu(x.reshape(len(x), -1) @ w + b)
    return x @ weight + bias


def loss_of(parameters, x, y):
    log_p = jax.nn.log_softmax(logits_of(parameters, x))
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()


def adam_step(state, x, y):
    parameters, first, second, t = state
    gradient = jax.grad(loss_of)(parameters, x, y)
    t = t + 1.0
    rate = LEARNING_RATE / (1.0 - BETA1**t)
    correction = lax.rsqrt(1.0 - BETA2**t)
    first = jax.tree.map(lambda m, g: BETA1 * m + (1.0 - BETA1) * g, first, gradient)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1.0 - BETA2) * g * g, second, gradient)
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * m / (jnp.sqrt(v) * correction + EPSILON), parameters, first, second
    )
    return parameters, first, second, t


def train_client(parameters, x, y, orders):
    """All epochs of one client; `orders` is [epochs, samples], one permutation an epoch."""
    samples = len(x)
    full = samples // BATCH * BATCH

    def step(state, batch):
        return adam_step(state, x[batch], y[batch]), None

    def epoch(state, order):
        state, _ = lax.scan(step, state, order[:full].reshape(-1, BATCH))
        if full < samples:  # the short last batch: its own static shape
            state, _ = step(state, order[full:])
        return state, None

    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state, _ = lax.scan(epoch, (parameters, zeros, zeros, jnp.float32(0.0)), orders)
    return state[0]


def make_round(batching):
    def fedavg_round(server, x, y, orders):
        if batching == "vmap":
            clients = jax.vmap(train_client, in_axes=(None, 0, 0, 0))(server, x, y, orders)
        else:
            clients = lax.map(lambda data: train_client(server, *data), (x, y, orders))
        return jax.tree.map(lambda p: p.mean(axis=0), clients)

    return jax.jit(fedavg_round, donate_argnums=0)


def shuffled(rng, epochs, samples):
    """A permutation of every client's samples for every epoch: NumPy's is faster than XLA's sort."""
    identity = np.broadcast_to(np.arange(samples, dtype=np.int32), (CLIENTS, epochs, samples))
    return rng.permuted(identity, axis=2)


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--batching", nargs="+", choices=["vmap", "map"], default=["vmap", "map"])
    options = parser.parse_args()
    case = CASES[options.case]
    x, y = make_data(case)
    if case.network == "cnn":
        x = np.ascontiguousarray(np.moveaxis(x, 2, -1))  # channels last, as the patches want them
    x, y = jnp.asarray(x), jnp.asarray(y, jnp.int32)

    def variant(batching):
        rng = np.random.default_rng(SEED)
        server = initial(case, rng)
        fedavg_round = make_round(batching)

        def one_round(epochs):
            nonlocal server
            server = jax.block_until_ready(fedavg_round(server, x, y, shuffled(rng, epochs, case.samples)))
            if not all(bool(np.isfinite(p).all()) for p in jax.tree.leaves(server)):
                raise SystemExit("the averaged model is not finite: this measured nothing")

        return len(os.sched_getaffinity(0)), one_round

    variants = {batching: variant(batching) for batching in options.batching}
    measure("jax", case, variants, options.repeats, {"jax": jax.__version__})


if __name__ == "__main__":
    main()
