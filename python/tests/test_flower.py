"""What lies between Flower and the engine: joining, deadlines, versions, resuming; with a small engine, without processes."""

from __future__ import annotations

import json
import logging

import pytest

pytest.importorskip("flwr")

import flower_fake
from fedsi.errors import ConfigError, FederationError, FolderError, MessageError
from fedsi.flower import FedsiStrategy, ServerSettings, SiteFile, client_app, metrics, protocol
from fedsi.flower.members import Members
from flower_fake import FakeGrid, FakeNode
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict


@pytest.fixture
def federation(monkeypatch, tmp_path):
    """Makes a grid of nodes whose site files are in tmp_path, and a function that runs the server on it."""
    flower_fake.install(monkeypatch)

    def node(number: int, site: str, **keywords) -> FakeNode:
        file = tmp_path / f"{number}.toml"
        file.write_text(f'name = "{site}"\nfolder = "state-{number}"\n')
        app = client_app(data=keywords.pop("data", None))
        return FakeNode(number, app, {"site": str(file)}, **keywords)

    def run(nodes: list[FakeNode], events=(), on_train=None, **keys):
        keys = {"folder": str(tmp_path / "server"), "min-sites": len(nodes), "deadline-seconds": 30, **keys}
        grid = FakeGrid(nodes, keys, events=list(events), on_train=on_train)
        strategy = FedsiStrategy(ServerSettings.from_run_config(keys))
        strategy._clock, strategy._sleep = grid.clock, grid.sleep
        result = strategy.start(grid)
        return grid, strategy, result

    federation = type("Federation", (), {})()
    federation.node, federation.run, federation.folder = node, run, tmp_path / "server"
    return federation


def messages(caplog) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def test_all_rounds_and_the_scores_go_through_flower(federation):
    nodes = [federation.node(number, name) for number, name in [(7, "b"), (8, "a")]]
    grid, strategy, result = federation.run(nodes)
    # Sites are numbered by their names: a is 0 (node 8), b is 1 (node 7).
    assert strategy.coordinator.clients == ["a", "b"]
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    # Round 1: 10 + 20; round 2 asks twice: 11 + 21, 12 + 22; round 3: 13 + 23.
    assert result.train_metrics_clientapp[3]["total"] == 30 + 32 + 34 + 36
    assert result.arrays["total"].numpy() == 30 + 32 + 34 + 36
    assert result.train_metrics_clientapp[1]["clients.a.loss"] == 0.5
    assert result.evaluate_metrics_clientapp[3]["accuracy"] == (14 + 24) / 2
    kinds = [message.metadata.message_type for message in grid.sent]
    assert kinds == ["query"] * 2 + ["train"] * 8 + ["evaluate"] * 2
    assert strategy.coordinator.agreement is None


def test_sites_describe_their_data_where_the_config_does_not(federation):
    nodes = [federation.node(1, "b"), federation.node(2, "a")]
    grid, strategy, _ = federation.run(nodes, **{"settings.files": True})
    assert strategy.coordinator.agreement == b"0 is a and 1 is b"
    assert [message.metadata.message_type for message in grid.sent[:5]] == ["query"] * 4 + ["train"]


def test_a_site_that_cannot_describe_its_data_is_named(federation, monkeypatch):
    nodes = [federation.node(1, "b"), federation.node(2, "a", data=lambda context: 1 / 0)]
    with pytest.raises(FederationError, match="^a did not describe their data"):
        federation.run(nodes)


def test_the_order_of_sites_is_that_of_the_run_config(federation):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]
    _, strategy, _ = federation.run(nodes, sites="b, a")
    assert strategy.coordinator.clients == ["b", "a"]


def test_who_is_not_in_sites_is_refused_by_name(federation, caplog):
    nodes = [federation.node(1, "a"), federation.node(2, "stranger")]
    _, strategy, _ = federation.run(nodes, sites="a", **{"min-sites": 1})
    assert strategy.coordinator.clients == ["a"]
    assert "'stranger' takes no part: it is not in `sites`" in messages(caplog)


def test_a_silent_site_is_left_out_at_the_deadline(federation, caplog):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]

    def silence() -> None:
        nodes[1].silent = True

    _, strategy, result = federation.run(nodes, on_train=silence)
    assert "'b' has not answered within 30 s, and is left out" in messages(caplog)
    assert "clients.b.loss" not in result.train_metrics_clientapp[3]
    assert "clients.a.loss" in result.train_metrics_clientapp[3]


def test_a_late_reply_is_recognised_and_dropped(federation, caplog):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]

    def silence() -> None:
        nodes[1].silent = True

    def answer() -> None:
        nodes[1].silent = False

    # b is silent from the first round on, and answers when it is over.
    federation.run(nodes, on_train=silence, events=[(31.0, answer)])
    assert "a reply of 'b' to exchange 1 came too late, and is dropped" in messages(caplog)


def test_a_site_that_reconnects_under_another_node_goes_on(federation, caplog):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]
    again = federation.node(3, "b", online=False)

    def restart() -> None:
        nodes[1].online = False
        again.online = True

    caplog.set_level(logging.INFO, logger="flwr")
    _, strategy, result = federation.run([*nodes, again], on_train=restart, **{"min-sites": 2})
    assert "site 'b' is back as node 3 (before: 2)" in messages(caplog)
    # It was asked again, and missed no round.
    assert all("clients.b.loss" in result.train_metrics_clientapp[number] for number in (1, 2, 3))


def test_two_live_nodes_with_one_name_are_refused(federation):
    nodes = [federation.node(1, "a"), federation.node(2, "a")]

    def heartbeat() -> None:
        nodes[0].online_until = nodes[1].online_until = 130.0

    with pytest.raises(FederationError, match="two nodes call themselves 'a'"):
        federation.run(nodes, events=[(5.0, heartbeat)], **{"min-sites": 1})


def test_too_few_sites_end_the_wait_with_their_names(federation):
    nodes = [federation.node(1, "a")]
    with pytest.raises(FederationError, match=r"1 sites joined within 20 s \(a\), and at least 2 are needed"):
        federation.run(nodes, **{"min-sites": 2, "join-seconds": 20})


def test_a_registered_name_cannot_be_taken(federation, caplog):
    nodes = [federation.node(1, "a", name="a"), federation.node(2, "a", name="b")]
    with pytest.raises(FederationError, match="at least 2 are needed"):
        federation.run(nodes, **{"join-seconds": 20})
    assert "it is registered as 'b' and calls itself 'a'" in messages(caplog)


def test_registered_names_may_be_required(federation, caplog):
    nodes = [federation.node(1, "a", name="a"), federation.node(2, "b")]
    federation.run(nodes, **{"registered-names": True, "min-sites": 1})
    assert "registered without a name" in messages(caplog)


def test_an_error_at_a_site_does_not_quote_its_data(federation, caplog):
    nodes = [federation.node(1, "a"), federation.node(2, "b", data=lambda context: "broken")]
    grid, _, result = federation.run(nodes)
    assert "clients.b.loss" not in result.train_metrics_clientapp[1]
    assert "'b' could not do it: \"ValueError: the site's log says why\"" in messages(caplog)


@pytest.mark.parametrize("kind", [ConfigError, FederationError, FolderError, MessageError])
def test_an_error_of_the_engine_at_a_site_does_not_tell_its_paths(federation, monkeypatch, caplog, kind):
    def perform(self, request):
        raise kind("/home/site-secret/state: it is of another federation")

    monkeypatch.setattr(flower_fake.FakeSite, "perform", perform)
    grid, _, _ = federation.run([federation.node(1, "a")])
    told = [protocol.unpack_reply(reply.content, 10**6).error for reply in grid.replies]
    assert told == [None, *[f"{kind.__name__}: the site's log says why"] * (len(told) - 1)] and len(told) > 1
    # The site's own log has all of it.
    assert "site 'a': /home/site-secret/state: it is of another federation" in messages(caplog)


def test_a_request_that_a_site_cannot_read_is_explained_in_the_servers_log(federation, monkeypatch, caplog, tmp_path):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]

    def older() -> None:
        # Only the sites: the server goes on to read replies of its own protocol.
        unpack = protocol.unpack_request

        def refusing(records, limit):
            records.config_records["fedsi"]["protocol"] = 99
            return unpack(records, limit)

        monkeypatch.setattr("fedsi.flower.client.unpack_request", refusing)
        (tmp_path / "2.toml").write_text("name = ")

    federation.run(nodes, on_train=older)
    assert "'a' could not do it: 'MessageError: the server has fedsi" in messages(caplog)
    assert "'b' could not do it: \"SiteFileError: the site's log says why\"" in messages(caplog)
    assert "to exchange 0" not in messages(caplog)


@pytest.mark.parametrize("name", ["²", "../a", "a\nfedsi: all is well", "x" * 65, ""])
def test_a_node_whose_name_is_none_is_refused(federation, monkeypatch, caplog, name):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]
    pack = protocol.pack_reply

    def renamed(reply):
        records = pack(reply)
        if reply.site == "b":
            records.config_records["fedsi"]["site"] = name
        return records

    monkeypatch.setattr("fedsi.flower.client.pack_reply", renamed)
    _, strategy, _ = federation.run(nodes, **{"min-sites": 1})
    assert strategy.coordinator.clients == ["a"]
    refused = [record.getMessage() for record in caplog.records if "node 2 takes no part: it calls itself" in record.getMessage()]
    assert len(refused) == 1 and "\n" not in refused[0]


def test_words_of_a_site_are_one_short_line_in_the_log(federation, monkeypatch, caplog):
    words = "E: one\nfedsi: two\x1b[2J " + "x" * 10_000
    pack = protocol.pack_reply
    monkeypatch.setattr("fedsi.flower.client.pack_reply", lambda reply: pack(protocol.Reply(0, "a", "0", error=words)))
    with pytest.raises(FederationError, match="0 sites joined"):
        federation.run([federation.node(1, "a")], **{"join-seconds": 5})
    told = [record.getMessage() for record in caplog.records if "cannot join" in record.getMessage()]
    assert told and all("cannot join: 'E: one fedsi: two?[2J xxx" in line and len(line) < 400 for line in told)


def test_an_error_in_a_site_file_does_not_tell_its_path(federation, caplog, tmp_path):
    nodes = [federation.node(1, "a")]
    (tmp_path / "1.toml").write_text("name = ")
    with pytest.raises(FederationError, match="0 sites joined"):
        federation.run(nodes, **{"join-seconds": 5})
    told = [record.getMessage() for record in caplog.records if "cannot join" in record.getMessage()]
    assert told == ["fedsi: site 'unnamed' (node 1) cannot join: \"SiteFileError: the site's log says why\""]


def test_an_interrupted_server_resumes_with_the_same_sites(federation, monkeypatch):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]
    step = flower_fake.FakeCoordinator.step

    def failing(self, exchange):
        if self.round == 2:
            raise KeyboardInterrupt
        return step(self, exchange)

    files = {"settings.files": True}
    monkeypatch.setattr(flower_fake.FakeCoordinator, "step", failing)
    with pytest.raises(KeyboardInterrupt):
        federation.run(nodes, **files)
    monkeypatch.setattr(flower_fake.FakeCoordinator, "step", step)
    with pytest.raises(FolderError, match="holds a federation already: continue it with `resume=true`"):
        federation.run(nodes, **files)
    _, strategy, result = federation.run(nodes, resume=True, **files)
    assert sorted(result.train_metrics_clientapp) == [3]
    assert result.train_metrics_clientapp[3]["total"] == 30 + 32 + 34 + 36
    assert strategy.coordinator.agreement == b"0 is a and 1 is b"


def test_resuming_goes_on_without_a_site_that_is_away(federation, monkeypatch):
    nodes = [federation.node(1, "a"), federation.node(2, "b")]
    federation.run(nodes)
    state = federation.folder / "state.json"
    state.write_text(json.dumps({"round": 2, "total": 0}))
    nodes[0].online = False
    _, strategy, result = federation.run(nodes, resume=True, **{"min-sites": 1, "join-seconds": 5})
    # b keeps its number.
    assert strategy.coordinator.clients == ["a", "b"]
    assert "clients.b.loss" in result.train_metrics_clientapp[3]


def test_an_error_of_the_engine_reaches_the_caller(federation):
    nodes = [federation.node(1, "a", data=lambda context: "broken")]
    with pytest.raises(RuntimeError, match="no usable update"):
        federation.run(nodes, **{"settings.strict": True})


def test_a_site_of_another_version_is_warned_of(federation, caplog, monkeypatch):
    nodes = [federation.node(1, "a")]
    grid_reply = protocol.pack_reply

    def older(reply):
        records = grid_reply(reply)
        records.config_records["fedsi"]["version"] = "0.0.1"
        return records

    monkeypatch.setattr("fedsi.flower.client.pack_reply", older)
    federation.run(nodes)
    assert "'a' has fedsi 0.0.1 and the server" in messages(caplog)


def test_a_message_of_another_protocol_is_refused_with_both_versions(monkeypatch):
    records = protocol.pack_request(protocol.Request("join", 1, b""))
    records.config_records["fedsi"]["protocol"] = 99
    records.config_records["fedsi"]["version"] = "9.9"
    with pytest.raises(MessageError, match=r"fedsi 9\.9, which speaks protocol 99; here is fedsi .* which speaks protocol 1"):
        protocol.unpack_request(records, 100)


def test_requests_and_replies_survive_packing():
    opening = protocol.Opening("f", "rounds = 1\n", b"\x00\x01", "b", 1, 2)
    request = protocol.Request("train", 3, bytes(range(256)), opening=opening)
    unpacked = protocol.unpack_request(protocol.pack_request(request), 1000)
    assert unpacked.opening == opening and unpacked.payload == request.payload
    reply = protocol.Reply(3, "a", protocol.__version__, b"", error="FolderError: no space")
    assert protocol.unpack_reply(protocol.pack_reply(reply), 1000) == reply


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda fields: fields.pop("kind"), "`kind` is missing"),
        (lambda fields: fields.update(client=5), "site 5 of 2"),
        (lambda fields: fields.update(client=-1), "site -1 of 2"),
        (lambda fields: fields.pop("site"), "`site` is missing"),
        (lambda fields: fields.update(exchange="3"), "`exchange` is missing or of another kind"),
    ],
)
def test_damaged_messages_are_refused(change, expected):
    opening = protocol.Opening("f", "rounds = 1\n", None, "b", 1, 2)
    records = protocol.pack_request(protocol.Request("train", 3, b"x", opening=opening))
    change(records.config_records["fedsi"])
    with pytest.raises(MessageError, match=expected):
        protocol.unpack_request(records, 1000)


def test_messages_of_other_apps_and_large_ones_are_refused():
    with pytest.raises(MessageError, match="none of fedsi's"):
        protocol.unpack_reply(RecordDict({"config": ConfigRecord({"lr": 1.0})}), 1000)
    large = protocol.pack_reply(protocol.Reply(1, "a", "0", bytes(1001)))
    with pytest.raises(MessageError, match=r"1\d\d\d bytes, and at most 1000"):
        protocol.unpack_reply(large, 1000)
    other = protocol.pack_reply(protocol.Reply(1, "a", "0", b""))
    other.array_records["payload"] = ArrayRecord({"payload": Array("float32", (1,), "numpy.ndarray", b"1234")})
    with pytest.raises(MessageError, match="without a payload"):
        protocol.unpack_reply(other, 1000)


def test_one_limit_holds_for_payload_and_agreement_together():
    # The engine's agreements have up to 64 MiB.
    opening = protocol.Opening("f", "rounds = 1\n", bytes(20_000_000), "b", 1, 2)
    records = protocol.pack_request(protocol.Request("train", 3, bytes(20_000_000), opening=opening))
    assert protocol.unpack_request(records, 41_000_000).opening == opening
    with pytest.raises(MessageError, match=r"4\d{7} bytes, and at most 39000000"):
        protocol.unpack_request(records, 39_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('folder = "/x"', "`name`: found None"),
        ('name = "../a"\nfolder = "/x"', "letters, digits"),
        ('name = "a"', "`folder`: found None"),
        ('name = "a"\nfolder = "/x"\nrounds = 3', "a site does not set `rounds`"),
        ('name = "a"\nfolder = "/x"\n[data.files]\ntarget = "y"', "a site does not set `data.files.target`"),
        ('name = "a"\nfolder = "/x"\nmax_message_mb = 0', "at least 1"),
        ("name = ", "is no TOML"),
    ],
)
def test_a_wrong_site_file_is_refused(tmp_path, text, expected):
    file = tmp_path / "site.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        SiteFile.read(file)


def test_paths_of_a_site_file_are_relative_to_it(tmp_path):
    file = tmp_path / "site.toml"
    file.write_text('name = "a"\nfolder = "state"\n[data.files]\ntrain = "rows.csv"\ntest = ""\n')
    site = SiteFile.read(file)
    assert site.folder == tmp_path / "state"
    assert site.locations == {"data.files.train": str(tmp_path / "rows.csv"), "data.files.test": ""}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"folder": "relative"}, "`folder`: found 'relative', expected an absolute path"),
        ({"folder": "/x", "rounds": 3}, "`rounds` is no key"),
        ({"folder": "/x", "deadline-seconds": 0}, "`deadline-seconds`: found 0"),
        ({"folder": "/x", "resume": "yes"}, "`resume`: found 'yes', expected true or false"),
        ({"folder": "/x/{run}", "resume": True}, "name it: --run-config"),
        ({"folder": "/x", "sites": "a,a"}, "'a' is there twice"),
        ({"folder": "/x", "sites": "a,b", "min-sites": 3}, "1 up to 2"),
    ],
)
def test_a_wrong_run_config_is_refused(keys, expected):
    with pytest.raises(ConfigError, match=expected):
        ServerSettings.from_run_config(keys)


def test_settings_of_the_engine_keep_their_keys():
    settings = ServerSettings.from_run_config({"folder": "/x-{run}", "settings.federation.quorum": 0.5}, run=7)
    assert settings.config == {"federation.quorum": 0.5}
    assert str(settings.folder) == "/x-7"


def test_records_in_words():
    record = {
        "round": 2,
        "train_loss": 0.25,
        "participants": [0, 1],
        "bytes": {"up": 1_500_000, "down": 0},
        "epsilon": 1.5,
        "left_out": [{"client": 1, "kind": "dropped", "reason": "it did not answer"}],
        "skipped": True,
    }
    assert metrics.in_words(record, ["a", "b"]) == [
        "loss 0.2500, 2 sites asked, 1.50 MB from sites, 0.00 MB to them, epsilon 1.5",
        "b is left out: it did not answer",
        "the round is skipped: too few usable updates",
    ]
    sites = [
        {"client": 0, "samples": 9, "scores": {"accuracy": 0.5, "nll": None}},
        {"client": 1, "problem": "away", "scores": None},
    ]
    assert metrics.in_words({"sites": sites}, ["aa", "b"]) == ["aa  accuracy 0.5 on 9 rows", "b   no scores: away"]


def test_names_with_numbers_are_in_the_order_of_the_numbers():
    members = Members()
    nodes = [FakeNode(number, None, {}) for number in (2, 10, 1)]
    assert sorted(members.update(nodes)) == [1, 2, 10]
    for node in nodes:
        members.introduce(node.node_id, f"site-{node.node_id}")
    assert members.joined() == ["site-1", "site-2", "site-10"]


# A number that somebody gave a real SuperNode does not make it a simulated one, whose folder the run config chooses.
@pytest.mark.parametrize("node_config", [{}, {"partition-id": 0, "num-partitions": 2}])
def test_a_node_without_a_site_file_says_what_to_do(node_config, tmp_path):
    FakeGrid([], {})
    message = Message(protocol.pack_request(protocol.Request("join", 1, b"")), dst_node_id=1, message_type="query")
    message.metadata.__dict__["_message_id"] = "m"
    context = flower_fake.Context(1, 1, node_config, RecordDict(), {"folder": str(tmp_path / "server")})
    reply = protocol.unpack_reply(client_app()(message, context).content, 1000)
    assert reply.error is not None and "--node-config 'site=" in reply.error
