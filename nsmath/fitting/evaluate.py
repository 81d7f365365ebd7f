"""NLL and gradient of a model at one or many parameter points, in pyhf's convention."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsmath._typing import Array
from nsmath.errors import ModelError
from nsmath.fitting.array_kinds import common_kind, on_host
from nsmath.model.likelihood import nll_constant
from nsmath.model.model import Model
from nsmath.plan.plan import backend_model


def _columns(name: str, value: Any, default: Array, n: int) -> Array:
    array = default if value is None else np.asarray(value, dtype=float)
    if array.shape not in ((len(default),), (n, len(default))):
        raise ModelError(f"{name} has shape {array.shape}; expected ({len(default)},) or ({n}, {len(default)}).")
    return np.ascontiguousarray(np.broadcast_to(array, (n, len(default))).T)


def nll_and_gradient(
    model: Model, theta: Any, *, data: Any = None, auxdata: Any = None, backend: str = "cpu", dtype: str = "float64"
) -> tuple[Any, Any]:
    """Return NLL and its gradient at parameter points.

    NumPy arrays (and lists), PyTorch tensors and CuPy arrays are taken; the results are of the kind that came in, on
    the same device. Gradients are not recorded for autograd.

    Parameters
    ----------
    theta : (P,) or (N, P), or a mapping by name completed with the start values.
    data, auxdata : (B,) or (N, B), (A,) or (N, A); the observed ones when None.
    backend, dtype : what computes, in which precision.

    Returns
    -------
    nll : (N,) or a scalar array for a single point, -ln L with all constants (pyhf's ``-logpdf``, not twice);
        infinite outside the domain.
    gradient : (N, P) or (P,).

    Raises
    ------
    ModelError, OptionError
        Shapes that do not fit; arrays of two libraries or devices.
    BackendError
        Arrays on a device that the backend does not compute on.
    """
    kind, device = common_kind(theta=theta, data=data, auxdata=auxdata)
    theta, data, auxdata = (on_host(kind, device, backend, value) for value in (theta, data, auxdata))
    points = model.parameter_vector(theta)
    n = 1 if points.ndim == 1 else len(points)
    whole = model.unprofiled
    main = _columns("data", data, model.data, n)
    aux = _columns("auxdata", auxdata, model.auxdata, n)
    tile = backend_model(backend, whole, dtype=dtype).tile(n, memory=1)
    try:
        tile.load(np.ascontiguousarray(np.atleast_2d(points).T), main, aux, np.zeros(len(model.names), dtype=bool))
        tile.evaluate(tile.x, tile.nll, tile.gradient)
        nll = tile.to_host(tile.nll[:n]) + nll_constant(whole.tensors, main.T, aux.T)
        gradient = np.ascontiguousarray(tile.to_host(tile.gradient[:, :n]).T)
    finally:
        tile.free()
    single = points.ndim == 1
    return kind.from_numpy(nll[0] if single else nll), kind.from_numpy(gradient[0] if single else gradient)


def nll(
    model: Model, theta: Any, *, data: Any = None, auxdata: Any = None, backend: str = "cpu", dtype: str = "float64"
) -> Any:
    """Return the NLL at parameter points; see `nll_and_gradient`."""
    return nll_and_gradient(model, theta, data=data, auxdata=auxdata, backend=backend, dtype=dtype)[0]
