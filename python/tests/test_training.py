"""Local training by torch: as the engine's own, step for step; noise, prior, frozen parts, loops of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from fedsi.errors import ConfigError, InputError, NetworkError  # noqa: E402
from fedsi.native_layers import native_layers  # noqa: E402
from fedsi.torch_network import TorchNetwork  # noqa: E402
from fedsi.training import TrainingJob, check_network, train_phase  # noqa: E402
from torch_zoo import ResidualGroupNorm, mlp  # noqa: E402

torch.set_num_threads(1)
RNG = np.random.default_rng(4)
INPUTS = RNG.normal(size=(23, 5)).astype(np.float32)
LABELS = RNG.integers(0, 3, 23)
VALUES = RNG.normal(size=(23, 3)).astype(np.float32)


def both(module=None, shape=(5,)):
    """A module, and the same layers of the engine, which name its parameters alike."""
    module = mlp() if module is None else module
    found, reason = native_layers(module, shape)
    assert found is not None, reason
    return TorchNetwork(module, shape), (found.json(), shape), found.parameters.astype(np.float32)


@pytest.mark.parametrize("part", ["all", "body", "head"])
@pytest.mark.parametrize("prior", [False, True], ids=["flat", "prior"])
@pytest.mark.parametrize(
    "optimizer",
    [
        {"optimizer": "adam", "learning_rate": 0.01},
        {"optimizer": "sgd", "learning_rate": 0.1},
        {"optimizer": "sgd", "learning_rate": 0.03, "momentum": 0.9},
    ],
    ids=["adam", "sgd", "momentum"],
)
@pytest.mark.parametrize("targets", [LABELS, VALUES], ids=["classes", "values"])
def test_torch_and_the_engine_train_alike(part, prior, optimizer, targets):
    torch.manual_seed(1)
    network, layers, values = both()
    settings = {"part": part, "epochs": 3, "batch_size": 5, "seed": 9, **optimizer}
    if prior:
        rng = np.random.default_rng(2)
        settings["prior_mean"] = (values + rng.normal(size=len(values)) * 0.1).astype(np.float32)
        settings["prior_weights"] = rng.uniform(0, 0.5, len(values)).astype(np.float32)
    ours, our_loss = train_phase(layers, values, INPUTS, targets, **settings)
    theirs, their_loss = train_phase(network, values, INPUTS, targets, **settings)
    start = network.head_start
    moved = {"all": slice(None), "body": slice(0, start), "head": slice(start, None)}[part]
    frozen = {"all": slice(0, 0), "body": slice(start, None), "head": slice(0, start)}[part]
    np.testing.assert_array_equal(theirs[frozen], values[frozen])
    # Fifteen steps in float32; Adam divides by the roots of small numbers.
    np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=5e-6)
    assert abs(our_loss - their_loss) < 1e-5 * (1 + our_loss)
    assert np.abs(ours[moved] - values[moved]).max() > 0.01
    if prior:
        without = {key: value for key, value in settings.items() if not key.startswith("prior")}
        assert np.abs(train_phase(network, values, INPUTS, targets, **without)[0] - theirs).max() > 1e-4


def test_convolutions_train_alike():
    torch.manual_seed(1)
    layers = [nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 3)]
    network, native, values = both(nn.Sequential(*layers), (1, 8, 8))
    inputs, labels = RNG.normal(size=(20, 64)).astype(np.float32), RNG.integers(0, 3, 20)
    ours, _ = train_phase(native, values, inputs, labels, epochs=2, batch_size=8, seed=3)
    theirs, _ = train_phase(network, values, inputs, labels, epochs=2, batch_size=8, seed=3)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=5e-6)


def test_noise_has_the_engines_distribution():
    """The gradient of one step under noise: the same mean and spread, over many seeds, as the engine's."""
    torch.manual_seed(1)
    network, layers, values = both()

    def steps(which):
        settings = {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": 23, "weight_noise": 0.3}
        return np.array([train_phase(which, values, INPUTS, LABELS, seed=s, **settings)[0] for s in range(400)]) - values

    ours, theirs = steps(layers), steps(network)
    spread = np.sqrt(ours.var(0) / 400 + theirs.var(0) / 400)
    # 93 parameters: four standard errors are rare by chance.
    assert (np.abs(ours.mean(0) - theirs.mean(0)) / spread).max() < 4.5
    ratio = theirs.std(0) / ours.std(0)
    assert abs(np.median(ratio) - 1) < 0.05 and ratio.min() > 0.7 and ratio.max() < 1.4


def test_noise_repeats_and_leaves_the_parameters():
    network = TorchNetwork(ResidualGroupNorm(), (2, 5, 5))
    values = network.values()
    inputs, labels = RNG.normal(size=(12, 50)).astype(np.float32), RNG.integers(0, 3, 12)
    settings = {"epochs": 2, "batch_size": 4, "weight_noise": 0.1, "convolution_noise": 0.05}
    first = train_phase(network, values, inputs, labels, seed=1, **settings)
    np.testing.assert_array_equal(first[0], train_phase(network, values, inputs, labels, seed=1, **settings)[0])
    assert not np.array_equal(first[0], train_phase(network, values, inputs, labels, seed=2, **settings)[0])
    # No step at all: what noise drew is put back.
    still, _ = train_phase(network, values, inputs, labels, learning_rate=0.0, **settings)
    np.testing.assert_array_equal(still, values)


def test_dropout_repeats_whatever_the_generator():
    module = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    network = TorchNetwork(module, 5)
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        # Tuning the head: what it sees differs from pass to pass, and cannot be computed once.
        results.append(train_phase(network, network.values(), INPUTS, LABELS, part="head", epochs=2, seed=5))
        assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(results[0][0], results[1][0])


def test_a_loop_of_ones_own_sees_the_job():
    seen: list[TrainingJob] = []

    def loop(module, job):
        seen.append(job)
        assert module is job.module and module.training
        optimizer = job.make_optimizer()
        for epoch in job.epochs():
            total = 0.0
            for rows in epoch:
                optimizer.zero_grad()
                with job.noise():
                    loss = job.loss(module(job.x[rows]), job.y[rows])
                    loss.backward()
                job.penalty().backward()
                optimizer.step()
                total += loss.item() * len(rows)
        # What does not move is put back.
        with torch.no_grad():
            module[4].weight.fill_(7.0)
        return torch.tensor(total / len(job.x))

    module = mlp()
    own, plain = TorchNetwork(module, 5, train=loop), TorchNetwork(module, 5)
    values = own.values()
    settings = {"part": "body", "epochs": 2, "batch_size": 6, "seed": 3, "weight_noise": 0.1}
    settings |= {"prior_mean": values * 0, "prior_weights": np.full(len(values), 0.2, np.float32)}
    found, expected = (train_phase(network, values, INPUTS, LABELS, **settings) for network in (own, plain))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    assert abs(found[1] - expected[1]) < 1e-6
    job = seen[0]
    assert job.part == "body" and job.moving == range(own.head_start) and len(job.parameters()) == 4
    assert job.x.shape == (23, 5) and job.y.dtype == torch.int64
    batches = list(job.batches())
    assert [len(rows) for rows in batches] == [6, 6, 6, 5] * 2
    for epoch in job.epochs():
        assert sorted(torch.cat(epoch).tolist()) == list(range(23))


def test_exceptions_come_back_unchanged():
    class Own(Exception):
        pass

    def failing(module, job):
        raise Own("lost", 3)

    with pytest.raises(Own) as raised:
        train_phase(TorchNetwork(mlp(), 5, train=failing), TorchNetwork(mlp(), 5).values(), INPUTS, LABELS)
    assert raised.value.args == ("lost", 3)

    def interrupted(module, job):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_phase(TorchNetwork(mlp(), 5, train=interrupted), TorchNetwork(mlp(), 5).values(), INPUTS, LABELS)
    # The copy that failed is not used again; others are as before.
    network = TorchNetwork(mlp(), 5, train=failing)
    before = network.outputs(network.values(), INPUTS)
    with pytest.raises(Own):
        train_phase(network, network.values(), INPUTS, LABELS)
    np.testing.assert_array_equal(network.outputs(network.values(), INPUTS), before)


def test_what_cannot_train_is_refused():
    normalised = TorchNetwork(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), 5)
    with pytest.raises(NetworkError, match="1.running_mean.*GroupNorm"):
        train_phase(normalised, normalised.values(), INPUTS, LABELS)
    network = TorchNetwork(mlp(), 5, train=lambda module, job: None)
    with pytest.raises(NetworkError, match="returned NoneType: expected the mean loss"):
        train_phase(network, network.values(), INPUTS, LABELS)
    network = TorchNetwork(mlp(), 5)
    for arguments, words in [
        ({"part": "neck"}, "part: expected all, body or head"),
        ({"optimizer": "lion"}, "optimizer: expected adam or sgd"),
        ({"prior_mean": np.zeros(3, np.float32), "prior_weights": np.zeros(3, np.float32)}, "prior_mean: expected"),
    ]:
        with pytest.raises(InputError, match=words):
            train_phase(network, network.values(), INPUTS, LABELS, **arguments)
    with pytest.raises(InputError, match="classes from 0 to 2, found"):
        train_phase(network, network.values(), INPUTS, LABELS + 7)
    with pytest.raises(InputError, match="labels: expected 23, found 22"):
        train_phase(network, network.values(), INPUTS, LABELS[1:])
    with pytest.raises(NetworkError, match="expected a fedsi.torch_network.TorchNetwork.*found dict"):
        train_phase({}, network.values(), INPUTS, LABELS)


def test_methods_that_train_distributions_are_refused_before_training():
    network = TorchNetwork(mlp(), 5)
    for method in ("fedsi", "fedavg", "fedper", "fedrep", "fedbabu"):
        check_network(network, method=method)
    for method, words in [
        ("pfedbayes", "cannot train a distribution of its parameters"),
        ("bpfed", "cannot train a distribution of its parameters"),
        ("fedpop", "cannot draw samples of its head"),
    ]:
        with pytest.raises(NetworkError, match=f'"{method}": this network {words}; choose a method'):
            check_network(network, {"method": method})
    with pytest.raises(ConfigError, match="fedavg"):
        check_network(network, method="fedavgg")
