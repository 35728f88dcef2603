"""FedSI for a network that the engine has no layers for: a small ResNet with group normalisation, in torch.

A few sites with images of their own, each of half of the classes, train one body together; each tunes a head and gets a
posterior over a subnetwork, computed by the engine from torch's derivatives. Printed at the end: the accuracy, negative log
likelihood and expected calibration error of the personal models, with their uncertainty and without it (the same training, which
is checked). One seed and few images: this shows how it is done, not what it is worth.

    python examples/resnet_group_norm.py --quick
    python examples/resnet_group_norm.py --data DIR     # DIR/cifar-10/cifar-10-batches-bin/data_batch_1.bin, ...
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fedsi.federation import run_in_process
from fedsi.torch_network import TorchNetwork
from numpy.typing import NDArray
from torch import nn

CLASSES = 10
SHAPE = (3, 32, 32)

#: Training images and labels, test images and labels, of one site.
SiteArrays = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]


class Block(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(4, out)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(4, out)
        self.shortcut = nn.Identity() if stride == 1 and channels == out else nn.Conv2d(channels, out, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.shortcut(x) + self.second_norm(self.second(inner)))


class ResNet(nn.Module):
    """A stem, three residual blocks, the mean over positions, a linear head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 2 * width, 2))
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))


def synthetic(count: int, random: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images of waves, whose direction and colour are a class's own, under noise."""
    labels = random.integers(0, CLASSES, count)
    rows, columns = np.mgrid[0:32, 0:32] / 32
    angle = np.pi * labels / CLASSES
    shift = random.uniform(0, 2 * np.pi, count)
    along = np.cos(angle)[:, None, None] * columns + np.sin(angle)[:, None, None] * rows
    waves = np.sin(2 * np.pi * 3 * along + shift[:, None, None])
    colours = np.stack([np.cos(angle), np.sin(2 * angle), np.cos(3 * angle)], 1)
    images = waves[:, None] * (0.5 + 0.3 * colours)[:, :, None, None] + random.normal(0, 1.3, (count, *SHAPE))
    return images.astype(np.float32), labels


def cifar(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The images of CIFAR-10, scaled to -1 to 1."""
    files = sorted((folder / "cifar-10" / "cifar-10-batches-bin").glob("data_batch_*.bin"))
    if not files:
        raise SystemExit(f"--data {folder}: expected cifar-10/cifar-10-batches-bin/data_batch_1.bin in it, found none")
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 1 + 3072) for file in files])
    images = records[:, 1:].reshape(-1, *SHAPE).astype(np.float32) / 127.5 - 1
    return images, records[:, 0].astype(np.int64)


def divide(images: NDArray[np.float32], labels: NDArray[np.int64], sites: int, train: int, test: int) -> list[SiteArrays]:
    """Every site gets images of half of the classes, no image twice."""
    free = [list(np.flatnonzero(labels == label)) for label in range(CLASSES)]
    share = (train + test) // 5
    arrays = []
    for site in range(sites):
        own = [free[(5 * site + offset) % CLASSES] for offset in range(5)]
        if min(map(len, own)) < share:
            raise SystemExit(f"there are too few images for {sites} sites with {train} + {test} each")
        chosen = np.array([rows.pop() for _ in range(share) for rows in own])
        arrays.append((images[chosen[:train]], labels[chosen[:train]], images[chosen[train:]], labels[chosen[train:]]))
    return arrays


def federate(network: TorchNetwork, data: list[SiteArrays], settings: dict[str, Any]) -> dict[str, Any]:
    """A whole federation in this process, message by message. Returns its records and scores."""
    with tempfile.TemporaryDirectory() as folder:
        return run_in_process(settings, sites=len(data), folder=folder, network=network, data=data)


def main() -> None:
    """Reads the options, runs the federation twice, prints the scores."""
    parser = argparse.ArgumentParser(description="FedSI for a small ResNet with group normalisation")
    parser.add_argument("--data", type=Path, help="a folder with CIFAR-10; without it images are made up")
    parser.add_argument("--quick", action="store_true", help="fewer sites, images and rounds: under a minute on one core")
    parser.add_argument("--sites", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sites = options.sites or (4 if options.quick else 10)
    rounds = options.rounds or (10 if options.quick else 30)
    train, test, width = (100, 100, 4) if options.quick else (250, 250, 8)

    torch.set_num_threads(1)
    random = np.random.default_rng(options.seed)
    # Twice what the sites get: no class is too rare.
    images, labels = cifar(options.data) if options.data else synthetic(2 * sites * (train + test), random)
    data = divide(images, labels, sites, train, test)
    network = TorchNetwork(ResNet(width), SHAPE)
    print(f"{network}; {sites} sites with {train} training images each, {rounds} rounds")

    settings: dict[str, Any] = {
        "method": "fedsi",
        "profile": "calibrated",
        "data.dataset": "files",
        "federation.participants": min(10, sites),
        "rounds": rounds,
        "seed": options.seed,
        "training.epochs": 5,
        "training.learning_rate": 1e-2,
        "training.weight_noise": 0.03,
        "tuning.epochs": 40,
        "tuning.learning_rate": 3e-2,
        "fedsi.modes": 1,
        "fedsi.subnetwork": 0.1,
    }
    with_posterior = federate(network, data, settings)
    without = federate(network, data, {**settings, "fedsi.predictive": "map"})
    # The predictive changes predictions alone.
    losses = [[record["train_loss"] for record in run["records"]] for run in (with_posterior, without)]
    assert losses[0] == losses[1], "both were trained alike"
    print("personal models        accuracy     NLL     ECE")
    for name, run in [("with their posterior", with_posterior), ("deterministic", without)]:
        scores = run["result"]["scores"]
        print(f"{name:<22} {scores['accuracy']:8.3f} {scores['nll']:7.3f} {scores['ece']:7.3f}")


if __name__ == "__main__":
    main()
