"""fedsi.Laplace beside laplace-torch, in float64: to 1e-9, where 1e-6 is what is asked for."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="fedsi.Laplace is for torch networks: pip install torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    reference = pytest.importorskip("laplace", reason="needs the peer it is compared with: pip install laplace-torch")

from fedsi.laplace import Laplace  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

torch.set_num_threads(1)
TOLERANCE = 1e-9


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    # Without it laplace-torch multiplies its Gauss-Newton operator with an identity in float32, and has seven digits.
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


pytestmark = pytest.mark.filterwarnings("ignore")


class Residual(nn.Module):
    """Convolution, group and layer normalisation, and a sum of two paths: of no kind that the engine has layers for."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.group = nn.GroupNorm(2, 4)
        self.block = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.layer = nn.LayerNorm(4)
        self.out = nn.Linear(4, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.group(self.stem(x)))
        h = h + torch.tanh(self.block(h))
        return self.out(self.layer(h.mean(dim=(2, 3))))


def networks(outputs: int) -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    torch.manual_seed(3)
    made = {
        "mlp": (nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, outputs)), (5,)),
        "cnn": (
            nn.Sequential(nn.Conv2d(1, 3, 3), nn.GELU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(12, outputs)),
            (1, 6, 6),
        ),
        "residual": (Residual(outputs), (1, 5, 5)),
    }
    return {name: (module.double().eval(), shape) for name, (module, shape) in made.items()}


def data(shape: tuple[int, ...], outputs: int, task: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(40, *shape, generator=generator, dtype=torch.float64)
    y = torch.randint(0, outputs, (40,), generator=generator)
    if task == "regression":
        y = torch.randn(40, outputs, generator=generator, dtype=torch.float64)
    return x, y, torch.randn(11, *shape, generator=generator, dtype=torch.float64)


def error(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest expected value."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def of(subset: str, module: nn.Module) -> dict[str, Any]:
    if subset != "subnetwork":
        return {}
    size = sum(parameter.numel() for parameter in module.parameters())
    indices = np.random.default_rng(5).choice(size, size // 3, replace=False)
    return {"subnetwork_indices": torch.from_numpy(indices)}


def both(name: str, task: str, subset: str, structure: str = "full", **settings: Any) -> tuple[Laplace, Any, torch.Tensor]:
    outputs = 3 if task == "classification" else 2
    module, shape = networks(outputs)[name]
    x, y, test = data(shape, outputs, task)
    arguments = of(subset, module) | settings
    la = Laplace(module, task, subset, structure, **arguments).fit(x, y)
    if settings.get("prior_precision") is not None and not isinstance(settings["prior_precision"], float):
        arguments["prior_precision"] = torch.as_tensor(settings["prior_precision"], dtype=torch.float64)
    peer = reference.Laplace(copy.deepcopy(module), task, subset_of_weights=subset, hessian_structure=structure, **arguments)
    peer.fit(DataLoader(TensorDataset(x, y), batch_size=16))
    return la, peer, test


def compare(la: Laplace, peer: Any, test: torch.Tensor, task: str) -> dict[str, float]:
    mean, covariance = la.outputs(test)
    expected_mean, expected_covariance = peer._glm_predictive_distribution(test)
    errors = {
        "mean": error(mean, expected_mean),
        "functional covariance": error(covariance, expected_covariance),
        "evidence": error(la.log_marginal_likelihood(), peer.log_marginal_likelihood().detach()),
        "log likelihood": error(la.log_likelihood, peer.log_likelihood.detach()),
    }
    if la.hessian_structure == "full":
        errors["posterior covariance"] = error(la.posterior_covariance, peer.posterior_covariance.detach())
    else:
        errors["posterior variance"] = error(la.posterior_variance, peer.posterior_variance.detach())
    if task == "classification":
        for link in ("probit", "bridge"):
            errors[link] = error(la(test, link_approx=link), peer(test, link_approx=link))
    else:
        found, expected = la(test), peer(test)
        errors["regression"] = max(error(a, b) for a, b in zip(found, expected, strict=True))
    return errors


def check(errors: dict[str, float]) -> None:
    print({name: f"{value:.1e}" for name, value in errors.items()})
    assert all(value < TOLERANCE for value in errors.values()), errors


@pytest.mark.parametrize("subset", ["all", "last_layer", "subnetwork"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "residual"])
def test_a_full_covariance_of_a_classifier(name: str, subset: str) -> None:
    check(compare(*both(name, "classification", subset, prior_precision=0.7, prior_mean=0.1), "classification"))


@pytest.mark.parametrize("subset", ["all", "last_layer", "subnetwork"])
@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_a_full_covariance_of_a_regression(name: str, subset: str) -> None:
    check(compare(*both(name, "regression", subset, prior_precision=2.0, sigma_noise=0.3), "regression"))


@pytest.mark.parametrize("subset", ["all", "last_layer", "subnetwork"])
@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_a_diagonal(name: str, subset: str) -> None:
    check(compare(*both(name, "classification", subset, "diag", prior_precision=0.7), "classification"))


@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_a_prior_for_each_parameter(name: str) -> None:
    module, _ = networks(3)[name]
    size = sum(parameter.numel() for parameter in module.parameters())
    each = np.random.default_rng(6).uniform(0.1, 5.0, size)
    check(compare(*both(name, "classification", "all", prior_precision=each), "classification"))


@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_a_prior_for_each_tensor(name: str) -> None:
    module, _ = networks(3)[name]
    each = 0.5 + np.arange(len(list(module.parameters())))
    check(compare(*both(name, "classification", "all", prior_precision=each), "classification"))


def test_a_prior_for_each_parameter_of_a_subnetwork() -> None:
    # laplace-torch refuses one (its issue 278): the formula with its Gauss-Newton matrix.
    each = np.random.default_rng(6).uniform(0.1, 5.0, 49)
    la, _, test = both_with_own_prior("mlp", each)
    _, peer, _ = both("mlp", "classification", "subnetwork")
    expected = torch.linalg.inv(peer.H + torch.diag(torch.from_numpy(each)))
    jacobian, _ = peer.backend.jacobians(test)
    check(
        {
            "posterior covariance": error(la.posterior_covariance, expected),
            "functional covariance": error(
                la.outputs(test)[1], torch.einsum("nap,pq,nbq->nab", jacobian, expected, jacobian).detach()
            ),
        }
    )


def both_with_own_prior(name: str, each: Any) -> tuple[Laplace, None, torch.Tensor]:
    module, shape = networks(3)[name]
    x, y, test = data(shape, 3, "classification")
    la = Laplace(module, "classification", "subnetwork", prior_precision=each, **of("subnetwork", module))
    return la.fit(x, y), None, test


def test_the_best_prior_by_evidence_is_the_best_by_the_peers_evidence() -> None:
    la, peer, _ = both("mlp", "classification", "all")
    la.optimize_prior_precision(method="marglik")
    best = float(peer.log_marginal_likelihood(torch.tensor(la.prior_precision)))
    assert best == pytest.approx(la.log_marginal_likelihood(), rel=TOLERANCE)
    for factor in (0.95, 1.05):
        assert float(peer.log_marginal_likelihood(torch.tensor(la.prior_precision * factor))) <= best
