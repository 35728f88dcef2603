"""Whole federations of torch modules, message by message: as the engine's own layers, and what is refused at the start."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from fedsi import _native  # noqa: E402
from fedsi.errors import FederationError, NetworkError  # noqa: E402
from fedsi.federation import run_in_process  # noqa: E402
from fedsi.native_layers import native_layers  # noqa: E402
from fedsi.torch_network import TorchNetwork  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
SHAPE = (1, 28, 28)
SITES = 3
SETTINGS = {
    "data.dataset": "digits",
    "data.size": "small",
    "partition.clients": SITES,
    "federation.participants": 2,
    "rounds": 2,
    "seed": 5,
    "training.epochs": 2,
    "training.learning_rate": 1e-2,
    # Noise is drawn by another generator in torch; everything else is the same.
    "training.weight_noise": 0.0,
}


def module() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 12), nn.ReLU(), nn.Linear(12, 10))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedsi", {"fedsi.modes": 1, "fedsi.subnetwork": 0.05}),
        ("fedsi-fac", {"fedsi.modes": 1}),
        ("fedper", {}),
        ("fedavg-ft", {}),
    ],
)
def test_a_module_does_what_the_same_layers_do(method, settings, tmp_path):
    layers, _ = native_layers(module(), SHAPE)
    initial = _native.layers_initial(layers.json(), SHAPE, SETTINGS["seed"])
    network = TorchNetwork(module(), SHAPE)
    network = TorchNetwork(network.load(initial), SHAPE, pretrained=True)
    config = {**SETTINGS, **settings, "method": method}
    lines = [f"{key} = {json.dumps(value)}" for key, value in config.items()]
    own = tmp_path / "layers.toml"
    own.write_text("\n".join([*lines, 'model.body = ["flatten", { linear = 12 }, "relu"]']))
    ours = run_in_process(own, sites=SITES, folder=tmp_path / "layers")
    theirs = run_in_process(config, sites=SITES, folder=tmp_path / "torch", network=network)
    for ours_of, theirs_of in zip(ours["records"], theirs["records"]):
        assert ours_of["participants"] == theirs_of["participants"]
        np.testing.assert_allclose(theirs_of["train_loss"], ours_of["train_loss"], rtol=1e-4)
    for site, other in zip(ours["result"]["sites"], theirs["result"]["sites"]):
        assert site["problem"] is None and other["problem"] is None
        for score in ("accuracy", "nll", "brier"):
            np.testing.assert_allclose(other["scores"][score], site["scores"][score], rtol=2e-3, err_msg=score)


def test_what_a_network_cannot_do_is_refused_before_anything_is_written(tmp_path):
    for method in ("pfedbayes", "bpfed", "fedpop"):
        with pytest.raises(NetworkError, match="this network cannot"):
            run_in_process(
                {**SETTINGS, "method": method},
                sites=SITES,
                folder=tmp_path,
                network=TorchNetwork(module(), SHAPE),
            )
    normalised = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
    with pytest.raises(NetworkError, match="GroupNorm"):
        run_in_process(SETTINGS, sites=SITES, folder=tmp_path, network=TorchNetwork(normalised, SHAPE))
    assert not list(tmp_path.iterdir())


def test_of_what_a_training_loop_raises_the_server_learns_the_type_alone(tmp_path):
    class Lost(Exception):
        pass

    def loop(module, job):
        raise Lost("no gradient for patient 17")

    # The text may be about the site's data: it stays in the site's log.
    with pytest.raises(FederationError, match=r"its network failed \(Lost\); its site's log says why") as raised:
        run_in_process(
            {**SETTINGS, "method": "fedavg"},
            sites=SITES,
            folder=tmp_path,
            network=TorchNetwork(module(), SHAPE, train=loop),
        )
    assert "patient" not in str(raised.value)
