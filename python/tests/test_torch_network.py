"""Modules of torch as networks of the engine: layout, outputs, derivatives, refusals."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from fedsi.errors import InputError, NetworkError  # noqa: E402
from fedsi.torch_network import TorchNetwork  # noqa: E402
from torch_zoo import Attention, Branching, ResidualGroupNorm, Tied, mlp, zoo  # noqa: E402

torch.set_num_threads(1)
ZOO = zoo()
NAMES = [case[0] for case in ZOO]


@pytest.fixture(params=ZOO, ids=NAMES)
def case(request):
    name, module, shape, inputs = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield name, TorchNetwork(module, shape), inputs


def flat_jacobian(network: TorchNetwork, inputs) -> np.ndarray:
    """Derivatives by torch.autograd.functional, one tensor at a time, in the engine's order."""
    module = network.module_with(network.values(np.float64)).double()
    names = [tensor.name for tensor in network._layout.tensors]
    named = dict(module.named_parameters())

    def outputs_of(*tensors):
        return torch.func.functional_call(module, dict(zip(names, tensors)), (inputs.double(),))

    found = torch.autograd.functional.jacobian(outputs_of, tuple(named[name] for name in names))
    return torch.cat([block.reshape(len(inputs), network.output_size, -1) for block in found], 2).numpy()


def test_values_round_trip_with_the_head_last(case):
    name, network, inputs = case
    labels = [label for label, _ in network.tensors()]
    assert len(set(labels)) == len(labels)
    sizes = [int(np.prod(shape, dtype=int)) for _, shape in network.tensors()]
    assert sum(sizes) == len(network) == sum(p.numel() for p in network.module.parameters())
    layer_names = [label.rsplit(".", 1)[0] for label in labels]
    head = [size for layer, size in zip(layer_names, sizes) if layer == layer_names[-1]]
    assert network.head_start == len(network) - sum(head)
    values = network.values(np.float64)
    changed = values + np.arange(len(values))
    other = TorchNetwork(network.module_with(changed), network.input_shape)
    np.testing.assert_array_equal(other.values(np.float64), changed.astype(np.float32))
    # Positions over module.parameters() and the engine's are each other's inverse.
    every = np.concatenate([p.detach().reshape(-1).numpy() for p in other.module.parameters()])
    positions = network.engine_indices(np.arange(len(every)))
    np.testing.assert_array_equal(changed.astype(np.float32)[positions], every)
    np.testing.assert_array_equal(network.module_indices(positions), np.arange(len(every)))


def test_the_head_is_what_the_forward_pass_calls_last():
    network = TorchNetwork(ResidualGroupNorm(), (2, 5, 5))
    assert network.head == "classify"
    assert [label for label, _ in network.tensors()][-2:] == ["classify.weight", "classify.bias"]
    named = TorchNetwork(ResidualGroupNorm(), (2, 5, 5), head="short")
    assert named.tensors()[-2:] == [("short.weight", (4, 4, 1, 1)), ("short.bias", (4,))]
    assert [label for label, _ in TorchNetwork(nn.Linear(4, 3), 4).tensors()] == ["module.weight", "module.bias"]


def test_outputs_are_those_of_the_module(case):
    _, network, inputs = case
    values, rows = network.values(), inputs.reshape(3, -1).numpy()
    expected = network.module_with(values)(inputs).detach().numpy()
    found = network.outputs(values, rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    double = network.module_with(values).double()(inputs.double()).detach().numpy()
    np.testing.assert_allclose(network.forward(values.astype(np.float64), rows.astype(np.float64)), double, rtol=1e-14)
    # Many rows go through in batches.
    many = np.tile(rows, (200, 1))
    np.testing.assert_allclose(network.outputs(values, many), np.tile(expected, (200, 1)), rtol=1e-5, atol=1e-6)
    assert network.outputs(values, rows[:0]).shape == (0, network.output_size)


def test_features_are_the_inputs_of_the_head():
    module = ResidualGroupNorm()
    network, inputs = TorchNetwork(module, (2, 5, 5)), torch.randn(3, 2, 5, 5)
    features = network.features(network.values(), inputs.reshape(3, -1).numpy())
    assert features.shape == (3, 4)
    outputs = features @ module.classify.weight.detach().numpy().T + module.classify.bias.detach().numpy()
    np.testing.assert_allclose(outputs, module(inputs).detach().numpy(), rtol=1e-5, atol=1e-6)
    # A layer that is called twice has no one input: outputs stand in.
    tied = TorchNetwork(Tied(), 4, head="out")
    assert tied.features(tied.values(), np.ones((2, 4), np.float32)).shape == (2, 4)


@pytest.mark.parametrize("way", ["chosen", "layers", "func", "rows"])
@pytest.mark.parametrize("chunk_bytes", [2**28, 1, 3_000])
def test_derivatives_agree_with_autograd(case, chunk_bytes, way, monkeypatch):
    name, network, inputs = case
    settings = network._derivatives
    settings.chunk_bytes = chunk_bytes
    # Each way by itself, and the one that is chosen for a module.
    if way in ("layers", "rows"):
        settings.vmap_works = False
    if way in ("func", "rows"):
        monkeypatch.setattr(settings, "split", lambda _, groups: ([], groups))
    values, rows = network.values(np.float64), inputs.reshape(3, -1).double().numpy()
    expected = flat_jacobian(network, inputs)
    some = np.random.default_rng(1).permutation(len(network))[: max(2, len(network) // 7)]
    for chosen in (np.arange(len(network)), np.sort(some), some, np.array([0]), np.array([], dtype=np.int64)):
        outputs, found = network.jacobian(values, rows, chosen)
        assert found.dtype == np.float64 and found.shape == (3, network.output_size, len(chosen))
        np.testing.assert_allclose(found, expected[:, :, chosen], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(outputs, network.forward(values, rows), rtol=1e-12, atol=1e-14)


def test_derivatives_agree_with_finite_differences(case):
    _, network, inputs = case
    values, rows = network.values(np.float64), inputs.reshape(3, -1).double().numpy()
    rng = np.random.default_rng(2)
    for chosen in rng.choice(len(network), size=min(12, len(network)), replace=False):
        step = np.zeros(len(network))
        step[chosen] = 1e-6
        slope = (network.forward(values + step, rows) - network.forward(values - step, rows)) / 2e-6
        _, found = network.jacobian(values, rows, [chosen])
        np.testing.assert_allclose(found[:, :, 0], slope, rtol=1e-5, atol=1e-7)


def test_a_module_that_vmap_cannot_follow_warns_once():
    network = TorchNetwork(Branching(), 3)
    # Its first layer is called row by row; its head once, which needs no vmap.
    values, rows = network.values(np.float64), np.random.default_rng(1).normal(size=(4, 3))
    with pytest.warns(RuntimeWarning, match="output by output"):
        network.jacobian(values, rows, [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network.jacobian(values, rows, [0, 1])


def test_fixed_parameters_are_no_part_of_the_vector():
    module = mlp()
    module[0].weight.requires_grad_(False)
    network = TorchNetwork(module, 5)
    assert [label for label, _ in network.tensors()][0] == "0.bias"
    assert len(network) == sum(p.numel() for p in module.parameters()) - 30
    np.testing.assert_array_equal(network.engine_indices([30, 31]), [0, 1])
    with pytest.raises(InputError, match="position 3 .*requires_grad=False"):
        network.engine_indices([30, 3])
    before = module[0].weight.detach().clone()
    fresh = network.module_with(network.initialise(1))
    assert torch.equal(fresh[0].weight, before) and not torch.equal(fresh[2].weight, module[2].weight)


def test_shared_tensors_of_the_body_are_one():
    network = TorchNetwork(Tied(), 4)
    assert [label for label, _ in network.tensors()] == [
        "one.weight", "one.bias", "two.bias", "out.weight", "out.bias",
    ]  # fmt: skip


def test_initial_values_follow_the_seed_alone():
    network = TorchNetwork(Attention(), 6)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = network.initialise(7)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(first, network.initialise(7))
    assert not np.array_equal(first, network.initialise(8))
    # A parameter of a module without reset_parameters keeps its value.
    assert first[0] == np.float32(0.7) and network.tensors()[0][0] == "module.scale"
    pretrained = TorchNetwork(network.module, 6, pretrained=True)
    np.testing.assert_array_equal(pretrained.initialise(7), pretrained.values())


def test_threads_do_not_disturb_each_other():
    network = TorchNetwork(ResidualGroupNorm(), (2, 5, 5))
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(6, 50))
    many = [rng.normal(size=len(network)) for _ in range(4)]
    expected = [network.jacobian(values, rows, np.arange(20)) for values in many]
    found: list = [None] * len(many)

    def work(index: int) -> None:
        for _ in range(5):
            found[index] = network.jacobian(many[index], rows, np.arange(20))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(many))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (outputs, slopes), (others, also) in zip(found, expected):
        np.testing.assert_array_equal(outputs, others)
        np.testing.assert_array_equal(slopes, also)


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(nn.functional.dropout(x, 0.5))


class SharedHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x):
        return self.out(self.embed(x.long()).mean(1))


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(x), x


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(x)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: TorchNetwork("module", 3), InputError, "expected a torch.nn.Module, found str"),
        (lambda: TorchNetwork(mlp(), ()), InputError, "input_shape"),
        (lambda: TorchNetwork(mlp(), 0), InputError, "input_shape"),
        (lambda: TorchNetwork(mlp(), 5, dtype=torch.float16), InputError, "torch.float32 or torch.float64"),
        (lambda: TorchNetwork(mlp(), 5, chunk_bytes=0), InputError, "chunk_bytes"),
        (lambda: TorchNetwork(mlp(), 5, train="loop"), InputError, "train: expected a function"),
        (lambda: TorchNetwork(mlp(), 5, example=np.zeros((2, 4))), InputError, r"example: expected shape \[N, 5\]"),
        (lambda: TorchNetwork(mlp(), 4), NetworkError, r"does not take inputs of shape \[2, 4\]"),
        (lambda: TorchNetwork(nn.Conv2d(1, 2, 3), (1, 5, 5)), NetworkError, r"expected one tensor of shape \[2, outputs\]"),
        (lambda: TorchNetwork(Several(), 3), NetworkError, "found tuple"),
        (lambda: TorchNetwork(nn.Sequential(nn.Flatten(), nn.ReLU()), 3), NetworkError, "nothing to train"),
        (lambda: TorchNetwork(Noisy(), 3), NetworkError, "draws random numbers"),
        (
            lambda: TorchNetwork(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False)), 3),
            NetworkError,
            "mixes the rows of a batch",
        ),
        (lambda: TorchNetwork(SharedHead(), 3), NetworkError, "shares its weight with `embed.weight`"),
        pytest.param(
            lambda: TorchNetwork(Complex(), 3),
            NetworkError,
            "`phase` is torch.complex64",
            marks=pytest.mark.filterwarnings("ignore:Casting complex"),
        ),
        (lambda: TorchNetwork(mlp(), 5, head="9"), NetworkError, "no such submodule; expected one of 0, 2, 4"),
        (lambda: TorchNetwork(mlp(), 5, head="1"), NetworkError, "no parameters that train"),
        (lambda: TorchNetwork(nn.Sequential(mlp(), nn.Linear(3, 2)), 5, head="0"), NetworkError, "the head is one layer"),
    ],
)
def test_refusals_say_what_and_why(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_arguments_of_the_wrong_kind_are_refused():
    for shape in (None, "5", 2.5, (), [0], (5.0,), True):
        with pytest.raises(InputError, match="input_shape: expected the sides of one input"):
            TorchNetwork(mlp(), shape)
    with pytest.raises(InputError, match="chunk_bytes: expected a number of bytes"):
        TorchNetwork(mlp(), 5, chunk_bytes="1GB")
    network = TorchNetwork(mlp(), np.int64(5))
    values, rows = network.values(), np.zeros((2, 5), np.float32)
    half = torch.from_numpy(values).to(torch.bfloat16)
    np.testing.assert_array_equal(network.outputs(half, rows), network.outputs(half.float().numpy(), rows))
    with pytest.raises(InputError, match=f"expected {len(network)} floating point numbers"):
        network.outputs(values[1:], rows)
    with pytest.raises(InputError, match="values: .*int64"):
        network.outputs(np.zeros(len(network), np.int64), rows)
    with pytest.raises(InputError, match=r"rows of 5 values \(\[5\]\), found shape \[2, 4\]"):
        network.outputs(values, rows[:, :4])
    with pytest.raises(InputError, match="chosen: expected positions from 0"):
        network.jacobian(values.astype(float), rows.astype(float), [len(network)])
    with pytest.raises(InputError, match="expected positions from 0"):
        network.module_indices([-1])


class Words(nn.Module):
    """Indices of words in, classes out."""

    def __init__(self, converts: bool):
        super().__init__()
        self.converts, self.embedding, self.out = converts, nn.Embedding(5, 4), nn.Linear(12, 2)

    def forward(self, x):
        return self.out(self.embedding(x.long() if self.converts else x).flatten(1))


def test_indices_of_an_embedding_are_converted_by_the_module():
    assert TorchNetwork(Words(True), 3).output_size == 2
    with pytest.raises(NetworkError, match=r"also the indices of an nn.Embedding.*self.embedding\(x.long\(\)\)"):
        TorchNetwork(Words(False), 3)


def test_running_statistics_are_refused_for_training_alone():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    refusal = TorchNetwork(module, 3).refusal_of_training()
    assert refusal is not None and "1.running_mean" in refusal and "GroupNorm" in refusal
    # Its buffers are of the copy that was looked at, not of the module.
    assert int(module[1].num_batches_tracked) == 0
    assert TorchNetwork(ResidualGroupNorm(), (2, 5, 5)).refusal_of_training() is None
