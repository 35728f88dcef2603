"""Personal models as torch modules. Imported on demand: it needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedsi._models import PersonalModel, Posterior
from fedsi._optional import needed
from fedsi._predictions import NewClassPredictions, NewValuePredictions
from fedsi.errors import NetworkError

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = needed("torch", "a personal model as a torch module")
    nn = torch.nn


class PersonalNetwork(nn.Sequential):
    """A personal network: an ``nn.Sequential`` whose ``state_dict`` has the names of docs/model-files.md.

    ``forward`` gives logits of all classes, or outputs in standardised units, at the posterior's mean, without a
    temperature.
    """

    def __init__(self, layers: list[Any], personal: PersonalModel, mode: int) -> None:
        super().__init__(*layers)
        self._personal = personal
        self._mode = mode

    @property
    def personal(self) -> PersonalModel:
        """The engine's model, which predicts with uncertainty."""
        return self._personal

    @property
    def posterior(self) -> Posterior:
        """What is known of the parameters: indices, means, and the factors of their covariance."""
        return self._personal.posteriors[self._mode]

    def predict(self, x: Any) -> NewClassPredictions | NewValuePredictions:
        """Predictions with uncertainty for rows as the training data had them: those of :meth:`PersonalModel.predict`."""
        return self._personal.predict(x)

    def sample(self, count: int, seed: int = 0) -> list[dict[str, Any]]:
        """State dicts whose parameters are drawn from the posterior."""
        posterior, state = self.posterior, self.state_dict()
        flat = torch.cat([value.reshape(-1) for value in state.values()]).double()
        drawn = _draws(posterior, count, np.random.default_rng(seed))
        found = []
        for values in drawn:
            one = flat.clone()
            one[torch.tensor(posterior.indices)] = torch.from_numpy(values)
            parts = torch.split(one, [value.numel() for value in state.values()])
            found.append({n: part.view_as(v).to(v.dtype) for (n, v), part in zip(state.items(), parts)})
        return found


class Mixture(nn.Module):
    """Several personal networks whose predictions are averaged: names are ``modes.K.`` and those of network K.

    ``forward`` gives the logarithms of the averaged class probabilities at the posteriors' means, with the model's
    temperatures and, where it is over its client's own classes alone, minus infinity for the others; of a regression
    the mean of the outputs, in standardised units.
    """

    def __init__(self, networks: list[PersonalNetwork], personal: PersonalModel) -> None:
        super().__init__()
        self.modes = nn.ModuleList(networks)
        self._personal = personal

    @property
    def personal(self) -> PersonalModel:
        """The engine's model, which predicts with uncertainty."""
        return self._personal

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        """What is known of each network's parameters."""
        return self._personal.posteriors

    @property
    def posterior(self) -> Posterior:
        """The same of the first network."""
        return self._personal.posteriors[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of rows from :meth:`PersonalModel.scaled`."""
        outputs = torch.stack([network(x) for network in self.modes])
        if self._personal.task == "regression":
            return outputs.mean(0)
        about = self._personal.about
        outputs = outputs / about.get("temperature", 1.0)
        if "own_classes" in about:
            others = torch.ones(outputs.shape[-1], dtype=torch.bool, device=outputs.device)
            others[about["own_classes"]] = False
            outputs = outputs.masked_fill(others, -torch.inf)
        shares = torch.log_softmax(outputs, -1)
        mean = torch.logsumexp(shares, 0) - np.log(len(self.modes))
        return torch.log_softmax(mean / about.get("mixture_temperature", 1.0), -1)

    def predict(self, x: Any) -> NewClassPredictions | NewValuePredictions:
        """Predictions with uncertainty for rows as the training data had them: those of :meth:`PersonalModel.predict`."""
        return self._personal.predict(x)


def module_of(personal: PersonalModel) -> PersonalNetwork | Mixture:
    """The module of a personal model, with its values, in evaluation mode."""
    networks = []
    for mode in range(personal.modes):
        network = PersonalNetwork(_layers(personal.about["model"]), personal, mode)
        state = {name: torch.tensor(value) for name, value in personal.state(mode).items()}
        network.load_state_dict(state, strict=True)
        networks.append(network)
    module = networks[0] if len(networks) == 1 else Mixture(networks, personal)
    return module.eval()


def _layers(model: dict[str, Any]) -> list[Any]:
    """The layers of a network as torch has them, by following the shape of an input through."""
    shape, layers = list(model["input"]), []
    for spec in model["layers"]:
        name, settings = next(iter(spec.items())) if isinstance(spec, dict) else (spec, None)
        layer, shape = _layer(name, settings, shape)
        layers.append(layer)
    return layers


def _layer(name: str, settings: Any, shape: list[int]) -> tuple[Any, list[int]]:
    plain = {
        "relu": nn.ReLU,
        "tanh": nn.Tanh,
        "sigmoid": nn.Sigmoid,
        "silu": nn.SiLU,
        "softplus": nn.Softplus,
        "gelu": nn.GELU,
        "identity": nn.Identity,
    }
    if name in plain:
        return plain[name](), shape
    if name == "flatten":
        return nn.Flatten(), [int(np.prod(shape))]
    if name == "leaky-relu":
        return nn.LeakyReLU(settings), shape
    if name == "linear":
        return nn.Linear(shape[-1], settings), [*shape[:-1], settings]
    if name == "conv":
        out, kernel = settings["out"], settings["kernel"]
        stride, padding = settings.get("stride", 1), settings.get("padding", 0)
        size = [(side + 2 * padding - kernel) // stride + 1 for side in shape[1:]]
        return nn.Conv2d(shape[0], out, kernel, stride, padding), [out, *size]
    if name in ("maxpool", "avgpool"):
        window = settings if isinstance(settings, int) else settings["window"]
        stride = window if isinstance(settings, int) else settings.get("stride", window)
        kind = nn.MaxPool2d if name == "maxpool" else nn.AvgPool2d
        return kind(window, stride), [shape[0], *((side - window) // stride + 1 for side in shape[1:])]
    raise NetworkError(f"the layer `{name}` has no torch module here: this version of the package is too old for the file")


def _draws(posterior: Posterior, count: int, random: np.random.Generator) -> np.ndarray:
    """Draws of the parameters that have a distribution, count x parameters."""
    mean = posterior.mean.astype(np.float64)
    if posterior.kind == "point":
        return np.empty((count, 0))
    if posterior.kind == "samples" and posterior.samples is not None:
        return posterior.samples[random.integers(len(posterior.samples), size=count)].astype(np.float64)
    noise = random.standard_normal((count, len(mean)))
    live, factor, prior = posterior.live, posterior.factor, posterior.prior_variance
    if live is None or factor is None or prior is None:
        return mean + noise * np.sqrt(posterior.variance.astype(np.float64))
    drawn = noise * np.sqrt(prior)
    if not len(live):
        return mean + drawn
    if posterior.form == "whole":
        drawn[:, live] = random.standard_normal((count, factor.shape[1])) @ factor.T
        return mean + drawn
    # D - W W' with D = diag(prior): D^(1/2) (I - V V') D^(1/2), and the root of the middle from V's singular vectors.
    scale = np.sqrt(prior[live])
    vectors, values, _ = np.linalg.svd(factor / scale[:, None], full_matrices=False)
    # Rounding may leave a singular value a hair above 1.
    less = np.sqrt((1.0 - values**2).clip(min=0.0)) - 1.0
    own = noise[:, live]
    drawn[:, live] = (own + ((own @ vectors) * less) @ vectors.T) * scale
    return mean + drawn
