"""Makes the cases beside this file: what `fedsi laplace` should find, computed the slow and obvious way.

Everything is in double precision, by PyTorch's autograd and dense inverses:

    python make.py            # needs torch, numpy and safetensors; writes case-*/
"""
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent

# name, input, layers as case.json has them, task, noise, training samples, test samples, subnetwork
CASES = [
    ("case-cnn", [2, 7, 6], [{"conv": {"out": 3, "kernel": 3}}, "relu", {"conv": {"out": 2, "kernel": 2, "stride": 2, "padding": 1}},
     "tanh", {"maxpool": 2}, "flatten", {"linear": 5}, "tanh", {"linear": 10}], "classification", None, 9, 4, 30),
    ("case-mlp", [5], [{"linear": 6}, "relu", {"linear": 4}, "tanh", {"linear": 1}], "regression", 0.4, 12, 5, 20),
]


def build(shape, layers):
    modules, size = [], shape
    for layer in layers:
        if layer == "relu":
            module = nn.ReLU()
        elif layer == "tanh":
            module = nn.Tanh()
        elif layer == "flatten":
            module = nn.Flatten()
        elif "maxpool" in layer:
            module = nn.MaxPool2d(layer["maxpool"])
        elif "linear" in layer:
            module = nn.Linear(size[-1], layer["linear"])
        else:
            conv = layer["conv"]
            module = nn.Conv2d(size[0], conv["out"], conv["kernel"], conv.get("stride", 1), conv.get("padding", 0))
        modules.append(module)
        size = list(module(torch.zeros(1, *size)).shape[1:])
    return nn.Sequential(*modules)


def jacobian(model, body, inputs):
    rows = []
    for x in inputs:
        outputs = model(x[None])[0]
        for output in outputs:
            grads = torch.autograd.grad(output, body, retain_graph=True)
            rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows).reshape(len(inputs), -1, rows[0].numel())


for seed, (name, shape, layers, task, noise, count, tests, size) in enumerate(CASES):
    torch.manual_seed(seed)
    model = build(shape, layers)
    body = list(model.parameters())[:-2]
    train, test = torch.randn(count, *shape), torch.randn(tests, *shape)
    total = sum(p.numel() for p in body)
    prior = torch.rand(total) + 0.1
    outputs = model(train).detach()
    width = outputs.shape[1]
    J = jacobian(model, body, train)
    if task == "classification":
        p = outputs.softmax(1)
        labels = torch.arange(count) % width
        weights = torch.stack([torch.diag(q) - q[:, None] @ q[None] for q in p])
    else:
        labels = torch.randn(count, width)
        weights = torch.stack([torch.eye(width) / noise**2] * count)
    H = torch.einsum("noi,nop,npj->ij", J, weights, J)
    diagonal = H.diagonal()
    variances = 1 / (diagonal + 1 / prior)
    order = sorted(range(total), key=lambda r: (-variances[r].item(), r))
    chosen = torch.tensor(sorted(order[:size]))
    ggn = H[chosen][:, chosen]
    covariance = torch.linalg.inv(ggn + torch.diag(1 / prior[chosen]))
    logits = model(test).detach()
    Jt = jacobian(model, body, test)[:, :, chosen]
    functional = Jt @ covariance @ Jt.transpose(1, 2)
    spread = functional.diagonal(dim1=1, dim2=2)
    expected = {"subnetwork": chosen, "diag_ggn": diagonal, "ggn": ggn, "covariance": covariance, "logits": logits,
                "functional_variance": functional}
    if task == "classification":
        expected["probit"] = (logits / (1 + math.pi / 8 * spread).sqrt()).softmax(1)
    else:
        expected["predictive_variance"] = spread + noise**2
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    case = {"task": task, "layers": layers, "input": shape, "outputs": width, "body_parameters": total,
            "subnetwork_size": size, "noise_std": noise}
    (folder / "case.json").write_text(json.dumps(case) + "\n")
    dense = lambda tensors: {key: value.detach().contiguous() for key, value in tensors.items()}
    save_file(dense(dict(model.state_dict())), folder / "model.safetensors")
    save_file(dense({"train_x": train, "train_y": labels, "test_x": test, "prior_variance": prior}), folder / "data.safetensors")
    save_file(dense(expected), folder / "expected.safetensors")
