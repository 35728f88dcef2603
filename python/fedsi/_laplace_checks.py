"""Settings of :class:`fedsi.laplace.Laplace`, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsi import _laplace_prior as priors
from fedsi import _native
from fedsi._laplace_data import as_array
from fedsi.errors import InputError

#: Names of the predictives: laplace-torch's, then those that only fedsi has.
LINKS = {
    "probit": "probit",
    "mc": "monte-carlo",
    "bridge": "bridge",
    "monte-carlo": "monte-carlo",
    "differences": "differences",
    "map": "map",
}


def one_of(what: str, found: Any, known: tuple[str, ...]) -> None:
    """Refuses a word that is not among those known."""
    if found not in known:
        raise InputError(f"{what}: found {found!r}, expected {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")


def number(what: str, value: Any) -> float:
    """A finite number, 0 or above."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or value < 0:
        raise InputError(f"{what}: expected a finite number, 0 or above, found {value!r}")
    return float(value)


def whole(what: str, value: Any, least: int, unit: str = "a whole number") -> int:
    """A whole number, at least so large; 30.0 is one."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or value != int(value) or not least <= value < 2**63:
        raise InputError(f"{what}: expected {unit}, {least} or above, found {value!r}")
    return int(value)


def _size(rule: str, size: Any) -> int | float:
    """How many parameters a rule takes: a whole number, or a share of those below the last layer."""
    if isinstance(size, (int, float, np.integer, np.floating)) and not isinstance(size, bool) and size > 0:
        if size < 1:
            return float(size)
        if np.isfinite(size) and size == int(size):
            return int(size)
    raise InputError(
        f"subnetwork_size: found {size!r}, expected how many parameters {rule!r} takes: a whole number, or a share above 0 "
        "and below 1"
    )


def link(name: str) -> str:
    """A predictive by the name that native code knows it by."""
    if name == "bridge_norm":
        raise InputError("link_approx: 'bridge_norm' is not there; 'bridge', 'probit', 'mc' and 'differences' are")
    if name not in LINKS:
        raise InputError(f"link_approx: found {name!r}, expected {', '.join(map(repr, LINKS))}")
    return LINKS[name]


def pred_type(found: str) -> None:
    """Refuses all but the linearised network."""
    if found != "glm":
        raise InputError(
            f"pred_type: found {found!r}, expected 'glm', the linearised network; for samples of the network itself, "
            "load draws of `sample` into the model"
        )


def subnetwork(
    subset_of_weights: str, indices: Any, size: Any
) -> tuple[str | None, int | float | None, NDArray[np.int64] | None]:
    """The rule and its size, or the positions, that make a subnetwork."""
    if subset_of_weights != "subnetwork":
        if indices is not None or size is not None:
            raise InputError("subnetwork_indices and subnetwork_size: expected only with subset_of_weights='subnetwork'")
        return None, None, None
    if isinstance(indices, str):
        own_size = _native.rule_has_own_size(indices)
        if own_size and size is not None:
            raise InputError(f"subnetwork_size: {indices!r} says by itself how many parameters it takes; leave it out")
        return indices, None if own_size else _size(indices, size), None
    if indices is None:
        names = ", ".join(repr(name) for name, _ in _native.selection_rules())
        raise InputError(f"subnetwork_indices: expected positions over model.parameters(), or one of the rules {names}")
    if size is not None:
        raise InputError("subnetwork_size: expected with the name of a rule, not with positions")
    positions = as_array(indices, "subnetwork_indices")
    if positions.ndim != 1 or positions.size == 0 or positions.dtype.kind not in "iu":
        raise InputError(
            f"subnetwork_indices: found {positions.dtype} of shape {list(positions.shape)}, expected a list of whole "
            "numbers: positions over model.parameters()"
        )
    positions = positions.astype(np.int64)
    if np.unique(positions).size != positions.size:
        raise InputError("subnetwork_indices: a position occurs twice")
    return None, None, positions


def sigma_noise(value: Any, classifies: bool) -> float | NDArray[np.float64]:
    """The noise of a regression: a number, or one for each output."""
    noise = priors.positive("sigma_noise", priors.freeze("sigma_noise", value))
    if isinstance(noise, dict):
        raise InputError("sigma_noise: expected a number, or one for each output")
    if classifies and not (isinstance(noise, float) and noise == 1.0):
        raise InputError("sigma_noise: a classification has no noise; leave it at 1")
    return noise
