"""How closely backends agree with ``reference``: one table, a row for each backend and precision."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Largest differences to the reference.

    nll : relative, and absolute for an NLL below 1. gradient : relative to 1 + the largest of the column's components.
    gamma, rate : relative, and absolute below 1; a rate is a sum of larger terms where gammas are pulled far.
    hessian : of entries whose diagonal is scaled to 1. parameter : of fitted ones, in their uncertainties. q : of toys.
    """

    nll: float
    gradient: float
    gamma: float
    rate: float
    hessian: float
    parameter: float
    q: float


TOLERANCES = {
    ("cpu", "float64"): Tolerance(1e-10, 1e-9, 1e-9, 1e-8, 1e-8, 1e-6, 1e-7),
    ("mlx", "float64"): Tolerance(1e-10, 1e-9, 1e-9, 1e-8, 1e-8, 1e-6, 1e-7),
    # NLL and gradient as float32 gives them; q is evaluated in float64 at what float32 has found.
    ("mlx", "float32"): Tolerance(2e-5, 2e-5, 1e-4, 1e-4, 1e-3, 2e-3, 1e-6),
}
