"""Personal models: predictions with uncertainty for new rows, and what is known of the parameters."""

from __future__ import annotations

import csv
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsi import _native
from fedsi._arrays import from_tensor
from fedsi._predictions import NewClassPredictions, NewValuePredictions
from fedsi._safetensors import parse
from fedsi.errors import InputError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Posterior:
    """What is known of one network's parameters, all of which are one flat array in PyTorch's order."""

    kind: str
    """``laplace`` (a Gaussian over some parameters), ``mean-field`` (independent Gaussians over all), ``samples`` (of the
    head) or ``point``."""
    indices: np.ndarray
    """The parameters that have a distribution, as places among all of them, ascending. Empty of a point."""
    mean: np.ndarray
    """Their means: the network's own values."""
    variance: np.ndarray
    """Their marginal variances. Of samples: the variance over them."""
    prior_variance: np.ndarray | None = None
    """Laplace: their prior variances."""
    live: np.ndarray | None = None
    """Laplace with a covariance: places in ``indices`` of those the data says anything of; the others keep their prior."""
    factor: np.ndarray | None = None
    """Laplace with a covariance: W. The covariance of the live parameters is ``diag(prior) - W W'`` where ``form`` is
    ``reduction``, and ``W W'`` where it is ``whole``."""
    form: str | None = None
    samples: np.ndarray | None = None
    """Samples x parameters of the head."""

    def covariance(self) -> np.ndarray:
        """The covariance of the parameters in ``indices``, dense: 8 bytes for each pair of them."""
        if self.kind == "samples" and self.samples is not None:
            return np.atleast_2d(np.cov(self.samples.astype(np.float64), rowvar=False, ddof=0))
        if self.factor is None or self.live is None or self.prior_variance is None:
            return np.diag(self.variance.astype(np.float64))
        dense = np.diag(self.prior_variance.astype(np.float64))
        product = self.factor @ self.factor.T
        if self.form == "reduction":
            product = np.diag(self.prior_variance[self.live]) - product
        dense[np.ix_(self.live, self.live)] = product
        return dense


class PersonalModel:
    """A client's personal model: :meth:`fedsi.Result.model`.

    Predictions are the engine's: the same bits as those of ``fedsi predict`` and, for the run's test rows, of the run.
    """

    def __init__(self, native: _native.NativeModel) -> None:
        self._native = native

    @property
    def client(self) -> int:
        """The id of the client."""
        return self._native.client

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        return self._native.task

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, where they have any."""
        names = self._native.class_names
        return None if names is None else tuple(names)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table that it was trained on, where it was: what :meth:`predict` takes."""
        columns = self._native.columns
        return None if columns is None else tuple(columns)

    def predict(self, x: Any) -> NewClassPredictions | NewValuePredictions:
        """Predicts new rows, with uncertainty.

        ``x`` is given as the training data was, and is scaled as it was: an array with a row a sample (of images: bytes
        from 0 to 255, or floats scaled to [-1, 1]; floats all within [0, 1] are warned of); for a model of a
        table a data frame or a dict of columns, in any order and beside other columns; or the path of a
        file that ``fedsi predict --input`` reads.
        """
        if isinstance(x, (str, os.PathLike)):
            return self._named(self._native.predict_file(os.fspath(x)))
        if isinstance(x, Mapping) or hasattr(x, "columns"):
            with tempfile.TemporaryDirectory(prefix="fedsi-") as folder:
                path = Path(folder) / "rows.csv"
                _write_table(path, x)
                return self._named(self._native.predict_file(str(path)))
        rows = _numbers(x)
        self._warn_of_scale(rows)
        return self._named(self._native.predict(rows))

    def scaled(self, x: Any) -> np.ndarray:
        """Rows of an array as the network takes them, float32: scaled as the run's data was. For torch models."""
        given = _numbers(x)
        self._warn_of_scale(given)
        rows = self._native.scaled(given)
        return rows.reshape(len(rows), *self.about["model"]["input"])

    def keep(self, path: str | os.PathLike[str]) -> None:
        """Writes the model as a file that ``fedsi predict --model`` and docs/model-files.md read."""
        self._native.keep(os.fspath(path))

    def torch(self) -> torch.nn.Module:
        """The model as a torch module in evaluation mode: a :class:`fedsi.torch_models.PersonalNetwork` (an
        ``nn.Sequential``) or, where there are several networks, a :class:`fedsi.torch_models.Mixture` of them. Names in
        its ``state_dict`` are those of docs/model-files.md. It takes rows from :meth:`scaled`. Needs torch."""
        from fedsi.torch_models import module_of

        return module_of(self)

    @cached_property
    def _parsed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return parse(self._native.to_bytes())

    @property
    def about(self) -> dict[str, Any]:
        """The metadata of its file: network, scaling, temperatures, own classes, kind of posterior."""
        return self._parsed[1]

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """Everything in its file, under the names of docs/model-files.md. Not to be written to."""
        return self._parsed[0]

    @cached_property
    def modes(self) -> int:
        """How many networks its prediction averages."""
        return 1 + len(self.about.get("further_modes", []))

    @property
    def posterior(self) -> Posterior:
        """What is known of the parameters; of the first network of a mixture."""
        return self.posteriors[0]

    @cached_property
    def posteriors(self) -> tuple[Posterior, ...]:
        """The same of each network."""
        return tuple(self._posterior(mode) for mode in range(self.modes))

    def state(self, mode: int = 0) -> dict[str, np.ndarray]:
        """The parameters of a network under the names that ``nn.Sequential`` gives them, in their order."""
        prefix = "" if self.modes == 1 else f"modes.{mode}."
        chosen = {
            name.removeprefix(prefix): value
            for name, value in self.tensors.items()
            if name.startswith(prefix) and not name.startswith("posterior.")
        }

        # Layers by number, and within each its weight before its bias.
        def place(name: str) -> tuple[int, bool]:
            layer, _, kind = name.partition(".")
            return int(layer), kind != "weight"

        return {name: chosen[name] for name in sorted(chosen, key=place)}

    def _warn_of_scale(self, rows: np.ndarray) -> None:
        """Warns of images scaled to [0, 1], as other libraries scale them."""
        if rows.dtype.kind != "f" or not rows.size or not (rows.min() >= 0 and rows.max() <= 1):
            return
        if self.about["model"].get("pixels"):
            warnings.warn(
                "x: every value is within [0, 1], and this model expects images as floats within [-1, 1]: -1 is black, 1 is "
                "white. Give 2 * x - 1, or bytes from 0 to 255, which the model scales by itself",
                stacklevel=3,
            )

    def _posterior(self, mode: int) -> Posterior:
        about = self.about if mode == 0 else self.about["further_modes"][mode - 1]
        header = about.get("posterior")
        values = np.concatenate([value.ravel() for value in self.state(mode).values()])
        prefix = "posterior." if self.modes == 1 else f"posterior.modes.{mode}."

        def tensor(name: str) -> np.ndarray | None:
            return self.tensors.get(prefix + name)

        if header is None:
            nothing = np.empty(0, dtype=np.int64)
            return Posterior("point", nothing, np.empty(0, np.float32), np.empty(0))
        form = header["covariance"]
        if form == "mean-field":
            return Posterior("mean-field", np.arange(len(values)), values, self.tensors[prefix + "variance"])
        if form == "samples":
            state = list(self.state(mode).values())
            head = sum(value.size for value in state[-2:])
            samples = self.tensors[prefix + "samples"].reshape(-1, head)
            places = np.arange(len(values) - head, len(values))
            return Posterior("samples", places, values[places], samples.astype(np.float64).var(axis=0), samples=samples)
        indices = self.tensors[prefix + "selected"]
        live, factor = tensor("live"), tensor("factor")
        if live is not None and factor is not None:
            factor = factor.reshape(len(live), -1) if len(live) else factor.reshape(0, 0)
        return Posterior(
            "laplace",
            indices,
            values[indices],
            self.tensors[prefix + "variance"],
            prior_variance=tensor("prior_variance"),
            live=live,
            factor=factor,
            form=form,
        )

    def _named(self, answer: tuple[np.ndarray, np.ndarray, np.ndarray | None]) -> NewClassPredictions | NewValuePredictions:
        first, second, strangeness = answer
        if strangeness is None:
            strangeness = np.full(len(first), np.nan)
        if self.task == "regression":
            return NewValuePredictions(first, second, strangeness)
        return NewClassPredictions(first, second, strangeness, self.class_names)

    def __repr__(self) -> str:
        networks = "" if self.modes == 1 else f", {self.modes} networks"
        kind = self.posterior.kind
        about = "point model" if kind == "point" else f"{kind} posterior of {len(self.posterior.indices)} parameters"
        return f"<fedsi.PersonalModel of client {self.client}: {self.task}{networks}, {about}>"


def _numbers(x: Any) -> np.ndarray:
    """An array of bytes, whole numbers or floats, as native code takes it."""
    try:
        array = np.asarray(from_tensor(x))
    except ValueError as error:
        raise InputError(f"x: expected an array of numbers, its rows of equal length: {error}") from error
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    raise InputError(f"x: expected an array of numbers, found one of {array.dtype}")


def _write_table(path: Path, x: Any) -> None:
    """A data frame, or a dict of columns, as a CSV table; what is missing is an empty cell."""
    columns = {str(name): list(x[name]) for name in (x if isinstance(x, Mapping) else x.columns)}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"x: columns differ in length: {lengths}")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*([_cell(value) for value in values] for values in columns.values())))


def _cell(value: Any) -> str:
    # NaN and NaT are unequal to themselves; whether pandas.NA is, is itself NA.
    if value is None or type(value).__name__ == "NAType" or value != value:
        return ""
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value)
