"""A Laplace posterior for a trained torch network: :class:`Laplace`."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsi import _laplace_checks as checks
from fedsi import _laplace_prior as priors
from fedsi import _native
from fedsi._laplace_data import as_array, blocks, collect, returner, target_arguments
from fedsi._laplace_network import PosteriorNetwork
from fedsi._laplace_state import CHUNK_BYTES, LaplaceState
from fedsi.errors import InputError, PosteriorError


@dataclass(frozen=True)
class PriorSearch:
    """What :meth:`Laplace.optimize_prior_precision` found.

    ``factor`` is what the prior precision was multiplied by; ``loss`` the negative log marginal likelihood, or the mean
    negative log likelihood of the held-out samples; ``at_the_edge`` whether the data says little of it.
    """

    factor: float
    loss: float
    at_the_edge: bool


class Laplace(LaplaceState):
    """A Gaussian posterior over parameters of a trained network, around the values they were trained to.

    Its precision is the generalised Gauss-Newton matrix summed over the training data plus the prior's precision; predictions
    are those of the network linearised in its parameters (laplace-torch's ``pred_type="glm"``). Everything is computed in
    float64, whatever the model's precision is. The model is copied as it is when :meth:`fit` is called, taken as in
    ``eval()``, and never changed.

    ``model`` is any ``torch.nn.Module`` from ``[N, ...]`` to ``[N, outputs]``. An ``nn.Sequential`` of layers that the engine
    has is computed natively; derivatives of any other module come from ``torch.func``, in chunks.

    Parameters
    ----------
    likelihood
        ``"classification"``: outputs are logits. ``"regression"``: outputs are means with Gaussian noise.
    subset_of_weights
        ``"all"``, ``"last_layer"`` or ``"subnetwork"``. Parameters with ``requires_grad=False`` have no distribution.
    hessian_structure
        ``"full"``: every correlation. ``"diag"``: none.
    subnetwork_indices
        Positions over all of ``model.parameters()``, in any order; or the name of one of fedsi's rules (``"variance"``,
        ``"live"``, ``"predictive"``, ``"leverage"``, ``"random"``, ``"magnitude"``, ``"layers:NAME,..."``), which chooses
        ``subnetwork_size`` parameters below the last layer by ``seed``: a whole number, or a share above 0 and below 1.
    prior_precision, prior_mean
        A number; an array with a value for each of all parameters, for each one with a distribution, or for each tensor; or a
        mapping from names of tensors or submodules to numbers or arrays.
    sigma_noise
        Regression: the standard deviation of the noise, one number or one for each output.
    tolerance
        0: exact. Above 0: no variance comes out too small, and none too large by more than this share of itself, at a cost
        that follows how many directions the data determines.
    last_layer_name
        The last layer, where it is not the one that the forward pass calls last.
    memory_limit
        Bytes that a fit may take: a larger one is refused. What can be had, unless it is given.
    native
        Whether the engine's own layers are used: None where they can be, False never, True or else an error.
    """

    def __init__(
        self,
        model: Any,
        likelihood: str,
        subset_of_weights: str = "last_layer",
        hessian_structure: str = "full",
        *,
        subnetwork_indices: Any = None,
        subnetwork_size: int | float | None = None,
        prior_precision: Any = 1.0,
        prior_mean: Any = 0.0,
        sigma_noise: Any = 1.0,
        tolerance: float = 0.0,
        last_layer_name: str | None = None,
        memory_limit: int | None = None,
        native: bool | None = None,
        seed: int = 0,
    ) -> None:
        if not callable(getattr(model, "named_parameters", None)):
            raise InputError(f"model: expected a torch.nn.Module, found {type(model).__name__}")
        checks.one_of("likelihood", likelihood, ("classification", "regression"))
        checks.one_of("subset_of_weights", subset_of_weights, ("all", "last_layer", "subnetwork"))
        if hessian_structure not in ("full", "diag"):
            raise InputError(
                f"hessian_structure: found {hessian_structure!r}, expected 'full' or 'diag'; Kronecker factors and other "
                "structures are not there: a full covariance with a `tolerance`, or of a subnetwork, takes their place"
            )
        if native is not None and not isinstance(native, bool):
            raise InputError(f"native: expected True, False or None, found {native!r}")
        self.model = model
        self.likelihood = likelihood
        self.subset_of_weights = subset_of_weights
        self.hessian_structure = hessian_structure
        self.tolerance = checks.number("tolerance", tolerance)
        self.last_layer_name = last_layer_name
        self.memory_limit = None
        if memory_limit is not None:
            self.memory_limit = checks.whole("memory_limit", memory_limit, 1, "a number of bytes")
        self.seed = checks.whole("seed", seed, 0)
        self._native_wanted = native
        self._rule, self._size, self._given = checks.subnetwork(subset_of_weights, subnetwork_indices, subnetwork_size)
        self._precision = priors.positive("prior_precision", priors.freeze("prior_precision", prior_precision))
        self._mean = priors.freeze("prior_mean", prior_mean)
        self._noise = checks.sigma_noise(sigma_noise, self._classifies)
        self._network = None
        self._problem = None
        self._selection = None
        self._fitted = None
        self._positions = None
        self._samples = None

    def __repr__(self) -> str:
        kind = f"{self.subset_of_weights}, {self.hessian_structure}"
        if self._network is None or self._positions is None:
            return f"Laplace({type(self.model).__name__}, {self.likelihood}, {kind}, not fitted)"
        how = "native" if self._network.is_native else "torch"
        exact = "exact" if self.tolerance == 0 else f"tolerance {self.tolerance:g}"
        return (
            f"Laplace({type(self.model).__name__}, {self.likelihood}, {kind}, {self._positions.size} of "
            f"{self.n_params} parameters, {self._samples} samples, {how}, {exact})"
        )

    # Fitting.

    def fit(self, train_loader: Any, targets: Any = None) -> Laplace:
        """Fits the posterior to the training data; returns itself.

        ``train_loader`` is an iterable of batches ``(x, y)`` such as a DataLoader, a pair ``(x, y)``, or inputs with
        ``targets`` beside them; tensors or arrays. Targets are class labels counted from 0, or values ``[N, outputs]``. The
        data is kept in float64 for a later choice of prior.
        """
        x, y = collect("training", train_loader, targets)
        self._fit(x, y)
        return self

    def optimize_prior_precision(
        self,
        pred_type: str = "glm",
        method: str = "marglik",
        val_loader: Any = None,
        val_targets: Any = None,
        *,
        link_approx: str = "probit",
        n_samples: int = 100,
        seed: int = 0,
    ) -> PriorSearch:
        """Multiplies the prior precision by the factor that fits the data best, from 1e-6 to 1e6, to within 2%.

        ``method="marglik"`` maximises the log marginal likelihood of the training data. ``method="gridsearch"`` (or
        ``"held-out"``) minimises the negative log likelihood of the samples in ``val_loader``, which is data as :meth:`fit`
        takes it and which training should not have seen. The structure of the prior stays: a prior for each parameter is
        scaled as a whole.
        """
        checks.pred_type(pred_type)
        self._need_data("optimize_prior_precision")
        if method == "marglik":
            if val_loader is not None:
                raise InputError("val_loader: the marginal likelihood needs no held-out samples; method='gridsearch' does")
            scale, loss, edge = self._problem.scale_by_marginal_likelihood(self._selection, self.tolerance)
        elif method in ("gridsearch", "held-out"):
            if val_loader is None:
                raise InputError(f"method={method!r}: give held-out samples as `val_loader`")
            x, y = collect("held-out", val_loader, val_targets)
            arguments = target_arguments("held-out", y, self._problem.outputs, self._classifies)
            scale, loss, edge = self._problem.scale_by_held_out(
                self._selection,
                self.tolerance,
                x,
                predictive=checks.link(link_approx),
                draws=checks.whole("n_samples", n_samples, 1),
                seed=checks.whole("seed", seed, 0),
                **arguments,
            )
        else:
            raise InputError(f"method: found {method!r}, expected 'marglik', or 'gridsearch' with held-out samples")
        if edge:
            warnings.warn(
                f"the best prior precision, {1 / scale:.1e} times what was given, lies at an end of what was tried, or just "
                "beyond: the data says little of it, or wants one further away",
                stacklevel=2,
            )
        self.prior_precision = priors.times(self._precision, 1 / scale)
        return PriorSearch(1 / scale, loss, edge)

    # Predicting.

    def __call__(
        self,
        x: Any,
        pred_type: str = "glm",
        link_approx: str = "probit",
        n_samples: int = 100,
        *,
        diagonal_output: bool = False,
        seed: int = 0,
    ) -> Any:
        """Predictions for ``x`` ``[N, ...]``, some rows at a time.

        Classification: probabilities ``[N, classes]``, from the distribution of the logits by ``link_approx``: ``"probit"``,
        ``"mc"`` (the mean over ``n_samples`` draws, by ``seed``), ``"bridge"``, ``"differences"`` or ``"map"``.
        Regression: means ``[N, outputs]`` and covariances ``[N, outputs, outputs]`` of the network's outputs (variances
        ``[N, outputs]`` with ``diagonal_output``), as in laplace-torch without the noise: add ``sigma_noise ** 2`` to the
        variances for observations.
        """
        checks.pred_type(pred_type)
        fitted = self._posterior()
        if not self._classifies:
            mean, covariance = self.outputs(x)
            if not diagonal_output:
                return mean, covariance
            diagonal = np.einsum("nii->ni", as_array(covariance))
            return mean, returner(x)(np.ascontiguousarray(diagonal))
        link, draws = checks.link(link_approx), checks.whole("n_samples", n_samples, 1)
        seed = checks.whole("seed", seed, 0)
        found = [fitted.probabilities(self._rows(block), link, draws, seed) for block in blocks(x)]
        return returner(x)(np.concatenate(found))

    predictive = __call__

    def outputs(self, x: Any) -> tuple[Any, Any]:
        """Means ``[N, outputs]`` (the model's own outputs) and covariances ``[N, outputs, outputs]`` of the linearised
        network's outputs: of logits, or of values without their noise."""
        fitted = self._posterior()
        found = [fitted.outputs(self._rows(block)) for block in blocks(x)]
        back = returner(x)
        return back(np.concatenate([mean for mean, _ in found])), back(np.concatenate([cov for _, cov in found]))

    def uncertainty(self, x: Any) -> Any:
        """One number a sample for how uncertain the network is of it: the trace of the outputs' covariance, for classes
        without what all logits have in common."""
        fitted = self._posterior()
        return returner(x)(np.concatenate([fitted.spread(self._rows(block)) for block in blocks(x)]))

    # The posterior itself. Results are tensors of torch, in float64, in the order of `subnetwork_indices`.

    @property
    def n_params(self) -> int:
        """Parameters of the model, those with ``requires_grad=False`` included."""
        return sum(tensor.size for tensor in self._fitted_network().tensors)

    @property
    def subnetwork_indices(self) -> Any:
        """The parameters with a distribution: positions over all of ``model.parameters()``."""
        self._fitted_network()
        return _tensor(self._positions)

    @property
    def mean(self) -> Any:
        """The trained values of the parameters with a distribution."""
        network = self._fitted_network()
        return _tensor(network.values[network.to_engine(self._positions)])

    @property
    def posterior_variance(self) -> Any:
        """Their variances."""
        fitted = self._posterior()
        return _tensor(fitted.variances()[self._places()])

    @property
    def posterior_covariance(self) -> Any:
        """Their covariance, ``[S, S]``. Refused where memory does not suffice; predictions never need it."""
        covariance = self._posterior().covariance()
        places = self._places()
        if np.array_equal(places, np.arange(places.size)):
            return _tensor(covariance)
        return _tensor(covariance[np.ix_(places, places)])

    def sample(self, n_samples: int = 100, *, seed: int = 0) -> Any:
        """Draws of parameters ``[n_samples, ...]``: with ``"subnetwork"`` of all of ``model.parameters()``, the others at their
        trained values; else of the parameters with a distribution."""
        count, seed = checks.whole("n_samples", n_samples, 0), checks.whole("seed", seed, 0)
        network = self._fitted_network()
        draws = self._posterior().draws(count, seed)[:, self._places()]
        own = network.values[network.to_engine(self._positions)] + draws
        if self.subset_of_weights != "subnetwork":
            return _tensor(own)
        import torch

        vector = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach().cpu().double().numpy()
        all_values = np.tile(vector, (len(own), 1))
        moving = network.to_module(np.arange(network.size))
        all_values[:, moving] = network.values
        all_values[:, self._positions] = own
        return _tensor(all_values)

    @property
    def log_likelihood(self) -> float:
        """The log likelihood of the training data at the trained parameters."""
        return _known("log_likelihood", self._posterior().log_likelihood)

    def log_marginal_likelihood(self, prior_precision: Any = None, sigma_noise: Any = None) -> float:
        """Laplace's approximation of the log probability of the training data under the prior; the higher, the better. As in
        laplace-torch, a prior precision or noise that is given stays."""
        if prior_precision is not None:
            self.prior_precision = prior_precision
        if sigma_noise is not None:
            self.sigma_noise = sigma_noise
        return _known("log_marginal_likelihood", self._posterior().log_marginal_likelihood)

    @property
    def certificate(self) -> float:
        """How far too large a variance can be, as a share of itself: 0 where the posterior is exact."""
        return float(self._posterior().certificate)

    def explain(self) -> str:
        """Where the parameters with a distribution lie, and how many the data says anything of: a small table."""
        summary = str(self._posterior().explanation).splitlines()[0]
        # Native code numbers layers without those that do nothing: names are the model's own.
        tensors = self._fitted_network().tensors
        counts = [int(np.isin(tensor.positions, self._positions).sum()) for tensor in tensors]
        width = max(len(tensor.name) for tensor in tensors)
        digits = max(len(str(tensor.size)) for tensor in tensors)
        lines = [
            f"  {tensor.name:{width}}  {count:{digits}} of {tensor.size:{digits}}  {count / tensor.size:6.1%}"
            for tensor, count in zip(tensors, counts, strict=True)
        ]
        return "\n".join([summary, *lines])

    # The prior and the noise, which may be changed after the fit.

    @property
    def prior_precision(self) -> Any:
        """The prior's precision, in the form in which it was given."""
        return self._precision

    @prior_precision.setter
    def prior_precision(self, value: Any) -> None:
        value = priors.positive("prior_precision", priors.freeze("prior_precision", value))
        self._change("prior_precision", "_precision", value)

    @property
    def prior_mean(self) -> Any:
        """The prior's mean, in the form in which it was given."""
        return self._mean

    @prior_mean.setter
    def prior_mean(self, value: Any) -> None:
        self._change("prior_mean", "_mean", priors.freeze("prior_mean", value))

    @property
    def sigma_noise(self) -> Any:
        """The standard deviation of the noise of a regression."""
        return self._noise

    @sigma_noise.setter
    def sigma_noise(self, value: Any) -> None:
        value = checks.sigma_noise(value, self._classifies)
        if self._network is not None:
            self._need_data("sigma_noise")
        problem = self._problem
        if self._network is not None and not self._classifies:
            self._problem = problem.with_noise(self._noise_list(problem.outputs, value))
        try:
            self._change("sigma_noise", "_noise", value)
        except BaseException:
            self._problem = problem
            raise

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the posterior and the parameters it was fitted to as a safetensors file, whole or not at all. The training
        data is not in it."""
        fitted = self._posterior()
        network = self._fitted_network()
        scalar = self._precision if isinstance(self._precision, float) else None
        mean: Any = self._mean
        if not isinstance(mean, float):
            mean = priors.spread("prior_mean", mean, network.tensors, self._positions, self._positions, 0.0)
        settings = {
            "likelihood": self.likelihood,
            "subset_of_weights": self.subset_of_weights,
            "hessian_structure": self.hessian_structure,
            "tolerance": self.tolerance,
            "last_layer_name": self.last_layer_name,
            "native": network.is_native,
            "input_shape": list(network.input_shape),
            "samples": self._samples,
            "prior_precision": scalar,
            "prior_mean": mean if isinstance(mean, float) else mean[self._positions].tolist(),
            "sigma_noise": self._noise if isinstance(self._noise, float) else self._noise.tolist(),
            # Ascending, unless the user's order was another.
            "positions": None if self._is_sorted() else self._positions.tolist(),
        }
        fitted.save(os.fspath(path), json.dumps(settings), network.names)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> Laplace:
        """A posterior that :meth:`save` wrote, over a model with the same parameters. Its predictions are the same to the bit;
        prior and noise are fixed, for the training data is not in the file."""
        path = os.fspath(path)
        settings = json.loads(_native.LaplaceFit.settings(path))
        noise = settings["sigma_noise"]
        la = cls(
            model,
            settings["likelihood"],
            settings["subset_of_weights"],
            settings["hessian_structure"],
            subnetwork_indices=[0] if settings["subset_of_weights"] == "subnetwork" else None,
            sigma_noise=noise,
            tolerance=settings["tolerance"],
            last_layer_name=settings["last_layer_name"],
            native=settings["native"],
        )
        network = PosteriorNetwork(
            model,
            tuple(settings["input_shape"]),
            last_layer=settings["last_layer_name"],
            chunk_bytes=CHUNK_BYTES,
            native=settings["native"],
        )
        la._fitted = _native.LaplaceFit.load(network.engine, network.values, path, network.names)
        la._network = network
        la._samples = settings["samples"]
        la._positions = np.sort(network.to_module(la._fitted.indices))
        if settings["positions"] is not None:
            la._positions = np.asarray(settings["positions"], dtype=np.int64)
        la._given = la._positions if settings["subset_of_weights"] == "subnetwork" else None
        mean = settings["prior_mean"]
        la._mean = mean if isinstance(mean, float) else np.asarray(mean)
        precision = settings["prior_precision"]
        la._precision = precision if precision is not None else 1 / la._fitted.prior_variance[la._places()]
        return la


def _known(what: str, value: float | None) -> float:
    if value is None:
        raise PosteriorError(f"{what}: not known of this posterior")
    return float(value)


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))
