"""fedsi.run, fedsi.resume, fedsi.open and fedsi.Result."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import fedsi
import numpy as np
import pytest
from fedsi.errors import ConfigError, DataError, FedsiError, FolderError, InputError, TrainingError


def figures(result: fedsi.Result) -> dict[str, object]:
    """What a summary says of results: not of time, memory and files' digests with times in them."""
    left_out = {"seconds", "peak_rss_bytes", "files", "bytes"}
    return {key: value for key, value in result.summary.items() if key not in left_out}


def test_a_run_leaves_the_files_of_the_command_line(small_run: fedsi.Result) -> None:
    there = {path.name for path in small_run.folder.iterdir()}
    expected = {
        "config.toml",
        "run.json",
        "metrics.jsonl",
        "summary.json",
        "predictions.safetensors",
        "predictions.csv",
        "clients",
        "checkpoint",
        "report.html",
        "plots",
        "report_data.safetensors",
    }
    assert expected <= there
    assert small_run.report.read_text(encoding="utf-8").startswith("<!")


def test_scores_are_those_of_the_predictions(small_run: fedsi.Result) -> None:
    found = small_run.predictions()
    again = fedsi.metrics.classification(found.probabilities, found.labels)
    for name in ("ece", "nll", "brier", "aurc", "balanced_accuracy", "ece_floor"):
        assert again[name] == small_run.scores[name], name
    own = [
        fedsi.metrics.accuracy(one.probabilities, one.labels)
        for one in (small_run.predictions(client["id"]) for client in small_run.clients)
    ]
    assert np.mean(own) == pytest.approx(small_run.scores["accuracy"], abs=1e-15)
    assert [client["accuracy"] for client in small_run.clients] == own
    low, high = small_run.intervals["nll"]
    assert low < small_run.scores["nll"] < high
    assert fedsi.metrics.intervals(found.probabilities, found.labels, found.client)["nll"] == (low, high)


def test_the_same_settings_give_the_same_bits(small_run: fedsi.Result, small_settings: dict) -> None:
    # As keywords, as a nested dict, as a dotted dict; on other threads.
    nested = {"rounds": 3, "seed": 3, "partition": {"clients": 5, "train": 8}, "partition.test": 8, "fedsi.subnetwork": 0.005}
    again = fedsi.run(nested, out=False, progress=False, threads=2)
    assert figures(again) == figures(small_run)
    assert again.summary["files"]["predictions.safetensors"] == small_run.summary["files"]["predictions.safetensors"]
    np.testing.assert_array_equal(again.predictions().probabilities, small_run.predictions().probabilities)
    other = fedsi.run(small_settings | {"seed": 4}, out=False, progress=False)
    assert figures(other) != figures(small_run)


def test_a_toml_file_and_keywords_that_win(tmp_path: Path, small_run: fedsi.Result) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        "rounds = 99\nseed = 3\n[partition]\nclients = 5\ntrain = 8\ntest = 8\n[fedsi]\nsubnetwork = 0.005\n", encoding="utf-8"
    )
    found = fedsi.run(file, rounds=3, out=tmp_path / "run", progress=False)
    assert found.config["rounds"] == 3 and figures(found) == figures(small_run)


def test_predictions_have_ids_and_strangeness(small_run: fedsi.Result, values_run: fedsi.Result) -> None:
    found = small_run.predictions()
    rows = len(found)
    assert found.probabilities.shape == (rows, 10) and found.probabilities.dtype == np.float32
    assert found.labels.shape == found.client.shape == found.ids.shape == found.strangeness.shape == (rows,)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, atol=1e-6)
    assert np.isfinite(found.strangeness).all() and (found.entropy >= 0).all()
    first = found[found.client == 0]
    np.testing.assert_array_equal(first.probabilities, small_run.predictions(0).probabilities)
    values = values_run.predictions("b")
    assert set(values.ids) <= {f"h{row}" for row in range(1, 150, 3)}
    assert values.mean.shape == values.variance.shape == values.targets.shape == (len(values), 1)
    again = fedsi.metrics.regression(*(getattr(values_run.predictions(), name) for name in ("mean", "variance", "targets")))
    for name in ("rmse", "mae", "nll", "coverage_90"):
        assert again[name] == values_run.scores[name], name


def test_rounds_are_columns(small_run: fedsi.Result) -> None:
    rounds = small_run.rounds
    np.testing.assert_array_equal(rounds["round"], [1, 2, 3])
    assert rounds["train_loss"].dtype == np.float64 and (rounds["train_loss"] > 0).all()
    assert rounds["bytes.up"].sum() == small_run.summary["bytes"]["up"]
    assert all(isinstance(one, list) for one in rounds["participants"])


def test_progress_is_called_for_each_round(small_settings: dict) -> None:
    seen: list[tuple[int, int, float]] = []
    fedsi.run(small_settings, out=False, progress=lambda done, rounds, record: seen.append((done, rounds, record["train_loss"])))
    assert [(done, rounds) for done, rounds, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert all(loss > 0 for *_, loss in seen)


def test_a_line_of_progress(small_settings: dict, capfd: pytest.CaptureFixture[str]) -> None:
    fedsi.run(small_settings, out=False, progress=True, rounds=1)
    shown = capfd.readouterr().err
    assert "\rround 1/1, loss " in shown and shown.endswith("client 5/5\n")
    fedsi.run(small_settings, out=False, progress=False, rounds=1)
    assert capfd.readouterr().err == ""


def test_what_progress_raises_stops_the_run_which_goes_on(small_run: fedsi.Result, small_settings: dict, tmp_path: Path) -> None:
    def stop(done: int, rounds: int, record: dict) -> None:
        if done == 2:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        fedsi.run(small_settings, out=tmp_path / "run", progress=stop)
    with pytest.raises(FolderError, match=r"not complete.*fedsi\.resume"):
        fedsi.open(tmp_path / "run")
    seen: list[int] = []
    found = fedsi.resume(tmp_path / "run", progress=lambda done, *_: seen.append(done))
    assert seen == [3]
    assert figures(found) == figures(small_run)


INTERRUPTED = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    import fedsi

    def after(done, rounds, record):
        if done == 2:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    try:
        fedsi.run(rounds=100000, clients=5, partition__train=8, partition__test=8, seed=3, threads=1,
                  out=sys.argv[1], progress=after)
    except KeyboardInterrupt:
        print("interrupted")
        sys.exit(130)
"""


def test_ctrl_c_saves_a_checkpoint(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(fedsi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(tmp_path / "run")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "interrupted\n"), done.stderr
    lines = (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rounds = json.loads(lines[-1])["round"]
    assert (tmp_path / f"run/checkpoint/round-{rounds:08}.fedsi").is_file(), "the last round is saved"
    seen: list[int] = []

    def stop(done: int, *_: object) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsi.resume(tmp_path / "run", progress=stop)
    assert seen == [rounds + 1], "it goes on where it was"


def test_resume_true_opens_what_is_complete(small_run: fedsi.Result, small_settings: dict) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("nothing is trained")

    again = fedsi.run(small_settings, out=small_run.folder, resume=True, progress=refused)
    assert again.summary == small_run.summary
    assert fedsi.resume(small_run.folder, progress=refused).summary == small_run.summary
    with pytest.raises(FolderError, match="`rounds` is 3 there and 4 here.*overwrite=True"):
        fedsi.run(small_settings, rounds=4, out=small_run.folder, resume=True)


def test_folders(small_settings: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = [fedsi.run(small_settings, rounds=1, progress=False).folder for _ in range(2)]
    assert named == [Path("runs/fedsi-digits-small-s3"), Path("runs/fedsi-digits-small-s3-2")]
    with pytest.raises(FolderError, match="holds a run already.*resume=True.*overwrite=True"):
        fedsi.run(small_settings, rounds=1, out=named[0])
    replaced = fedsi.run(small_settings, rounds=2, out=named[0], overwrite=True, progress=False)
    assert replaced.summary["rounds"] == 2
    temporary = fedsi.run(small_settings, rounds=1, out=False, progress=False)
    path = temporary.folder
    assert path.is_dir() and temporary.report.is_file()
    del temporary
    gc.collect()
    assert not path.exists()


def test_tables_and_pandas(small_run: fedsi.Result, values_run: fedsi.Result) -> None:
    tables = small_run.tables()
    assert set(tables) == {"scores", "clients", "classes", "rounds", "predictions"}
    assert tables["clients"]["accuracy"].shape == (5,) and len(tables["classes"]["recall"]) == 10
    predictions, test = tables["predictions"], small_run.predictions()
    for name in ("predicted", "confidence", "entropy", "correct"):
        np.testing.assert_array_equal(predictions[name], getattr(test, name))
    assert predictions["correct"].dtype == bool
    pytest.importorskip("pandas")
    frames = small_run.to_pandas()
    assert list(frames["scores"].columns) == ["score", "value", "low", "high"]
    assert len(frames["predictions"]) == len(small_run.predictions())
    assert "probabilities_9" in frames["predictions"].columns
    assert {"mean", "variance", "targets"} <= set(values_run.to_pandas()["predictions"].columns)


def test_without_pandas(small_run: fedsi.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="Result.to_pandas needs pandas.*pip install pandas"):
        small_run.to_pandas()


def test_html_is_a_table_with_intervals(small_run: fedsi.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    html = small_run._repr_html_()
    assert html.count("<table") == 1 and "95% interval" in html and "report.html" in html
    low, high = small_run.intervals["accuracy"]
    assert f"{100 * low:.2f}% to {100 * high:.2f}%" in html
    hostile = small_run.summary | {"dataset": "<script>alert(1)</script>"}
    monkeypatch.setattr(small_run, "summary", hostile)
    assert "<script>" not in small_run._repr_html_()
    page = small_run.show(300)._repr_html_()
    assert page.startswith('<iframe sandbox="allow-scripts"') and "<html" not in page and "&lt;html" in page
    assert "fedsi on" in repr(small_run) and "accuracy" in repr(small_run)


def test_what_can_be_run() -> None:
    methods = {method["name"]: method for method in fedsi.methods()}
    assert len(methods) == 12 and methods["fedsi"]["uncertainty"] == "laplace"
    assert methods["fedper"]["keeps"] == "head"
    datasets = {dataset["name"]: dataset for dataset in fedsi.datasets()}
    assert {"digits", "mnist", "files"} <= set(datasets) and datasets["digits"]["input_shape"] == [1, 28, 28]
    config = fedsi.config("fedavg", "mnist", rounds=7, partition__kind="dirichlet")
    assert (config["method"], config["data"]["dataset"], config["rounds"]) == ("fedavg", "mnist", 7)
    assert config["partition"]["kind"] == "dirichlet"
    assert "properties" in fedsi.schema() or "$defs" in fedsi.schema()
    again = fedsi.config(config=config)
    assert again == config, "a resolved config is complete"


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"roundz": 3}, ConfigError, "`rounds`"),
        ({"rounds": 0}, ConfigError, "rounds"),
        ({"rounds": "three"}, ConfigError, "rounds"),
        ({"method": "fedsy"}, ConfigError, "`fedsi`"),
        ({"config": 3}, ConfigError, "expected a dict"),
        ({"config": "none.toml"}, ConfigError, "none.toml"),
        ({"config": {"rounds": object()}}, ConfigError, "expected a number"),
        ({"dataset": "mnist", "data_dir": "nowhere"}, DataError, "mnist"),
        ({"dataset": "mnist", "data__dataset": "digits"}, InputError, "same setting"),
        ({"dataset": "files", "data__files__train": "none.csv"}, DataError, "none.csv"),
        ({"partition__labels_per_client": 11}, DataError, "labels_per_client"),
        ({"out": __file__}, FolderError, "not a folder"),
        ({"out": True}, InputError, "out: expected the path of a folder, None, or False.*found True"),
        ({"out": 5}, InputError, "out: expected the path of a folder.*found 5"),
        ({"overwrite": "yes"}, InputError, "overwrite: expected True or False"),
        ({"out": False, "resume": True}, InputError, "out=False"),
        ({"resume": True}, InputError, "needs out"),
        ({"out": "x", "resume": True, "overwrite": True}, InputError, "contradict"),
        ({"progress": 3}, InputError, "progress"),
        (
            {
                "training__learning_rate": 1e30,
                "rounds": 1,
                "method": "fedavg",
                "clients": 3,
                "partition__train": 8,
                "partition__test": 8,
            },
            FedsiError,
            "finite",
        ),
    ],
)
def test_errors_are_of_their_kind(
    settings: dict, error: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        fedsi.run(**({"progress": False} | settings))


def test_a_folder_that_is_no_run(tmp_path: Path, small_run: fedsi.Result) -> None:
    for call in (fedsi.open, fedsi.resume):
        with pytest.raises(FolderError, match="config.toml"):
            call(tmp_path)
        with pytest.raises(InputError, match="folder: expected the path of a folder, found 5"):
            call(5)
    with pytest.raises(InputError, match="unknown client `x`"):
        small_run.predictions("x")
    with pytest.raises(InputError, match="expected an id or a name"):
        small_run.predictions(1.5)


def test_a_damaged_file_is_refused(small_settings: dict, tmp_path: Path) -> None:
    result = fedsi.run(small_settings, rounds=1, out=tmp_path / "run", progress=False)
    path = result.folder / "predictions.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FolderError, match="predictions.safetensors"):
        fedsi.open(result.folder).predictions()


def test_errors_are_also_those_of_python() -> None:
    for error, builtin in (
        (ConfigError, ValueError),
        (InputError, ValueError),
        (DataError, ValueError),
        (FolderError, OSError),
        (TrainingError, RuntimeError),
    ):
        assert issubclass(error, FedsiError) and issubclass(error, builtin)


def test_other_threads_go_on_meanwhile(small_settings: dict) -> None:
    import threading

    counted, ended = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not ended.wait(0.002):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    found = fedsi.run(small_settings, out=False, progress=False)
    during = counted - before
    ended.set()
    thread.join()
    assert during > 20 * found.summary["seconds"]["total"], "the interpreter lock is released"


def test_signals_are_as_they_were(small_settings: dict) -> None:
    before = signal.getsignal(signal.SIGINT)
    fedsi.run(small_settings, rounds=1, out=False, progress=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_no_record_has_is_nan_in_a_column() -> None:
    from fedsi._result import columns_of

    columns = columns_of([{"score": None, "flag": True}, {"score": None, "flag": False}])
    assert np.isnan(columns["score"]).all() and columns["flag"].tolist() == [True, False]


def test_missing_cells_of_a_frame_are_empty() -> None:
    pandas = pytest.importorskip("pandas")
    from fedsi._models import _cell

    assert [_cell(value) for value in (None, float("nan"), pandas.NA, pandas.NaT, 2, 0.5, "a")] == [
        "",
        "",
        "",
        "",
        "2",
        "0.5",
        "a",
    ]
