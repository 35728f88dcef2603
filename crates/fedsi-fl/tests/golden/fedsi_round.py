#!/usr/bin/env python3
"""One whole round of FedSI with two clients, computed by PyTorch: the golden case of `tests/golden_round.rs`.

Run with `python fedsi_round.py` in an environment that has torch; it reads `fedsi_round_draws.json` and writes
`fedsi_round.json`, both beside this file. It shares no code and no formula with fedsi: derivatives are autograd's,
posteriors are dense inverses.

`fedsi_round_draws.json` holds what fedsi draws at random, as plain data, so that the engine can run the same round:
    seed      the run's seed
    head      the frozen head's parameters: weight [classes, hidden], bias [classes] (float32 values)
    batches   per client, per epoch: the order of its samples; a step takes `batch` of them in turn
`FEDSI_UPDATE_SNAPSHOTS=1 cargo test -p fedsi-fl --test golden_round draws` writes it anew.

`fedsi_round.json`; parameters are flat in PyTorch's order (0.weight, 0.bias, 2.weight, 2.bias), the body first:
    network   inputs, hidden, classes: Linear - ReLU - Linear, of which the last layer is the head
    settings  rate, batch, epochs (Adam, PyTorch's defaults), share (of the body in the subnetwork), alpha
    server    mean, variance: the Gaussian over the body before the round (float32 values)
    clients   a list, each with
      inputs [samples, inputs], labels
      trained       body and head after local training in float32: Adam on
                    mean cross-entropy of the batch + 1/(2n) sum_r (theta_r - mean_r)^2 / variance_r, from the mean
      trained_f64   the same computed in float64: how far rounding alone moves the result
      loss          mean cross-entropy a sample over the last epoch, before each step, in float32
      dead_units    hidden units that no sample of the client activates
      diag_ggn      at `trained`, in float64: diagonal of sum_n J_n' L_n J_n over the body, L_n the Hessian of the
                    cross-entropy in the outputs
      marginal_variances    1 / (diag_ggn + 1 / variance)
      rules         by name of the selection rule (variance, live):
        selected    ascending indices of the subnetwork
        precision, covariance   [selected, selected], flat: J_S' L J_S + diag(1/variance_S), and its inverse
        upload_variances        the covariance's diagonal, rounded to float32
    aggregates  a list: rule, weighting (uniform, samples), average (deviation, variance, selected), and the server's
                new Gaussian, mean and variance (float64, then rounded to float32)
Floats are written so that they read back exactly.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

HERE = Path(__file__).parent
INPUTS, HIDDEN, CLASSES = 6, 8, 3
BODY = HIDDEN * (INPUTS + 1)
RATE, BATCH, EPOCHS = 0.01, 5, 3
SHARE, ALPHA = 0.3, 0.25
SAMPLES = (20, 24)
DEAD = (2, 5)  # units that are dead for both clients; unit 7 is dead for the second alone
HALF_DEAD = 7


def outputs(flat, x):
    """The network's logits at flat parameters."""
    sizes = [HIDDEN * INPUTS, HIDDEN, CLASSES * HIDDEN, CLASSES]
    w1, b1, w2, b2 = torch.split(flat, sizes)
    hidden = F.relu(x @ w1.view(HIDDEN, INPUTS).T + b1)
    return hidden @ w2.view(CLASSES, HIDDEN).T + b2


def server_gaussian(generator):
    """Mean and variance of the body. Some units are dead, and share one variance: rules must break the tie."""
    uniform = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)
    weight = (2 * uniform(HIDDEN, INPUTS) - 1) / INPUTS**0.5
    bias = (2 * uniform(HIDDEN) - 1) / INPUTS**0.5
    variance = 0.3 + 1.1 * uniform(HIDDEN, INPUTS + 1)
    for unit in DEAD:
        bias[unit] = -8.0
        variance[unit] = 1.0
    weight[HALF_DEAD] *= 0.1
    weight[HALF_DEAD, 0] = 2.0
    bias[HALF_DEAD] = -0.2
    mean = torch.cat([weight.flatten(), bias])
    variance = torch.cat([variance[:, :INPUTS].flatten(), variance[:, INPUTS]])
    return mean.float(), variance.float()


def samples(client, count, generator):
    """Clouds around a corner for each class; the sign of the first input differs between the clients."""
    labels = torch.tensor([(row * (client + 1) + client) % CLASSES for row in range(count)])
    corners = torch.where(torch.arange(INPUTS) % CLASSES == labels[:, None], 1.0, -1.0)
    x = corners + 0.9 * torch.randn(count, INPUTS, generator=generator)
    x[:, 0] = (x[:, 0].abs() + 0.3) * (1 if client == 0 else -1)
    return x.clamp(-2.5, 2.5), labels


def train(mean, variance, head, x, labels, orders, dtype):
    """Local MAP training; the head is frozen. Returns all parameters and the last epoch's mean loss."""
    mean, variance, head, x = (value.to(dtype) for value in (mean, variance, head, x))
    body = mean.clone().requires_grad_()
    adam = torch.optim.Adam([body], lr=RATE, foreach=False)
    n = len(labels)
    for order in orders:
        total = 0.0
        for start in range(0, n, BATCH):
            rows = order[start : start + BATCH]
            loss = F.cross_entropy(outputs(torch.cat([body, head]), x[rows]), labels[rows])
            prior = ((body - mean) ** 2 / variance).sum() / (2 * n)
            adam.zero_grad()
            (loss + prior).backward()
            adam.step()
            total += loss.item() * len(rows)
    return torch.cat([body.detach(), head]), total / n


def ggn(flat, x, labels):
    """sum_n J_n' L_n J_n over the body, by autograd alone."""
    jacobian = torch.autograd.functional.jacobian(lambda p: outputs(p, x), flat)[..., :BODY]
    logits = outputs(flat, x)
    total = torch.zeros(BODY, BODY, dtype=torch.float64)
    for j, f, y in zip(jacobian, logits, labels):
        hessian = torch.func.hessian(lambda f: F.cross_entropy(f, y))(f)
        total += j.T @ hessian @ j
    return total


def select(rule, size, h, v):
    """The `size` largest marginal variances; under `live` those with curvature before all others. Ties: lower index."""
    preferred = [value > 0 or rule == "variance" for value in h.tolist()]
    ranked = sorted(range(BODY), key=lambda r: (not preferred[r], -v[r].item(), r))
    last, first_out = ranked[size - 1], ranked[size]
    tied = h[last] == 0 and h[first_out] == 0 and v[last] == v[first_out]
    clear = preferred[last] != preferred[first_out] or abs(v[last] - v[first_out]) > 1e-3 * v[last]
    assert tied or clear, f"{rule}: rounding could change the choice; take another seed"
    assert tied == (rule == "variance"), f"{rule}: the case should have a tie at the border of `variance` alone"
    return sorted(ranked[:size])


def posterior(rule, size, full, v, variance):
    selected = select(rule, size, full.diagonal(), v)
    precision = full[selected][:, selected] + torch.diag(1 / variance[selected])
    covariance = torch.linalg.inv(precision)
    return {
        "selected": selected,
        "precision": precision.flatten().tolist(),
        "covariance": covariance.flatten().tolist(),
        "upload_variances": covariance.diagonal().float().tolist(),
    }


def client_case(client, draws, mean, variance, head, generator):
    x, labels = samples(client, SAMPLES[client], generator)
    orders = draws["batches"][client]
    assert len(orders) == EPOCHS and all(sorted(order) == list(range(len(labels))) for order in orders)
    trained, loss = train(mean, variance, head, x, labels, orders, torch.float32)
    trained_f64, _ = train(mean, variance, head, x, labels, orders, torch.float64)
    flat, x64, g = trained.double(), x.double(), variance.double()
    full = ggn(flat, x64, labels)
    v = 1 / (full.diagonal() + 1 / g)
    w1, b1 = flat[: HIDDEN * INPUTS].view(HIDDEN, INPUTS), flat[HIDDEN * INPUTS : BODY]
    active = (x64 @ w1.T + b1 > 0).any(dim=0)
    dead = [unit for unit in range(HIDDEN) if not active[unit]]
    assert set(DEAD) <= set(dead) and (HALF_DEAD in dead) == (client == 1), f"client {client}: dead {dead}"
    size = round(SHARE * BODY)
    return {
        "inputs": x.tolist(),
        "labels": labels.tolist(),
        "trained": trained.tolist(),
        "trained_f64": trained_f64.tolist(),
        "loss": loss,
        "dead_units": dead,
        "diag_ggn": full.diagonal().tolist(),
        "marginal_variances": v.tolist(),
        "rules": {rule: posterior(rule, size, full, v, g) for rule in ("variance", "live")},
    }


def aggregate(rule, weighting, average, clients):
    """The server's new Gaussian, parameter by parameter."""
    weights = [1.0 if weighting == "uniform" else float(len(client["labels"])) for client in clients]
    shares = [weight / sum(weights) for weight in weights]
    mean = [sum(s * c["trained"][r] for s, c in zip(shares, clients)) for r in range(BODY)]
    sent = [dict(zip(c["rules"][rule]["selected"], c["rules"][rule]["upload_variances"])) for c in clients]
    variance = []
    for r in range(BODY):
        heard = [(s, one[r]) for s, one in zip(shares, sent) if r in one]
        if not heard:
            variance.append(ALPHA)
        elif average == "deviation":
            variance.append(sum(s * value**0.5 for s, value in heard) ** 2)
        elif average == "variance":
            variance.append(sum(s * value for s, value in heard))
        else:
            variance.append(sum(s * value for s, value in heard) / sum(s for s, _ in heard))
    to_f32 = lambda values: torch.tensor(values, dtype=torch.float64).float().tolist()
    return {
        "rule": rule,
        "weighting": weighting,
        "average": average,
        "mean": to_f32(mean),
        "variance": to_f32(variance),
    }


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(11)
    draws = json.loads((HERE / "fedsi_round_draws.json").read_text())
    head = torch.tensor(draws["head"], dtype=torch.float64).float()
    mean, variance = server_gaussian(generator)
    clients = [client_case(client, draws, mean, variance, head, generator) for client in range(len(SAMPLES))]
    case = {
        "made_by": f"fedsi_round.py, torch {torch.__version__.split('+')[0]}",
        "network": {"inputs": INPUTS, "hidden": HIDDEN, "classes": CLASSES},
        "settings": {"rate": RATE, "batch": BATCH, "epochs": EPOCHS, "share": SHARE, "alpha": ALPHA},
        "server": {"mean": mean.tolist(), "variance": variance.tolist()},
        "clients": clients,
        "aggregates": [
            aggregate(rule, weighting, average, clients)
            for rule in ("variance", "live")
            for weighting in ("uniform", "samples")
            for average in ("deviation", "variance", "selected")
        ],
    }
    (HERE / "fedsi_round.json").write_text(json.dumps(case) + "\n")
    for client in clients:
        pairs = zip(client["trained"], client["trained_f64"])
        print("dead", client["dead_units"], "loss", client["loss"], "f32 - f64", max(abs(a - b) for a, b in pairs))


if __name__ == "__main__":
    main()
