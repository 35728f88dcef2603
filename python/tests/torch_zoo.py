"""Small modules of many kinds, for the tests of networks of torch."""

from __future__ import annotations

import torch
from torch import nn


class ResidualGroupNorm(nn.Module):
    """A convolution, a residual block with group normalisation, a linear head; the head is registered first."""

    def __init__(self, width: int = 4, outputs: int = 3) -> None:
        super().__init__()
        self.classify = nn.Linear(width, outputs)
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1, groups=2)
        self.short = nn.Conv2d(width, width, 1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        y = torch.relu_(self.norm1(self.conv1(x)))
        return self.classify(torch.relu(self.conv2(y) + self.short(x)).mean((2, 3)))


class Attention(nn.Module):
    """Tokens, embedded; one attention layer with a parameter of its own; layer normalisation; a linear head."""

    def __init__(self, words: int = 7, width: int = 4, outputs: int = 3) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.embed = nn.Embedding(words, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x.long())
        weights = torch.softmax(self.scale * self.query(x) @ self.key(x).transpose(1, 2), -1)
        return self.out(self.norm(x + weights @ x).mean(1))


class Branching(nn.Module):
    """Its forward pass depends on the data: torch.func.vmap cannot follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [torch.tanh(self.first(row)) if row.sum() > 0 else torch.sin(self.first(row)) for row in x]
        return self.last(torch.stack(rows))


class Tied(nn.Module):
    """One linear layer applied twice, under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.out = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.two(torch.tanh(self.one(self.one(x))))))


class Bare(nn.Module):
    """A parameter of the module itself, used after the head."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.ones(2))
        self.out = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(x) * self.shift


def mlp() -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4), nn.ReLU(inplace=True), nn.Linear(4, 3))


def cnn() -> nn.Sequential:
    """Every layer of images that the engine has."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 3, 3, padding="same"), nn.GELU(), nn.MaxPool2d(2)),
        nn.Dropout2d(0.3),
        nn.Conv2d(3, 4, 2, stride=2),
        nn.LeakyReLU(0.2),
        nn.AvgPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(4, 5),
        nn.Softplus(),
        nn.Linear(5, 4),
        nn.Sigmoid(),
        nn.Identity(),
        nn.Linear(4, 3),
        nn.SiLU(),
        nn.Linear(3, 2),
    )


def zoo() -> list[tuple[str, nn.Module, tuple[int, ...], torch.Tensor]]:
    """Name, module, shape of an input, three inputs."""
    torch.manual_seed(3)
    normalised = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    normalised(torch.randn(8, 1, 5, 5))
    return [
        ("mlp", mlp(), (5,), torch.randn(3, 5)),
        ("cnn", cnn(), (1, 8, 8), torch.randn(3, 1, 8, 8)),
        ("residual", ResidualGroupNorm(), (2, 5, 5), torch.randn(3, 2, 5, 5)),
        ("attention", Attention(), (6,), torch.randint(0, 7, (3, 6)).float()),
        ("branching", Branching(), (3,), torch.randn(3, 3)),
        ("tied", Tied(), (4,), torch.randn(3, 4)),
        ("bare", Bare(), (3,), torch.randn(3, 3)),
        ("linear", nn.Linear(4, 3), (4,), torch.randn(3, 4)),
        ("batch-norm", normalised, (1, 5, 5), torch.randn(3, 1, 5, 5)),
    ]
