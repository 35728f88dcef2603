"""How figures are written in tables for people."""

from __future__ import annotations

import math
from typing import Any

#: The scores of a summary in the order of tables: key, title, whether it is a share.
SCORES: tuple[tuple[str, str, bool], ...] = (
    ("accuracy", "accuracy", True),
    ("balanced_accuracy", "balanced accuracy", True),
    ("ece", "ECE", False),
    ("mce", "MCE", False),
    ("mce_1pct", "MCE 1%", False),
    ("brier", "Brier", False),
    ("nll", "NLL", False),
    ("aurc", "AURC", False),
    ("rmse", "RMSE", False),
    ("mae", "MAE", False),
    ("coverage_50", "coverage of 50%", True),
    ("coverage_80", "coverage of 80%", True),
    ("coverage_90", "coverage of 90%", True),
    ("coverage_95", "coverage of 95%", True),
)


def figure(value: float | None, share: bool = False) -> str:
    """A figure with the digits that mean something; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    if share:
        return f"{100 * value:.2f}%"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def interval(ends: Any, share: bool = False) -> str:
    """The ends of an interval; nothing where there is none."""
    if ends is None:
        return ""
    low, high = ends
    return f"{figure(low, share)} to {figure(high, share)}"


def counted(number: int, noun: str) -> str:
    """``1 round``, ``2 rounds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
