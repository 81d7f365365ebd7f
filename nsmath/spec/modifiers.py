"""The seven HistFactory modifier types, as one table.

Reading, checking and lowering are generic over the rows of `MODIFIERS`: a type is what its row says.
The types and their constraints: HistFactory, CERN-OPEN-2012-016; the default starting values and
bounds are those of pyhf, so that fits of the same file start from the same model.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["MODIFIERS", "ModifierType"]

_GAMMA_BOUNDS = (1e-10, 10.0)
_ALPHA_BOUNDS = (-5.0, 5.0)
_FACTOR_BOUNDS = (0.0, 10.0)


@dataclass(frozen=True, slots=True)
class ModifierType:
    """One modifier type: the form of its data, what it does to a rate, and its parameters.

    Attributes
    ----------
    name : str
        The ``type`` in the JSON.
    data : {'none', 'lo_hi', 'lo_hi_data', 'per_bin'}
        Form of the JSON ``data``: null, a pair of factors, a pair of templates, one number per bin.
    kind : {'additive', 'multiplicative', 'product'}
        How it enters a rate: an interpolated shift, an interpolated factor, or the parameter itself.
    per_bin : bool
        One parameter per bin, instead of one scalar.
    constraint : {'none', 'normal', 'poisson'}
        The auxiliary measurement of its parameters.
    init : float
        Starting value of each parameter.
    bounds : tuple of (float, float)
        Bounds of each parameter.
    auxdata : float or None
        Centre of the normal constraint; None where there is none, or where the file says it (lumi, shapesys).
    shared : {'everywhere', 'channel', 'nowhere'}
        How far one name means one parameter: in the whole workspace; within a channel, other channels
        adding parameters of their own; or on a single sample, every further use being an error.
    shares_with : frozenset of str
        The other types that may use the same name for the same parameter.
    fixed_name : str or None
        The only name that the type may have.
    requires : tuple of str
        What a measurement must configure before the parameter has a meaning.
    """

    name: str
    data: Literal["none", "lo_hi", "lo_hi_data", "per_bin"]
    kind: Literal["additive", "multiplicative", "product"]
    per_bin: bool
    constraint: Literal["none", "normal", "poisson"]
    init: float
    bounds: tuple[float, float]
    auxdata: float | None = None
    shared: Literal["everywhere", "channel", "nowhere"] = "everywhere"
    shares_with: frozenset[str] = frozenset()
    fixed_name: str | None = None
    requires: tuple[str, ...] = ()

    def start(self, auxdata: float | None = None) -> tuple[float, tuple[float, float]]:
        """Starting value and bounds where the measurement configures none.

        Parameters
        ----------
        auxdata : float or None
            The configured auxiliary value. It matters for a type that has no centre of its own (lumi): that
            starts at it and is bounded by 0 and ten times it, like ``(0, 10 lumi)`` of pyhf.
        """
        if auxdata is None or not self.requires:
            return self.init, self.bounds
        low, high = self.bounds
        return self.init * auxdata, (low * auxdata, high * auxdata)


MODIFIERS: dict[str, ModifierType] = {
    row.name: row
    for row in (
        ModifierType(
            "histosys", "lo_hi_data", "additive", False, "normal", 0.0, _ALPHA_BOUNDS, 0.0,
            shares_with=frozenset({"normsys"}),
        ),
        ModifierType(
            "lumi", "none", "product", False, "normal", 1.0, _FACTOR_BOUNDS,
            fixed_name="lumi", requires=("auxdata", "sigmas"),
        ),
        ModifierType("normfactor", "none", "product", False, "none", 1.0, _FACTOR_BOUNDS),
        ModifierType(
            "normsys", "lo_hi", "multiplicative", False, "normal", 0.0, _ALPHA_BOUNDS, 0.0,
            shares_with=frozenset({"histosys"}),
        ),
        ModifierType("shapefactor", "none", "product", True, "none", 1.0, _FACTOR_BOUNDS),
        ModifierType(
            "shapesys", "per_bin", "product", True, "poisson", 1.0, _GAMMA_BOUNDS, shared="nowhere",
        ),
        ModifierType(
            "staterror", "per_bin", "product", True, "normal", 1.0, _GAMMA_BOUNDS, 1.0, shared="channel",
        ),
    )
}  # fmt: skip
