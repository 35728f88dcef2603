"""Scores of predictions in numpy arrays, as runs and reports compute them.

``probabilities`` are rows x classes in single or double precision, ``labels`` one whole number a row. Rows must be
finite, not negative and sum to 1 within 0.001; anything else raises :class:`fedsi.errors.InputError` with the row. Scores
of no rows are NaN. Everything is computed in double precision; only intervals draw random numbers, the same ones every
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsi import _arrays, _native
from fedsi.errors import InputError

__all__ = [
    "Reliability",
    "RiskCoverage",
    "accuracy",
    "aurc",
    "auroc",
    "balanced_accuracy",
    "brier",
    "class_auroc",
    "classification",
    "confusion_matrix",
    "coverage",
    "ece",
    "ece_floor",
    "entropy",
    "intervals",
    "mce",
    "mean_interval",
    "nll",
    "ood_auroc",
    "regression",
    "regression_intervals",
    "reliability",
    "risk_coverage",
]

_NAMES = (
    "accuracy",
    "balanced_accuracy",
    "nll",
    "brier",
    "ece",
    "ece_floor",
    "ece_floor_std",
    "mce",
    "mce_1pct",
    "aurc",
)
_VALUE_NAMES = ("rmse", "mae", "nll", "coverage_50", "coverage_80", "coverage_90", "coverage_95", "interval_error")


def _pair(probabilities: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    checked = _arrays.probabilities(probabilities)
    return checked, _arrays.whole(labels, "labels", len(checked))


def _bins(bins: int) -> int:
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or not 1 <= bins <= 10_000:
        raise InputError(f"bins: expected a whole number from 1 to 10000, found {bins!r}")
    return int(bins)


def classification(probabilities: Any, labels: Any, *, bins: int = 10) -> dict[str, float]:
    """All scores of classification by name, as in ``summary.json``, and ``samples``. O(n log n)."""
    found = _native.class_scores(*_pair(probabilities, labels), _bins(bins))
    return found if found is not None else dict.fromkeys(_NAMES, float("nan")) | {"samples": 0}


def accuracy(probabilities: Any, labels: Any) -> float:
    """The share of rows whose most probable class (of equals the lowest) is the label."""
    return classification(probabilities, labels)["accuracy"]


def balanced_accuracy(probabilities: Any, labels: Any) -> float:
    """The mean recall over the classes that have rows."""
    return classification(probabilities, labels)["balanced_accuracy"]


def nll(probabilities: Any, labels: Any) -> float:
    """The mean of ``-log max(p_label, 1e-12)``, in nats."""
    return classification(probabilities, labels)["nll"]


def brier(probabilities: Any, labels: Any) -> float:
    """The mean of ``sum_c (p_c - [c = label])^2``, 0 to 2."""
    return classification(probabilities, labels)["brier"]


def ece(probabilities: Any, labels: Any, *, bins: int = 10) -> float:
    """Expected calibration error over equal bins of confidence, each ``(i/B, (i+1)/B]``. Read it beside :func:`ece_floor`."""
    return classification(probabilities, labels, bins=bins)["ece"]


def ece_floor(probabilities: Any, labels: Any, *, bins: int = 10) -> tuple[float, float]:
    """Mean and standard deviation of the ECE that a perfectly calibrated model with these confidences would have."""
    found = classification(probabilities, labels, bins=bins)
    return found["ece_floor"], found["ece_floor_std"]


def mce(probabilities: Any, labels: Any, *, bins: int = 10, least_share: float = 0.0) -> float:
    """The largest gap between confidence and accuracy of a bin that holds rows; with ``least_share=0.01`` of one that
    holds at least 1% of them."""
    if least_share not in (0.0, 0.01):
        raise InputError(f"least_share: expected 0 or 0.01, found {least_share!r}")
    return classification(probabilities, labels, bins=bins)["mce_1pct" if least_share else "mce"]


@dataclass(frozen=True)
class Reliability:
    """The bins of a reliability diagram, from the lowest confidence to the highest, empty ones included."""

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    """Mean confidence of the bin's rows; 0 of an empty bin."""
    accuracy: np.ndarray
    """Share of right answers among them; 0 of an empty bin."""


def reliability(probabilities: Any, labels: Any, *, bins: int = 10) -> Reliability:
    """The bins that :func:`ece` and :func:`mce` are computed from."""
    return Reliability(*_native.reliability(*_pair(probabilities, labels), _bins(bins)))


def confusion_matrix(probabilities: Any, labels: Any) -> np.ndarray:
    """How often each class (columns) was predicted for rows of each class (rows)."""
    return _native.confusion(*_pair(probabilities, labels))


def class_auroc(probabilities: Any, labels: Any) -> np.ndarray:
    """AUROC of each class against the rest; NaN of a class that no row is of, or all are of."""
    return _native.class_aurocs(*_pair(probabilities, labels))


def entropy(probabilities: Any) -> np.ndarray:
    """The entropy of each row in nats: 0 when sure, ``log(classes)`` when uniform."""
    return _native.entropies(_arrays.checked_rows(probabilities))


@dataclass(frozen=True)
class RiskCoverage:
    """Risk against coverage, the most certain rows first: a point a row."""

    coverage: np.ndarray
    risk: np.ndarray
    uncertainty: np.ndarray
    """The largest uncertainty answered: the threshold that gives this coverage."""
    area: float

    def at_coverage(self, coverage: float) -> tuple[float, float]:
        """The threshold that answers at least this share of the rows, and the share of wrong answers then."""
        if not 0.0 < coverage <= 1.0:
            raise InputError(f"coverage: expected a share above 0 and at most 1, found {coverage!r}")
        if not len(self.coverage):
            return float("nan"), float("nan")
        place = min(int(np.searchsorted(self.coverage, coverage - 1e-12)), len(self.coverage) - 1)
        return float(self.uncertainty[place]), float(self.risk[place])


def risk_coverage(uncertainty: Any, correct: Any) -> RiskCoverage:
    """The curve of any uncertainty (entropy, strangeness, 1 - confidence) against whether each answer was right."""
    uncertainty = _arrays.numbers(uncertainty, "uncertainty")
    found = _native.risk_coverage(uncertainty, _arrays.truths(correct, "correct", len(uncertainty)))
    nothing = np.empty(0)
    return RiskCoverage(*found) if found is not None else RiskCoverage(nothing, nothing, nothing, float("nan"))


def aurc(probabilities: Any, labels: Any, *, uncertainty: Any = None) -> float:
    """The mean risk over all coverages when the least certain rows are declined first; by default the least confident."""
    if uncertainty is None:
        return classification(probabilities, labels)["aurc"]
    checked, truth = _pair(probabilities, labels)
    classification(checked, truth)
    return risk_coverage(uncertainty, checked.argmax(axis=1) == truth).area


def auroc(negatives: Any, positives: Any) -> float:
    """How likely a positive scores above a negative, ties counting one half; NaN where a group is empty."""
    found = _native.auroc(_arrays.numbers(negatives, "negatives"), _arrays.numbers(positives, "positives"))
    return float("nan") if found is None else found


def ood_auroc(known: Any, strange: Any) -> float:
    """How well a score tells strange inputs from known ones: AUROC of the scores (entropy, strangeness, ...) of both.
    Of probabilities (rows x classes) their entropies are taken."""

    def score(name: str, value: Any) -> np.ndarray:
        if np.ndim(value) == 2:
            return _native.entropies(_arrays.checked_rows(value, name))
        return _arrays.numbers(value, name)

    return auroc(score("known", known), score("strange", strange))


def intervals(probabilities: Any, labels: Any, clients: Any) -> dict[str, tuple[float, float]]:
    """95% intervals of the scores by resampling clients (rows within each where there are fewer than five).

    Accuracy is the mean over clients, the rest is of all rows; ``overconfidence`` is mean confidence less accuracy.
    ``clients`` says whose each row is, by any number or name, in any order. Empty of fewer than two rows.
    """
    checked, truth = _pair(probabilities, labels)
    order, numbers, _ = _arrays.grouped(clients, len(checked))
    if order is not None:
        checked, truth = np.ascontiguousarray(checked[order]), truth[order]
    found = _native.class_intervals(checked, truth, numbers)
    return {} if found is None else found[1]


def mean_interval(values: Any, clients: Any, *, kind: str = "numbers") -> tuple[float, float, float]:
    """The mean of values and its 95% interval by resampling clients.

    ``kind`` says what the values are: ``shares`` (0 to 1), ``positive`` (0 or above) or ``numbers``.
    """
    if kind not in ("shares", "positive", "numbers"):
        raise InputError(f"kind: expected 'shares', 'positive' or 'numbers', found {kind!r}")
    values = _arrays.numbers(values, "values")
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values)))
        raise InputError(f"values, row {row}: expected a finite number, found {values[row]}")
    least, most = {"shares": (0.0, 1.0), "positive": (0.0, np.inf)}.get(kind, (-np.inf, np.inf))
    outside = (values < least) | (values > most)
    if outside.any():
        row = int(np.argmax(outside))
        expected = "a share from 0 to 1" if kind == "shares" else "a number that is not negative"
        raise InputError(f"values, row {row}: found {values[row]}, expected {expected} (kind={kind!r})")
    order, numbers, _ = _arrays.grouped(clients, len(values))
    found = _native.interval_of_mean(values if order is None else values[order], numbers, kind)
    nothing = float("nan")
    return (nothing, nothing, nothing) if found is None else found


def regression(mean: Any, variance: Any, targets: Any) -> dict[str, float]:
    """All scores of regression by name: RMSE, MAE, NLL of a Gaussian, the coverage of central intervals, the mean error of
    their coverage (``interval_error``), and ``samples``. Arrays are rows, or rows x outputs."""
    found = _native.value_scores(*_triple(mean, variance, targets))
    return found if found is not None else dict.fromkeys(_VALUE_NAMES, float("nan")) | {"samples": 0}


def coverage(mean: Any, variance: Any, targets: Any, level: float) -> float:
    """The share of targets inside their central interval of this probability."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.integer, np.floating)):
        raise InputError(f"level: expected a number between 0 and 1, found {level!r}")
    found = _native.value_coverage(*_triple(mean, variance, targets), float(level))
    return float("nan") if found is None else found


def regression_intervals(mean: Any, variance: Any, targets: Any, clients: Any) -> dict[str, tuple[float, float]]:
    """95% intervals of the scores of a regression, as :func:`intervals`."""
    arrays = _triple(mean, variance, targets)
    order, numbers, _ = _arrays.grouped(clients, len(arrays[0]))
    if order is not None:
        first, second, third = (np.ascontiguousarray(array[order]) for array in arrays)
        arrays = (first, second, third)
    found = _native.value_intervals(*arrays, numbers)
    return {} if found is None else found[1]


def _triple(mean: Any, variance: Any, targets: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        _arrays.matrix(mean, "mean"),
        _arrays.matrix(variance, "variance"),
        _arrays.matrix(targets, "targets"),
    )
