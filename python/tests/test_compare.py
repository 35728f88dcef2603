"""fedsi.compare and fedsi.Comparison."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import fedsi
import pytest
from fedsi.errors import ConfigError, FolderError, InputError

METHODS = ["local", "fedavg"]
SEEDS = 5


@pytest.fixture(scope="module")
def settings(small_settings: dict) -> dict:
    return small_settings | {"rounds": 1, "partition.clients": 3, "partition.train": 6, "partition.test": 6, "seed": 1}


@pytest.fixture(scope="module")
def comparison(settings: dict, tmp_path_factory: pytest.TempPathFactory) -> fedsi.Comparison:
    out = tmp_path_factory.mktemp("compare") / "all"
    return fedsi.compare(METHODS, SEEDS, config=settings, out=out, progress=False)


def test_tables(comparison: fedsi.Comparison) -> None:
    assert comparison.methods == METHODS and comparison.seeds == [1, 2, 3, 4, 5]
    assert comparison.reference == "local" and comparison.failures == []
    table = {row["method"]: row for row in comparison.table}
    assert {table[name]["nll_rank"] for name in METHODS} == {1, 2}
    runs = [comparison.runs["fedavg", seed].scores["nll"] for seed in comparison.seeds]
    assert table["fedavg"]["nll"] == pytest.approx(sum(runs) / SEEDS, abs=1e-14)
    assert comparison.report.is_file() and (comparison.folder / "compare.json").is_file()


def test_tests_are_against_the_reference(comparison: fedsi.Comparison) -> None:
    tests = {test["score"]: test for test in comparison.tests}
    assert {test["method"] for test in comparison.tests} == {"fedavg"}
    nll = tests["nll"]
    table = {row["method"]: row["nll"] for row in comparison.table}
    assert nll["mean"] == pytest.approx(table["fedavg"] - table["local"], abs=1e-14)
    low, high = nll["interval"]
    assert low < nll["mean"] < high and 0 <= nll["p"] <= nll["p_holm"] <= 1
    assert nll["wins"] + nll["losses"] + nll["ties"] == 15, "seeds times clients"


def test_a_run_of_a_comparison_is_the_run_alone(comparison: fedsi.Comparison, settings: dict) -> None:
    alone = fedsi.run(settings, method="fedavg", seed=2, out=False, progress=False)
    assert alone.scores == comparison.runs["fedavg", 2].scores


def test_texts(comparison: fedsi.Comparison) -> None:
    assert comparison.to_markdown().startswith("| method")
    assert "tabular" in comparison.to_text("latex") and comparison.to_text("csv").count("\n") >= 3
    with pytest.raises(InputError, match="expected plain, markdown, latex or csv"):
        comparison.to_text("word")
    html = comparison._repr_html_()
    assert html.count("<table") == 2 and "FedAvg" in html and "p (Holm)" in html
    assert "2 methods on digits" in repr(comparison)
    frames = pytest.importorskip("pandas") and comparison.to_pandas()
    assert list(frames["table"]["method"]) == METHODS and set(frames["tests"]["score"]) >= {"nll", "accuracy"}


def test_numbers_that_are_not_there_are_nan_in_frames(comparison: fedsi.Comparison) -> None:
    pytest.importorskip("pandas")
    few = fedsi.Comparison(comparison.folder)
    for method in few.summary["methods"]:
        for found in method["metrics"].values():
            if found.get("difference") is not None:
                found["difference"].update(p=None, p_holm=None, interval=None)
    for of, missing in ((few, True), (comparison, False)):
        tests = of.to_pandas()["tests"]
        assert tests["p"].dtype == tests["p_holm"].dtype == float
        assert tests.loc[tests["score"] == "nll", "p"].isna().all() == missing
        assert tests.loc[tests["score"] == "nll", "interval"].isna().all() == missing


def test_the_same_call_reuses_runs_and_open_opens(comparison: fedsi.Comparison, settings: dict) -> None:
    before = {key: run.folder.joinpath("summary.json").stat().st_mtime_ns for key, run in comparison.runs.items()}
    again = fedsi.compare(",".join(METHODS), SEEDS, config=settings, out=comparison.folder, progress=False)
    after = {key: run.folder.joinpath("summary.json").stat().st_mtime_ns for key, run in again.runs.items()}
    assert after == before
    opened = fedsi.open(comparison.folder)
    assert isinstance(opened, fedsi.Comparison) and opened.summary == again.summary


def test_the_file_of_a_comparison_is_a_config(comparison: fedsi.Comparison) -> None:
    file = comparison.folder / "compare.toml"
    again = fedsi.compare(config=file, out=comparison.folder, progress=False)
    assert again.table == comparison.table, "its methods, seeds and settings are in it"
    with pytest.raises(ConfigError, match="compare"):
        fedsi.compare(config={"compare": {"method": "fedavg"}}, out=comparison.folder)


def test_errors(comparison: fedsi.Comparison, settings: dict, tmp_path: Path) -> None:
    def refused(error: type[Exception], words: str, *arguments: object, **keywords: object) -> None:
        with pytest.raises(error, match=words):
            fedsi.compare(*arguments, **({"config": settings, "out": tmp_path / "none", "progress": False} | keywords))

    refused(ConfigError, "name them in methods", METHODS, 1, method="fedavg")
    refused(ConfigError, "`fedavg`", ["fedagv"], 1)
    refused(ConfigError, "listed twice", ["fedavg", "fedavg"], 1)
    refused(ConfigError, "no method", [], 1)
    refused(ConfigError, "no seed", METHODS, 0)
    refused(InputError, "seeds", METHODS, -1)
    refused(InputError, "jobs: expected a whole number that is not negative, found -1", METHODS, 1, jobs=-1)
    refused(InputError, "tune_rounds: expected a whole number", METHODS, 1, tune=True, tune_rounds=-1)
    refused(InputError, "methods: expected a list of names, found 5", 5)
    refused(InputError, "external: expected files by name.*found 'f.csv'", METHODS, 1, external="f.csv")
    refused(InputError, r"external\['a'\]: expected the path of a file, found 3", METHODS, 1, external={"a": 3})
    refused(InputError, "reference: expected the name of a method", METHODS, 1, reference=5)
    refused(InputError, "tune: expected True or False", METHODS, 1, tune="yes")
    refused(InputError, "out: expected the path of a folder.*found True", METHODS, 1, out=True)
    refused(InputError, "overwrite needs a folder", METHODS, 1, out=False, overwrite=True)
    refused(ConfigError, "not among the methods", METHODS, 1, reference="fedsi")
    refused(ConfigError, "tune_rounds", METHODS, 1, tune_rounds=3)
    refused(ConfigError, "tune_finalists", METHODS, 1, tune_finalists=3)
    refused(InputError, "tune_finalists: expected a whole number", METHODS, 1, tune=True, tune_finalists=-1)
    refused(ConfigError, "tune_seeds", METHODS, 1, tune_seeds=3)
    refused(ConfigError, "tune_seeds: expected 1 or more", METHODS, 1, tune=True, tune_seeds=0)
    refused(InputError, "tune_seeds: expected a whole number", METHODS, 1, tune=True, tune_seeds=1.5)
    refused(ConfigError, "unknown column", METHODS, 1, columns=["nothing"])
    refused(FolderError, "other settings.*overwrite=True", METHODS, 1, out=comparison.folder, rounds=2)
    assert not (tmp_path / "none").exists()


def test_a_temporary_folder_goes_with_the_comparison(settings: dict) -> None:
    found = fedsi.compare(["local"], 1, config=settings, out=False, progress=False)
    folder, run = found.folder, found.runs["local", 1]
    del found
    gc.collect()
    assert run.report.is_file(), "a run keeps the folder"
    del run
    gc.collect()
    assert not folder.exists()


def test_a_run_that_fails_is_a_warning(settings: dict, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fedsi.compare(
            ["fedavg"], 1, config=settings, out=tmp_path / "failed", progress=False, training__learning_rate=1e30
        )
    assert [failure["seed"] for failure in found.failures] == [1]
    assert any("fedavg seed 1 failed" in str(one.message) for one in caught)


INTERRUPTED = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    import fedsi

    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        fedsi.compare(["local", "fedavg"], 2, rounds=100000, clients=3, partition__train=6, partition__test=6, threads=1,
                      out=sys.argv[1], progress=False)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_ctrl_c_stops_all_runs(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(fedsi.__file__).parents[1])}
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(tmp_path / "all")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 130, done.stderr
    assert list(tmp_path.glob("all/*/checkpoint/round-*.fedsi")), "what is done is saved"
    with pytest.raises(FolderError, match="not complete"):
        fedsi.open(tmp_path / "all")
