"""Tests and measurements of fedsi on a GPU: the steps of `run`, one after another, each with its table.

Needs the standard library alone; the steps `limits` and `peers` also PyTorch and JAX with CUDA. A step that fails is reported and the
others go on; the exit status says whether any did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE.parent / "peers"
STEPS = ["tests", "sanitizer", "limits", "peers", "growth", "posteriors", "cifar", "runs"]

# Seeds that nothing was chosen on.
FIRST_SEED = 101


class Measurement:
    """Where programs and data are, and where results go."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.programs: Path = options.programs
        self.data: Path | None = options.data
        self.out: Path = options.out
        self.devices: list[str] = options.device or ["cuda", "cpu"]
        self.out.mkdir(parents=True, exist_ok=True)

    def fedsi(self, *arguments: str) -> list[str]:
        return [str(self.programs / "fedsi"), *arguments]

    def bench(self, *arguments: str) -> dict:
        """One line of `fedsi-bench round`."""
        command = [str(self.programs / "fedsi-bench"), "round", *arguments]
        return json.loads(output(command).strip().splitlines()[-1])

    def save(self, name: str, found: object) -> None:
        (self.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")

    def run(self, name: str, *arguments: str) -> dict:
        """A run of fedsi in a folder of its own; its summary."""
        folder = self.out / "runs" / name
        output(self.fedsi("run", "--quiet", "--force", "--out", str(folder), *arguments))
        return json.loads((folder / "summary.json").read_text())


def output(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def tests(measurement: Measurement) -> str:
    """Every test of fedsi-cuda; without a GPU they fail here instead of being skipped."""
    rows = []
    for program in sorted((measurement.programs / "tests").iterdir()):
        text = output([str(program)], FEDSI_REQUIRE_GPU="1")
        rows.append([program.name, next(line for line in text.splitlines() if line.startswith("test result"))])
    return table(["test program", "result"], rows)


def sanitizer(measurement: Measurement) -> str:
    """The tests that run kernels, under compute-sanitizer's memory check."""
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        return "compute-sanitizer is not on this machine: not checked"
    program = measurement.programs / "tests" / "device"
    text = output([found, "--tool", "memcheck", "--error-exitcode", "9", str(program), "--test-threads", "1"], FEDSI_REQUIRE_GPU="1")
    return next((line for line in text.splitlines() if "ERROR SUMMARY" in line), "no summary")


def limits(measurement: Measurement) -> str:
    """What this machine's matrix products and memory allow, by PyTorch."""
    import torch

    def best(work, repeats: int = 5) -> float:
        work()
        seconds = []
        for _ in range(repeats):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            work()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
        return min(seconds)

    rows, found = [], {}
    for device, size in (("cuda", 8192), ("cpu", 2048)):
        for kind, dtype, tf32 in (("f32", torch.float32, False), ("TF32", torch.float32, True), ("f64", torch.float64, False)):
            if device == "cpu" and tf32:
                continue
            torch.backends.cuda.matmul.allow_tf32 = tf32
            a = torch.rand(size, size, dtype=dtype, device=device)
            rate = 2 * size**3 / best(lambda a=a: a @ a) / 1e12
            rows.append([f"{device}, product of {size} x {size}, {kind}", f"{rate:.2f} TFLOP/s"])
            found[f"{device} {kind}"] = rate
        values = torch.rand(1 << 28, device=device)
        rate = 2 * values.nbytes / best(lambda values=values: values.clone()) / 1e9
        rows.append([f"{device}, copy of 1 GiB, bytes read and written", f"{rate:.0f} GB/s"])
        found[f"{device} bandwidth"] = rate
    found["names"] = [torch.cuda.get_device_name(), f"{torch.get_num_threads()} threads"]
    measurement.save("limits", found)
    return table(["", "measured"], rows)


def peers(measurement: Measurement) -> str:
    """A FedAvg round of fedsi, PyTorch eager and JAX vmapped on this GPU, in turns."""
    results = measurement.out / "peers.json"
    command = [sys.executable, str(PEERS / "compare.py"), "--fedsi", str(measurement.programs / "fedsi-bench")]
    return output([*command, "--results", str(results), "--device", "cuda"])


def growth(measurement: Measurement) -> str:
    """Seconds a round as samples, clients, the hidden layer and the subnetwork grow, on the GPU and on the CPU."""
    width = lambda units: f'model.body=["flatten", {{linear = {units}}}, "relu"]'  # noqa: E731
    sweeps = {
        "samples": [("mlp-small", ["--samples", str(n)]) for n in (125, 250, 500, 1000, 2000, 4500)],
        "clients": [("mlp-small", ["--clients", str(n)]) for n in (1, 5, 10, 15, 30, 60, 120)],
        "width": [("mlp-small", ["--set", width(n)]) for n in (50, 100, 128, 200, 400, 800)],
        "subnetwork": [
            ("mlp-small", ["--method", "fedsi", "--set", "fedsi.posterior_interval=1", "--set", f"fedsi.subnetwork={n}"])
            for n in (0.01, 0.03, 0.05, 0.09, 0.15)
        ],
    }
    found: dict[str, list] = {}
    rows = []
    for name, points in sweeps.items():
        for case, arguments in points:
            point = {
                device: measurement.bench("--case", case, "--repeats", "5", "--device", device, *arguments)
                for device in measurement.devices
            }
            found.setdefault(name, []).append({"arguments": arguments, **point})
            seconds = [f"{1000 * one['seconds_best']:.2f}" for one in point.values()]
            rows.append([f"{name}: {arguments[-1]}", *seconds])
    measurement.save("growth", found)
    return table(["MLP", *(f"{device}, ms a round" for device in measurement.devices)], rows)


def posteriors(measurement: Measurement) -> str:
    """What share of a FedSI run is posteriors, and how results on the GPU compare with the CPU's."""
    rows, found = [], []
    for dataset, size, rounds in (("mnist", "small", 100), ("mnist", "large", 100), ("cifar-10", "small", 100)):
        for device in ("cuda", "cpu") if size == "small" else ("cuda",):
            seed = str(FIRST_SEED)
            settings = ["--dataset", dataset, "--size", size, "--rounds", str(rounds), "--seed", seed]
            name = f"fedsi-{dataset}-{size}-{device}"
            summary = measurement.run(name, *settings, "--device", device, "--data-dir", str(measurement.data))
            seconds = summary["seconds"]
            found.append({"run": name, "seconds": seconds, "accuracy": summary["accuracy"], "nll": summary["nll"]})
            cells = [seconds[part] for part in ("train", "posterior", "evaluate", "total")]
            rows.append([name, *(f"{value:.2f}" for value in cells), f"{summary['accuracy']:.4f}", f"{summary['nll']:.4f}"])
    measurement.save("posteriors", found)
    return table(["100 rounds", "training s", "posteriors s", "evaluation s", "total s", "accuracy", "NLL"], rows)


def cifar(measurement: Measurement) -> str:
    """CIFAR-10-large, FedSI, 800 rounds."""
    settings = ["--dataset", "cifar-10", "--size", "large", "--rounds", "800", "--seed", str(FIRST_SEED), "--device", "cuda"]
    summary = measurement.run("cifar-10-large", *settings, "--data-dir", str(measurement.data))
    measurement.save("cifar", summary)
    seconds = summary["seconds"]
    return (
        f"CIFAR-10-large, FedSI, 800 rounds: {seconds['total']:.0f} s (training {seconds['train']:.0f}, posteriors "
        f"{seconds['posterior']:.0f}, evaluation {seconds['evaluate']:.0f}), accuracy {summary['accuracy']:.4f}"
    )


def runs(measurement: Measurement) -> str:
    """Twelve methods, three seeds each, of MNIST-small with 800 rounds in one command, beside one run alone."""
    data = ["--data-dir", str(measurement.data), "--dataset", "mnist", "--size", "small", "--rounds", "800", "--device", "cuda"]
    alone = measurement.run("mnist-small-alone", *data, "--seed", str(FIRST_SEED))
    folder = measurement.out / "runs" / "compare"
    # The first in the config, and as many after it.
    seeds = ["--seed", str(FIRST_SEED), "--seeds", "3"]
    begun = time.monotonic()
    output(measurement.fedsi("compare", "--methods", "all", *seeds, "--out", str(folder), "--force", *data))
    together = time.monotonic() - begun
    measurement.save("runs", {"alone": alone["seconds"], "together": together})
    return f"FedSI alone {alone['seconds']['total']:.1f} s; 12 methods x 3 seeds in one command {together:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, required=True, help="fedsi, fedsi-bench and tests/")
    parser.add_argument("--data", type=Path, help="the folder with MNIST and CIFAR-10")
    parser.add_argument("--out", type=Path, default=Path("target/gpu"), help="where results go")
    parser.add_argument("--device", action="append", choices=["cuda", "cpu"], help="for growth; both unless said")
    parser.add_argument("--step", action="append", choices=STEPS, help="this step only; may be repeated")
    options = parser.parse_args()
    measurement = Measurement(options)
    failed = []
    for name in options.step or STEPS:
        print(f"\n## {name}\n", flush=True)
        if options.data is None and name in ("posteriors", "cifar", "runs"):
            print("left out: it needs --data", flush=True)
            continue
        begun = time.monotonic()
        try:
            text = globals()[name](measurement)
        except Exception as error:  # whatever it is, the other steps go on
            failed.append(name)
            text = f"FAILED: {error}"
        (measurement.out / f"{name}.md").write_text(text + "\n")
        print(f"{text}\n\n({time.monotonic() - begun:.0f} s)", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
