"""Every error Locus raises, in one tree.

    LocusError
    ├── InputError (also ValueError)            an argument can never be right: empty id, NaN, too large
    ├── ConfigError (also ValueError)           an option, URL or combination of options is wrong
    ├── StorageError
    │   ├── ConflictError                       a condition did not hold: somebody else wrote first
    │   ├── UnsupportedError (also NotImplementedError)   this backend declares that it cannot
    │   ├── UnavailableError                    the backend did not answer; trying again may help
    │   ├── CorruptRecordError                  what is stored cannot be what was written
    │   └── SetupError                          the schema is missing, newer, or may not be made
    ├── ThreadBusyError                         another run holds the thread
    ├── ToolError                               a tool failed; its text goes back to the model
    └── ModelError                              a model provider refused or failed

Driver errors are translated by class or code and kept as `__cause__`.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "ConflictError",
    "CorruptRecordError",
    "InputError",
    "LocusError",
    "ModelError",
    "SetupError",
    "StorageError",
    "ThreadBusyError",
    "ToolError",
    "UnavailableError",
    "UnsupportedError",
]


class LocusError(Exception):
    """Base of every error Locus raises on purpose."""


class InputError(LocusError, ValueError):
    """An argument that no storage could accept; nothing was written."""


class ConfigError(LocusError, ValueError):
    """An option, a URL or a combination of options that cannot work."""


class StorageError(LocusError):
    """The storage could not do what was asked."""


class ConflictError(StorageError):
    """A condition of a commit did not hold: somebody else wrote first.

    `op_index` is the place of the refused operation in the commit (None when the error is not about a commit).
    """

    def __init__(self, message: str, *, op_index: int | None = None) -> None:
        super().__init__(message)
        self.op_index = op_index


class UnsupportedError(StorageError, NotImplementedError):
    """The backend declares that it cannot do this; the message names what to use instead."""


class UnavailableError(StorageError):
    """The backend did not answer or refused for a passing reason. The same call may be tried again."""


class CorruptRecordError(StorageError):
    """A stored record cannot be what was written. It is reported, never read as "nothing there"."""


class SetupError(StorageError):
    """Tables are missing, of a newer version, or may not be created by this user."""


class ThreadBusyError(LocusError):
    """Another run holds the thread, or took it over from this one."""


class ToolError(LocusError):
    """A tool failed. Raised by a tool, its text is given to the model as the result of the call."""


class ModelError(LocusError):
    """A model provider refused the request or failed."""
