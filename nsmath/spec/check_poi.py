"""Whether a measurement's POI is a scalar parameter of the model.

Asked when a measurement is used, not when the file is loaded: the background-only workspaces of published
analyses name a POI that only their signal patches bring.
"""

from nsmath.spec.records import Channel, Measurement
from nsmath.spec.uses import ParameterUse, parameter_uses
from nsmath.spec.wording import counted, listed, nearest

__all__ = ["poi_problem", "poi_problem_among"]


def poi_problem(measurement: Measurement, channels: tuple[Channel, ...]) -> tuple[str, str] | None:
    """The kind of the problem and a message, or None if the POI is fine; no POI ('') is fine."""
    return poi_problem_among(measurement.poi, parameter_uses(channels)) if measurement.poi else None


def poi_problem_among(poi: str, uses: dict[str, ParameterUse]) -> tuple[str, str] | None:
    """As `poi_problem`, for parameters that are known already."""
    if not poi:
        return None
    use = uses.get(poi)
    if use is None:
        candidates = [name for name, known in uses.items() if known.row.constraint == "none"]
        return "missing-poi", (
            f"no modifier has the name of the POI '{poi}'.{nearest(poi, uses)} Unconstrained parameters are "
            f"{listed(candidates)}. Name one of them, apply the patch that brings '{poi}', or "
            "use '' for no POI."
        )
    if use.n_values != 1:
        return "vector-poi", (
            f"the POI '{poi}' is a {use.types[0]} of {counted(use.n_values, 'value')}; expected a scalar "
            "parameter. Name a normfactor, or use '' for no POI."
        )
    return None
