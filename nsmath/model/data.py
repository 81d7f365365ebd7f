"""Observed data that fit a model: shapes and counts that can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import ModelError

if TYPE_CHECKING:
    from nsmath.model.model import Model


def checked_data(model: Model, data: Any, auxdata: Any) -> tuple[Array, Array]:
    """Return main and auxiliary data as (B,) and (A,), the observed ones where None.

    Raises
    ------
    ModelError
        Wrong shape, negative or non-finite counts.
    """
    main = model.data if data is None else np.asarray(data, dtype=float)
    aux = model.auxdata if auxdata is None else np.asarray(auxdata, dtype=float)
    for name, array, size in (("data", main, len(model.data)), ("auxdata", aux, len(model.auxdata))):
        if array.shape != (size,):
            bins = ", ".join(f"{channel}: {n}" for channel, n in model.channels.items())
            raise ModelError(
                f"{name} has shape {array.shape}; expected ({size},)."
                + (f" Bins by channel: {bins}. Auxiliary data goes into `auxdata`." if name == "data" else "")
            )
        if not np.isfinite(array).all():
            raise ModelError(f"{name}[{int(np.argmin(np.isfinite(array)))}] is not finite.")
    if (main < 0.0).any():
        raise ModelError(f"data[{int(np.argmin(main))}] is {main.min():g}; a count cannot be negative.")
    return main, aux
