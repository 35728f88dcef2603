"""The four cases every peer runs, their data, and the one line of JSON every peer prints.

A case is one FedAvg round: ten clients, each ten epochs of Adam (1e-3, fresh state) over its own
shuffled data in batches of 50 (the short last batch kept) on mean cross-entropy, then the average of the
ten models. The time is that of the whole round, shuffling and averaging included, data already in memory.
"""

import argparse
import json
import platform
import sys
import time
from dataclasses import dataclass

import numpy as np

CLIENTS = 10
CLASSES = 10
LABELS_PER_CLIENT = 5
EPOCHS = 10
BATCH = 50
LEARNING_RATE = 1e-3
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
SEED = 1


@dataclass(frozen=True)
class Case:
    """One row of the table: a network and the number of samples a client holds."""

    name: str
    network: str
    samples: int

    @property
    def is_large(self):
        return self.name.endswith("large")

    @property
    def input_shape(self):
        return (784,) if self.network == "mlp" else (3, 32, 32)


CASES = {
    case.name: case
    for case in (
        Case("mlp-small", "mlp", 250),
        Case("mlp-large", "mlp", 4500),
        Case("cnn-small", "cnn", 125),
        Case("cnn-large", "cnn", 2250),
    )
}


def make_data(case):
    """Inputs in [-1, 1] as f32 [clients, samples, ...] and labels as i64 [clients, samples].

    Random data is enough: no peer's step takes longer or shorter for what the numbers are. Labels follow
    the `labels` partition, five of the ten classes a client.
    """
    rng = np.random.default_rng(SEED)
    inputs = rng.uniform(-1.0, 1.0, (CLIENTS, case.samples, *case.input_shape)).astype(np.float32)
    offsets = rng.integers(0, LABELS_PER_CLIENT, (CLIENTS, case.samples))
    labels = (LABELS_PER_CLIENT * np.arange(CLIENTS)[:, None] + offsets) % CLASSES
    return inputs, labels.astype(np.int64)


def arguments(description):
    """The parser every peer shares; a peer may add flags of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--case", choices=CASES, default="mlp-small")
    parser.add_argument("--repeats", type=int, default=3, help="timed rounds (default 3)")
    return parser


def seconds_of(work):
    """Wall-clock seconds of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(peer, case, variants, repeats, versions):
    """Times whole rounds of every variant and prints the fastest one's JSON line.

    `variants` maps a label to (threads, round), where `round(epochs)` runs and waits for one round. A trial of one
    epoch comes first: in the large cases only its winner is timed in full, in the small ones every variant that
    was not hopeless (two threads on a busy machine can be 20 times slower). The first call of each round, which
    may compile or fill caches, is never timed.
    """
    trials = {}
    for label, (_, one_round) in variants.items():
        one_round(1)
        trials[label] = min(seconds_of(lambda: one_round(1)) for _ in range(2))
    limit = min(trials.values()) * (1.0 if case.is_large else 3.0)
    variants = {label: variant for label, variant in variants.items() if trials[label] <= limit}
    timed = {}
    for label, (_, one_round) in variants.items():
        one_round(EPOCHS)
        timed[label] = [seconds_of(lambda: one_round(EPOCHS)) for _ in range(repeats)]
    best = min(timed, key=lambda label: min(timed[label]))
    line = {
        "peer": peer,
        "case": case.name,
        "seconds_best": min(timed[best]),
        "seconds_all": timed[best],
        "threads": variants[best][0],
        "variant": best,
        "variants": {label: min(seconds) for label, seconds in timed.items()},
        "versions": versions | {"python": platform.python_version(), "numpy": np.__version__},
    }
    json.dump(line, sys.stdout)
    print(flush=True)
