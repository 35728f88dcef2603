"""One FedAvg round in PyTorch eager, client after client, on the CPU or a GPU.

Written as a careful PyTorch user would: tensors in memory and an index permutation instead of a
DataLoader, one network reused for all clients, no bookkeeping in the loop. One and two threads, and the plain
and the fused Adam, are tried, and the fastest combination is measured. On a GPU products and convolutions are in f32, not
TF32, and data is resident there.
"""

import torch
from torch import nn

from cases import BATCH, CASES, CLASSES, CLIENTS, LEARNING_RATE, SEED, arguments, make_data, measure


def build(case):
    if case.network == "mlp":
        return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, CLASSES))
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES),
    )  # fmt: skip


def train_client(network, inputs, labels, epochs, adam):
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, **adam)
    loss_of = nn.functional.cross_entropy
    for _ in range(epochs):
        for batch in torch.randperm(len(inputs), device=inputs.device).split(BATCH):
            optimiser.zero_grad(set_to_none=True)
            loss_of(network(inputs[batch]), labels[batch]).backward()
            optimiser.step()


def fedavg_round(network, server, inputs, labels, adam, epochs):
    """Trains every client from `server` (a list of tensors) and returns the average of their parameters."""
    total = [torch.zeros_like(p) for p in server]
    for client in range(CLIENTS):
        with torch.no_grad():
            for parameter, value in zip(network.parameters(), server):
                parameter.copy_(value)
        train_client(network, inputs[client], labels[client], epochs, adam)
        with torch.no_grad():
            torch._foreach_add_(total, list(network.parameters()))
    torch._foreach_div_(total, CLIENTS)
    return total


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts to try (default 1 2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    if on_gpu:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    case = CASES[options.case]
    inputs, labels = (torch.from_numpy(array).to(options.device) for array in make_data(case))
    torch.manual_seed(SEED)
    network = build(case).to(options.device)
    start = [p.detach().clone() for p in network.parameters()]

    def variant(threads, adam):
        def one_round(epochs):
            torch.set_num_threads(threads)
            averaged = fedavg_round(network, start, inputs, labels, adam, epochs)
            if not all(torch.isfinite(p).all() for p in averaged):
                raise SystemExit("the averaged model is not finite: this measured nothing")

        return threads, one_round

    variants = {
        f"{label}, threads {threads}": variant(threads, adam)
        for threads in ([1] if on_gpu else options.threads)
        for label, adam in (("adam", {}), ("fused adam", {"fused": True}))
    }
    device = torch.cuda.get_device_name() if on_gpu else "cpu"
    measure("torch", case, variants, options.repeats, {"torch": torch.__version__, "device": device})


if __name__ == "__main__":
    main()
