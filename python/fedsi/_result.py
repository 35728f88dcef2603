"""A complete run: figures, predictions and models."""

from __future__ import annotations

import csv
import json
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsi import _native
from fedsi._figures import SCORES, counted, figure, interval
from fedsi._html import Page, link, table
from fedsi._models import PersonalModel
from fedsi._optional import needed
from fedsi._predictions import ClassPredictions, ValuePredictions
from fedsi.errors import FolderError, InputError

if TYPE_CHECKING:
    import pandas
    import torch

ClientName = int | str


class Result:
    """A complete run, from :func:`fedsi.run` or :func:`fedsi.open`. Files are read when they are asked for.

    Attributes
    ----------
    folder
        The run's folder: a path.
    """

    def __init__(self, folder: Any, *, _temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.folder = Path(folder)
        self._run = _native.SavedRun(self.folder)
        # Removed when nothing refers to it any more.
        self._temporary = _temporary

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``summary.json``: everything that the run found, but for single predictions."""
        return json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))

    @cached_property
    def config(self) -> dict[str, Any]:
        """All settings of the run."""
        return json.loads(self._run.config_json())

    @property
    def scores(self) -> dict[str, float | None]:
        """The scores by name: accuracy is the mean over clients, the rest is of all test rows. ``ece_floor`` is the ECE
        that perfect calibration would have by chance."""
        names = [key for key, _, _ in SCORES] + ["ece_floor", "ece_floor_std"]
        return {name: self.summary[name] for name in names if name in self.summary}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95% intervals of the scores by name, by resampling clients (``summary["intervals_by"]``)."""
        return {name: (low, high) for name, (low, high) in self.summary.get("intervals", {}).items()}

    @property
    def clients(self) -> list[dict[str, Any]]:
        """Every client with its scores: ``id``, ``name`` where it has one, ``samples``, ``accuracy``, ..."""
        return self.summary["clients"]

    @property
    def report(self) -> Path:
        """The page of the run: one HTML file that needs nothing else."""
        return self.folder / "report.html"

    @cached_property
    def rounds(self) -> dict[str, np.ndarray]:
        """``metrics.jsonl`` as columns, an entry a round: ``round``, ``train_loss``, ``seconds.train``, ``bytes.up``, ...

        Columns of numbers are float64 with NaN where a round has none; ``participants`` has lists.
        """
        path = self.folder / "metrics.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise FolderError(f"{path} cannot be read: {error}") from error
        return columns_of([_flat(json.loads(line)) for line in lines])

    def predictions(self, client: ClientName | None = None) -> ClassPredictions | ValuePredictions:
        """The predictions of all test rows, or of one client's, by its id or name."""
        found = self._predictions
        return found if client is None else found[found.client == self.client_id(client)]

    @cached_property
    def _predictions(self) -> ClassPredictions | ValuePredictions:
        arrays = self._run.predictions()
        rows = len(arrays["client"])
        ids, names = self._ids(rows)
        strangeness = arrays.pop("strangeness")
        if strangeness is None or len(strangeness) != rows:
            strangeness = np.full(rows, np.nan)
        if "mean" in arrays:
            return ValuePredictions(**arrays, ids=ids, strangeness=strangeness)
        return ClassPredictions(**arrays, ids=ids, strangeness=strangeness, class_names=names)

    def _ids(self, rows: int) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """What rows are called, and the names of the classes, by ``predictions.csv``."""
        path = self.folder / "predictions.csv"
        if not path.is_file():
            return np.arange(rows), None
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            heading = next(reader)
            column = next(heading.index(name) for name in ("id", "row", "sample") if name in heading)
            ids = np.array([line[column] for line in reader])
        if heading[column] != "id":
            ids = ids.astype(np.int64)
        return ids, self._class_names

    @cached_property
    def _class_names(self) -> tuple[str, ...] | None:
        classes = self.summary.get("classes", [])
        names = [one.get("name") for one in classes]
        return tuple(names) if names and all(isinstance(name, str) for name in names) else None

    def client_id(self, client: ClientName) -> int:
        """The id of the client of exactly this name or, where none has it, of this id."""
        if isinstance(client, bool) or not isinstance(client, (int, str, np.integer)):
            raise InputError(f"client: expected an id or a name, found {type(client).__name__}")
        return self._run.find(str(client))

    def model(self, client: ClientName) -> PersonalModel:
        """A client's personal model, for predictions with uncertainty for new rows."""
        return PersonalModel(self._run.model(self.client_id(client)))

    def torch_model(self, client: ClientName) -> torch.nn.Module:
        """A client's personal model as a torch module with its posterior: see :meth:`PersonalModel.torch`."""
        return self.model(client).torch()

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """The run as tables of columns: ``scores``, ``clients``, ``classes`` (where there are any), ``rounds`` and
        ``predictions``."""
        names = list(self.scores)
        ends = [self.intervals.get(name, (np.nan, np.nan)) for name in names]
        scores = {
            "score": np.array(names),
            "value": np.array([_number(self.scores[name]) for name in names]),
            "low": np.array([low for low, _ in ends], dtype=float),
            "high": np.array([high for _, high in ends], dtype=float),
        }
        found = {"scores": scores, "clients": columns_of([_flat(client) for client in self.clients])}
        if self.summary.get("classes"):
            found["classes"] = columns_of([_flat(one) for one in self.summary["classes"]])
        return found | {"rounds": self.rounds, "predictions": self.predictions().columns()}

    def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """The same tables as data frames. Needs pandas."""
        pandas = needed("pandas", "Result.to_pandas")
        return {name: pandas.DataFrame(columns) for name, columns in self.tables().items()}

    def show(self, height: int = 700) -> Page:
        """The report within a notebook."""
        return Page(self.report, height)

    def _title(self) -> str:
        summary = self.summary
        rounds, clients = counted(summary["rounds"], "round"), counted(len(summary["clients"]), "client")
        return f"{summary['method']} on {summary['dataset']}, seed {summary['seed']}: {rounds}, {clients}"

    def __repr__(self) -> str:
        keys = [(key, title, share) for key, title, share in SCORES if key in self.summary]
        shown = ", ".join(f"{title} {figure(self.summary[key], share)}" for key, title, share in keys[:3])
        return f"<fedsi.Result {self._title()}; {shown}; {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        rows = []
        for key, title, share in SCORES:
            if key not in self.summary:
                continue
            floor = self.summary.get("ece_floor") if key == "ece" else None
            note = f" ({figure(floor)} by chance)" if floor is not None else ""
            rows.append((title + note, figure(self.summary[key], share), interval(self.intervals.get(key), share)))
        heading = ("all clients", "value", "95% interval")
        pages = link(self.report, "report") if self.report.is_file() else ""
        return f"<div>{table(heading, rows, caption=self._title())}{pages}</div>"


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as dotted names."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def columns_of(records: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Records as columns, in the order in which names first come."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _column([record.get(name) for record in records]) for name in names}


def _column(values: list[Any]) -> np.ndarray:
    there = [value for value in values if value is not None]
    # What no record has is a number that nobody knows.
    if there and all(isinstance(value, bool) for value in there):
        return np.array([bool(value) for value in values])
    if all(isinstance(value, int) for value in there) and len(there) == len(values):
        return np.array(values, dtype=np.int64)
    if all(isinstance(value, (int, float)) for value in there):
        return np.array([_number(value) for value in values])
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
