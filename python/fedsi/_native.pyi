"""The native part of the package: thin bindings of the Rust crates, one section for each folder of ``python/src``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

# Runs, comparisons, metrics, partitions: python/src/{run,saved,compare,metrics,partition}.

def run_config(
    config: dict[str, Any] | str | PathLike[str] | None,
    settings: dict[str, Any] | None,
    out: str | PathLike[str] | None,
    resume: bool,
    overwrite: bool,
    observer: Callable[[str, int, int, str | None], object] | None,
) -> Path: ...
def resume_run(
    folder: str | PathLike[str],
    settings: dict[str, Any] | None,
    observer: Callable[[str, int, int, str | None], object] | None,
) -> Path: ...
def methods_json() -> str: ...
def datasets_json() -> str: ...
def config_json(config: dict[str, Any] | str | PathLike[str] | None, settings: dict[str, Any] | None) -> str: ...
def schema_json() -> str: ...

class SavedRun:
    def __new__(cls, path: str | PathLike[str]) -> SavedRun: ...
    def config_json(self) -> str: ...
    def find(self, client: str) -> int: ...
    def predictions(self) -> dict[str, Any]: ...
    def model(self, client: int) -> NativeModel: ...
    def kept(self, path: str | PathLike[str]) -> NativeModel: ...

class NativeModel:
    @property
    def client(self) -> int: ...
    @property
    def task(self) -> str: ...
    @property
    def class_names(self) -> list[str] | None: ...
    @property
    def columns(self) -> list[str] | None: ...
    def to_bytes(self) -> bytes: ...
    def scaled(self, x: NDArray[Any]) -> NDArray[np.float32]: ...
    def predict(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64] | None]: ...
    def predict_file(self, path: str | PathLike[str]) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64] | None]: ...
    def keep(self, path: str | PathLike[str]) -> None: ...

def compare_methods(
    config: dict[str, Any] | str | PathLike[str] | None,
    settings: dict[str, Any] | None,
    *,
    methods: str | None,
    seeds: int | None,
    reference: str | None,
    with_: list[str] | None,
    columns: list[str] | None,
    tune: bool | None,
    tune_rounds: int | None,
    tune_finalists: int | None,
    tune_seeds: int | None,
    jobs: int,
    out: str | PathLike[str] | None,
    overwrite: bool,
    observer: Callable[[str, str, int, int], object] | None,
) -> Path: ...
def render_comparison(folder: str | PathLike[str], format: str) -> str: ...
def class_scores(probabilities: NDArray[Any], labels: NDArray[np.int64], bins: int) -> dict[str, float] | None: ...
def reliability(
    probabilities: NDArray[Any], labels: NDArray[np.int64], bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]: ...
def confusion(probabilities: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]: ...
def class_aurocs(probabilities: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]: ...
def class_intervals(
    probabilities: NDArray[Any], labels: NDArray[np.int64], clients: NDArray[np.int64]
) -> tuple[str, dict[str, tuple[float, float]]] | None: ...
def entropies(probabilities: NDArray[Any]) -> NDArray[np.float64]: ...
def risk_coverage(
    uncertainty: NDArray[np.float64], correct: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float] | None: ...
def auroc(negatives: NDArray[np.float64], positives: NDArray[np.float64]) -> float | None: ...
def interval_of_mean(values: NDArray[np.float64], clients: NDArray[np.int64], kind: str) -> tuple[float, float, float] | None: ...
def value_scores(
    mean: NDArray[np.float64], variance: NDArray[np.float64], targets: NDArray[np.float64]
) -> dict[str, float] | None: ...
def value_coverage(
    mean: NDArray[np.float64], variance: NDArray[np.float64], targets: NDArray[np.float64], level: float
) -> float | None: ...
def value_intervals(
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    targets: NDArray[np.float64],
    clients: NDArray[np.int64],
) -> tuple[str, dict[str, tuple[float, float]]] | None: ...
def conformal_fewest(level: float) -> int: ...
def conformal_class_threshold(probabilities: NDArray[Any], labels: NDArray[np.int64], level: float) -> float: ...
def conformal_value_thresholds(
    mean: NDArray[np.float64], variance: NDArray[np.float64], targets: NDArray[np.float64], level: float
) -> NDArray[np.float64]: ...
def conformal_sets(probabilities: NDArray[Any], threshold: float) -> NDArray[np.bool_]: ...
def conformal_judge_sets(
    probabilities: NDArray[Any], labels: NDArray[np.int64], clients: NDArray[np.int64], level: float
) -> list[tuple[int, int, int, float, bool]]: ...
def conformal_judge_intervals(
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    targets: NDArray[np.float64],
    clients: NDArray[np.int64],
    level: float,
) -> list[list[tuple[int, int, int, float, bool]]]: ...
def partition(
    kind: str,
    rows: int,
    *,
    labels: NDArray[np.int64] | None,
    owners: list[str] | None,
    groups: NDArray[np.int64] | None,
    times: NDArray[np.float64] | None,
    clients: int,
    labels_per_client: int,
    train: int,
    test: int,
    test_fraction: float,
    concentration: float,
    shards_per_client: int,
    seed: int,
) -> list[tuple[str | None, NDArray[np.int64], NDArray[np.int64]]]: ...

# Networks (python/src/network/)

def layers_refusal(layers: str, input_shape: Sequence[int]) -> str | None:
    """Why these layers (JSON, as in a config) do not make a network for inputs of this shape; None where they do."""

def layers_initial(layers: str, input_shape: Sequence[int], seed: int) -> NDArray[np.float32]:
    """The parameters that a federation of these layers (JSON) with this seed starts from."""

def layers_outputs(
    layers: str, input_shape: Sequence[int], parameters: NDArray[np.float64], inputs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The outputs of these layers (JSON) in float64 for ``inputs`` [N, values of one input]."""

def train_network(
    network: Any,
    values: NDArray[np.float32],
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64] | None,
    targets: NDArray[np.float32] | None,
    phase: dict[str, Any],
) -> tuple[NDArray[np.float32], float]:
    """One phase of a client's training: see :func:`fedsi.training.train_phase`."""

def check_network(network: Any, config: Any = None, settings: dict[str, Any] | None = None) -> None:
    """Raises what a federation with these settings would before it trains this network."""

# Laplace posteriors (python/src/laplace/): what `fedsi.laplace` is made of.

# `(input shape, layers as JSON)`, or a `fedsi.torch_network.TorchNetwork`.
_Network = tuple[Sequence[int], str] | object

def selection_rules() -> list[tuple[str, str]]:
    """How each selection rule is written, and what it takes."""

def rule_has_own_size(name: str) -> bool:
    """Whether a rule says by itself how many parameters it takes."""

def available_memory() -> int | None:
    """Bytes of memory that can still be had, where the system tells."""

class LaplaceProblem:
    """A trained network, the data it was trained on, and what its outputs mean."""

    def __new__(
        cls,
        network: _Network,
        parameters: NDArray[np.float64],
        inputs: NDArray[np.float64],
        *,
        labels: NDArray[np.int64] | None = None,
        values: NDArray[np.float64] | None = None,
        noise: Sequence[float] | None = None,
    ) -> LaplaceProblem: ...
    @property
    def samples(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    def with_noise(self, noise: Sequence[float]) -> LaplaceProblem: ...
    def select(
        self,
        start: int,
        stop: int,
        prior_variance: NDArray[np.float64],
        prior_mean: NDArray[np.float64] | None = None,
        *,
        indices: NDArray[np.int64] | None = None,
        rule: str | None = None,
        size: int | None = None,
        seed: int = 0,
        independent: bool = False,
    ) -> LaplaceSelection: ...
    def fit(self, selection: LaplaceSelection, tolerance: float = 0.0, scale: float = 1.0) -> LaplaceFit: ...
    def scale_by_marginal_likelihood(self, selection: LaplaceSelection, tolerance: float = 0.0) -> tuple[float, float, bool]: ...
    def scale_by_held_out(
        self,
        selection: LaplaceSelection,
        tolerance: float,
        inputs: NDArray[np.float64],
        *,
        labels: NDArray[np.int64] | None = None,
        values: NDArray[np.float64] | None = None,
        predictive: str = "probit",
        draws: int = 100,
        seed: int = 0,
    ) -> tuple[float, float, bool]: ...

class LaplaceSelection:
    """Parameters that are to have a distribution, with their prior."""

    @property
    def indices(self) -> NDArray[np.int64]: ...

class LaplaceFit:
    """A Laplace posterior with its network, at the parameters it was fitted to."""

    def outputs(self, inputs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def probabilities(
        self, inputs: NDArray[np.float64], predictive: str = "probit", draws: int = 100, seed: int = 0
    ) -> NDArray[np.float64]: ...
    def spread(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def variances(self) -> NDArray[np.float64]: ...
    def covariance(self) -> NDArray[np.float64]: ...
    def draws(self, count: int, seed: int = 0) -> NDArray[np.float64]: ...
    @property
    def indices(self) -> NDArray[np.int64]: ...
    @property
    def prior_variance(self) -> NDArray[np.float64]: ...
    @property
    def log_likelihood(self) -> float | None: ...
    @property
    def log_marginal_likelihood(self) -> float | None: ...
    @property
    def rank(self) -> int: ...
    @property
    def certificate(self) -> float: ...
    @property
    def explanation(self) -> str: ...
    def save(self, path: str, settings: str, names: Sequence[str]) -> None: ...
    @staticmethod
    def settings(path: str) -> str: ...
    @staticmethod
    def load(network: _Network, parameters: NDArray[np.float64], path: str, names: Sequence[str]) -> LaplaceFit: ...

class Coordinator:
    """The server of a federation whose clients are at sites of their own, with its folder."""

    def __init__(
        self,
        config_toml: str,
        clients: list[str],
        agreement: bytes | None,
        folder: str | PathLike[str],
        network: object | None = None,
        resume: bool = False,
    ) -> None: ...
    @property
    def round(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def clients(self) -> list[str]: ...
    @property
    def federation_id(self) -> str: ...
    @property
    def epsilon(self) -> float | None: ...
    def step(self, exchange: Callable[[str, list[tuple[int, bytes]]], Iterable[tuple[int, bytes]]]) -> dict[str, Any]: ...
    def score(self, exchange: Callable[[str, list[tuple[int, bytes]]], Iterable[tuple[int, bytes]]]) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Coordinator: ...
    def __exit__(self, *exception: object) -> None: ...

class Site:
    """A client's own site of one federation, with its folder."""

    def __init__(
        self,
        folder: str | PathLike[str],
        federation_id: str,
        config_toml: str,
        agreement: bytes | None,
        client: int,
        clients: int,
        data: object | None = None,
        network: object | None = None,
    ) -> None: ...
    @staticmethod
    def reopen(
        folder: str | PathLike[str],
        federation_id: str,
        data: object | None = None,
        network: object | None = None,
    ) -> Site: ...
    def perform(self, request: bytes) -> bytes: ...
    def versions(self) -> list[int]: ...
    @property
    def client(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def federation_id(self) -> str: ...
    @property
    def path(self) -> Path: ...
    def close(self) -> None: ...
    def __enter__(self) -> Site: ...
    def __exit__(self, *exception: object) -> None: ...

def resolve_config(
    config: Mapping[str, Any] | str | PathLike[str] | None = None,
    settings: dict[str, Any] | None = None,
) -> str: ...
def describe_site(
    config_toml: str,
    client: int,
    name: str,
    data: object | None = None,
    network: object | None = None,
) -> bytes:
    """What a site tells of its data before the first round: shapes, counts, summaries of columns, never rows."""

def agree(descriptions: Sequence[bytes]) -> bytes:
    """What a server makes of all sites' descriptions, in the order of clients, and sends to each of them."""

def needs_description(config_toml: str) -> bool:
    """Whether the form of this config's data is known only when the sites have described theirs."""
