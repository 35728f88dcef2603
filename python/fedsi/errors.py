"""What can go wrong, each kind an exception of its own. All are a :class:`FedsiError`."""


class FedsiError(Exception):
    """Anything that fedsi refuses or cannot do."""


class ConfigError(FedsiError, ValueError):
    """A setting that does not exist or cannot be used; the message says what can."""


class DataError(FedsiError, ValueError):
    """Data that is missing, malformed, or cannot be divided as asked."""


class InputError(FedsiError, ValueError):
    """An argument of the wrong shape, type or range."""


class TrainingError(FedsiError, RuntimeError):
    """Training that diverged, or a client that failed."""


class PosteriorError(FedsiError, ArithmeticError):
    """A posterior that cannot be computed."""


class NetworkError(FedsiError, RuntimeError):
    """A network of another library that failed, or cannot do what a method asks of it."""


class FolderError(FedsiError, OSError):
    """A run folder, checkpoint or model file that cannot be read, written or used."""


class MessageError(FedsiError, ValueError):
    """Bytes that are not a message of this federation."""


class FederationError(FedsiError, RuntimeError):
    """A federation that cannot go on: too few usable updates, sites that contradict each other, a lost state."""
