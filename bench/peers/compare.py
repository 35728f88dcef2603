"""Runs fedsi, PyTorch and JAX in turns, on the CPU or a GPU, on every case and prints the best time of each side by side.

The turns alternate (fedsi, torch, jax, fedsi, ...) so that a slow minute of the machine meets all of them, and
every turn is a fresh process. Called by `run`, which sees to the environment and the build.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from cases import CASES

HERE = Path(__file__).parent
THREADS = len(os.sched_getaffinity(0))


def commands(fedsi, case, repeats, device):
    """The command of every peer, with what it adds to the environment; each prints one JSON line on stdout."""
    shared = ["--case", case, "--repeats", str(repeats)]
    own = [fedsi, "round", *shared, "--threads", str(THREADS), "--device", device]
    torch = [sys.executable, str(HERE / "torch_fedavg.py"), *shared, "--device", device]
    jax = [sys.executable, str(HERE / "jax_fedavg.py"), *shared]
    if device == "cpu":
        return {"fedsi": (own, {}), "torch": (torch, {}), "jax": (jax, {})}
    # On a GPU JAX's products are TF32 unless it is told otherwise; fedsi's are f32.
    jax += ["--batching", "vmap"]
    return {
        "fedsi": (own, {}),
        "torch": (torch, {}),
        "jax": (jax, {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}),
        "jax tf32": (jax, {}),
    }


def measure(command, environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(results):
    """A Markdown table: seconds a round, and how many times faster fedsi is."""
    peers = list(next(iter(results.values())))
    others = peers[1:]
    lines = [
        "| case | " + " | ".join([f"{peer} s" for peer in peers] + [f"{peer} / fedsi" for peer in others]) + " |",
        "|---|" + "---:|" * (len(peers) + len(others)),
    ]
    for case, turns in results.items():
        best = {peer: min(turn["seconds_best"] for turn in turns[peer]) for peer in peers}
        cells = [f"{best[peer]:.4f}" for peer in peers] + [f"{best[peer] / best['fedsi']:.2f}" for peer in others]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fedsi", required=True, help="the fedsi-bench binary")
    parser.add_argument("--results", type=Path, required=True, help="where every turn's JSON goes")
    parser.add_argument("--quick", action="store_true", help="the small cases only, fewer repeats")
    parser.add_argument("--case", action="append", choices=list(CASES), help="this case only; may be repeated")
    parser.add_argument("--turns", type=int, help="how often each is started; two or three times unless said")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--without-jax", action="store_true", help="leave JAX out")
    options = parser.parse_args()
    wanted = options.case or [case.name for case in CASES.values() if not (options.quick and case.is_large)]
    cases = [CASES[name] for name in wanted]

    results = {case.name: {} for case in cases}
    for case in cases:
        name = case.name
        turns, repeats = (2, 3) if options.quick else (2, 2) if case.is_large else (3, 5)
        turns = options.turns or turns
        for turn in range(turns):
            for peer, (command, environment) in commands(options.fedsi, name, repeats, options.device).items():
                if peer.startswith("jax") and options.without_jax:
                    continue
                measured = measure(command, environment)
                results[name].setdefault(peer, []).append(measured)
                print(f"{name} turn {turn + 1}/{turns}: {peer} {measured['seconds_best']:.4f} s", file=sys.stderr)

    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(json.dumps(results, indent=1) + "\n")
    device = results[cases[0].name]["fedsi"][0].get("device", "cpu")
    print(f"One FedAvg round, seconds, best of all turns, {THREADS} cores, {device}\n\n{table(results)}\n")
    print(f"every turn: {options.results}")


if __name__ == "__main__":
    main()
