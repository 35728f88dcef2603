"""Makes training_step.json: what PyTorch computes in one and in five training steps.

    python make_training_step.py            # writes training_step.json beside this file

Three small networks, a batch of seven samples each. Parameters, inputs and targets are rounded to
float32 before anything is computed, so that a float32 and a float64 implementation start from the
same numbers; everything that follows is float64. JSON numbers are the shortest decimals that read
back as the same float64.

`float32_deviation` is how far PyTorch's own float32 lands from its float64, as max|a-b| / max|b|:
a float32 implementation cannot be asked for much better.
"""

import json
from pathlib import Path

import torch
from torch import nn

SAMPLES = 7
STEPS = (1, 5)
OPTIMISERS = {
    "adam": ({"kind": "adam", "lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
             lambda p: torch.optim.Adam(p, lr=1e-2)),
    "sgd": ({"kind": "sgd", "lr": 0.1, "momentum": 0.0},
            lambda p: torch.optim.SGD(p, lr=0.1)),
    "sgd_momentum": ({"kind": "sgd", "lr": 0.05, "momentum": 0.9},
                     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
}
CASES = [
    {"name": "mlp", "task": "classification", "input": [6], "outputs": 3,
     "layers": [{"linear": 5}, "relu", {"linear": 3}]},
    {"name": "cnn", "task": "classification", "input": [2, 8, 8], "outputs": 4,
     "layers": [{"conv": {"out": 3, "kernel": 3, "padding": 1}}, "relu", {"maxpool": 2},
                {"conv": {"out": 4, "kernel": 3}}, "tanh", "flatten", {"linear": 5}, "relu", {"linear": 4}]},
    {"name": "regression", "task": "regression", "input": [4], "outputs": 2,
     "layers": [{"linear": 6}, "tanh", {"linear": 2}]},
]


def build(case):
    """The Sequential that `layers` describes, in PyTorch's default initialisation."""
    layers, sample = [], torch.zeros(1, *case["input"])
    for layer in case["layers"]:
        match layer:
            case {"linear": out}:
                module = nn.Linear(sample.shape[1], out)
            case {"conv": conv}:
                module = nn.Conv2d(sample.shape[1], conv["out"], conv["kernel"], padding=conv.get("padding", 0))
            case {"maxpool": size}:
                module = nn.MaxPool2d(size)
            case "relu":
                module = nn.ReLU()
            case "tanh":
                module = nn.Tanh()
            case "flatten":
                module = nn.Flatten()
            case _:
                raise ValueError(f"unknown layer {layer}")
        layers.append(module)
        with torch.no_grad():
            sample = module(sample)
    return nn.Sequential(*layers)


def loss_of(case, outputs, targets):
    """Mean cross-entropy, or the mean over samples of half the squared error summed over outputs."""
    if case["task"] == "classification":
        return nn.functional.cross_entropy(outputs, targets)
    return 0.5 * ((outputs - targets) ** 2).sum(dim=1).mean()


def flat(tensors):
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def load(network, parameters):
    with torch.no_grad():
        nn.utils.vector_to_parameters(parameters.clone(), network.parameters())


def compute(case, network, initial, inputs, targets):
    """Every recorded quantity as tensors, in the precision of `initial`."""
    network = network.to(initial.dtype)
    load(network, initial)
    network.zero_grad()
    outputs = network(inputs)
    loss = loss_of(case, outputs, targets)
    loss.backward()
    recorded = {
        "logits": outputs.detach(),
        "loss": loss.detach(),
        "gradient": flat(p.grad for p in network.parameters()),
    }
    for name, (_, make) in OPTIMISERS.items():
        load(network, initial)
        optimiser = make(network.parameters())
        for step in range(1, max(STEPS) + 1):
            optimiser.zero_grad()
            loss_of(case, network(inputs), targets).backward()
            optimiser.step()
            if step in STEPS:
                recorded[f"{name} after {step}"] = flat(network.parameters())
    return recorded


def deviation(a, b):
    return float((a.double() - b).abs().max() / b.abs().max())


def make(case, seed):
    torch.manual_seed(seed)
    network = build(case)
    initial = flat(network.parameters())
    inputs = torch.randn(SAMPLES, *case["input"])
    if case["task"] == "classification":
        targets = torch.randint(case["outputs"], (SAMPLES,))
        targets_of = dict.fromkeys((torch.float32, torch.float64), targets)
    else:
        targets = torch.randn(SAMPLES, case["outputs"])
        targets_of = {torch.float32: targets, torch.float64: targets.double()}

    exact = compute(case, network, initial.double(), inputs.double(), targets_of[torch.float64])
    single = compute(case, network, initial.float(), inputs.float(), targets_of[torch.float32])

    def numbers(tensor):
        return tensor.double().tolist() if tensor.is_floating_point() else tensor.tolist()

    return case | {
        "samples": SAMPLES,
        "parameters": numbers(initial),
        "inputs": numbers(inputs.reshape(-1)),
        "targets": numbers(targets.reshape(-1)),
        "logits": numbers(exact["logits"].reshape(-1)),
        "loss": float(exact["loss"]),
        "gradient": numbers(exact["gradient"]),
        "trained": [
            {"name": name, "optimiser": options, "steps": step, "parameters": numbers(exact[f"{name} after {step}"])}
            for name, (options, _) in OPTIMISERS.items()
            for step in STEPS
        ],
        "float32_deviation": max(deviation(single[key], exact[key]) for key in exact),
    }


def main():
    golden = {
        "made_by": "make_training_step.py",
        "torch": torch.__version__,
        "precision": "float64; parameters, inputs and targets are exact in float32",
        "order": "parameters() order: weight [out,in] or [out,in,kh,kw] row-major, then bias, layer after layer; "
                 "inputs, targets and logits are row-major, one sample after another",
        "loss": "classification: mean cross-entropy; regression: mean over samples of 0.5 * sum_o (f_o - y_o)^2",
        "steps": "each step uses the whole batch; every optimiser starts from `parameters` with fresh state",
        "cases": [make(case, seed) for seed, case in enumerate(CASES, start=1)],
    }
    path = Path(__file__).with_name("training_step.json")
    path.write_text(json.dumps(golden, indent=None, separators=(",", ":")).replace('{"name":"', '\n{"name":"') + "\n")
    for case in golden["cases"]:
        smallest = min((abs(g) for g in case["gradient"] if g), default=0)
        print(f"{case['name']}: {len(case['parameters'])} parameters, loss {case['loss']:.6f}, "
              f"{sum(g == 0 for g in case['gradient'])} zero gradients, smallest other {smallest:.1e}, "
              f"float32 deviation {case['float32_deviation']:.1e}")
    print(f"{path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
