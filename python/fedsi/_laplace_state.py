"""What a :class:`fedsi.laplace.Laplace` holds, and how it is fitted anew when its prior changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsi import _laplace_prior as priors
from fedsi import _native
from fedsi._laplace_data import target_arguments
from fedsi._laplace_network import PosteriorNetwork, named_positions
from fedsi.errors import InputError, PosteriorError

#: Derivatives of a torch module take so much while they are computed, unless `memory_limit` says less.
CHUNK_BYTES = 256 * 2**20


def _in_bytes(count: int) -> str:
    """A number of bytes in the largest unit that it has one of."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


class LaplaceState:
    """Settings, the network, the native objects, and the choice of parameters."""

    model: Any
    likelihood: str
    subset_of_weights: str
    hessian_structure: str
    tolerance: float
    last_layer_name: str | None
    memory_limit: int | None
    seed: int
    _native_wanted: bool | None
    #: The rule that chooses a subnetwork, or the positions that make it.
    _rule: str | None
    _given: NDArray[np.int64] | None
    _size: int | float | None
    _precision: Any
    _mean: Any
    _noise: float | NDArray[np.float64]
    _network: PosteriorNetwork | None
    _problem: Any
    _selection: Any
    #: None where prior or noise have changed since.
    _fitted: Any
    #: The parameters with a distribution, in the order of results; None until a rule has chosen them.
    # None until a rule has chosen; whoever reads it comes after that.
    _positions: Any
    _samples: int | None

    @property
    def _classifies(self) -> bool:
        return self.likelihood == "classification"

    def _noise_list(self, outputs: int, noise: float | NDArray[np.float64]) -> list[float]:
        values = np.full(outputs, noise) if isinstance(noise, float) else noise.reshape(-1)
        if values.size != outputs:
            raise InputError(f"sigma_noise: found {values.size} values, expected 1 or {outputs}, one for each output")
        return [float(value) for value in values]

    def _problem_of(self, network: PosteriorNetwork, x: NDArray[np.float64], y: NDArray[Any]) -> Any:
        outputs = self._outputs_of(network)
        noise = None if self._classifies else self._noise_list(outputs, self._noise)
        arguments = target_arguments("training", y, outputs, self._classifies)
        return _native.LaplaceProblem(network.engine, network.values, x, noise=noise, **arguments)

    def _outputs_of(self, network: PosteriorNetwork) -> int:
        if not network.is_native:
            return int(network.engine.output_size)
        return network.tensors[-1].shape[0]

    def _chosen_positions(self, network: PosteriorNetwork) -> NDArray[np.int64] | None:
        """Positions over the model's parameters, in the order of results; None where a rule is still to choose them."""
        if self.subset_of_weights == "all":
            return np.sort(network.to_module(np.arange(network.size)))
        if self.subset_of_weights == "last_layer":
            return np.sort(network.to_module(np.arange(network.head_start, network.size)))
        if self._rule is not None and self._rule.startswith("layers:"):
            names = [name.strip() for name in self._rule.removeprefix("layers:").split(",")]
            own = [tensor.positions for name in names for tensor in named_positions(network.tensors, name)]
            return np.unique(np.concatenate(own))
        if self._given is not None:
            total = sum(tensor.size for tensor in network.tensors)
            if self._given.min() < 0 or self._given.max() >= total:
                raise InputError(f"subnetwork_indices: expected positions from 0 to {total - 1}, found {self._given.max()}")
        return self._given

    def _select(self) -> None:
        """Chooses the parameters, with the prior as it is."""
        network = self._fitted_network()
        by_rule = self._positions is None
        stop = network.head_start if by_rule else network.size
        candidates = network.to_module(np.arange(stop)) if by_rule else self._positions
        if not by_rule and self.hessian_structure == "full":
            self._refuse_too_large(self._positions.size)
        arguments = (network.tensors, self._positions, candidates)
        precision = priors.spread("prior_precision", self._precision, *arguments, 1.0)
        mean = priors.spread("prior_mean", self._mean, *arguments, 0.0)
        own = network.to_module(np.arange(stop))
        how: dict[str, Any] = {"independent": self.hessian_structure == "diag"}
        if by_rule:
            size = self._size
            size = max(1, round(size * stop)) if isinstance(size, float) and size < 1 else int(size or 0)
            self._refuse_too_large(size)
            how |= {"rule": self._rule, "size": size, "seed": self.seed}
        else:
            engine = np.sort(network.to_engine(self._positions))
            if engine.size != stop:
                how["indices"] = engine
        self._selection = self._problem.select(0, stop, 1 / precision[own], mean[own], **how)
        if by_rule:
            self._positions = np.sort(network.to_module(self._selection.indices))

    def _refuse_too_large(self, size: int) -> None:
        if self.hessian_structure != "full" or self.tolerance > 0 or self._problem is None:
            return
        outputs = self._problem.outputs
        rows = self._problem.samples * (outputs - 1 if self._classifies else outputs)
        needed = 8 * min(2 * size**2, 2 * rows**2 + rows * size)
        limit = self.memory_limit if self.memory_limit is not None else _native.available_memory()
        if limit is not None and needed > limit:
            raise PosteriorError(
                f"the covariance of {size} parameters given {self._problem.samples} samples takes {_in_bytes(needed)} and "
                f"{_in_bytes(limit)} are allowed: choose fewer parameters, a `tolerance` above 0, or "
                "hessian_structure='diag'"
            )

    def _posterior(self) -> Any:
        """The native posterior, fitted anew where the prior or the noise has changed."""
        self._fitted_network()
        if self._fitted is None:
            self._fitted = self._problem.fit(self._selection, self.tolerance)
        return self._fitted

    def _change(self, what: str, attribute: str, value: Any) -> None:
        """Sets a part of the prior; the posterior follows when it is next asked for."""
        if self._network is not None:
            self._need_data(what)
            before = getattr(self, attribute)
            setattr(self, attribute, value)
            try:
                self._select()
            except BaseException:
                setattr(self, attribute, before)
                raise
            self._fitted = None
        else:
            setattr(self, attribute, value)

    def _need_data(self, what: str) -> None:
        self._fitted_network()
        if self._problem is None:
            raise InputError(f"{what}: a posterior from a file has no training data; fit it again to change its prior")

    def _fitted_network(self) -> PosteriorNetwork:
        if self._network is None:
            raise InputError("the posterior is not fitted yet: call fit with the training data first")
        return self._network

    def _rows(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        shape = self._fitted_network().input_shape
        if block.shape[1:] != shape:
            raise InputError(f"inputs: found the shape {list(block.shape)}, expected [N, {', '.join(map(str, shape))}]")
        return block

    def _is_sorted(self) -> bool:
        return bool(np.all(self._positions[1:] > self._positions[:-1]))

    def _places(self) -> NDArray[np.int64]:
        """Where each position's result lies in the engine's ascending order."""
        engine = self._fitted_network().to_engine(self._positions)
        return np.argsort(np.argsort(engine))

    def _fit(self, x: NDArray[np.float64], y: NDArray[Any]) -> None:
        """Fits everything anew. Until all is there, the old posterior stays."""
        chunk = CHUNK_BYTES if self.memory_limit is None else max(1, min(CHUNK_BYTES, self.memory_limit // 4))
        network = PosteriorNetwork(
            self.model,
            tuple(x.shape[1:]),
            last_layer=self.last_layer_name,
            chunk_bytes=chunk,
            native=self._native_wanted,
        )
        before = (self._network, self._problem, self._selection, self._fitted, self._positions, self._samples)
        try:
            self._network, self._fitted = network, None
            self._positions = self._chosen_positions(network)
            self._problem = self._problem_of(network, x, y)
            self._samples = len(x)
            self._select()
            self._posterior()
        except BaseException:
            self._network, self._problem, self._selection, self._fitted, self._positions, self._samples = before
            raise
