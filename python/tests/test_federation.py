"""Both ends of a federation from Python: the same messages as over a network, compared with the engine's own simulation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fedsi
import numpy as np
import pytest
from fedsi import _native, errors
from fedsi.federation import Coordinator, Site, resolve_config, run_in_process

CLIENTS = 3
SETTINGS: dict[str, Any] = {
    "method": "fedper",
    "rounds": 3,
    "threads": 1,
    "partition.clients": CLIENTS,
    "federation.participants": CLIENTS,
    "training.epochs": 1,
    "tuning.epochs": 1,
}


def settings(**changes: Any) -> dict[str, Any]:
    return {**SETTINGS, **{key.replace("__", "."): value for key, value in changes.items()}}


def untimed(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "seconds"}


class Federation:
    """A server and its sites, which can be ended and opened again."""

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        self.root = root
        self.config_toml = resolve_config(config)
        self.names = [f"hospital {client}" for client in range(CLIENTS)]
        self.coordinator = self.open()
        self.id = self.coordinator.federation_id
        self.away: set[int] = set()
        self.spoiled: set[int] = set()
        self.kinds: list[str] = []
        self.interrupt: Callable[[str, int], None] = lambda kind, client: None

    def open(self, resume: bool = False) -> Coordinator:
        return Coordinator(self.config_toml, self.names, None, self.root / "server", resume=resume)

    def site(self, client: int) -> Site:
        return Site(self.root / str(client), self.id, self.config_toml, None, client, CLIENTS)

    def resume(self) -> None:
        self.coordinator.close()
        self.coordinator = self.open(resume=True)

    def exchange(self, kind: str, requests: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        self.kinds.append(kind)
        for client, request in reversed(requests):
            self.interrupt(kind, client)
            if client in self.away:
                continue
            # A new process for each request: its folder is all that a site has.
            with self.site(client) as site:
                answer = site.perform(request)
            yield client, b"no message" if client in self.spoiled else answer

    def step(self) -> dict[str, Any]:
        return self.coordinator.step(self.exchange)

    def finish(self) -> dict[str, Any]:
        while self.coordinator.round < self.coordinator.rounds:
            self.step()
        return self.coordinator.score(self.exchange)

    def records(self) -> list[dict[str, Any]]:
        lines = (self.root / "server/metrics.jsonl").read_text().splitlines()
        return [untimed(json.loads(line)) for line in lines]

    def results(self, result: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in result.items() if key not in ("seconds", "federation", "run")}


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path, settings())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the federation of the fixture comes to where nothing happens to it."""
    federation = Federation(tmp_path_factory.mktemp("whole"), settings())
    result = federation.finish()
    return federation.records(), federation.results(result)


def simulated(folder: Path, config: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The engine's own run."""
    fedsi.run(config, out=folder, progress=False)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [untimed(json.loads(line)) for line in lines], json.loads((folder / "summary.json").read_text())


def test_a_federation_without_a_transport(tmp_path: Path, whole: tuple[list[dict[str, Any]], dict[str, Any]]) -> None:
    found = run_in_process(settings(), sites=["hospital 0", "hospital 1", "hospital 2"], folder=tmp_path)
    records, result = whole
    assert [untimed(record) for record in found["records"]] == records
    assert {key: found["result"][key] for key in result} == result
    assert found["result"]["federation"] == found["federation_id"]
    assert len(records) == 3 and all(record["left_out"] == [] for record in records)
    scores = result["scores"]
    assert 0.2 < scores["accuracy"] <= 1 and scores["ece"] is not None and scores["aurc"] is None
    accuracies = [site["scores"]["accuracy"] for site in result["sites"]]
    assert scores["accuracy"] == pytest.approx(sum(accuracies) / CLIENTS)
    samples = np.array([site["samples"] for site in result["sites"]])
    nll = np.array([site["scores"]["nll"] for site in result["sites"]])
    assert scores["nll"] == pytest.approx((samples * nll).sum() / samples.sum())
    assert json.loads((tmp_path / "server/result.json").read_text()) == found["result"]
    assert (tmp_path / "server/checkpoint/server.safetensors").is_file()


@pytest.mark.parametrize("method", ["fedper", "fedsi"])
def test_it_is_the_simulated_one(tmp_path: Path, method: str) -> None:
    config = settings(method=method, rounds=2)
    records, summary = simulated(tmp_path / "run", config)
    found = run_in_process(config, sites=CLIENTS, folder=tmp_path / "federation")
    assert [untimed(record) for record in found["records"]] == records
    for site, client in zip(found["result"]["sites"], summary["clients"], strict=True):
        assert site["samples"] == client["samples"]
        assert all(client[key] == value for key, value in site["scores"].items())


def test_absent_sites_are_left_out_and_come_back(tmp_path: Path) -> None:
    found = run_in_process(settings(rounds=3), sites=CLIENTS, folder=tmp_path, absent={2: {1}})
    left_out = [[(out["client"], out["kind"]) for out in record["left_out"]] for record in found["records"]]
    assert left_out == [[], [(1, "dropped")], []]
    assert found["result"]["sites"][1]["left_out"] == {"dropped": 1}
    assert found["result"]["trouble"]["left_out"] == {"dropped": 1}


def test_a_lost_state_is_named_and_the_site_starts_anew(federation: Federation) -> None:
    federation.step()
    assert federation.site(1).versions() == [1]
    shutil.rmtree(federation.root / "1")
    record = federation.step()
    assert [(out["client"], out["kind"]) for out in record["left_out"]] == [(1, "lost-state")]
    assert "lost what it kept in round 1" in record["left_out"][0]["reason"]
    assert federation.step()["left_out"] == []
    assert federation.site(1).versions() == [3]


def test_a_server_that_ends_goes_on_to_the_same_bits(
    federation: Federation, whole: tuple[list[dict[str, Any]], dict[str, Any]]
) -> None:
    federation.step()
    federation.resume()
    assert (federation.coordinator.round, federation.coordinator.federation_id) == (1, federation.id)
    federation.step()
    federation.resume()
    result = federation.finish()
    assert (federation.records(), federation.results(result)) == whole


@pytest.mark.parametrize("raised", [KeyboardInterrupt("stop"), RuntimeError("the network is down")])
def test_what_an_exchange_raises_comes_out_and_the_round_can_be_made_again(
    federation: Federation, whole: tuple[list[dict[str, Any]], dict[str, Any]], raised: BaseException
) -> None:
    federation.step()

    def interrupt(kind: str, client: int) -> None:
        if client == 1:
            raise raised

    federation.interrupt = interrupt
    with pytest.raises(type(raised)) as caught:
        federation.step()
    assert caught.value is raised
    assert federation.coordinator.round == 1
    federation.interrupt = lambda kind, client: None
    # In the same process, and in another one.
    federation.step()
    federation.resume()
    result = federation.finish()
    assert (federation.records(), federation.results(result)) == whole


def test_answers_that_are_no_messages_are_a_failure_of_that_site(federation: Federation) -> None:
    federation.spoiled = {2}
    record = federation.step()
    assert [(out["client"], out["kind"]) for out in record["left_out"]] == [(2, "unreadable")]
    federation.away = {2}
    assert [out["kind"] for out in federation.step()["left_out"]] == ["dropped"]
    with pytest.raises(errors.InputError, match="pairs of a client's number and the bytes"):
        federation.coordinator.step(lambda kind, requests: ["no pair"])
    with pytest.raises(errors.InputError, match="expected a function"):
        federation.coordinator.step(None)
    assert federation.coordinator.round == 2
    federation.coordinator.close()
    with pytest.raises(errors.FolderError, match="closed"):
        federation.step()
    assert federation.coordinator.round == 2


def test_an_exchange_can_ask_the_coordinator_and_not_step_it(federation: Federation) -> None:
    seen = []

    def exchange(kind: str, requests: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        seen.append((federation.coordinator.round, federation.coordinator.clients))
        with pytest.raises(errors.FederationError, match="is at work"):
            federation.coordinator.step(exchange)
        return federation.exchange(kind, requests)

    federation.coordinator.step(exchange)
    assert seen == [(0, federation.names)]


def test_a_site_is_opened_again_from_its_folder(federation: Federation) -> None:
    federation.step()
    site = Site.reopen(federation.root / "2", federation.id)
    assert (site.client, site.clients, site.federation_id, site.versions()) == (2, CLIENTS, federation.id, [1])
    with pytest.raises(errors.FolderError, match="in use"):
        federation.site(2)
    with pytest.raises(errors.MessageError, match="not a fedsi message"):
        site.perform(b"nothing")
    requests: list[tuple[int, bytes]] = []
    with pytest.raises(ZeroDivisionError):
        federation.coordinator.step(lambda kind, sent: requests.extend(sent) or 1 / 0)
    with pytest.raises(errors.MessageError, match="for client 1"):
        site.perform(requests[1][1])
    answer = site.perform(requests[2][1])
    assert site.perform(requests[2][1])[:64] == answer[:64], "a request that comes twice is answered twice"
    with site:
        pass
    with pytest.raises(errors.FolderError, match="closed"):
        site.perform(requests[2][1])
    with pytest.raises(errors.FolderError, match="another site"):
        Site(federation.root / "2", federation.id, federation.config_toml, None, 1, CLIENTS)
    with pytest.raises(errors.FolderError, match="no federation"):
        Site.reopen(federation.root / "2", "another")


def test_folders_and_arguments_are_checked(tmp_path: Path, federation: Federation) -> None:
    with pytest.raises(errors.FolderError, match="holds a federation already"):
        federation.open()
    with pytest.raises(errors.FolderError, match="in use"):
        federation.open(resume=True)
    with pytest.raises(errors.FolderError, match="no federation"):
        Coordinator(federation.config_toml, federation.names, None, tmp_path / "nowhere", resume=True)
    with pytest.raises(errors.InputError, match="two are"):
        Coordinator(federation.config_toml, ["a", "a", "b"], None, tmp_path / "new")
    with pytest.raises(errors.ConfigError):
        Coordinator("rounds = 'many'", federation.names, None, tmp_path / "new")
    with pytest.raises(errors.ConfigError, match="participants"):
        Coordinator(federation.config_toml, ["a"], None, tmp_path / "new")
    with pytest.raises(errors.DataError, match="clients"):
        Site(tmp_path / "five", federation.id, federation.config_toml, None, 0, 5)
    with pytest.raises(errors.InputError, match="letters, digits"):
        Site(tmp_path / "x", "../y", federation.config_toml, None, 0, CLIENTS)
    assert not (tmp_path / "new").exists(), "what is refused leaves nothing"


def test_with_privacy_no_scores_leave(tmp_path: Path) -> None:
    config = settings(rounds=2, privacy__noise=1.0, privacy__clip=1.0)
    federation = Federation(tmp_path, config)
    assert federation.coordinator.epsilon == 0
    result = federation.finish()
    assert federation.coordinator.epsilon == result["epsilon"] > 0
    assert result["scores"] is None
    assert all(site["scores"] is None and site["problem"] is None for site in result["sites"])
    assert "score-candidates" not in federation.kinds
    assert (tmp_path / "0" / federation.id / "summary.json").is_file(), "each site has its own"


def test_a_config_is_complete_and_checked() -> None:
    text = resolve_config({"method": "fedsi"}, {"rounds": 7})
    assert "rounds = 7" in text and resolve_config(None, None) != text
    with pytest.raises(errors.ConfigError, match="rouns"):
        resolve_config({"rouns": 3})


def arrays(client: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two clouds of points, a little elsewhere at each site."""
    random = np.random.default_rng(client)
    labels = np.arange(40) % 2
    points = random.normal(size=(40, 5)).astype(np.float32) + 2 * labels[:, None] + 0.1 * client
    return points[:30], labels[:30], points[30:], labels[30:]


def agreed(config_toml: str, names: list[str], data: list[Any]) -> bytes:
    described = [_native.describe_site(config_toml, client, name, data=data[client]) for client, name in enumerate(names)]
    return _native.agree(described)


def test_sites_bring_arrays_of_their_own(tmp_path: Path) -> None:
    config = {
        "method": "fedper",
        "rounds": 2,
        "data.dataset": "files",
        "data.files.classes": ["well", "ill"],
        "partition.kind": "natural",
        "federation.participants": CLIENTS,
    }
    config_toml = resolve_config(config)
    assert _native.needs_description(config_toml)
    assert not _native.needs_description(resolve_config(settings()))
    names = ["north", "south", "west"]
    data = [arrays(client) for client in range(CLIENTS)]
    agreement = agreed(config_toml, names, data)
    found = run_in_process(config, sites=names, folder=tmp_path / "a", data=data, agreement=agreement)
    assert [site["samples"] for site in found["result"]["sites"]] == [10] * CLIENTS
    assert found["result"]["scores"]["accuracy"] > 0.6
    with pytest.raises(errors.DataError, match="known only when the sites have described"):
        Coordinator(config_toml, names, None, tmp_path / "b")
    with pytest.raises(errors.FederationError, match="of the sites"):
        Coordinator(config_toml, names[::-1], agreement, tmp_path / "b")
    wrong = [*arrays(0)]
    wrong[0] = wrong[0][:, :4]
    wrong[2] = wrong[2][:, :4]
    with pytest.raises(errors.DataError):
        Site(tmp_path / "s", "id", config_toml, agreement, 0, CLIENTS, data=tuple(wrong))
    with pytest.raises(errors.InputError, match="x_train"):
        Site(tmp_path / "s", "id", config_toml, agreement, 0, CLIENTS, data=(data[0][1], *data[0][1:]))
    with pytest.raises(errors.InputError, match="y_train"):
        Site(tmp_path / "s", "id", config_toml, agreement, 0, CLIENTS, data=(data[0][0], data[0][1][:3], *data[0][2:]))


def test_sites_bring_files_of_their_own(tmp_path: Path) -> None:
    config = {
        "method": "fedavg",
        "rounds": 2,
        "data.dataset": "files",
        "data.files.target": "ill",
        "partition.kind": "natural",
        "federation.participants": CLIENTS,
    }
    config_toml = resolve_config(config)
    names = ["north", "south", "west"]
    data: list[Any] = []
    for client, name in enumerate(names):
        points, labels, more, others = arrays(client)
        rows = [
            ",".join([*(f"{value:.4f}" for value in row), "yes" if label else "no"])
            for row, label in zip(np.concatenate([points, more]), np.concatenate([labels, others]), strict=True)
        ]
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(["a,b,c,d,e,ill", *rows]) + "\n")
        data.append({"data.files.train": str(file)})
    agreement = agreed(config_toml, names, data)
    found = run_in_process(config, sites=names, folder=tmp_path / "a", data=data, agreement=agreement)
    assert all(site["samples"] > 0 and site["problem"] is None for site in found["result"]["sites"])
    with pytest.raises(errors.ConfigError, match="a site does not set `rounds`"):
        Site(tmp_path / "s", "id", config_toml, agreement, 0, CLIENTS, data={"rounds": "9"})


def test_a_torch_network_at_all_ends(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from fedsi.torch_network import TorchNetwork

    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Softsign(), torch.nn.Linear(6, 2))
    config = {
        "method": "fedsi",
        "rounds": 3,
        "data.dataset": "files",
        "partition.kind": "natural",
        "federation.participants": CLIENTS,
        "training.epochs": 10,
        "training.learning_rate": 0.02,
    }
    names = ["north", "south", "west"]
    data = [arrays(client) for client in range(CLIENTS)]
    config_toml = resolve_config(config)
    network = TorchNetwork(module, (5,))
    described = [
        _native.describe_site(config_toml, client, name, data=data[client], network=network) for client, name in enumerate(names)
    ]
    agreement = _native.agree(described)
    found = run_in_process(config, sites=names, folder=tmp_path, data=data, agreement=agreement, network=network)
    assert found["result"]["scores"]["accuracy"] > 0.6
    assert all(record["left_out"] == [] for record in found["records"])
    narrow = TorchNetwork(torch.nn.Linear(4, 2), (4,))
    with pytest.raises(errors.NetworkError, match="4 inputs and 2 outputs"):
        Coordinator(config_toml, names, agreement, tmp_path / "b", network=narrow)


def test_the_simplest_call_has_every_site_in_every_round(tmp_path: Path) -> None:
    found = run_in_process({"rounds": 1, "method": "fedavg"}, sites=3, folder=tmp_path)
    assert found["records"][0]["participants"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sites": "abc"}, "a list of their names"),
        ({"sites": 2.5}, "how many sites"),
        ({"sites": ["a/../../x", "b"]}, "can be those of folders"),
        ({"sites": ["a", "a"]}, "names that differ"),
        ({"sites": 2, "absent": [0]}, "away by round"),
        ({"sites": 2, "absent": {1: 0}}, "away by round"),
    ],
)
def test_sites_that_cannot_be(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match=words):
        run_in_process({"rounds": 1}, folder=tmp_path, **settings)
    assert not list(tmp_path.iterdir())
