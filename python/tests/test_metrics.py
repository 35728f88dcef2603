"""fedsi.metrics, fedsi.conformal and fedsi.partition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fedsi import conformal, metrics, partition
from fedsi.errors import DataError, InputError

# Worked by hand in crates/fedsi-metrics/src/scores.rs.
P = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
Y = np.array([0, 2, 2])


def drawn(rows: int, classes: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and labels drawn by them: calibrated."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(classes, 0.5), rows)
    return p, (p.cumsum(axis=1) > random.random((rows, 1))).argmax(axis=1)


def test_scores_worked_by_hand() -> None:
    assert metrics.accuracy(P, Y) == pytest.approx(2 / 3)
    assert metrics.brier(P, Y) == pytest.approx((0.38 + 1.46 + 0.375) / 3)
    assert metrics.nll(P, Y) == pytest.approx((2 * math.log(2) + math.log(10)) / 3)
    assert metrics.ece(P, Y) == pytest.approx(0.6)
    assert metrics.mce(P, Y) == metrics.mce(P, Y, least_share=0.01) == pytest.approx(0.8)
    assert metrics.aurc(P, Y) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert metrics.balanced_accuracy(P, Y) == pytest.approx(0.75)
    np.testing.assert_array_equal(metrics.confusion_matrix(P, Y), [[1, 0, 0], [0, 0, 0], [0, 1, 1]])
    assert metrics.classification(P, Y)["samples"] == 3


def test_bins_are_those_of_ece() -> None:
    p, y = drawn(500, 4)
    for bins in (1, 10, 15):
        found = metrics.reliability(p, y, bins=bins)
        ece = (found.count * np.abs(found.accuracy - found.confidence)).sum() / 500
        assert ece == pytest.approx(metrics.ece(p, y, bins=bins), abs=1e-12)
        assert found.count.sum() == 500 and found.high[-1] == 1.0
    mean, deviation = metrics.ece_floor(p, y)
    assert metrics.ece(p, y) < mean + 5 * deviation, "labels were drawn by the probabilities"


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ">f8", ">f4"])
def test_any_float_and_layout(kind: object) -> None:
    exact = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]])
    expected = metrics.classification(exact, [0, 1])
    assert metrics.classification(exact.astype(kind), [0, 1]) == expected
    assert metrics.classification(np.asfortranarray(exact.astype(kind)), [0, 1]) == expected
    wide = np.zeros((4, 6), dtype=kind)
    wide[::2, ::2] = exact
    assert metrics.classification(wide[::2, ::2], [0, 1]) == expected
    assert metrics.classification(exact.tolist(), [0, 1]) == expected


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, ">i4"])
def test_any_whole_labels(kind: object) -> None:
    assert metrics.nll(P, Y.astype(kind)) == metrics.nll(P, Y)
    assert metrics.nll(P, np.repeat(Y, 2).astype(kind)[::2]) == metrics.nll(P, Y)


@pytest.mark.parametrize(
    ("p", "y", "words"),
    [
        (P[0], Y, r"probabilities: found shape \[3\], expected \[rows, classes\]"),
        (P, Y[:2], "labels: found 2 entries, expected 3"),
        (P, [[0, 1, 2]], r"labels: found shape \[1, 3\]"),
        (P, [0.0, 1.0, 2.0], "labels: expected whole numbers, found float64"),
        (P, [0, 3, 2], "labels, row 1: found 3, expected a class from 0 to 2"),
        (P, [0, 1, -1], "labels, row 2: found -1"),
        (P * [[1], [np.nan], [1]], Y, "row 1, class 0: a probability must be finite"),
        (P - [[0], [0], [0.3]], Y, "row 2, class 0: a probability must be finite and not negative"),
        (P * [[1], [1.1], [1]], Y, "row 1: probabilities must sum to 1"),
        (np.array([["a", "b"]]), [0], "expected an array of numbers"),
        (np.empty((2, 0)), [0, 0], "class"),
        ([[0.5, 0.5], [1.0]], [0, 0], "probabilities"),
        (P, np.array([0, 2**64 - 1, 0], dtype=np.uint64), "labels, row 1"),
    ],
)
def test_bad_input_names_the_row(p: object, y: object, words: str) -> None:
    for score in (metrics.classification, metrics.reliability, metrics.confusion_matrix):
        with pytest.raises(InputError, match=words):
            score(p, y)


def test_bins_and_shares_are_checked() -> None:
    for bins in (0, 10_001, 2.5, True):
        with pytest.raises(InputError, match="bins"):
            metrics.ece(P, Y, bins=bins)
    with pytest.raises(InputError, match="least_share"):
        metrics.mce(P, Y, least_share=0.5)


def test_no_rows_have_no_scores() -> None:
    nothing, labels = np.empty((0, 3)), np.empty(0, dtype=int)
    assert math.isnan(metrics.accuracy(nothing, labels))
    assert metrics.classification(nothing, labels)["samples"] == 0
    assert metrics.intervals(nothing, labels, []) == {}
    assert metrics.reliability(nothing, labels).count.sum() == 0
    assert math.isnan(metrics.risk_coverage([], np.empty(0, dtype=bool)).area)


def test_intervals_do_not_depend_on_the_order_or_names_of_clients() -> None:
    p, y = drawn(600, 3)
    clients = np.repeat(np.arange(12), 50)
    expected = metrics.intervals(p, y, clients)
    assert {"accuracy", "nll", "ece", "overconfidence"} <= set(expected)
    low, high = expected["nll"]
    assert low < metrics.nll(p, y) < high
    names = np.array([f"site {client:02}" for client in clients])
    assert metrics.intervals(p, y, names) == expected
    # Rows in another order, each client's own as they were.
    order = np.argsort(np.tile(np.arange(50), 12), kind="stable")
    assert metrics.intervals(p[order], y[order], names[order]) == expected
    with pytest.raises(InputError, match="clients: found 599 entries"):
        metrics.intervals(p, y, clients[1:])
    value, low, high = metrics.mean_interval((p.argmax(1) == y).astype(float), clients, kind="shares")
    assert low < value == metrics.accuracy(p, y) < high
    with pytest.raises(InputError, match="values, row 0"):
        metrics.mean_interval([np.nan], [0])
    with pytest.raises(InputError, match="kind"):
        metrics.mean_interval([1.0, 2.0], [0, 1], kind="share")


def test_ranking() -> None:
    assert metrics.auroc([1, 2], [3, 2]) == 0.875
    assert math.isnan(metrics.auroc([], [1.0]))
    sure, unsure = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[0.5, 0.5]])
    assert metrics.ood_auroc(sure, unsure) == 1.0 == metrics.ood_auroc(metrics.entropy(sure), [0.7])
    np.testing.assert_allclose(metrics.entropy(unsure), [math.log(2)])
    with pytest.raises(InputError, match="positives, row 1"):
        metrics.auroc([1.0], [2.0, np.nan])
    with pytest.raises(InputError, match="row 0: probabilities must sum to 1"):
        metrics.entropy([[0.5, 0.4]])
    curve = metrics.risk_coverage([0.1, 0.2, 0.3, 0.4], np.array([True, True, False, False]))
    np.testing.assert_allclose(curve.risk, [0, 0, 1 / 3, 1 / 2])
    assert curve.at_coverage(0.5) == (0.2, 0.0) and curve.area == pytest.approx((1 / 3 + 1 / 2) / 4)
    with pytest.raises(InputError, match="expected true or false"):
        metrics.risk_coverage([0.1], [1])
    p, y = drawn(300, 3)
    assert metrics.aurc(p, y, uncertainty=1 - p.max(1)) == pytest.approx(metrics.aurc(p, y), abs=1e-15)
    assert metrics.class_auroc(p, y).shape == (3,) and (metrics.class_auroc(p, y) > 0.6).all()


def test_regression_worked_by_hand() -> None:
    mean, variance = [[0.0, 5.0], [1.0, -1.0]], [[1.0, 4.0], [1.0, 1.0]]
    found = metrics.regression(mean, variance, [[1.0, 2.0], [1.0, 1.0]])
    assert found["rmse"] == pytest.approx(math.sqrt(3.5)) and found["mae"] == pytest.approx(1.5)
    assert [found[f"coverage_{level}"] for level in (50, 80, 90, 95)] == [0.25, 0.5, 0.75, 0.75]
    assert metrics.coverage(mean, variance, [[1.0, 2.0], [1.0, 1.0]], 0.5) == 0.25
    for arguments, words in [
        (([0.0], [0.0], [0.0]), "row 0, output 0: a variance"),
        (([0.0, 1.0], [1.0], [0.0, 1.0]), r"variance: found shape \[1, 1\], expected \[2, 1\]"),
        (([0.0], [1.0], [np.inf]), "targets, row 0"),
        ((["a"], [1.0], [1.0]), "mean: expected an array of numbers"),
    ]:
        with pytest.raises(InputError, match=words):
            metrics.regression(*arguments)
    random = np.random.default_rng(2)
    values = random.normal(size=200)
    found = metrics.regression_intervals(np.zeros(200), np.ones(200), values, np.arange(200) % 10)
    assert found["rmse"][0] < values.std() < found["rmse"][1]


def test_conformal_sets_cover() -> None:
    p, y = drawn(4000, 5)
    wrong = p**3 / (p**3).sum(axis=1, keepdims=True)  # far too sure
    calibration = conformal.calibrate(wrong[:2000], y[:2000], 0.9)
    sets = calibration.sets(wrong[2000:].astype(np.float32))
    assert sets.dtype == bool and sets.any(axis=1).all()
    assert calibration.coverage(wrong[2000:], y[2000:]) == pytest.approx(0.9, abs=0.03)
    assert sets[np.arange(2000), y[2000:]].mean() == pytest.approx(0.9, abs=0.03)
    judged = conformal.judge(wrong, y, np.where(np.arange(4000) % 2, "a", "b"), 0.9)
    assert {one.client for one in judged} == {"a", "b"} and all(one.own for one in judged)
    assert all(abs(one.coverage - 0.9) < 0.03 and one.rows == 2000 for one in judged)


def test_conformal_intervals_cover() -> None:
    random = np.random.default_rng(4)
    scale = random.uniform(0.5, 3.0, 2000)
    targets = scale * random.standard_t(4, 2000)
    calibration = conformal.calibrate_regression(np.zeros(1000), targets[:1000], scale[:1000] ** 2, 0.8)
    low, high = calibration.intervals(np.zeros(1000), scale[1000:] ** 2)
    assert low.shape == (1000,) and ((low <= targets[1000:]) & (targets[1000:] <= high)).mean() == pytest.approx(0.8, abs=0.04)
    assert calibration.coverage(np.zeros(1000), targets[1000:], scale[1000:] ** 2)[0] == pytest.approx(0.8, abs=0.04)
    flat = conformal.calibrate_regression(np.zeros(1000), targets[:1000], level=0.8)
    low, high = flat.intervals(np.zeros(3))
    assert np.ptp(high - low) == 0, "residuals alone give one width"
    judged = conformal.judge_regression(np.zeros(2000), targets, np.zeros(2000, int), scale**2, 0.8)
    assert abs(judged[0][0].coverage - 0.8) < 0.03


def test_conformal_refuses() -> None:
    p, y = drawn(50, 3)
    assert conformal.fewest_rows(0.9) == 100
    with pytest.raises(InputError, match="100 held-out rows are needed.*there are 50"):
        conformal.calibrate(p, y, 0.9)
    for level in (1.0, -0.1, math.nan, "high"):
        with pytest.raises(InputError, match="level"):
            conformal.calibrate(p, y, level)
    calibration = conformal.calibrate(p, y, 0.5)
    with pytest.raises(InputError, match="labels, row 0: found 3"):
        calibration.coverage(p[:1], [3])
    with pytest.raises(InputError, match="row 1, output 0: a variance"):
        conformal.calibrate_regression(np.zeros(30), np.ones(30), np.ones(30), level=0.5).intervals([0.0, 0.0], [1.0, 0.0])


def test_conformal_intervals_take_what_they_were_calibrated_with() -> None:
    zeros, ones = np.zeros(30), np.ones(30)
    scaled = conformal.calibrate_regression(zeros, ones, 4 * ones, level=0.5)
    flat = conformal.calibrate_regression(zeros, ones, level=0.5)
    assert scaled.with_variance and not flat.with_variance
    for call in (scaled.intervals, lambda mean: scaled.coverage(mean, mean)):
        with pytest.raises(InputError, match="calibrated with variances"):
            call(zeros)
    for call in (flat.intervals, lambda mean, variance: flat.coverage(mean, mean, variance)):
        with pytest.raises(InputError, match="calibrated by residuals alone"):
            call(zeros, ones)
    with pytest.raises(InputError, match="row 1, output 0: a mean must be finite, found nan"):
        flat.intervals([0.0, np.nan])
    with pytest.raises(InputError, match="row 0, output 0: a target must be finite, found inf"):
        flat.coverage([0.0, 0.0], [np.inf, 0.0])
    assert math.isnan(flat.coverage(np.empty(0), np.empty(0))[0])


def test_a_mean_is_of_values_of_its_kind() -> None:
    with pytest.raises(InputError, match="kind: expected 'shares'"):
        metrics.mean_interval([0.5, 1.5], [0, 1], kind=["shares"])
    with pytest.raises(InputError, match="level: expected a number"):
        metrics.coverage([0.0], [1.0], [0.0], "high")
    with pytest.raises(InputError, match="values, row 1: found 1.5, expected a share from 0 to 1"):
        metrics.mean_interval([0.5, 1.5], [0, 1], kind="shares")
    with pytest.raises(InputError, match="values, row 0: found -0.5, expected a number that is not negative"):
        metrics.mean_interval([-0.5, 1.5], [0, 1], kind="positive")
    value, low, high = metrics.mean_interval([0.0] * 5 + [2.0] * 5, np.arange(10), kind="positive")
    assert low < value == 1.0 < high
    value, low, high = metrics.mean_interval([0.0] * 10, np.arange(10), kind="positive")
    assert low <= value == 0.0 <= high


@pytest.mark.parametrize(
    "names", [["a", None, "b"], ["a", float("nan"), "b"], [1.0, np.nan, 2.0], np.array(["a", None, "b"], dtype=object)]
)
def test_a_missing_name_is_refused_with_its_row(names: object) -> None:
    labels = np.array([0, 1, 2])
    for what, call in (
        ("clients", lambda: metrics.intervals(P, labels, names)),
        ("groups", lambda: partition.iid(3, 1, groups=names)),
        ("owners", lambda: partition.by_owner(names)),
    ):
        with pytest.raises(InputError, match=f"{what}, row 1: found (None|nan), expected a name"):
            call()


def test_names_and_numbers_are_not_mixed() -> None:
    mixed = np.array(["a", 1, "b"], dtype=object)
    with pytest.raises(InputError, match="clients: expected names or numbers, not both"):
        metrics.intervals(P, Y, mixed)
    with pytest.raises(InputError, match="groups: expected names or numbers, not both"):
        partition.iid(3, 1, groups=mixed)


def rows_of(clients: list[partition.ClientRows]) -> list[int]:
    return sorted(row for client in clients for side in (client.train, client.test) for row in side.tolist())


def test_partitions_deal_every_row_once() -> None:
    labels = np.repeat([-5, 7, 100, 3], 60)
    everything = list(range(240))
    by_classes = partition.by_classes(labels, 6, classes_per_client=2)
    for clients in (
        by_classes,
        partition.iid(labels, 6),
        partition.iid(240, 6),
        partition.shards(labels, 6),
        partition.dirichlet(labels, 6, concentration=1.0),
    ):
        assert len(clients) == 6 and rows_of(clients) == everything
        assert all(client.name is None and len(client.train) and len(client.test) for client in clients)
    counts = partition.counts(by_classes, labels)
    assert counts.shape == (6, 4, 2) and counts.sum() == 240
    assert (counts.sum(axis=2) > 0).sum(axis=1).max() <= 2
    again = partition.by_classes(labels.astype(np.int16), 6, classes_per_client=2)
    assert all(np.array_equal(a.train, b.train) for a, b in zip(by_classes, again))
    other = partition.by_classes(labels, 6, classes_per_client=2, seed=2)
    assert not all(np.array_equal(a.train, b.train) for a, b in zip(by_classes, other))


def test_partitions_of_fixed_sizes() -> None:
    labels = np.arange(1000) % 10
    clients = partition.by_classes(labels, 5, classes_per_client=3, train=4, test=2)
    assert [(len(client.train), len(client.test)) for client in clients] == [(12, 6)] * 5


def test_groups_times_and_owners() -> None:
    groups = np.repeat([f"patient {n}" for n in range(40)], 3)
    clients = partition.iid(120, 4, groups=groups)
    sides = [set(groups[side]) for client in clients for side in (client.train, client.test)]
    assert sum(len(side) for side in sides) == 40, "a group is on one side of one client"
    times = np.random.default_rng(1).permutation(120)
    for client in partition.iid(120, 4, times=times):
        assert times[client.train].max() < times[client.test].min()
    owners = np.where(np.arange(90) < 60, "b", "a")
    clients = partition.by_owner(owners, labels=np.arange(90) % 3)
    assert [(client.name, len(client.train), len(client.test)) for client in clients] == [("a", 24, 6), ("b", 48, 12)]


def test_partitions_refuse() -> None:
    labels = np.arange(30) % 3
    with pytest.raises(DataError, match="labels_per_client"):
        partition.by_classes(labels, 3, classes_per_client=4)
    with pytest.raises(DataError, match="test_fraction"):
        partition.iid(labels, 3, test_fraction=1.0)
    with pytest.raises(DataError, match="partition.clients"):
        partition.iid(labels, 0)
    with pytest.raises(DataError, match="concentration"):
        partition.dirichlet(labels, 3, concentration=-1.0)
    with pytest.raises(InputError, match="concentration: expected a number, found 'a'"):
        partition.dirichlet(labels, 3, concentration="a")
    with pytest.raises(InputError, match="test_fraction: expected a number, found None"):
        partition.iid(labels, 3, test_fraction=None)
    with pytest.raises(InputError, match="clients: expected a whole number"):
        partition.iid(labels, 2.5)
    with pytest.raises(InputError, match="groups: found 2 entries"):
        partition.iid(labels, 3, groups=[1, 2])
    with pytest.raises(InputError, match="labels: expected whole numbers"):
        partition.shards(labels.astype(float), 3)
    with pytest.raises(InputError, match="labels: expected an array"):
        partition.by_classes(None, 3)
    with pytest.raises(DataError, match="NaN in row 0"):
        partition.iid(2, 1, times=[np.nan, 1.0])
