"""Comparisons: several methods on the same clients over the same seeds."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np

from fedsi import _native
from fedsi._figures import counted, figure, interval
from fedsi._html import Page, link, table
from fedsi._optional import needed
from fedsi._progress import compare_observer
from fedsi._result import Result, columns_of
from fedsi.errors import FolderError, InputError

if TYPE_CHECKING:
    import pandas

PathLike = Union[str, "os.PathLike[str]"]


class Comparison:
    """A complete comparison, from :func:`fedsi.compare` or :func:`fedsi.open`.

    Attributes
    ----------
    folder
        Its folder: the runs, ``compare.json`` and ``report.html``.
    """

    def __init__(self, folder: PathLike, *, _temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.folder = Path(folder)
        # Removed when nothing refers to it any more.
        self._temporary = _temporary
        path = self.folder / "compare.json"
        try:
            self.summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FolderError(f"{path} is not a comparison that can be read: {error}") from error

    @property
    def methods(self) -> list[str]:
        """The names of the methods, in their order."""
        return [method["name"] for method in self.summary["methods"]]

    @property
    def seeds(self) -> list[int]:
        """The seeds; each gives every method the same clients."""
        return self.summary["seeds"]

    @property
    def reference(self) -> str | None:
        """The method that the others are tested against."""
        return self.summary.get("reference")

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Runs that failed: ``method``, ``seed``, ``reason``."""
        return [{"method": method["name"], **failure} for method in self.summary["methods"] for failure in method["failures"]]

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row a method: ``method``, ``title``, ``runs``, and of every score ``NAME`` (the mean over seeds), ``NAME_std``
        and ``NAME_rank`` (1 is best)."""
        rows = []
        for method in self.summary["methods"]:
            row: dict[str, Any] = {"method": method["name"], "title": method["title"], "runs": len(method["runs"])}
            for metric in self.summary["metrics"]:
                found = method["metrics"].get(metric["key"], {})
                row[metric["key"]] = found.get("mean")
                row[f"{metric['key']}_std"] = found.get("std")
                row[f"{metric['key']}_rank"] = found.get("rank")
            rows.append(row)
        return rows

    @property
    def tests(self) -> list[dict[str, Any]]:
        """A row a method and tested score: the difference from the reference over seeds (``mean``, ``relative``), its 95%
        intervals (``interval``: Student's, ``bootstrap``), ``p`` and ``p_holm``, and ``wins``, ``losses`` and ``ties`` over
        pairs of seed and client. Fewer than five seeds have no test: those are None."""
        rows = []
        for method in self.summary["methods"]:
            for metric in self.summary["metrics"]:
                found = method["metrics"].get(metric["key"], {})
                difference = found.get("difference")
                if difference is None or not metric.get("tested", True):
                    continue
                rows.append(
                    {"method": method["name"], "score": metric["key"], "direction": metric["direction"]}
                    | {name: difference.get(name) for name in ("mean", "relative", "interval", "p", "p_holm", "bootstrap")}
                    | found.get("against_reference", {})
                )
        return rows

    @cached_property
    def runs(self) -> dict[tuple[str, int], Result]:
        """The complete runs by (method, seed), as :class:`fedsi.Result`. Predictions of other tools are not among them."""
        return {
            (method["name"], run["seed"]): Result(self.folder / run["folder"], _temporary=self._temporary)
            for method in self.summary["methods"]
            if not method.get("external")
            for run in method["runs"]
        }

    @property
    def report(self) -> Path:
        """The page of the comparison."""
        return self.folder / "report.html"

    def to_text(self, format: str = "markdown") -> str:  # noqa: A002
        """The table as ``markdown``, ``latex``, ``csv`` or ``plain`` text, with differences and notes."""
        return _native.render_comparison(str(self.folder), format)

    def to_markdown(self) -> str:
        """The table for a README, with differences and notes."""
        return self.to_text("markdown")

    def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """``table`` and ``tests`` as data frames; numbers that are not there are NaN. Needs pandas."""
        pandas = needed("pandas", "Comparison.to_pandas")
        return {name: pandas.DataFrame(columns_of(rows)) for name, rows in (("table", self.table), ("tests", self.tests))}

    def show(self, height: int = 700) -> Page:
        """The page within a notebook."""
        return Page(self.report, height)

    def _title(self) -> str:
        names, seeds = counted(len(self.methods), "method"), counted(len(self.seeds), "seed")
        return f"{names} on {self.summary['dataset']}: {counted(self.summary['rounds'], 'round')}, {seeds}"

    def __repr__(self) -> str:
        return f"<fedsi.Comparison {self._title()}: {', '.join(self.methods)}; {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        shown = [metric for metric in self.summary["metrics"] if metric.get("shown", True)]
        rows = []
        for row in self.table:
            cells = [row["title"]]
            for metric in shown:
                key, share = metric["key"], metric.get("is_share", False)
                spread = row[f"{key}_std"]
                around = "" if spread is None else f" ± {figure(spread, share)}"
                rank = row[f"{key}_rank"]
                cells.append(f"{figure(row[key], share)}{around}{'' if rank is None else f' ({rank})'}")
            rows.append(cells)
        parts = [table(["method", *(metric["title"] for metric in shown)], rows, caption=f"{self._title()} (rank)")]
        titles = {metric["key"]: metric["title"] for metric in self.summary["metrics"]}
        tests = [test for test in self.tests if test["interval"] is not None]
        if tests:
            heading = ["score", "method", f"less {self.reference}", "95% interval", "p (Holm)"]
            lines = [
                (titles[test["score"]], test["method"], figure(test["mean"]), interval(test["interval"]), figure(test["p_holm"]))
                for test in tests
            ]
            parts.append(table(heading, lines, text_columns=2))
        if self.report.is_file():
            parts.append(link(self.report, "report"))
        return f"<div>{''.join(parts)}</div>"


def compare(
    methods: str | Sequence[str] | None = None,
    seeds: int | None = None,
    *,
    config: Mapping[str, Any] | PathLike | None = None,
    out: PathLike | Literal[False] | None = None,
    reference: str | None = None,
    tune: bool | None = None,
    tune_rounds: int | None = None,
    tune_finalists: int | None = None,
    tune_seeds: int | None = None,
    columns: Sequence[str] | None = None,
    external: Mapping[str, PathLike] | None = None,
    jobs: int = 0,
    overwrite: bool = False,
    progress: bool | None = None,
    **settings: Any,
) -> Comparison:
    """Runs methods over seeds on the same clients, side by side, and compares them as ``fedsi compare`` does.

    Parameters
    ----------
    methods
        Names of methods (:func:`fedsi.methods`), or ``"all"``, which is the default.
    seeds
        How many seeds, from the setting ``seed`` on; 5 by default. Tests and Student's intervals need as many.
    config, **settings
        Settings of every run, as in :func:`fedsi.run`. A section ``compare`` may name methods, seeds, reference, tune,
        tune_rounds, tune_finalists, tune_seeds, columns and with, as for ``fedsi compare``; arguments win over it.
    out
        The folder; None: ``runs/compare-DATASET-SIZE``. Runs that are there are reused, so that the same call goes on
        with a comparison that was stopped. False: a temporary folder that is removed with the :class:`Comparison`.
    reference
        The method that the others are tested against: ``fedsi`` where it is compared, else the first.
    tune, tune_rounds, tune_finalists, tune_seeds
        Whether learning rates and more are chosen first, by the same search for each method; the rounds of a trial; how
        many of the best trials are made again for all rounds of a run, beside the settings before the search (2; 0: none);
        on how many seeds each setting is tried, of which the mean counts (1).
    external
        Predictions of other tools for the same test rows: files by name (docs/compare.md).
    columns
        The scores in tables; all of them by default.
    jobs
        Runs side by side; 0: as many as cores and memory allow.
    overwrite
        Replace runs in ``out`` that have other settings.

    A run that fails stops no other: it is in :attr:`Comparison.failures`, and a warning says so. Ctrl-C stops all runs
    after their round; the same call goes on.
    """
    from fedsi._run import flag, folder_of, full_names, plain

    numbers = {
        "seeds": seeds,
        "tune_rounds": tune_rounds,
        "tune_finalists": tune_finalists,
        "tune_seeds": tune_seeds,
        "jobs": jobs,
    }
    for name, value in numbers.items():
        whole = not isinstance(value, bool) and isinstance(value, (int, np.integer)) and 0 <= value < 2**63
        if not whole and (value is not None or name == "jobs"):
            raise InputError(f"{name}: expected a whole number that is not negative, found {value!r}")
    flag("overwrite", overwrite)
    if tune is not None:
        flag("tune", tune)
    if reference is not None and not isinstance(reference, str):
        raise InputError(f"reference: expected the name of a method, found {reference!r}")
    if out is False and overwrite:
        raise InputError("out=False is a new temporary folder: overwrite needs a folder")
    files = None if external is None else _files(external)
    names = None if methods is None else ",".join(_names("methods", methods))
    target, temporary = folder_of(out, "compare")
    folder = _native.compare_methods(
        plain(config),
        full_names(settings),
        methods=names,
        seeds=None if seeds is None else int(seeds),
        reference=reference,
        with_=files,
        columns=None if columns is None else _names("columns", columns),
        tune=None if tune is None else bool(tune),
        tune_rounds=None if tune_rounds is None else int(tune_rounds),
        tune_finalists=None if tune_finalists is None else int(tune_finalists),
        tune_seeds=None if tune_seeds is None else int(tune_seeds),
        jobs=int(jobs),
        out=target,
        overwrite=bool(overwrite),
        observer=compare_observer(progress),
    )
    comparison = Comparison(folder, _temporary=temporary)
    for failure in comparison.failures:
        text = f"{failure['method']} seed {failure['seed']} failed: {failure['reason']}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return comparison


def _names(what: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        return [name.strip() for name in names.split(",") if name.strip()]
    if not isinstance(names, Iterable):
        raise InputError(f"{what}: expected a list of names, found {names!r}")
    found = list(names)
    if not all(isinstance(name, str) for name in found):
        raise InputError(f"{what}: expected a list of names, found {names!r}")
    return found


def _files(external: Mapping[str, PathLike]) -> list[str]:
    """Files of other tools' predictions as the command line takes them."""
    from fedsi._run import path_of

    if not isinstance(external, Mapping):
        raise InputError(f"external: expected files by name, as {{'peer': 'peer.csv'}}, found {external!r}")
    return [f"{name}={path_of(f'external[{name!r}]', path, 'the path of a file')}" for name, path in external.items()]
