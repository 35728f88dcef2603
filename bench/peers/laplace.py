"""fedsi.Laplace beside laplace-torch's subnetwork Laplace (full covariance), in one process.

The posterior of one client as bench/peers measures it elsewhere: an MLP 784-100-10 trained on 250 samples, a subnetwork of
3,925 parameters (5% of the 78,500 below the last layer), then predictions for 250 test rows. Both work in float64 on the same
network, data and indices; each is timed from a fresh object to probabilities (fit, then predict), and the fastest of several
turns counts. What keeps it fair:

- laplace-torch is tried with one thread and with all of them, and with the batch sizes of `--batches`: the fastest counts.
  Its Jacobian of all 79,510 parameters takes 1.6 GB for 250 rows at once.
- Agreement is measured on the results of the same run: posterior covariance, covariance of the outputs, probabilities and log
  marginal likelihood, as the largest difference relative to the largest value. fedsi is exact unless `--tolerance` is given.
- laplace-torch takes the same time whatever the subnetwork and the data are. fedsi's follows the rank of the weighted Jacobian:
  `--rules` says which subnetworks are compared. `live`: the largest marginal variances among parameters with curvature, FedSI's
  choice without those the data says nothing of (as Daxberger et al. choose). `random`: drawn, nearly the worst case.
- The images are strokes on an empty ground, in the manner of handwritten digits; nothing is downloaded.

On a busy machine the ratio of CPU seconds says more than that of wall-clock seconds: both are printed.

    python bench/peers/laplace.py            # needs torch, laplace-torch and fedsi (a release build)
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
import time
import warnings
from typing import Any

# This file has the name of the peer's package: its folder must not come first.
sys.path = [folder for folder in sys.path if os.path.abspath(folder or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

warnings.simplefilter("ignore")

FEATURES, HIDDEN, CLASSES = 784, 100, 10
BODY = FEATURES * HIDDEN + HIDDEN
SUBNETWORK = BODY * 5 // 100
PRIOR_PRECISION = 1.0


def make_data(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of 28 x 28 in [0, 1]: for each class a stroke of three lines, its corners, place and size varied."""
    corners = np.random.default_rng(0).uniform(6, 22, (CLASSES, 4, 2))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, samples)
    pixels = np.stack(np.meshgrid(np.arange(28), np.arange(28), indexing="ij"), -1).reshape(-1, 1, 2)
    images = np.empty((samples, FEATURES))
    for row, label in enumerate(labels):
        points = corners[label] + rng.normal(0, 1, (4, 2))
        points = (points - 14) * rng.uniform(0.85, 1.15) + 14 + rng.normal(0, 1, 2)
        start, line = points[:-1], np.diff(points, axis=0)
        along = np.clip(((pixels - start) * line).sum(-1) / (line * line).sum(-1), 0, 1)
        distance = np.linalg.norm(pixels - start - along[..., None] * line, axis=-1).min(1)
        images[row] = np.clip(2.2 - distance, 0, 1)
    return torch.from_numpy(images), torch.from_numpy(labels)


def make_network(x: torch.Tensor, y: torch.Tensor, epochs: int) -> nn.Sequential:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)).double()
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(50):
            adam.zero_grad()
            nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            adam.step()
    return network.eval()


def relative(found: Any, expected: Any) -> float:
    found, expected = np.asarray(found), np.asarray(expected)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def by_fedsi(network: nn.Module, indices: torch.Tensor, x: Any, y: Any, test: Any, tolerance: float) -> Any:
    from fedsi.laplace import Laplace

    la = Laplace(
        network,
        "classification",
        "subnetwork",
        "full",
        subnetwork_indices=indices,
        prior_precision=PRIOR_PRECISION,
        tolerance=tolerance,
    )
    la.fit(x, y)
    return la, la(test, link_approx="probit")


def by_laplace_torch(network: nn.Module, indices: torch.Tensor, x: Any, y: Any, test: Any, batch: int) -> Any:
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    la = Laplace(
        copy.deepcopy(network),
        "classification",
        subset_of_weights="subnetwork",
        hessian_structure="full",
        subnetwork_indices=indices,
        prior_precision=PRIOR_PRECISION,
    )
    la.fit(DataLoader(TensorDataset(x, y), batch_size=batch))
    return la, torch.cat([la(rows, pred_type="glm", link_approx="probit") for rows in test.split(batch)])


def timed(work: Any) -> tuple[tuple[float, float], Any]:
    """Wall-clock and CPU seconds of a call, and its result."""
    begin, used = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - begin, time.process_time() - used), result


def measure(rule: str, network: nn.Module, x: Any, y: Any, test: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """One subnetwork, both ways."""
    from fedsi.laplace import Laplace

    chosen = Laplace(network, "classification", "subnetwork", subnetwork_indices=rule, subnetwork_size=SUBNETWORK, seed=3)
    indices = chosen.fit(x, y).subnetwork_indices
    live = chosen.explain().splitlines()[0]
    del chosen
    own: list[tuple[float, float]] = []
    peers: dict[str, list[tuple[float, float]]] = {}

    def fedsi() -> Any:
        seconds, result = timed(lambda: by_fedsi(network, indices, x, y, test, arguments.tolerance))
        own.append(seconds)
        return result

    def laplace_torch(threads: int, batch: int) -> Any:
        torch.set_num_threads(threads)
        seconds, result = timed(lambda: by_laplace_torch(network, indices, x, y, test, batch))
        peers.setdefault(f"batch {batch}, {threads} threads", []).append(seconds)
        return result

    la, probabilities = fedsi()
    variants = [(threads, batch) for threads in arguments.threads for batch in arguments.batches]
    for variant in variants:
        fedsi()
        peer, expected = laplace_torch(*variant)
    # Only the fastest variant is worth more turns.
    fastest = min(variants, key=lambda variant: min(peers[f"batch {variant[1]}, {variant[0]} threads"]))
    for _ in range(arguments.repeats - 1):
        fedsi()
        fedsi()
        peer, expected = laplace_torch(*fastest)
    mean, covariance = la.outputs(test)
    moments = [peer._glm_predictive_distribution(rows) for rows in test.split(50)]
    agreement = {
        "posterior covariance": relative(la.posterior_covariance, peer.posterior_covariance.detach()),
        "output mean": relative(mean, torch.cat([mean for mean, _ in moments])),
        "output covariance": relative(covariance, torch.cat([covariance for _, covariance in moments])),
        "probabilities": relative(probabilities, expected),
        "log marginal likelihood": relative(la.log_marginal_likelihood(), peer.log_marginal_likelihood().detach()),
    }
    best = {name: min(seconds) for name, seconds in peers.items()}
    name = min(best, key=lambda name: best[name])
    return {
        "rule": rule,
        "subnetwork": live,
        "rank": la._fitted.rank,
        "tolerance": arguments.tolerance,
        "fedsi_seconds": min(own)[0],
        "fedsi_cpu_seconds": min(cpu for _, cpu in own),
        "laplace_torch_seconds": best[name][0],
        "laplace_torch_cpu_seconds": min(cpu for seconds in peers.values() for _, cpu in seconds),
        "laplace_torch_variant": name,
        "laplace_torch_variants": {name: seconds[0] for name, seconds in best.items()},
        "ratio": best[name][0] / min(own)[0],
        "cpu_ratio": min(cpu for seconds in peers.values() for _, cpu in seconds) / min(cpu for _, cpu in own),
        "agreement": agreement,
    }


def main() -> None:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=250)
    parser.add_argument("--test", type=int, default=250, help="rows to predict (default 250)")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each (default 3)")
    parser.add_argument("--rules", nargs="+", default=["live", "random"], help="how subnetworks are chosen")
    parser.add_argument("--tolerance", type=float, default=0.0, help="of fedsi; 0 is exact (default)")
    parser.add_argument("--batches", type=int, nargs="+", default=[250, 50], help="batch sizes tried for laplace-torch")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores}), help="threads tried for it")
    arguments = parser.parse_args()

    x, y = make_data(arguments.samples, 1)
    test, _ = make_data(arguments.test, 2)
    network = make_network(x, y, 20)
    line = {
        "case": f"{FEATURES}-{HIDDEN}-{CLASSES}, {arguments.samples} samples, S = {SUBNETWORK}, {arguments.test} test rows",
        "mean_largest_probability": float(torch.softmax(network(x), 1).max(1).values.detach().mean()),
        "results": [measure(rule, network, x, y, test, arguments) for rule in arguments.rules],
        "load": os.getloadavg()[0],
        "cores": cores,
        "versions": {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    json.dump(line, sys.stdout)
    print(f"\n\n{line['case']}; load {line['load']:.1f} on {cores} cores")
    for found in line["results"]:
        print(f"\nrule {found['rule']}: {found['subnetwork']}\n{'':44}{'seconds':>9}{'CPU s':>9}")
        print(f"{'fedsi.Laplace, rank ' + str(found['rank']):44}{found['fedsi_seconds']:>9.3f}{found['fedsi_cpu_seconds']:>9.3f}")
        label = f"laplace-torch, {found['laplace_torch_variant']}"
        print(f"{label:44}{found['laplace_torch_seconds']:>9.3f}{found['laplace_torch_cpu_seconds']:>9.3f}")
        print(f"{'ratio':44}{found['ratio']:>9.1f}{found['cpu_ratio']:>9.1f}")
        for name, value in found["agreement"].items():
            print(f"{'agreement, ' + name:44}{value:>9.1e}")
    worst = max(value for found in line["results"] for value in found["agreement"].values())
    if worst > 1e-6:
        sys.exit(f"the two do not agree to 1e-6: {worst:.1e}")


if __name__ == "__main__":
    main()
