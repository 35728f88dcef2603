"""Derivatives in the parameters of common layers, from what goes into a layer and the derivative in what comes out of it.

A derivative in a weight of a linear layer is a product of two numbers, so that those of the chosen weights alone are computed;
in a convolution they are a product of two small matrices for each row. No module needs to be followed by ``torch.func``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedsi._torch_layout import ChosenGroup

#: Derivatives in a tensor, ``[N, chosen]``, for inputs of the layer, derivatives in its outputs, and places in the tensor.
Rule = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Unfollowed(Exception):
    """A layer that the forward pass does not call once, with one tensor, rows first."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class LayerKnowledge:
    """What forward passes have told about a module's layers."""

    unfollowed: set[str] = field(default_factory=set)
    row_bytes: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def split(self, module: nn.Module, groups: list[ChosenGroup]) -> tuple[list[ChosenGroup], list[ChosenGroup]]:
        """The groups that have a rule here, and the others."""
        shared = _shared(module)
        layered: list[ChosenGroup] = []
        others: list[ChosenGroup] = []
        for group in groups:
            owner, local = _owner(group)
            followed = owner not in self.unfollowed and group.tensor.name not in shared
            has_rule = followed and _rule(module.get_submodule(owner), local) is not None
            (layered if has_rule else others).append(group)
        return layered, others

    def bytes_of_row(self, module: nn.Module, row: torch.Tensor) -> int:
        """About how much the activations of one row take, with what the rules make of them."""
        with self.lock:
            if self.row_bytes is None:
                total = 0

                def count(part: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
                    nonlocal total
                    if isinstance(output, torch.Tensor) and not any(True for _ in part.children()):
                        total += 3 * output.numel()
                        if isinstance(part, nn.Conv2d):
                            positions = output.numel() // part.out_channels
                            total += 2 * positions * part.weight[0].numel() * part.groups

                with _hooks(module, {name: count for name, _ in module.named_modules()}), torch.no_grad():
                    module(row)
                self.row_bytes = 8 * max(1, total)
            return self.row_bytes


def any_convolution(module: nn.Module, groups: list[ChosenGroup]) -> bool:
    """Whether weights of a convolution are among the groups."""
    return any(local == "weight" and isinstance(module.get_submodule(owner), nn.Conv2d) for owner, local in map(_owner, groups))


def derivatives(
    module: nn.Module, rows: torch.Tensor, groups: list[ChosenGroup], which: range
) -> tuple[torch.Tensor, Iterator[list[torch.Tensor]]]:
    """Outputs of the rows; then, for each of the outputs ``which``, the derivatives ``[N, chosen]`` group by group."""
    owners = list(dict.fromkeys(_owner(group)[0] for group in groups))
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], torch.Tensor]:
        def hook(_: nn.Module, arguments: tuple[Any, ...], output: Any) -> torch.Tensor:
            one = len(arguments) == 1 and isinstance(arguments[0], torch.Tensor)
            if name in seen or not one or len(arguments[0]) != len(rows) or len(output) != len(rows):
                raise Unfollowed(name)
            # What follows may change its input in place: it gets a copy, and so does the rule.
            seen[name] = (arguments[0].detach().clone(), output)
            return output.clone()

        return hook

    with _hooks(module, {name: keep(name) for name in owners}), torch.enable_grad():
        outputs = module(rows)
    for name in owners:
        if name not in seen:
            raise Unfollowed(name)

    def slopes() -> Iterator[list[torch.Tensor]]:
        last = [seen[name][1] for name in owners]
        cache: dict[str, Any] = {}
        for output in which:
            found = torch.autograd.grad(
                outputs[:, output].sum(),
                last,
                retain_graph=output != which[-1],
                allow_unused=True,
                materialize_grads=True,
            )
            by_owner = dict(zip(owners, found))
            block = []
            for group in groups:
                owner, local = _owner(group)
                part = module.get_submodule(owner)
                if owner not in cache:
                    cache[owner] = _prepare(part, seen[owner][0])
                rule = _rule(part, local)
                assert rule is not None
                block.append(rule(part, cache[owner], by_owner[owner], group.within))
            yield block

    return outputs.detach(), slopes()


def _owner(group: ChosenGroup) -> tuple[str, str]:
    owner, _, local = group.tensor.name.rpartition(".")
    return owner, local


def _shared(module: nn.Module) -> set[str]:
    """Names of parameters that other modules have too."""
    first: dict[int, str] = {}
    shared: set[str] = set()
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if id(parameter) in first:
            shared.add(first[id(parameter)])
        first.setdefault(id(parameter), name)
    return shared


@contextmanager
def _hooks(module: nn.Module, hooks: dict[str, Callable[..., Any]]) -> Iterator[None]:
    handles = [module.get_submodule(name).register_forward_hook(hook) for name, hook in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rule(part: nn.Module, local: str) -> Rule | None:
    """The rule for a tensor of a layer; none for layers that are not exactly what it is for."""
    if type(part) is nn.Conv2d and (part.padding_mode != "zeros" or _padding(part) is None):
        return None
    if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
        return None
    return _RULES.get((type(part), local))


def _padding(conv: nn.Conv2d) -> tuple[int, ...] | None:
    """Zeros on each side; none where the sides differ."""
    if conv.padding == "valid":
        return (0, 0)
    if conv.padding == "same":
        spans = [stretch * (side - 1) for stretch, side in zip(conv.dilation, conv.kernel_size)]
        return None if any(span % 2 for span in spans) else tuple(span // 2 for span in spans)
    return tuple(int(side) for side in conv.padding)


def _prepare(part: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """What a layer's weights are multiplied with, for all outputs alike."""
    if isinstance(part, nn.Conv2d):
        padding = _padding(part)
        assert padding is not None
        return functional.unfold(inputs, part.kernel_size, part.dilation, padding, part.stride)
    if isinstance(part, nn.GroupNorm):
        return functional.group_norm(inputs, part.num_groups, None, None, part.eps)
    if isinstance(part, nn.LayerNorm):
        return functional.layer_norm(inputs, part.normalized_shape, None, None, part.eps)
    if isinstance(part, nn.modules.batchnorm._BatchNorm):
        return functional.batch_norm(inputs, part.running_mean, part.running_var, None, None, False, 0.0, part.eps)
    return inputs


def _linear_weight(part: nn.Linear, inputs: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    if inputs.ndim > 2:
        inputs, slopes = inputs.flatten(1, -2), slopes.flatten(1, -2)
        return (slopes.transpose(1, 2) @ inputs).flatten(1)[:, within]
    if 2 * len(within) > part.weight.numel():
        return (slopes.unsqueeze(2) * inputs.unsqueeze(1)).flatten(1)[:, within]
    return slopes[:, within // part.in_features] * inputs[:, within % part.in_features]


def _linear_bias(_: nn.Linear, __: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    return (slopes.flatten(1, -2).sum(1) if slopes.ndim > 2 else slopes)[:, within]


def _conv_weight(part: nn.Conv2d, patches: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    groups, positions = part.groups, patches.shape[2]
    patches = patches.reshape(len(patches) * groups, -1, positions)
    slopes = slopes.reshape(len(patches), -1, positions)
    return torch.bmm(slopes, patches.transpose(1, 2)).reshape(-1, part.weight.numel())[:, within]


def _channel_bias(_: nn.Module, __: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    return (slopes.flatten(2).sum(2) if slopes.ndim > 2 else slopes)[:, within]


def _channel_weight(part: nn.Module, inputs: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    return _channel_bias(part, inputs, slopes * inputs, within)


def _layer_norm_bias(part: nn.LayerNorm, _: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    return slopes.reshape(len(slopes), -1, part.weight.numel()).sum(1)[:, within]


def _layer_norm_weight(part: nn.LayerNorm, inputs: torch.Tensor, slopes: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    return _layer_norm_bias(part, inputs, slopes * inputs, within)


_CHANNELS = (nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

_RULES: dict[tuple[type[nn.Module], str], Rule] = {
    (nn.Linear, "weight"): _linear_weight,
    (nn.Linear, "bias"): _linear_bias,
    (nn.Conv2d, "weight"): _conv_weight,
    (nn.Conv2d, "bias"): _channel_bias,
    (nn.LayerNorm, "weight"): _layer_norm_weight,
    (nn.LayerNorm, "bias"): _layer_norm_bias,
    **{(kind, "weight"): _channel_weight for kind in _CHANNELS},
    **{(kind, "bias"): _channel_bias for kind in _CHANNELS},
}
