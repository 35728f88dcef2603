"""Any ``torch.nn.Module`` as a network of the engine: for posteriors and for the clients of a federation.

The engine holds the parameters of a network as one flat vector in which the body comes before the head. :class:`TorchNetwork`
translates between that vector and a module, and gives outputs, derivatives and training. It changes the module that it is
given only in :meth:`TorchNetwork.load`; all else happens on copies, so that threads do not disturb each other.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsi import _torch_derivatives as derivatives
from fedsi._arrays import from_tensor
from fedsi._torch_checks import changing_buffers, depends_on_other_rows
from fedsi._torch_generator import GENERATOR_LOCK
from fedsi._torch_layout import ModuleLayout
from fedsi.errors import InputError, NetworkError

try:
    import torch
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("fedsi.torch_network needs PyTorch 2.4 or later: pip install torch") from error

if TYPE_CHECKING:
    from fedsi.training import TrainingJob, TrainingRequest

#: Rows of one forward pass without derivatives.
FORWARD_ROWS = 256

#: What derivatives may take while they are computed, unless told otherwise.
CHUNK_BYTES = 256 * 2**20

#: A training loop of the user's own: module and job in, mean loss a sample over the last epoch out.
TrainFunction = Callable[["torch.nn.Module", "TrainingJob"], float]


class TorchNetwork:
    """A module as a network of the engine.

    ``input_shape`` is the shape of one input without the batch, ``(features,)`` or ``(channels, height, width)``; the module
    is called with ``[N, *input_shape]`` in floating point and returns ``[N, outputs]``: logits, or the means of a regression.

    The **head** is the module that a personal model tunes: the module with parameters that the forward pass calls last, or
    the one named by ``head``. Everything else is the body. Parameters with ``requires_grad=False`` keep their values and are
    not part of the network's parameters; they and the buffers are copied when the network is made. Tensors
    shared within the body are one tensor; the head shares none with the body.

    ``pretrained``: federated training starts at the module's own values, not at newly drawn ones. ``train``: a training loop
    of your own, see :mod:`fedsi.training`. ``example``: an input or two (``[N, *input_shape]``) for the forward passes that
    check the module, where it does not take zeros and ones. ``dtype`` is that of training and outputs; posteriors are
    computed in float64 whatever it is. ``chunk_bytes`` bounds the memory that derivatives take beside their result.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        input_shape: int | Sequence[int],
        *,
        head: str | None = None,
        dtype: torch.dtype = torch.float32,
        chunk_bytes: int = CHUNK_BYTES,
        pretrained: bool = False,
        train: TrainFunction | None = None,
        example: Any = None,
    ) -> None:
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"module: expected a torch.nn.Module, found {type(module).__name__}")
        shape = _sides(input_shape)
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"dtype: expected torch.float32 or torch.float64, found {dtype}")
        if isinstance(chunk_bytes, bool) or not isinstance(chunk_bytes, (int, np.integer)) or chunk_bytes < 1:
            raise InputError(f"chunk_bytes: expected a number of bytes, at least 1, found {chunk_bytes!r}")
        if train is not None and not callable(train):
            raise InputError(f"train: expected a function of module and job, found {type(train).__name__}")
        self.module = module
        if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters()):
            # Lazy modules learn their shapes from their first input; copies made before would not.
            with torch.no_grad():
                module(torch.zeros(1, *shape))
        self._origin = copy.deepcopy(module).eval()
        self.input_shape: tuple[int, ...] = shape
        self.dtype = dtype
        self.chunk_bytes = int(chunk_bytes)
        self.pretrained = bool(pretrained)
        self.train_function = train
        self._copies: dict[torch.dtype, deque[torch.nn.Module]] = {torch.float32: deque(), torch.float64: deque()}
        self._derivatives = derivatives.Settings(self.chunk_bytes)
        self._checked_rows = rows = self._example(example)
        called, self.output_size = self._probe(rows)
        self._layout = ModuleLayout(module, called, head)
        if depends_on_other_rows(self._evaluate, rows):
            raise NetworkError(
                "the module's outputs for a row change when it is evaluated alone: in eval() mode it mixes the rows of a batch "
                "(batch statistics, such as BatchNorm with track_running_stats=False) or draws random numbers, and a posterior "
                "needs outputs that depend on the row and the parameters alone; normalise with GroupNorm or LayerNorm"
            )

    def __repr__(self) -> str:
        return (
            f"TorchNetwork({type(self.module).__name__}, inputs {list(self.input_shape)}, outputs {self.output_size}, "
            f"parameters {len(self)}, head {self.head!r})"
        )

    def __len__(self) -> int:
        """Number of parameters that can move, head included."""
        return self._layout.size

    # Sizes and names, as the engine asks for them.

    @property
    def input_size(self) -> int:
        """Values of one input."""
        return int(np.prod(self.input_shape))

    @property
    def head(self) -> str:
        """The name of the head within the module; empty where it is the module itself."""
        return self._layout.head

    @property
    def head_start(self) -> int:
        """Where the head begins in the flat parameters."""
        return self._layout.head_start

    @property
    def device(self) -> torch.device:
        """Where the module computes."""
        return self._layout.device

    def tensors(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the parameters in the engine's order: those of the body, then those of the head."""
        return [(tensor.label, tensor.shape) for tensor in self._layout.tensors]

    def engine_indices(self, indices: Any) -> NDArray[np.int64]:
        """The engine's positions of flat positions over all of ``module.parameters()`` in their order.

        Raises :class:`fedsi.errors.InputError` for a position out of range, or of a parameter with ``requires_grad=False``.
        """
        return self._layout.engine_indices(np.asarray(indices))

    def module_indices(self, indices: Any) -> NDArray[np.int64]:
        """The inverse of :meth:`engine_indices`."""
        return self._layout.module_indices(np.asarray(indices))

    # Values.

    def values(self, dtype: Any = np.float32) -> NDArray[Any]:
        """The module's parameters as one vector in the engine's order."""
        return self._layout.values(self.module, np.dtype(dtype))

    def load(self, values: Any) -> torch.nn.Module:
        """Writes these values into the module, and returns it."""
        self._layout.load(self.module, self._flat(values))
        return self.module

    def module_with(self, values: Any) -> torch.nn.Module:
        """A copy of the module with these values, in the module's own precision, in eval() mode."""
        module = copy.deepcopy(self._origin)
        self._layout.load(module, self._flat(values))
        return module

    def initialise(self, seed: int) -> NDArray[np.float32]:
        """Values before the first round: every submodule's ``reset_parameters`` under a generator with this seed.

        Parameters whose module has no such method keep the given values, as all do with ``pretrained=True``. The state of
        torch's generator is left as it was.
        """
        if self.pretrained:
            return self.values()
        module = copy.deepcopy(self._origin).to("cpu")
        with GENERATOR_LOCK, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # The outermost last: its own initialisation replaces that of its parts.
            for part in reversed(list(module.modules())):
                reset = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
                if callable(reset):
                    reset()
        return self._layout.values(module, np.dtype(np.float32))

    # Outputs.

    def outputs(self, values: Any, inputs: Any) -> NDArray[np.float32]:
        """Outputs ``[N, outputs]`` for these values and inputs ``[N, input_size]``, in float32."""
        found = self._in_batches(self._flat(values), inputs, self.dtype, lambda module, rows: module(rows))
        return found.astype(np.float32, copy=False)

    def forward(self, values: Any, inputs: Any) -> NDArray[np.float64]:
        """The same in float64."""
        return self._in_batches(self._flat(values), inputs, torch.float64, lambda module, rows: module(rows))

    def features(self, values: Any, inputs: Any) -> NDArray[np.float32]:
        """What the head sees of each row, ``[N, features]``; the outputs where the head is not called once with one tensor."""
        found = self._in_batches(self._flat(values), inputs, self.dtype, self._head_inputs)
        return found.astype(np.float32, copy=False)

    def jacobian(self, values: Any, inputs: Any, chosen: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Outputs ``[N, outputs]`` and their derivatives ``[N, outputs, S]`` in the parameters at the S positions ``chosen``
        of the engine's order, in float64.

        Memory beside the result stays under ``chunk_bytes``, as far as one row and one output can. A module that
        ``torch.func.vmap`` cannot follow is differentiated output by output, which is slower; a warning says so once.
        """
        positions = np.asarray(chosen, dtype=np.int64).reshape(-1)
        if positions.size and (positions.min() < 0 or positions.max() >= len(self)):
            raise InputError(
                f"chosen: expected positions from 0 to {len(self) - 1}, found {positions.min()} to {positions.max()}"
            )
        rows = self._rows(inputs, torch.float64)
        with self._borrow(torch.float64) as module:
            self._layout.load(module, self._flat(values))
            groups = self._layout.groups(positions)
            outputs, found = derivatives.jacobian(module, rows, groups, len(positions), self.output_size, self._derivatives)
        return outputs, found

    # Training.

    def refusal_of_training(self) -> str | None:
        """Why a federation cannot train this module, or None where it can."""
        changing = changing_buffers(self._origin, torch.zeros(2, *self.input_shape, device=self.device))
        if not changing:
            return None
        names = ", ".join(f"`{name}`" for name in changing[:4]) + (", ..." if len(changing) > 4 else "")
        return (
            f"training changes the buffers {names}, which are no parameters: the server would not average them and a posterior "
            "would not know them; replace BatchNorm by GroupNorm (torch.nn.GroupNorm(groups, channels)) or LayerNorm, or keep "
            "such layers in eval() mode; fedsi.Laplace on a trained module needs no change"
        )

    def train(self, request: TrainingRequest, values: Any) -> tuple[NDArray[np.float32], float]:
        """Carries out a phase of training from these values. Returns the values after it and the mean loss a sample over the
        last epoch, without the prior's part."""
        from fedsi.training import train_module

        with self._borrow(self.dtype) as module:
            self._layout.load(module, self._flat(values))
            loss = train_module(module, self._layout, request, self.train_function, self.input_shape, self.dtype)
            return self._layout.values(module, np.dtype(np.float32)), loss

    # Within.

    def _flat(self, values: Any) -> NDArray[Any]:
        flat = np.asarray(from_tensor(values))
        if flat.shape != (len(self),) or flat.dtype.kind != "f":
            raise InputError(
                f"values: expected {len(self)} floating point numbers, found {flat.dtype} of shape {list(flat.shape)}"
            )
        return flat

    def _rows(self, inputs: Any, dtype: torch.dtype) -> torch.Tensor:
        rows = torch.as_tensor(inputs).to(device=self.device, dtype=dtype)
        if rows.ndim == 0 or rows[:1].numel() != self.input_size * min(len(rows), 1):
            raise InputError(
                f"inputs: expected rows of {self.input_size} values ({list(self.input_shape)}), found shape {list(rows.shape)}"
            )
        return rows.reshape(-1, *self.input_shape)

    def _example(self, example: Any) -> torch.Tensor:
        # Zeros and ones are numbers that nearly every module takes, indices of an embedding among them.
        if example is None:
            return torch.stack([torch.zeros(self.input_shape), torch.ones(self.input_shape)]).double()
        rows = torch.as_tensor(example).double()
        if rows.shape[1:] != self.input_shape:
            raise InputError(f"example: expected shape [N, {', '.join(map(str, self.input_shape))}], found {list(rows.shape)}")
        return rows[:2]

    @contextmanager
    def _borrow(self, dtype: torch.dtype) -> Iterator[torch.nn.Module]:
        """A copy of the module that no other thread uses, in eval() mode."""
        free = self._copies[dtype]
        try:
            module = free.pop()
        except IndexError:
            module = copy.deepcopy(self._origin).to(dtype)
        yield module
        # Not returned after an exception: what state it is in is not known.
        module.eval()
        free.append(module)

    def _evaluate(self, rows: torch.Tensor) -> torch.Tensor:
        with self._borrow(torch.float64) as module, torch.no_grad():
            return module(rows)

    def _probe(self, rows: torch.Tensor) -> tuple[list[str], int]:
        """One forward pass: the modules it calls, in order, and the number of outputs."""
        device = next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))
        rows = rows.to(device)
        called: list[str] = []
        with self._borrow(torch.float64) as module, torch.no_grad():
            handles = [
                part.register_forward_hook(lambda *_, name=name: called.append(name)) for name, part in module.named_modules()
            ]
            try:
                outputs = module(rows)
            except Exception as error:
                raise NetworkError(
                    f"the module does not take inputs of shape [{len(rows)}, {', '.join(map(str, self.input_shape))}] in "
                    f"float64 (zeros and ones, unless `example` gives others): {error}{_about_indices(module)}"
                ) from error
            finally:
                for handle in handles:
                    handle.remove()
        found = list(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != len(rows):
            raise NetworkError(
                f"the module's output: expected one tensor of shape [{len(rows)}, outputs] for {len(rows)} rows, "
                f"found {found}; return logits or regression means, flattened"
            )
        return called, int(outputs.shape[1])

    def _in_batches(
        self,
        values: NDArray[Any],
        inputs: Any,
        dtype: torch.dtype,
        work: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor],
    ) -> NDArray[Any]:
        rows = self._rows(inputs, dtype)
        with self._borrow(dtype) as module, torch.no_grad():
            self._layout.load(module, values)
            if not len(rows):
                # Modules need not take empty batches; the pass tells the width of a result.
                return work(module, self._rows(self._checked_rows, dtype))[:0].cpu().numpy()
            return torch.cat([work(module, batch) for batch in rows.split(FORWARD_ROWS)]).cpu().numpy()

    def _head_inputs(self, module: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
        seen: list[torch.Tensor | None] = []

        def keep(_: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
            found = arguments[0] if len(arguments) == 1 else None
            seen.append(found if isinstance(found, torch.Tensor) and len(found) == len(rows) else None)

        handle = module.get_submodule(self.head).register_forward_pre_hook(keep)
        try:
            outputs = module(rows)
        finally:
            handle.remove()
        return outputs if len(seen) != 1 or seen[0] is None else seen[0].flatten(1)


def _sides(input_shape: Any) -> tuple[int, ...]:
    """The shape of one input as whole numbers."""
    is_list = isinstance(input_shape, Sequence) and not isinstance(input_shape, (str, bytes))
    sides = tuple(input_shape) if is_list or isinstance(input_shape, np.ndarray) else (input_shape,)
    if not sides or any(isinstance(side, bool) or not isinstance(side, (int, np.integer)) or side < 1 for side in sides):
        raise InputError(
            f"input_shape: expected the sides of one input, each at least 1, as 6 or (3, 32, 32), found {input_shape!r}"
        )
    return tuple(int(side) for side in sides)


def _about_indices(module: torch.nn.Module) -> str:
    """What to do where a module may have refused numbers that are no integers."""
    if not any(isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)) for part in module.modules()):
        return ""
    return (
        "; inputs and parameters are float64 here, also the indices of an nn.Embedding: convert them within forward(), as in "
        "self.embedding(x.long())"
    )
