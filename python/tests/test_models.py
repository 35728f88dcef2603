"""Personal models: predictions for new rows, posteriors, torch modules."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import fedsi
import numpy as np
import pytest
from fedsi.errors import DataError, FolderError, InputError


@pytest.fixture(scope="module")
def torch() -> object:
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.fixture(scope="module")
def mixture_run(small_settings: dict) -> fedsi.Result:
    return fedsi.run(small_settings, fedsi__modes=2, rounds=4, out=False, progress=False)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)


def test_new_rows_in_any_form(small_run: fedsi.Result, images: np.ndarray, tmp_path: Path) -> None:
    model = small_run.model(0)
    found = model.predict(images)
    assert found.probabilities.shape == (7, 10) and found.spread.shape == found.strangeness.shape == (7,)
    assert (found.spread > 0).all() and (found.strangeness > 3).all(), "noise is no digit"
    # Flat, as wider integers, scaled floats, in another layout, from a file: the same bits.
    scaled = images.astype(np.float32) / np.float32(127.5) - np.float32(1)
    np.save(tmp_path / "rows.npy", images)
    for form in (
        images.reshape(7, 784),
        images.astype(np.int32),
        scaled,
        np.asfortranarray(images),
        tmp_path / "rows.npy",
        str(tmp_path / "rows.npy"),
    ):
        again = model.predict(form)
        np.testing.assert_array_equal(again.probabilities, found.probabilities)
        np.testing.assert_array_equal(again.strangeness, found.strangeness)
    np.testing.assert_array_equal(model.predict(images[2]).probabilities, found.probabilities[2:3])
    np.testing.assert_array_equal(model.scaled(images), scaled)
    assert "laplace posterior" in repr(model)


def test_images_scaled_as_elsewhere_are_warned_of(small_run: fedsi.Result, values_run: fedsi.Result, images: np.ndarray) -> None:
    model = small_run.model(0)
    for call in (model.predict, model.scaled):
        with pytest.warns(UserWarning, match=r"within \[0, 1\].*expects .*\[-1, 1\].*bytes from 0 to 255") as caught:
            call(images / 255)
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(images)
        model.predict(images / 127.5 - 1)
        values_run.model(0).predict({"size": [0.5], "kind": ["old"]})
    assert {"predicted", "confidence", "entropy"} <= set(model.predict(images).columns())


def test_rows_that_do_not_fit(small_run: fedsi.Result, images: np.ndarray) -> None:
    model = small_run.model(0)
    for rows, words in [
        (images[:, :, :27], "shape"),
        (np.zeros((0, 784)), "at least one row"),
        (np.full((1, 784), 2.0), r"\[-1, 1\]"),
        (np.full((1, 784), np.nan), "finite"),
        (np.full((1, 784), 300), "0 to 255"),
        (np.array(["a"]), "expected an array of numbers"),
    ]:
        with pytest.raises(InputError, match=words):
            model.predict(rows)
    with pytest.raises(DataError, match="none.npy"):
        model.predict("none.npy")
    with pytest.raises(InputError, match="unknown client `9`; the run has 5 clients"):
        small_run.model(9)


def test_test_rows_get_the_bits_of_the_run(values_run: fedsi.Result, values_table: Path) -> None:
    rows = [line.split(",") for line in values_table.read_text(encoding="utf-8").splitlines()]
    heading, cells = rows[0], {row[0]: row for row in rows[1:]}
    found = values_run.predictions("a")
    model = values_run.model("a")
    assert model.columns == ("size", "kind") and model.task == "regression"
    table = {name: [cells[one][heading.index(name)] for one in found.ids] for name in ("kind", "size")}
    again = model.predict(table)
    np.testing.assert_array_equal(again.mean, found.mean)
    np.testing.assert_array_equal(again.variance, found.variance)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table).astype({"size": float})
    frame["note"] = None
    np.testing.assert_array_equal(model.predict(frame).mean, found.mean)
    with pytest.raises(DataError, match="size"):
        model.predict({"kind": ["old"]})
    with pytest.raises(InputError, match="differ in length"):
        model.predict({"kind": ["old"], "size": [1.0, 2.0]})


def test_the_covariance_is_that_of_the_file(small_run: fedsi.Result) -> None:
    posterior = small_run.model(1).posterior
    assert posterior.kind == "laplace" and len(posterior.indices) == len(posterior.mean) == len(posterior.variance)
    covariance = posterior.covariance()
    np.testing.assert_allclose(np.diag(covariance), posterior.variance, rtol=1e-9)
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert (posterior.variance <= posterior.prior_variance * (1 + 1e-12)).all()
    values = np.concatenate([value.ravel() for value in small_run.model(1).state().values()])
    np.testing.assert_array_equal(values[posterior.indices], posterior.mean)


@pytest.mark.parametrize(("method", "kind"), [("pfedbayes", "mean-field"), ("fedpop", "samples"), ("fedper", "point")])
def test_other_posteriors(method: str, kind: str, small_settings: dict, images: np.ndarray, torch: object) -> None:
    result = fedsi.run(small_settings, method=method, rounds=1, clients=2, out=False, progress=False)
    model = result.model(0)
    assert model.posterior.kind == kind
    assert len(model.posterior.covariance()) == len(model.posterior.indices) if kind != "mean-field" else True
    network = model.torch()
    drawn = network.sample(2, seed=1)
    assert [one.keys() for one in drawn] == [network.state_dict().keys()] * 2
    same = all(torch.equal(drawn[0][name], value) for name, value in network.state_dict().items())
    assert same == (kind == "point")
    if kind == "point":
        with torch.no_grad():
            shares = torch.softmax(network(torch.from_numpy(model.scaled(images))), 1)
        np.testing.assert_allclose(shares.numpy(), model.predict(images).probabilities, atol=2e-6)


def test_a_network_of_torch(small_run: fedsi.Result, images: np.ndarray, torch: object) -> None:
    network = small_run.torch_model(2)
    assert isinstance(network, torch.nn.Sequential) and not network.training
    assert list(network.state_dict()) == ["1.weight", "1.bias", "3.weight", "3.bias"]
    parameters = torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy()
    np.testing.assert_array_equal(parameters[network.posterior.indices], network.posterior.mean)
    np.testing.assert_array_equal(network.predict(images).probabilities, small_run.model(2).predict(images).probabilities)
    # Draws have the posterior's spread, and leave the rest alone.
    draws = network.sample(400, seed=1)
    flat = np.array([torch.cat([value.reshape(-1) for value in one.values()]).numpy() for one in draws])
    ratio = flat.var(axis=0)[network.posterior.indices] / network.posterior.variance
    assert abs(np.median(ratio) - 1) < 0.1
    fixed = np.setdiff1d(np.arange(flat.shape[1]), network.posterior.indices)
    assert np.ptp(flat[:, fixed], axis=0).max() == 0


def test_linearised_variance_is_that_of_the_engine(small_run: fedsi.Result, images: np.ndarray, torch: object) -> None:
    """The posterior is complete: the trace of ``J C J'`` of centred logits is the engine's spread."""
    model = small_run.model(2)
    network, posterior = model.torch().double(), model.posterior
    x = torch.from_numpy(model.scaled(images[:2])).double()
    values = {name: value.detach() for name, value in network.named_parameters()}

    def logits(values: dict) -> object:
        found = torch.func.functional_call(network, values, (x,))
        return found - found.mean(1, keepdim=True)

    jacobian = torch.func.jacrev(logits)(values)
    dense = torch.cat([jacobian[name].reshape(2, 10, -1) for name in values], dim=2).numpy()[:, :, posterior.indices]
    spread = np.einsum("nij,jk,nik->n", dense, posterior.covariance(), dense)
    np.testing.assert_allclose(spread, model.predict(images[:2]).spread, rtol=1e-5)


def test_a_mixture_of_torch(mixture_run: fedsi.Result, images: np.ndarray, torch: object) -> None:
    model = mixture_run.model(0)
    assert model.modes == 2 and len(model.posteriors) == 2
    mixture = model.torch()
    names = [f"modes.{mode}.{name}" for mode in range(2) for name in ("1.weight", "1.bias", "3.weight", "3.bias")]
    assert list(mixture.state_dict()) == names
    first, second = (one.posterior for one in mixture.modes)
    assert not np.array_equal(first.mean, second.mean) and mixture.posteriors == (first, second)
    with torch.no_grad():
        shares = mixture(torch.from_numpy(model.scaled(images))).exp().numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(mixture.predict(images).probabilities, model.predict(images).probabilities)


def test_the_mean_of_a_mixture_is_the_engines_map(small_settings: dict, images: np.ndarray, torch: object) -> None:
    result = fedsi.run(small_settings, fedsi__modes=2, fedsi__predictive="map", rounds=4, clients=2, out=False, progress=False)
    model = result.model(1)
    with torch.no_grad():
        shares = model.torch()(torch.from_numpy(model.scaled(images))).exp().numpy()
    np.testing.assert_allclose(shares, model.predict(images).probabilities, atol=5e-6)


def test_a_mixture_over_own_classes(small_settings: dict, images: np.ndarray, torch: object) -> None:
    settings = {"fedsi__modes": 2, "fedsi__predictive": "map", "calibration__own_classes": True}
    result = fedsi.run(small_settings, rounds=4, clients=2, out=False, progress=False, **settings)
    model = result.model(1)
    expected = model.predict(images).probabilities
    assert model.about["own_classes"] == [5, 6, 7, 8, 9] and (expected[:, :5] == 0).all()
    with torch.no_grad():
        shares = model.torch()(torch.from_numpy(model.scaled(images))).exp().numpy()
    np.testing.assert_allclose(shares, expected, atol=5e-6)


def test_a_convolutional_network(small_settings: dict, images: np.ndarray, torch: object) -> None:
    body = [
        {"conv": {"out": 3, "kernel": 5}},
        "relu",
        {"maxpool": 2},
        {"conv": {"out": 4, "kernel": 3, "padding": 1}},
        "tanh",
        {"avgpool": 2},
        "flatten",
        {"linear": 12},
        {"leaky-relu": 0.1},
    ]
    result = fedsi.run(small_settings, method="fedavg", model={"body": body}, rounds=1, clients=2, out=False, progress=False)
    model = result.model(0)
    with torch.no_grad():
        shares = torch.softmax(model.torch()(torch.from_numpy(model.scaled(images))), 1).numpy()
    np.testing.assert_allclose(shares, model.predict(images).probabilities, atol=5e-6)


def test_without_torch(small_run: fedsi.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "fedsi.torch_models", raising=False)
    with pytest.raises(ImportError, match="needs torch.*pip install torch"):
        small_run.torch_model(0)


def test_kept_models_and_runs_without_models(
    small_run: fedsi.Result, small_settings: dict, images: np.ndarray, tmp_path: Path
) -> None:
    small_run.model(0).keep(tmp_path / "own.safetensors")
    kept = fedsi.PersonalModel(small_run._run.kept(tmp_path / "own.safetensors"))
    np.testing.assert_array_equal(kept.predict(images).probabilities, small_run.model(0).predict(images).probabilities)
    none = fedsi.run(small_settings, rounds=1, output__personal_models=False, out=False, progress=False)
    with pytest.raises(FolderError, match="saved no personal models.*output__personal_models=True"):
        none.model(0)
