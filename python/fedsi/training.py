"""Local training of a torch module as a client of a federation does it.

The engine says what a phase of training is (:class:`TrainingRequest`): which part moves, on which batches, under which prior
and noise. :class:`TorchNetwork` carries it out with a plain loop, or with one of your own::

    def my_loop(module, job):
        optimizer = torch.optim.AdamW(job.parameters(), lr=job.learning_rate)
        for epoch in job.epochs():
            total = 0.0
            for rows in epoch:
                optimizer.zero_grad()
                with job.noise():
                    loss = job.loss(module(job.x[rows]), job.y[rows])
                    loss.backward()
                job.penalty().backward()
                optimizer.step()
                total += loss.item() * len(rows)
        return total / len(job.x)

    network = TorchNetwork(module, (3, 32, 32), train=my_loop)

:func:`train_phase` carries out one phase by itself, on any data: what a loop of your own is tried with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsi import _native
from fedsi._torch_generator import GENERATOR_LOCK
from fedsi.errors import InputError, NetworkError

try:
    import torch
    from torch import nn
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("fedsi.training needs PyTorch 2.4 or later: pip install torch") from error

if TYPE_CHECKING:
    from fedsi._torch_layout import ModuleLayout, ModuleTensor
    from fedsi.torch_network import TorchNetwork

#: Rows on which it is tried whether training mode computes the same as eval() mode.
TRIED_ROWS = 8


@dataclass(frozen=True)
class TrainingRequest:
    """A phase of local training, as the engine asks for it: numbers and numpy arrays alone."""

    #: What moves: "all", "body" or "head".
    part: str
    #: "adam" or "sgd", with a fresh state.
    optimizer: str
    learning_rate: float
    #: ``beta1``, ``beta2`` and ``epsilon`` of Adam; ``momentum`` of SGD.
    optimizer_settings: dict[str, float]
    #: "cross_entropy", or "gaussian": ``sum_o (f_o - y_o)^2 / (2 observation_noise^2)``; averaged over a batch.
    loss: str
    observation_noise: float
    #: ``[N, input_size]``.
    inputs: NDArray[np.float32]
    #: Classes ``[N]``, or values ``[N, outputs]``.
    targets: NDArray[Any]
    #: Row numbers of each batch of each epoch.
    epochs: list[list[NDArray[np.int64]]]
    #: Adds ``1/2 sum_r weights_r (theta_r - mean_r)^2`` to the loss, in the engine's order; None for no prior.
    prior_mean: NDArray[np.float32] | None
    prior_weights: NDArray[np.float32] | None
    #: Standard deviation of Gaussian noise on the parameters that move, drawn anew in each step; 0 for none.
    weight_noise: float
    #: The same for convolutions and normalisations, whose parameters are used at every place.
    convolution_noise: float
    #: For every draw of this phase that is not of the batches.
    seed: int


@dataclass
class TrainingJob:
    """A phase of local training of one module, for a training loop.

    ``module`` has the values to start from and is in train() mode; parameters that do not move have
    ``requires_grad=False``, and are put back if a loop changes them. torch's generator is seeded by the engine.
    """

    module: nn.Module
    #: "all", "body" or "head".
    part: str
    #: Where the parameters that move lie in the engine's flat vector.
    moving: range
    optimizer: str
    learning_rate: float
    optimizer_settings: dict[str, float]
    loss_kind: str
    observation_noise: float
    #: Inputs ``[N, *input_shape]``.
    x: torch.Tensor
    #: Classes ``[N]`` (int64), or values ``[N, outputs]``.
    y: torch.Tensor
    weight_noise: float
    convolution_noise: float
    seed: int
    _epochs: list[list[torch.Tensor]]
    _tensors: list[ModuleTensor]
    _prior: list[tuple[torch.Tensor, torch.Tensor]] | None
    _generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)

    def epochs(self) -> Iterator[list[torch.Tensor]]:
        """The epochs, each a list of batches: row numbers of ``x`` and ``y``, as the engine draws them."""
        return iter(self._epochs)

    def batches(self) -> Iterator[torch.Tensor]:
        """The batches of all epochs, one after another."""
        return (rows for epoch in self._epochs for rows in epoch)

    def parameters(self) -> list[nn.Parameter]:
        """The parameters that move."""
        named = dict(self.module.named_parameters())
        return [named[tensor.name] for tensor in self._tensors]

    def make_optimizer(self) -> torch.optim.Optimizer:
        """The optimiser that the federation's config names, on the parameters that move."""
        settings = self.optimizer_settings
        if self.optimizer == "adam":
            betas = (settings["beta1"], settings["beta2"])
            return torch.optim.Adam(self.parameters(), lr=self.learning_rate, betas=betas, eps=settings["epsilon"])
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate, momentum=settings["momentum"])

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss of a batch, without the prior's part."""
        if self.loss_kind == "cross_entropy":
            return nn.functional.cross_entropy(outputs, targets)
        return (outputs - targets).square().sum(1).mean() / (2 * self.observation_noise**2)

    def penalty(self) -> torch.Tensor:
        """The prior's part of what a step minimises: ``1/2 sum_r weights_r (theta_r - mean_r)^2`` over the parameters that
        move; 0 without a prior. Outside of :meth:`noise`: it is of the parameters themselves."""
        total = torch.zeros((), dtype=self.x.dtype, device=self.x.device)
        for parameter, (mean, weights) in zip(self.parameters(), self._prior or []):
            total = total + 0.5 * (weights * (parameter - mean).square()).sum()
        return total

    def add_prior_gradient(self) -> None:
        """Adds the gradient of :meth:`penalty` to the gradients of the parameters that move: the same, for less work."""
        for parameter, (mean, weights) in zip(self.parameters(), self._prior or []):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(weights * (parameter.detach() - mean))

    @contextmanager
    def noise(self) -> Iterator[None]:
        """Draws Gaussian noise on the parameters that move, for one forward and one backward pass within the ``with``.

        As the engine does: the outputs of a linear layer are drawn, one draw for each row (noise of each row its own, with
        less variance in the gradient); other parameters are drawn once, and put back at the end. Does nothing where the
        federation's config asks for no noise. Draws come from a generator that the engine seeded, so that results repeat.
        """
        if self.weight_noise <= 0:
            yield
            return
        handles = []
        drawn: list[tuple[nn.Parameter, torch.Tensor]] = []
        named = dict(self.module.named_parameters())
        linear: dict[str, set[str]] = {}
        for tensor in self._tensors:
            owner, _, local = tensor.name.rpartition(".")
            part = self.module.get_submodule(owner)
            if type(part) is nn.Linear:
                linear.setdefault(owner, set()).add(local)
                continue
            deviation = self.convolution_noise if isinstance(part, _AT_EVERY_PLACE) else self.weight_noise
            if deviation > 0:
                parameter = named[tensor.name]
                drawn.append((parameter, parameter.detach().clone()))
                with torch.no_grad():
                    parameter.add_(self._draw(parameter.shape), alpha=deviation)
        for owner, locals_ in linear.items():
            part = self.module.get_submodule(owner)
            handles.append(part.register_forward_hook(self._perturb(locals_)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            with torch.no_grad():
                for parameter, before in drawn:
                    parameter.copy_(before)

    def _draw(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator, dtype=self.x.dtype).to(self.x.device)

    def _perturb(self, moving: set[str]) -> Callable[[nn.Module, tuple[Any, ...], torch.Tensor], torch.Tensor]:
        def hook(_: nn.Module, arguments: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
            inputs = arguments[0]
            squares = inputs.square().sum(-1, keepdim=True) if "weight" in moving else torch.zeros_like(inputs[..., :1])
            norms = (squares + (1.0 if "bias" in moving else 0.0)).sqrt()
            return output + self.weight_noise * norms * self._draw(output.shape)

        return hook


#: Modules whose parameters are used at every place of their input.
_AT_EVERY_PLACE = (nn.modules.conv._ConvNd, nn.GroupNorm, nn.LayerNorm, nn.modules.batchnorm._NormBase)


def check_network(network: TorchNetwork, config: Any = None, **settings: Any) -> None:
    """Raises what a federation with these settings would before it trains this network.

    :class:`fedsi.errors.NetworkError` for a network that clients cannot train, or not by the method;
    :class:`fedsi.errors.ConfigError` for settings that do not exist. ``config`` is a dict or the path of a TOML file, and
    ``settings`` come on top, with ``__`` for the dot of a key.
    """
    _native.check_network(network, config, settings)


def train_phase(
    network: TorchNetwork | tuple[str, Sequence[int]],
    values: NDArray[np.float32],
    inputs: Any,
    targets: Any,
    *,
    part: str = "all",
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    momentum: float = 0.0,
    epochs: int = 1,
    batch_size: int = 50,
    prior_mean: NDArray[np.float32] | None = None,
    prior_weights: NDArray[np.float32] | None = None,
    weight_noise: float = 0.0,
    convolution_noise: float = 0.0,
    seed: int = 0,
) -> tuple[NDArray[np.float32], float]:
    """One phase of local training as a client carries it out, batches drawn by the engine from ``seed``.

    ``network`` is a :class:`~fedsi.torch_network.TorchNetwork`, or layers of the engine as JSON with the shape of an input
    (:func:`fedsi.native_layers.native_layers`). ``targets`` are classes (whole numbers ``[N]``), or values ``[N, outputs]``.
    Returns the values after training and the mean loss a sample over the last epoch, without the prior's part.
    """
    rows = np.ascontiguousarray(inputs, dtype=np.float32)
    rows = rows.reshape(len(rows), -1)
    found = np.asarray(targets)
    classes = found.dtype.kind in "iu"
    phase = {
        "part": part,
        "optimizer": optimizer,
        "learning_rate": float(learning_rate),
        "momentum": float(momentum),
        "epochs": int(epochs),
        "batch_size": int(batch_size),
        "prior_mean": prior_mean,
        "prior_weights": prior_weights,
        "weight_noise": float(weight_noise),
        "convolution_noise": float(convolution_noise),
        "seed": int(seed),
    }
    labels = found.astype(np.int64) if classes else None
    numbers = None if classes else found.astype(np.float32).reshape(len(found), -1)
    if isinstance(network, tuple):
        network = (network[0], [int(side) for side in network[1]])
    return _native.train_network(network, np.asarray(values, np.float32), rows, labels, numbers, phase)


def train_module(
    module: nn.Module,
    layout: ModuleLayout,
    request: TrainingRequest,
    function: Callable[[nn.Module, TrainingJob], float] | None,
    input_shape: Sequence[int],
    dtype: torch.dtype,
) -> float:
    """Carries out a request on a module with its values loaded. Returns the mean loss a sample over the last epoch."""
    job = _job(module, layout, request, input_shape, dtype)
    moves = {tensor.name for tensor in job._tensors}
    moved = {id(parameter) for name, parameter in module.named_parameters() if name in moves}
    frozen = [parameter for parameter in module.parameters() if id(parameter) not in moved]
    before = [(parameter, parameter.requires_grad, parameter.detach().clone()) for parameter in frozen]
    devices = [layout.device] if layout.device.type == "cuda" else []
    try:
        for parameter in frozen:
            parameter.requires_grad_(False)
        module.train()
        with GENERATOR_LOCK, torch.random.fork_rng(devices), torch.enable_grad():
            torch.manual_seed(request.seed)
            loss = train_by_default(module, job, layout.head) if function is None else function(module, job)
    finally:
        module.eval()
        module.zero_grad(set_to_none=True)
        with torch.no_grad():
            for parameter, moves_elsewhere, values in before:
                parameter.copy_(values)
                parameter.requires_grad_(moves_elsewhere)
    if isinstance(loss, torch.Tensor):
        loss = loss.item()
    if not isinstance(loss, (int, float)):
        raise NetworkError(
            f"the training function returned {type(loss).__name__}: expected the mean loss a sample over the last epoch"
        )
    return float(loss)


def train_by_default(module: nn.Module, job: TrainingJob, head: str = "") -> float:
    """A step a batch by the config's optimiser. Where the head alone moves, what it sees is computed once."""
    features = _fixed_features(module, job, head) if job.part == "head" else None
    trained, inputs = (module, job.x) if features is None else (module.get_submodule(head), features)
    optimizer = job.make_optimizer()
    mean = float("nan")
    for epoch in job.epochs():
        total = 0.0
        for rows in epoch:
            optimizer.zero_grad(set_to_none=True)
            with job.noise():
                loss = job.loss(trained(inputs[rows]), job.y[rows])
                loss.backward()
            job.add_prior_gradient()
            optimizer.step()
            total += loss.item() * len(rows)
        mean = total / len(job.x)
    return mean


def _fixed_features(module: nn.Module, job: TrainingJob, head: str) -> torch.Tensor | None:
    """What the head sees of each row; None where it is not the last that is computed, or not the same in each pass."""
    part = module.get_submodule(head)
    seen: list[tuple[tuple[Any, ...], Any]] = []
    handle = part.register_forward_hook(lambda _, arguments, output: seen.append((arguments, output)))
    try:
        with torch.no_grad():
            # Dropout and the like compute something else in training.
            tried = job.x[:TRIED_ROWS]
            outputs = module(tried)
            module.eval()
            same = torch.equal(outputs, module(tried))
            module.train()
            alone = len(seen) == 2 and len(seen[0][0]) == 1 and isinstance(seen[0][0][0], torch.Tensor)
            if not same or not alone or outputs is not seen[0][1]:
                return None
            seen.clear()
            for rows in job.x.split(256):
                module(rows)
            return torch.cat([arguments[0] for arguments, _ in seen])
    finally:
        handle.remove()


def _job(
    module: nn.Module,
    layout: ModuleLayout,
    request: TrainingRequest,
    input_shape: Sequence[int],
    dtype: torch.dtype,
) -> TrainingJob:
    ranges = {
        "all": range(layout.size),
        "body": range(layout.head_start),
        "head": range(layout.head_start, layout.size),
    }
    if request.part not in ranges:
        raise InputError(f"part: expected all, body or head, found {request.part!r}")
    moving = ranges[request.part]
    tensors = [tensor for tensor in layout.tensors if tensor.start in moving]

    def own(values: NDArray[np.float32], tensor: ModuleTensor) -> torch.Tensor:
        found = np.array(values[tensor.start : tensor.start + tensor.size])
        return torch.from_numpy(found).reshape(tensor.shape).to(layout.device, dtype)

    prior = None
    if request.prior_mean is not None and request.prior_weights is not None:
        prior = [(own(request.prior_mean, tensor), own(request.prior_weights, tensor)) for tensor in tensors]
    classes = request.loss == "cross_entropy"
    targets = torch.tensor(request.targets.astype(np.int64) if classes else request.targets)
    return TrainingJob(
        module=module,
        part=request.part,
        moving=moving,
        optimizer=request.optimizer,
        learning_rate=request.learning_rate,
        optimizer_settings=dict(request.optimizer_settings),
        loss_kind=request.loss,
        observation_noise=request.observation_noise,
        x=torch.tensor(request.inputs).to(layout.device, dtype).reshape(-1, *input_shape),
        y=targets.to(layout.device, torch.int64 if classes else dtype),
        weight_noise=request.weight_noise,
        convolution_noise=request.convolution_noise,
        seed=request.seed,
        _epochs=[[torch.from_numpy(np.array(rows)).to(layout.device) for rows in epoch] for epoch in request.epochs],
        _tensors=tensors,
        _prior=prior,
    )
