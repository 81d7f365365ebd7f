"""Arrays of other libraries at the door: what comes in as PyTorch or CuPy goes out as that, on the same device.

A row of `KINDS` for each library; none of them is imported here, for who passes an array has its library loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import AnyArray, Array
from nsmath.errors import BackendError, OptionError


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """Arrays of one library.

    Attributes
    ----------
    name : for people. module : the package that defines the type.
    device : returns the device of an array, ``cpu`` for the host.
    to_numpy : returns a host array's values without a copy where the library can.
    from_numpy : returns values as an array of the library, on the host.
    """

    name: str
    module: str
    device: Callable[[Any], str]
    to_numpy: Callable[[Any], AnyArray]
    from_numpy: Callable[[Array], Any]


def _torch_numpy(tensor: Any) -> AnyArray:
    values: AnyArray = tensor.detach().numpy()
    return values


def _no_host(array: Any) -> Any:
    raise BackendError("a CuPy array is on a CUDA device; bring it to the host with cupy.asnumpy(array).")


KINDS = (
    ArrayKind("NumPy", "numpy", lambda array: "cpu", np.asarray, lambda values: values),
    ArrayKind(
        "PyTorch", "torch", lambda tensor: str(tensor.device), _torch_numpy,
        lambda values: sys.modules["torch"].from_numpy(np.array(values)),
    ),
    ArrayKind("CuPy", "cupy", lambda array: f"cuda:{array.device.id}", _no_host, _no_host),
)  # fmt: skip
NUMPY = KINDS[0]


def kind_of(value: Any) -> ArrayKind:
    """Return the kind of an array; NumPy for everything else (numbers, lists, None)."""
    module = type(value).__module__.partition(".")[0]
    return next((kind for kind in KINDS[1:] if kind.module == module), NUMPY)


def common_kind(**values: Any) -> tuple[ArrayKind, str]:
    """Return the kind and the device that the arrays among ``values`` share; NumPy on the host if there is none.

    Raises
    ------
    OptionError
        Arrays of two libraries, or on two devices: which one would the result be?
    """
    found = {name: (kind_of(value), kind_of(value).device(value)) for name, value in values.items() if _is_array(value)}
    kinds = {(kind.name, device) for kind, device in found.values()}
    if len(kinds) > 1:
        said = ", ".join(f"{name} is {kind.name} on {device}" for name, (kind, device) in found.items())
        raise OptionError(f"{said}; expected arrays of one library on one device. Convert all but one of them.")
    return next(iter(found.values()), (NUMPY, "cpu"))


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or kind_of(value) is not NUMPY


def on_host(kind: ArrayKind, device: str, backend: str, value: Any) -> Any:
    """Return ``value`` as NumPy; anything that is no array of ``kind`` as it is.

    Raises
    ------
    BackendError
        It is on a device, and ``backend`` computes on the host: nothing is copied without being asked for.
    """
    if kind_of(value) is not kind or kind is NUMPY:
        return value
    if device != "cpu":
        raise BackendError(
            f"the arrays are {kind.name} on {device}, and backend {backend!r} computes on the host. Choose a backend "
            "of that device (backend='cuda'), or bring the arrays to the host yourself."
        )
    return kind.to_numpy(value)
