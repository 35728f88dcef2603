"""Federated learning in which every client gets a personal model and an honest measure of its own uncertainty.

- :func:`run`, :func:`resume`, :func:`open`, :func:`compare`: federations simulated on this machine, and their results.
- :mod:`fedsi.metrics`, :mod:`fedsi.conformal`, :mod:`fedsi.partition`: scores, sets and divisions of any arrays.
- :class:`Laplace`: a posterior for a trained torch network. :class:`TorchNetwork`: a torch module that clients train.
- :mod:`fedsi.federation`, :mod:`fedsi.flower`: real federations, without a transport and on Flower.

torch, pandas and Flower are needed only by what is theirs, and imported there.
"""

from typing import TYPE_CHECKING, Any

from fedsi import conformal, errors, metrics, partition
from fedsi._compare import Comparison, compare
from fedsi._models import PersonalModel, Posterior
from fedsi._native import __version__
from fedsi._optional import needed
from fedsi._predictions import ClassPredictions, NewClassPredictions, NewValuePredictions, ValuePredictions
from fedsi._result import Result
from fedsi._run import config, datasets, methods, open, resume, run, schema  # noqa: A004
from fedsi.laplace import Laplace, PriorSearch

if TYPE_CHECKING:
    from fedsi.torch_network import TorchNetwork

__all__ = [
    "ClassPredictions",
    "Comparison",
    "Laplace",
    "NewClassPredictions",
    "NewValuePredictions",
    "PersonalModel",
    "Posterior",
    "PriorSearch",
    "Result",
    "TorchNetwork",
    "ValuePredictions",
    "__version__",
    "compare",
    "config",
    "conformal",
    "datasets",
    "errors",
    "methods",
    "metrics",
    "open",
    "partition",
    "resume",
    "run",
    "schema",
]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for."""
    if name == "TorchNetwork":
        needed("torch", "fedsi.TorchNetwork")
        from fedsi.torch_network import TorchNetwork

        return TorchNetwork
    raise AttributeError(f"module 'fedsi' has no attribute {name!r}")
