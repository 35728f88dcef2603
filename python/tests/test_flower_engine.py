"""The engine's two ends over a grid without processes: the same as in one process, and data that stays where it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr")

from fedsi.errors import FederationError, FedsiError, FolderError
from fedsi.federation import run_in_process
from fedsi.flower import FedsiStrategy, ServerSettings, client_app
from fedsi.flower.protocol import pack_reply, unpack_reply
from flower_fake import FakeGrid, FakeNode

SITES = ("aarhus", "bergen", "ghent")
DIGITS = {"settings.data.dataset": "digits", "settings.rounds": 2, "settings.seed": 1}


def run(tmp_path, site_texts, data=None, network=None, change=None, resume=False, **keys):
    """Runs a federation of these sites, whose files hold these lines besides their names."""
    nodes = []
    for number, (site, text) in enumerate(zip(SITES, site_texts, strict=True)):
        file = tmp_path / f"{site}.toml"
        file.write_text(f'name = "{site}"\nfolder = "sites/{site}"\n{text}')
        app = (change or {}).get(number, lambda app: app)(client_app(data=data, network=network))
        nodes.append(FakeNode(number + 5, app, {"site": str(file)}))
    keys = {"folder": str(tmp_path / "server"), "min-sites": len(SITES), "resume": resume, **keys}
    grid = FakeGrid(nodes, keys)
    strategy = FedsiStrategy(ServerSettings.from_run_config(keys), network=network(None) if network else None)
    strategy._clock, strategy._sleep = grid.clock, grid.sleep
    return grid, strategy.start(grid)


METHODS = [
    "bpfed",
    "fedavg",
    "fedavg-ft",
    "fedbabu",
    "fedper",
    "fedpop",
    "fedrep",
    "fedsi",
    "fedsi-fac",
    "lg-fedavg",
    "local",
    "pfedbayes",
]

MIXTURE = {"method": "fedsi", "fedsi.modes": 2, "rounds": 5}


@pytest.mark.parametrize("settings", [*({"method": method} for method in METHODS), MIXTURE], ids=str)
def test_over_flower_is_as_in_one_process_to_the_bit(tmp_path, settings):
    settings = {"data.dataset": "digits", "rounds": 2, "seed": 1, "partition.train": 5, "partition.test": 10, **settings}
    (tmp_path / "flower").mkdir()
    run(tmp_path / "flower", [""] * 3, **{f"settings.{key}": value for key, value in settings.items()})
    all_take_part = {"partition.clients": 3, "federation.participants": 3}
    run_in_process({**settings, **all_take_part}, sites=list(SITES), folder=tmp_path / "alone")
    one, other = tmp_path / "flower" / "server", tmp_path / "alone" / "server"
    shared = "checkpoint/server.safetensors"
    assert tensor_bytes(one / shared) == tensor_bytes(other / shared)
    scores = [[site["scores"] for site in json.loads((path / "result.json").read_text())["sites"]] for path in (one, other)]
    assert scores[0] == scores[1] and None not in scores[0]


def test_privacy_is_the_engines(tmp_path):
    keys = {"settings.privacy.noise": 1.0, "settings.privacy.clip": 1.0, "settings.fedsi.prior_variance": 1.0}
    _, result = run(tmp_path, [""] * 3, **DIGITS, **keys)
    first, second = (result.train_metrics_clientapp[number]["epsilon"] for number in (1, 2))
    assert 0 < first < second
    # Scores of single sites are not told, also not to the server.
    assert not [key for key in result.evaluate_metrics_clientapp[2] if key.endswith("accuracy") and key.startswith("sites.")]


def test_a_start_that_was_cut_short_can_be_repeated(tmp_path):
    keys = {**DIGITS, "settings.rounds": 1}
    run(tmp_path, [""] * 3, **keys)
    with pytest.raises(FolderError, match="holds a federation already: continue it with `resume=true`"):
        run(tmp_path, [""] * 3, **keys)
    # What is there when it stops between config.toml and federation.json.
    config = (tmp_path / "server" / "config.toml").read_bytes()
    shutil.rmtree(tmp_path / "server")
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "config.toml").write_bytes(config)
    _, result = run(tmp_path, [""] * 3, **keys)
    assert sorted(result.train_metrics_clientapp) == [1]
    # Files of others are still refused, by the engine.
    shutil.rmtree(tmp_path / "server")
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "thesis.tex").write_text("")
    with pytest.raises(FedsiError, match=r"thesis\.tex"):
        run(tmp_path, [""] * 3, **keys)


def test_metrics_name_the_sites(tmp_path):
    _, result = run(tmp_path, [""] * 3, **DIGITS)
    assert 0 <= result.evaluate_metrics_clientapp[2]["sites.ghent.scores.accuracy"] <= 1
    assert sorted(result.train_metrics_clientapp) == [1, 2]


def write_tables(tmp_path) -> list[str]:
    """A table for each site, with patients' numbers that nobody else may know."""
    random = np.random.default_rng(3)
    texts = []
    for number, site in enumerate(SITES):
        rows = [
            f"{site}-secret-{row},{random.integers(20, 90)},{'FM'[random.integers(2)]},{'ny'[random.integers(2)]}"
            for row in range(60)
        ]
        file = tmp_path / f"rows-{number}.csv"
        file.write_text("\n".join(["patient,age,sex,died", *rows]) + "\n")
        texts.append(f'[data.files]\ntrain = "{file}"\n')
    return texts


TABLE = {
    "settings.rounds": 2,
    "settings.data.dataset": "files",
    "settings.data.files.target": "died",
    "settings.data.files.id": "patient",
    "settings.partition.kind": "natural",
    "settings.partition.test_fraction": 0.3,
}


def test_tables_of_three_sites(tmp_path):
    grid, result = run(tmp_path, write_tables(tmp_path), **TABLE)
    assert result.evaluate_metrics_clientapp[2]["sites.bergen.samples"] == 18
    # No message in either direction holds a patient's number.
    sent = [message.content.array_records["payload"]["payload"].data for message in grid.sent]
    replied = [message.content.array_records["payload"]["payload"].data for message in grid.replies]
    assert any(b"age" in payload for payload in replied), "the descriptions name the columns"
    assert not [payload for payload in sent + replied if b"secret" in payload]


def test_simulated_sites_have_site_files(tmp_path, monkeypatch):
    monkeypatch.setattr("fedsi.flower.client._simulated", lambda: True)
    for number, text in enumerate(write_tables(tmp_path)):
        (tmp_path / f"site-{number}.toml").write_text(f'name = "site-{number}"\nfolder = "state-{number}"\n{text}')
    keys = {"folder": str(tmp_path / "server"), "min-sites": 3, "simulation-sites": str(tmp_path), **TABLE}
    grid = FakeGrid([FakeNode(number, client_app(), {"partition-id": number}) for number in range(3)], keys)
    strategy = FedsiStrategy(ServerSettings.from_run_config(keys))
    strategy._clock, strategy._sleep = grid.clock, grid.sleep
    assert strategy.start(grid).evaluate_metrics_clientapp[2]["sites.site-2.samples"] == 18


def test_sites_whose_tables_do_not_match_are_named(tmp_path):
    texts = write_tables(tmp_path)
    table = tmp_path / "rows-1.csv"
    table.write_text(table.read_text().replace("patient,age,sex", "patient,years,sex"))
    with pytest.raises(FederationError, match=r'site "bergen": found no column "age"'):
        run(tmp_path, texts, **TABLE)


def test_a_server_cannot_name_a_file(tmp_path, caplog):
    texts = write_tables(tmp_path)
    stolen = tmp_path / "rows-0.csv"
    with pytest.raises(FederationError, match="aarhus, bergen, ghent did not describe"):
        run(tmp_path, [""] * 3, **TABLE, **{"settings.data.files.train": str(stolen)})
    assert "data.files.train" in caplog.text
    # What the sites name is used, whatever the server says.
    run(tmp_path, texts, **TABLE, **{"settings.data.files.train": "/nowhere.csv"})


def test_arrays_of_a_function(tmp_path):
    def load(context):
        random = np.random.default_rng(context.node_id)
        x, y = random.normal(size=(40, 6)), random.integers(3, size=40)
        return x[:30], y[:30], x[30:], y[30:]

    keys = {"settings.rounds": 2, "settings.data.dataset": "files", "settings.data.files.classes": "a,b,c"}
    _, result = run(tmp_path, [""] * 3, data=load, **keys)
    assert result.evaluate_metrics_clientapp[2]["sites.aarhus.samples"] == 10


def test_a_torch_module_of_ones_own(tmp_path):
    torch = pytest.importorskip("torch")
    from fedsi import _native
    from fedsi.torch_network import TorchNetwork

    torch.set_num_threads(1)

    def make_network(context):
        body = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))
        return TorchNetwork(body, (6,))

    def arrays(number):
        random = np.random.default_rng(number)
        x, y = random.normal(size=(40, 6)), random.integers(3, size=40)
        return x[:30], y[:30], x[30:], y[30:]

    settings = {"rounds": 2, "data.dataset": "files", "partition.clients": 3, "federation.participants": 3}
    keys = {f"settings.{key}": value for key, value in settings.items()}
    (tmp_path / "flower").mkdir()
    _, result = run(tmp_path / "flower", [""] * 3, data=lambda context: arrays(context.node_id), network=make_network, **keys)
    assert result.evaluate_metrics_clientapp[2]["sites.ghent.samples"] == 10
    # The same without Flower.
    data, network = [arrays(number + 5) for number in range(3)], make_network(None)
    config = _native.resolve_config(settings, None)
    described = [_native.describe_site(config, number, site, data[number], network) for number, site in enumerate(SITES)]
    run_in_process(
        settings, sites=list(SITES), folder=tmp_path / "alone", data=data, network=network, agreement=_native.agree(described)
    )
    shared = "server/checkpoint/server.safetensors"
    assert tensor_bytes(tmp_path / "flower" / shared) == tensor_bytes(tmp_path / "alone" / shared)


def test_a_site_that_answers_nonsense_is_left_out(tmp_path, caplog):
    class Nonsense:
        """Joins, and answers every request of the engine with other bytes."""

        def __init__(self, app) -> None:
            self.app = app

        def __call__(self, message, context):
            reply = self.app(message, context)
            if message.metadata.message_type != "query":
                reply.content = pack_reply(replace(unpack_reply(reply.content, 10**9), payload=b"nonsense"))
            return reply

    grid, result = run(tmp_path, [""] * 3, change={1: Nonsense}, **DIGITS)
    assert "bergen is left out" in caplog.text
    assert result.evaluate_metrics_clientapp[2]["sites.ghent.samples"] == 400
    assert "sites.bergen.samples" not in result.evaluate_metrics_clientapp[2]


def test_a_lost_state_is_noticed(tmp_path, caplog):
    keys = {**DIGITS, "settings.method": "fedper", "settings.rounds": 3}
    run(tmp_path, [""] * 3, **keys)
    # Back to the second round, at the server alone.
    newest = max((tmp_path / "server" / "checkpoint").glob("round-*.fedsi"))
    newest.unlink()
    shutil.rmtree(tmp_path / "sites" / "bergen")
    caplog.clear()
    _, result = run(tmp_path, [""] * 3, resume=True, **keys)
    assert "bergen is left out" in caplog.text


def tensor_bytes(path) -> bytes:
    content = path.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]
