"""What a module must be for the engine, found by evaluating it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch


def depends_on_other_rows(evaluate: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> bool:
    """Whether the outputs for a row change when it is evaluated alone."""
    together = evaluate(rows)
    for index in range(len(rows)):
        try:
            alone = evaluate(rows[index : index + 1])[0]
        except (RuntimeError, ValueError):
            # Normalisation over a batch of one value is refused by torch.
            return True
        # Sums of another order differ in the last digits.
        if not torch.allclose(alone, together[index], rtol=1e-6, atol=1e-9, equal_nan=True):
            return True
    return False


def changing_buffers(module: torch.nn.Module, rows: torch.Tensor) -> list[str]:
    """The buffers that a forward pass in training mode changes: running statistics, as a rule."""
    trained = copy.deepcopy(module).float().train()
    before = {name: buffer.detach().clone() for name, buffer in trained.named_buffers()}
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            trained(rows)
    except (RuntimeError, ValueError):
        # A pass that fails, on inputs that are not the user's, may still have changed some.
        tracking = [name for name, part in module.named_modules() if getattr(part, "track_running_stats", False)]
        return [f"{name}.running_mean" for name in tracking]
    after = dict(trained.named_buffers())
    return [name for name, old in before.items() if not torch.equal(old, after[name])]
