"""Conformal sets and intervals: of a wanted coverage, whatever the model.

A calibration on rows that no fit has used gives a threshold. A set then has every class whose probability is at least
1 less the threshold, and the most probable one; an interval reaches as many predicted standard deviations to either
side. For new rows drawn like those of the calibration the truth is inside with at least the wanted probability, on
average over rows and calibrations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsi import _arrays, _native
from fedsi.errors import InputError

__all__ = [
    "ClientCoverage",
    "ConformalIntervals",
    "ConformalSets",
    "calibrate",
    "calibrate_regression",
    "fewest_rows",
    "judge",
    "judge_regression",
]


def fewest_rows(level: float) -> int:
    """The fewest rows from which a level is calibrated: ``10 / (1 - level)``."""
    return _native.conformal_fewest(_level(level))


@dataclass(frozen=True)
class ConformalSets:
    """A calibration for classes: :func:`calibrate`."""

    level: float
    threshold: float
    """The largest 1 less a probability that is inside."""
    rows: int
    """Rows that it was calibrated on."""

    def sets(self, probabilities: Any) -> np.ndarray:
        """Which classes are in the set of each row: rows x classes, true or false. No set is empty."""
        return _native.conformal_sets(_arrays.checked_rows(probabilities), self.threshold)

    def coverage(self, probabilities: Any, labels: Any) -> float:
        """The share of rows whose label is in their set; NaN of no rows. Not for the rows of the calibration."""
        inside = self.sets(probabilities)
        labels = _arrays.whole(labels, "labels", len(inside))
        outside = (labels < 0) | (labels >= inside.shape[1])
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(f"labels, row {row}: found {labels[row]}, expected a class from 0 to {inside.shape[1] - 1}")
        return float(inside[np.arange(len(labels)), labels].mean()) if len(labels) else float("nan")


@dataclass(frozen=True)
class ConformalIntervals:
    """A calibration for numbers: :func:`calibrate_regression`."""

    level: float
    thresholds: np.ndarray
    """For each output, how many predicted standard deviations (without variances: how far) an interval reaches to either
    side."""
    rows: int
    with_variance: bool
    """Whether it was calibrated with variances; without them thresholds are in the units of the targets."""

    def intervals(self, mean: Any, variance: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper end for each row (and output, where there are several). ``variance`` is given where the
        calibration had one, and only there."""
        if self.with_variance and variance is None:
            raise InputError(
                "variance: expected one for each row, found None: these intervals were calibrated with variances and reach "
                "so many predicted standard deviations"
            )
        if not self.with_variance and variance is not None:
            raise InputError(
                "variance: expected None: these intervals were calibrated by residuals alone and are equally wide; give "
                "variances to calibrate_regression too"
            )
        mean_ = _arrays.matrix(mean, "mean")
        variance_ = np.ones_like(mean_) if variance is None else _arrays.matrix(variance, "variance")
        for name, array in (("mean", mean_), ("variance", variance_)):
            if array.shape != (len(mean_), len(self.thresholds)):
                raise InputError(f"{name}: found shape {list(array.shape)}, expected [{len(mean_)}, {len(self.thresholds)}]")
        _arrays.finite(mean_, "a mean")
        bad = ~(np.isfinite(variance_) & (variance_ > 0))
        if bad.any():
            row, output = np.argwhere(bad)[0]
            raise InputError(
                f"row {row}, output {output}: a variance must be finite and positive, found {variance_[row, output]}"
            )
        half = self.thresholds * np.sqrt(variance_)
        low, high = mean_ - half, mean_ + half
        return (low[:, 0], high[:, 0]) if np.ndim(mean) == 1 else (low, high)

    def coverage(self, mean: Any, targets: Any, variance: Any = None) -> np.ndarray:
        """For each output the share of rows whose target is inside; NaN of no rows. Not for the rows of the calibration."""
        low, high = self.intervals(_arrays.matrix(mean, "mean"), variance)
        truth = _arrays.matrix(targets, "targets")
        if truth.shape != low.shape:
            raise InputError(f"targets: found shape {list(truth.shape)}, expected {list(low.shape)}")
        _arrays.finite(truth, "a target")
        return ((low <= truth) & (truth <= high)).mean(axis=0) if len(truth) else np.full(len(self.thresholds), np.nan)


def calibrate(probabilities: Any, labels: Any, level: float = 0.9) -> ConformalSets:
    """Calibrates sets of classes on held-out rows, at least :func:`fewest_rows` of them."""
    checked = _arrays.probabilities(probabilities)
    labels = _arrays.whole(labels, "labels", len(checked))
    threshold = _native.conformal_class_threshold(checked, labels, _level(level))
    return ConformalSets(float(level), threshold, len(checked))


def calibrate_regression(mean: Any, targets: Any, variance: Any = None, level: float = 0.9) -> ConformalIntervals:
    """Calibrates intervals on held-out rows. Without ``variance`` by residuals alone: intervals are equally wide then."""
    mean_, truth = _arrays.matrix(mean, "mean"), _arrays.matrix(targets, "targets")
    variance_ = np.ones_like(mean_) if variance is None else _arrays.matrix(variance, "variance")
    thresholds = _native.conformal_value_thresholds(mean_, variance_, truth, _level(level))
    return ConformalIntervals(float(level), thresholds, len(mean_), variance is not None)


@dataclass(frozen=True)
class ClientCoverage:
    """What sets or intervals did for one client, on rows that they were not calibrated on."""

    client: Any
    rows: int
    covered: int
    """Rows with the truth inside."""
    mean_size: float
    """Classes in a set on average, or the mean width of an interval."""
    own: bool
    """Whether the client's own rows calibrated it; otherwise those of all clients did."""

    @property
    def coverage(self) -> float:
        """The share of rows with the truth inside."""
        return self.covered / self.rows


def judge(probabilities: Any, labels: Any, clients: Any, level: float = 0.9) -> list[ClientCoverage]:
    """What sets of this level do, client by client, by cross-fitting: each tenth of the rows is judged by a threshold from
    the others. A client with enough rows is calibrated by those alone. Clients that cannot be calibrated are left out."""
    checked = _arrays.probabilities(probabilities)
    truth = _arrays.whole(labels, "labels", len(checked))
    order, numbers, names = _arrays.grouped(clients, len(checked))
    if order is not None:
        checked, truth = np.ascontiguousarray(checked[order]), truth[order]
    found = _native.conformal_judge_sets(checked, truth, numbers, _level(level))
    return [ClientCoverage(names[one[0]], *one[1:]) for one in found]


def judge_regression(
    mean: Any, targets: Any, clients: Any, variance: Any = None, level: float = 0.9
) -> list[list[ClientCoverage]]:
    """The same of intervals: a list for each output."""
    mean_, truth = _arrays.matrix(mean, "mean"), _arrays.matrix(targets, "targets")
    variance_ = np.ones_like(mean_) if variance is None else _arrays.matrix(variance, "variance")
    order, numbers, names = _arrays.grouped(clients, len(mean_))
    if order is not None:
        mean_, variance_, truth = (np.ascontiguousarray(array[order]) for array in (mean_, variance_, truth))
    found = _native.conformal_judge_intervals(mean_, variance_, truth, numbers, _level(level))
    return [[ClientCoverage(names[one[0]], *one[1:]) for one in output] for output in found]


def _level(level: float) -> float:
    if isinstance(level, bool) or not isinstance(level, (int, float, np.floating)) or not 0.0 <= level < 1.0:
        raise InputError(f"level: expected a number from 0 up to, not including, 1, found {level!r}")
    return float(level)
