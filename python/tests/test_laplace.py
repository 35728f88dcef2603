"""fedsi.Laplace: what it takes and refuses, and how it hands results back. Agreement: test_laplace_agreement.py."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="fedsi.Laplace is for torch networks: pip install torch")

from fedsi.errors import FolderError, InputError, NetworkError, PosteriorError  # noqa: E402
from fedsi.laplace import Laplace  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

torch.set_num_threads(1)


def classifier(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3)).to(dtype)


class Residual(nn.Module):
    """Of no kind that the engine has layers for."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.GroupNorm(2, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm(self.first(x)))
        return self.out(h + torch.tanh(h))


def rows(count: int = 30, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, 4, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(0, 3, (count,), generator=generator)


def fitted(model: nn.Module | None = None, **settings: object) -> Laplace:
    settings.setdefault("subset_of_weights", "all")
    return Laplace(model if model is not None else classifier(), "classification", **settings).fit(*rows())


def test_every_form_of_data_gives_the_same_posterior() -> None:
    x, y = rows()
    loader = DataLoader(TensorDataset(x, y), batch_size=7)
    expected = fitted().posterior_covariance
    for data in [(loader,), ((x, y),), (x.numpy(), y.numpy()), ([(x[:9], y[:9]), (x[9:], y[9:])],)]:
        found = Laplace(classifier(), "classification", "all").fit(*data).posterior_covariance
        assert torch.equal(found, expected)


def test_results_come_back_as_the_inputs_went_in() -> None:
    la = fitted()
    x, _ = rows(5)
    for given, kind, dtype in [
        (x, torch.Tensor, torch.float64),
        (x.float(), torch.Tensor, torch.float32),
        (x.numpy(), np.ndarray, np.float64),
        (x.float().numpy(), np.ndarray, np.float32),
    ]:
        for found in [la(given), *la.outputs(given), la.uncertainty(given)]:
            assert isinstance(found, kind) and found.dtype == dtype
    assert la(x[:0]).shape == (0, 3) and la.outputs(x[:0])[1].shape == (0, 3, 3)
    assert np.allclose(la(x.numpy()).sum(axis=1), 1)


def test_predictions_in_blocks_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    la, (x, _) = fitted(), rows(23)
    whole = [la(x, link_approx=link) for link in ("probit", "mc", "bridge", "differences", "map")]
    monkeypatch.setattr("fedsi._laplace_data.BLOCK_VALUES", 4 * 5)
    for link, expected in zip(("probit", "mc", "bridge", "differences", "map"), whole, strict=True):
        assert torch.allclose(la(x, link_approx=link), expected, rtol=0, atol=1e-12), link
    assert torch.allclose(whole[4], torch.softmax(classifier().eval()(x), 1).detach())


def test_monte_carlo_is_near_the_closed_forms_and_repeats() -> None:
    la, (x, _) = fitted(), rows(6)
    many = la(x, link_approx="mc", n_samples=20_000)
    assert (many - la(x, link_approx="probit")).abs().max() < 0.05
    assert torch.equal(la(x, link_approx="mc", seed=3), la(x, link_approx="mc", seed=3))
    assert not torch.equal(la(x, link_approx="mc", seed=3), la(x, link_approx="mc", seed=4))


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double().train()
    before = copy.deepcopy(model.state_dict())
    la = fitted(model)
    la(rows(3)[0])
    la.sample(2)
    assert model.training and all(part.training for part in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(parameter.grad is not None for parameter in model.parameters())
    # Nor does what happens to the model later reach the posterior.
    expected = la(rows(3)[0])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
        model[1].running_mean.add_(1.0)
    assert torch.equal(la(rows(3)[0]), expected)


def test_dropout_is_off_and_single_precision_is_computed_in_double() -> None:
    single = classifier(torch.float32)
    la = fitted(single)
    x, _ = rows(4)
    mean, _ = la.outputs(x)
    assert torch.allclose(mean, copy.deepcopy(single).double().eval()(x).detach(), rtol=1e-13)
    assert "native" in repr(la) and "51 parameters" in repr(la).replace("51 of 51", "51")
    assert "torch" in repr(fitted(Residual().double()))


def test_draws_have_the_posteriors_moments() -> None:
    la = fitted(subset_of_weights="subnetwork", subnetwork_indices=[5, 2, 40, 33], prior_precision=0.5)
    draws = la.sample(20_000)
    assert draws.shape == (20_000, 51)
    fixed = np.setdiff1d(np.arange(51), [5, 2, 40, 33])
    vector = nn.utils.parameters_to_vector(classifier().parameters()).detach()
    assert torch.equal(draws[:, fixed], vector[fixed].expand(20_000, -1))
    own = draws[:, [5, 2, 40, 33]]
    assert torch.allclose(own.mean(0), la.mean, atol=0.05)
    assert torch.allclose(torch.cov(own.T), la.posterior_covariance, atol=0.05)
    head = fitted(subset_of_weights="last_layer")
    assert head.sample(3).shape == (3, 21) and torch.equal(head.sample(3, seed=1), head.sample(3, seed=1))


def test_the_users_order_of_indices_is_kept() -> None:
    order = [40, 2, 33, 5]
    la = fitted(subset_of_weights="subnetwork", subnetwork_indices=order, prior_precision=np.array([1.0, 2.0, 3.0, 4.0]))
    ascending = fitted(
        subset_of_weights="subnetwork", subnetwork_indices=sorted(order), prior_precision=np.array([2.0, 4.0, 3.0, 1.0])
    )
    places = np.argsort(np.argsort(order))
    assert torch.equal(la.subnetwork_indices, torch.tensor(order))
    assert torch.allclose(la.posterior_covariance, ascending.posterior_covariance[np.ix_(places, places)])
    assert torch.allclose(la.posterior_variance, la.posterior_covariance.diagonal())


def test_rules_choose_a_subnetwork_of_the_body() -> None:
    la = fitted(subset_of_weights="subnetwork", subnetwork_indices="magnitude", subnetwork_size=7)
    body = classifier()[0]
    values = torch.cat([body.weight.flatten(), body.bias]).abs()
    assert set(la.subnetwork_indices.tolist()) == set(values.topk(7).indices.tolist())
    explained = la.explain()
    assert "7 of 30 parameters" in explained and "3.weight   0 of 18    0.0%" in explained
    share = fitted(subset_of_weights="subnetwork", subnetwork_indices="live", subnetwork_size=0.2)
    assert len(share.subnetwork_indices) == 6
    named = fitted(subset_of_weights="subnetwork", subnetwork_indices="layers:0.bias,3")
    assert named.subnetwork_indices.tolist() == [*range(24, 30), *range(30, 51)]
    both = fitted(subset_of_weights="subnetwork", subnetwork_indices=torch.arange(24, 51))
    assert torch.equal(named.posterior_covariance, both.posterior_covariance)


def test_a_prior_can_be_given_for_each_tensor_or_parameter() -> None:
    each = np.concatenate([np.full(24, 2.0), np.full(6, 3.0), np.full(18, 4.0), np.full(3, 5.0)])
    expected = fitted(prior_precision=each)
    for prior in [
        {"0.weight": 2.0, "0.bias": 3.0, "3.weight": 4.0, "3.bias": 5.0},
        {"0": np.concatenate([np.full(24, 2.0), np.full(6, 3.0)]), "3.weight": torch.full((3, 6), 4.0), "3.bias": 5.0},
        [2.0, 3.0, 4.0, 5.0],
        torch.from_numpy(each),
    ]:
        found = fitted(prior_precision=prior)
        assert torch.equal(found.posterior_covariance, expected.posterior_covariance)
        assert found.log_marginal_likelihood() == expected.log_marginal_likelihood()
    with pytest.raises(InputError, match="3.bias"):
        fitted(prior_precision={"0": 1.0, "3.weight": 1.0})
    with pytest.raises(InputError, match="'4' is no parameter"):
        fitted(prior_precision={"4": 1.0})
    with pytest.raises(InputError, match="found 7 values, expected 1, 51"):
        fitted(prior_precision=np.ones(7))
    with pytest.raises(InputError, match="above 0, found -1"):
        fitted(prior_precision=-1.0)


def test_prior_and_noise_may_change_after_the_fit() -> None:
    la = fitted(prior_precision=1.0)
    la.prior_precision = 7.0
    assert torch.equal(la.posterior_covariance, fitted(prior_precision=7.0).posterior_covariance)
    la.prior_mean = 0.3
    expected = fitted(prior_precision=7.0, prior_mean=0.3).log_marginal_likelihood()
    assert la.log_marginal_likelihood() == expected
    with pytest.raises(InputError):
        la.prior_precision = np.ones(9)
    assert la.prior_precision == 7.0 and la.log_marginal_likelihood() == expected
    x, _ = rows()
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    values = torch.stack([x[:, 0], x[:, 1] * 2], 1)
    la = Laplace(model, "regression", "all", sigma_noise=0.5).fit(x, values)
    la.sigma_noise = [0.2, 0.4]
    again = Laplace(model, "regression", "all", sigma_noise=[0.2, 0.4]).fit(x, values)
    assert torch.equal(la.posterior_covariance, again.posterior_covariance)
    assert la(x)[1].shape == (30, 2, 2) and la(x, diagonal_output=True)[1].shape == (30, 2)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_prior_is_chosen_by_either_method(task: str) -> None:
    x, y = rows(80)
    model = classifier() if task == "classification" else nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    if task == "regression":
        y = x[:, :1].sin()
    la = Laplace(model, task, "all", sigma_noise=1.0 if task == "classification" else 0.3).fit(x[:60], y[:60])
    found = la.optimize_prior_precision(method="marglik")
    best = la.log_marginal_likelihood()
    assert best == pytest.approx(-found.loss, rel=1e-9) and la.prior_precision == pytest.approx(found.factor)
    for factor in (0.9, 1.1):
        assert la.log_marginal_likelihood(la.prior_precision * factor) <= best + 1e-9
        la.prior_precision = found.factor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = la.optimize_prior_precision(method="gridsearch", val_loader=(x[60:], y[60:]))
    if task == "classification":
        chosen = la(x[60:])
        nll = -chosen[torch.arange(20), y[60:]].log().mean()
        assert held.loss == pytest.approx(float(nll), rel=1e-9)
    with pytest.raises(InputError, match="held-out samples"):
        la.optimize_prior_precision(method="gridsearch")


@pytest.mark.parametrize("model", [classifier(), Residual().double()], ids=["native", "torch"])
@pytest.mark.parametrize("structure", ["full", "diag"])
def test_a_saved_posterior_predicts_the_same_bits(model: nn.Module, structure: str, tmp_path: object) -> None:
    la = fitted(
        model,
        subset_of_weights="subnetwork",
        subnetwork_indices=[40, 2, 33, 5],
        hessian_structure=structure,
        prior_precision=[1.0, 2.0, 3.0, 4.0],
        prior_mean=[0.1, 0.2, 0.3, 0.4],
    )
    path = tmp_path / "posterior.safetensors"
    la.save(path)
    again = Laplace.load(path, copy.deepcopy(model))
    x, _ = rows(9)
    assert torch.equal(again(x), la(x)) and torch.equal(again.sample(4), la.sample(4))
    assert torch.equal(again.posterior_variance, la.posterior_variance)
    assert again.log_marginal_likelihood() == la.log_marginal_likelihood()
    assert np.allclose(again.prior_mean, [0.1, 0.2, 0.3, 0.4])
    assert np.allclose(again.prior_precision, la.prior_precision) and repr(again) == repr(la)
    with pytest.raises(InputError, match="no training data"):
        again.prior_precision = 2.0
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters()).add_(1e-9)
    with pytest.raises(FolderError, match="has other values than when the posterior was fitted"):
        Laplace.load(path, other)
    with pytest.raises(FolderError, match="another network"):
        Laplace.load(path, nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)).double())
    damaged = bytearray(path.read_bytes())
    damaged[-3] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(FolderError, match="checksum"):
        Laplace.load(path, model)
    with pytest.raises(FolderError, match="cannot be read"):
        Laplace.load(tmp_path / "absent.safetensors", model)


def test_a_tolerance_keeps_its_bound() -> None:
    exact, loose = fitted(), fitted(tolerance=0.2)
    ratio = loose.posterior_variance / exact.posterior_variance
    assert exact.certificate == 0 < loose.certificate <= 0.2
    assert ratio.min() > 1 - 1e-9 and ratio.max() < 1.2 and ratio.max() > 1 + 1e-6


def test_fixed_parameters_have_no_distribution() -> None:
    model = classifier()
    model[0].weight.requires_grad_(False)
    la = fitted(model)
    assert la.subnetwork_indices.tolist() == list(range(24, 51))
    expected = fitted(subset_of_weights="subnetwork", subnetwork_indices=np.arange(24, 51))
    assert torch.allclose(la.posterior_covariance, expected.posterior_covariance, rtol=1e-9)
    with pytest.raises(InputError, match="requires_grad=False"):
        fitted(model, subset_of_weights="subnetwork", subnetwork_indices=[0, 30])


def test_memory_is_bounded() -> None:
    with pytest.raises(PosteriorError, match=r"kB and 1.0 kB are allowed: choose fewer parameters"):
        fitted(memory_limit=1000)
    assert fitted(memory_limit=10**7, native=False).posterior_variance.shape == (51,)
    large = nn.Sequential(nn.Linear(4, 20_000), nn.ReLU(), nn.Linear(20_000, 3)).double()
    la = fitted(large, hessian_structure="diag")
    assert la.posterior_variance.shape == (160_003,) and la(rows(2)[0]).shape == (2, 3)
    with pytest.raises(PosteriorError, match="to multiply out"):
        _ = la.posterior_covariance


def by_rule(size: object) -> dict[str, object]:
    return {"subset_of_weights": "subnetwork", "subnetwork_indices": "variance", "subnetwork_size": size}


def test_a_size_may_be_any_whole_number_or_share() -> None:
    for size, count in [(7, 7), (7.0, 7), (np.int32(7), 7), (0.2, 6), (np.float32(0.2), 6)]:
        assert len(fitted(**by_rule(size)).subnetwork_indices) == count


def test_half_precision_of_torch_is_converted() -> None:
    x, y = rows()
    x = x.to(torch.bfloat16)
    la = fitted().fit(x, y)
    assert torch.equal(la(x), fitted().fit(x.double(), y)(x.double()))
    for native in (True, False):
        model = classifier().to(torch.bfloat16)
        la = Laplace(model, "classification", "all", native=native).fit(x, y)
        same = Laplace(copy.deepcopy(model).double(), "classification", "all", native=native).fit(x.double(), y)
        assert torch.equal(la(x), same(x.double()))


def test_batches_of_other_shapes_are_refused() -> None:
    x, y = rows()
    la = Laplace(classifier(), "classification", "all")
    for data, words in [
        ([(x[:5], y[:5]), (x[5:9, :3], y[5:9])], r"inputs: batch 1 has the shape \[4, 3\], expected \[N, 4\] as in batch 0"),
        ([(x[:5], y[:5]), (x[5:9], y[5:9, None])], r"targets: batch 1 has the shape \[4, 1\], expected \[N\]"),
        ([(x[:5], y[:6]), (x[5:9], y[6:9])], "batch 0 has inputs of shape .* one target for each sample"),
        ([([[1.0, 2.0], [1.0]], [0, 1])], "inputs of batch 0: expected an array of numbers, its rows of equal length"),
    ]:
        with pytest.raises(InputError, match=words):
            la.fit(data)


def test_what_makes_no_sense_is_refused_with_words() -> None:
    x, y = rows()
    model = classifier()
    for settings, words in [
        ({"likelihood": "poisson"}, "likelihood: found 'poisson'"),
        ({"hessian_structure": "kron"}, "Kronecker"),
        ({"subset_of_weights": "body"}, "subset_of_weights"),
        ({"subset_of_weights": "subnetwork"}, "'variance'"),
        ({"subset_of_weights": "subnetwork", "subnetwork_indices": "variance"}, "subnetwork_size"),
        ({"subset_of_weights": "subnetwork", "subnetwork_indices": "widest", "subnetwork_size": 3}, "unknown selection rule"),
        ({"subset_of_weights": "subnetwork", "subnetwork_indices": [1, 1]}, "twice"),
        ({"subset_of_weights": "subnetwork", "subnetwork_indices": [0.5]}, "whole numbers"),
        ({"subnetwork_indices": [1]}, "subset_of_weights='subnetwork'"),
        ({"sigma_noise": 2.0}, "no noise"),
        (by_rule(1.5), "subnetwork_size: found 1.5, expected .* a whole number, or a share"),
        (by_rule("3"), "subnetwork_size: found '3'"),
        (by_rule(True), "subnetwork_size: found True"),
        (by_rule(float("nan")), "subnetwork_size: found nan"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"tolerance": "x"}, "tolerance: expected a finite number, 0 or above, found 'x'"),
        ({"memory_limit": "1GB"}, "memory_limit: expected a number of bytes, 1 or above, found '1GB'"),
        ({"memory_limit": 0}, "memory_limit"),
        ({"seed": "x"}, "seed: expected a whole number"),
        ({"native": "yes"}, "native: expected True, False or None"),
        ({"prior_precision": float("nan")}, "finite"),
    ]:
        arguments = {"likelihood": "classification"} | settings
        with pytest.raises(InputError, match=words):
            Laplace(model, **arguments)
    with pytest.raises(InputError, match="torch.nn.Module"):
        Laplace("model", "classification")
    la = Laplace(model, "classification", "all")
    with pytest.raises(InputError, match="not fitted"):
        la(x)
    for data, words in [
        ((x, y[:-1]), "one target for each sample"),
        ((x, y.double()), "class labels"),
        ((x, y + 2), "not a class"),
        ((x, y - 1), "counted from 0"),
        ((x[:0], y[:0]), "no sample"),
        (([],), "no batch"),
        (([x, y, x],), "expected a pair"),
        ((x / 0, y), "row 0 holds"),
        ((x,), "found Tensor"),
    ]:
        with pytest.raises(InputError, match=words):
            la.fit(*data)
    with pytest.raises(NetworkError):
        la.fit(x[:, :3], y)
    with pytest.raises(NetworkError, match="natively"):
        Laplace(Residual().double(), "classification", native=True).fit(x, y)
    la.fit(x, y)
    with pytest.raises(InputError, match=r"expected \[N, 4\]"):
        la(x[:, :3])
    with pytest.raises(InputError, match="linearised"):
        la(x, pred_type="nn")
    with pytest.raises(InputError, match="bridge_norm"):
        la(x, link_approx="bridge_norm")
    with pytest.raises(InputError, match="0 to 50"):
        fitted(subset_of_weights="subnetwork", subnetwork_indices=[51])
    # A failed fit leaves the posterior that was there.
    expected = la(x)
    with pytest.raises(InputError):
        la.fit(x, y + 2)
    assert torch.equal(la(x), expected)
