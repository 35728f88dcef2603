"""Predictions as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from fedsi import _native

_P = TypeVar("_P", bound="_Rows")


@dataclass(frozen=True)
class _Rows:
    """Arrays with an entry a row."""

    #: Properties that are columns of a table too.
    _derived: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self: _P, rows: Any) -> _P:
        """The same of some rows: a mask, numbers of rows, or a slice."""
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        of = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[rows] for name, value in of.items() if isinstance(value, np.ndarray)})

    def columns(self) -> dict[str, np.ndarray]:
        """One-dimensional columns by name, as a table has them."""
        found: dict[str, np.ndarray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, np.ndarray):
                continue
            if value.ndim == 1:
                found[field.name] = value
            elif value.shape[1] == 1:
                found[field.name] = value[:, 0]
            else:
                found.update({f"{field.name}_{place}": value[:, place] for place in range(value.shape[1])})
        return found | {name: getattr(self, name) for name in self._derived}


class _ClassRows(_Rows):
    """What follows from the probabilities of classes."""

    probabilities: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """The most probable class of each row."""
        return self.probabilities.argmax(axis=1)

    @property
    def confidence(self) -> np.ndarray:
        """Its probability."""
        return self.probabilities.max(axis=1)

    @property
    def entropy(self) -> np.ndarray:
        """The entropy of each row's probabilities, in nats."""
        return _native.entropies(np.ascontiguousarray(self.probabilities))


@dataclass(frozen=True)
class ClassPredictions(_ClassRows):
    """Test predictions of a classification, a row each."""

    _derived: ClassVar[tuple[str, ...]] = ("predicted", "confidence", "entropy", "correct")

    probabilities: np.ndarray
    """Rows x classes, float32: the bits of the run."""
    labels: np.ndarray
    """The class that came true."""
    client: np.ndarray
    """The id of the client whose row it is."""
    ids: np.ndarray
    """What the row is called: its id in a table that has one, its row number, or its place among the client's."""
    strangeness: np.ndarray
    """How unlike the client's training inputs it is, in standard deviations of theirs, to six digits; NaN: not known."""
    class_names: tuple[str, ...] | None = None

    @property
    def correct(self) -> np.ndarray:
        """Whether it is the class that came true."""
        return self.predicted == self.labels


@dataclass(frozen=True)
class ValuePredictions(_Rows):
    """Test predictions of a regression, a row each, in the data's own units."""

    mean: np.ndarray
    """Rows x outputs."""
    variance: np.ndarray
    """Rows x outputs: of the outputs and the noise around them."""
    targets: np.ndarray
    """Rows x outputs: what came true."""
    client: np.ndarray
    ids: np.ndarray
    strangeness: np.ndarray


@dataclass(frozen=True)
class NewClassPredictions(_ClassRows):
    """A model's predictions for new rows of a classification."""

    _derived: ClassVar[tuple[str, ...]] = ("predicted", "confidence", "entropy")

    probabilities: np.ndarray
    """Rows x classes, float32."""
    spread: np.ndarray
    """How far the logits spread over what is known of the parameters: the trace of their covariance; 0 of a point model."""
    strangeness: np.ndarray
    """How unlike the client's training inputs a row is, in standard deviations of theirs; NaN: not known."""
    class_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NewValuePredictions(_Rows):
    """A model's predictions for new rows of a regression, in the data's own units."""

    mean: np.ndarray
    """Rows x outputs."""
    variance: np.ndarray
    """Rows x outputs: of the outputs and the noise around them."""
    strangeness: np.ndarray
