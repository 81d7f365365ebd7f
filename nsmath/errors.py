"""The errors nsmath raises on purpose: one base class, one class for each kind of trouble.

Every message says what is wrong, where, what was found and expected, and what to do about it.
"""

__all__ = [
    "BackendError",
    "FitError",
    "ModelError",
    "NsmathError",
    "OptionError",
    "PatchError",
    "PlanError",
    "StoreError",
    "StoreWriteError",
    "StudyError",
    "TransferError",
    "WorkspaceError",
]


class NsmathError(Exception):
    """Base of all errors that nsmath raises on purpose.

    Anything else that escapes from nsmath is a defect of nsmath, not of its input.
    """


class WorkspaceError(NsmathError):
    """The workspace is malformed or contradicts itself.

    Parameters
    ----------
    message : str
        What is wrong, what was found and expected, and the cure.
    path : str
        Where it is in the JSON document, such as ``channels[1].samples[0].modifiers[2]``;
        empty for the document as a whole.
    names : str
        The same place in the words of the analysis, such as ``channel 'SR', sample 'ttbar'``.
    """

    def __init__(self, message: str, path: str = "", names: str = "") -> None:
        # All three go into `args`, so that the error survives pickling between processes.
        super().__init__(message, path, names)
        self.message = message
        self.path = path
        self.names = names

    def __str__(self) -> str:
        names = f" ({self.names})" if self.names else ""
        place = f"{self.path}{names}".strip()
        return f"{place}: {self.message}" if place else self.message


class PatchError(NsmathError):
    """A patch or patch set is malformed, does not belong to the workspace, or cannot be applied."""


class ModelError(NsmathError):
    """The workspace is fine, but the model, measurement or POI asked of it cannot be."""


class OptionError(NsmathError):
    """An option or argument given by the user is unknown or out of range."""


class PlanError(NsmathError):
    """A plan cannot be made, or is used in a way that it was not made for."""


class StoreError(NsmathError):
    """A store of toys is damaged, in use, or belongs to something else."""


class StoreWriteError(StoreError):
    """A store cannot be written to: the disk is full, the folder read-only. What was written before is whole."""


class StudyError(NsmathError):
    """A study file is malformed or contradicts itself; the message names the place in it."""


class FitError(NsmathError):
    """A fit failed, or too many fits of a study did."""


class BackendError(NsmathError):
    """A backend is missing, or cannot do what is asked of it."""


class TransferError(NsmathError):
    """Event data crossed the bus between the sampling of a toy and its q, although they were to stay on the device."""
