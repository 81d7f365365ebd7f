"""What cannot be right in a workspace, refused when it is loaded.

The form of the document has been read by `parse`; here its parts are held against each other. The order
matters: shapes and names first, so that later checks may rely on them.
"""

from collections.abc import Iterator
from itertools import chain

from nsmath.errors import WorkspaceError
from nsmath.spec.check_config import check_config
from nsmath.spec.check_names import check_names, check_sharing
from nsmath.spec.check_values import check_observed, check_samples
from nsmath.spec.records import Channel, Measurement, Observation
from nsmath.spec.uses import ParameterUse, parameter_uses

__all__ = ["check_workspace", "contradictions"]


def contradictions(
    channels: tuple[Channel, ...],
    observations: tuple[Observation, ...],
    measurements: tuple[Measurement, ...],
) -> Iterator[WorkspaceError]:
    """Everything that cannot be right, with its path; found as it is asked for, so the first one is cheap.

    Configurations of parameters are looked at only where names and values are sound: what a parameter is
    depends on them.
    """
    is_sound = True
    for problem in chain(
        check_names(channels, observations, measurements),
        check_samples(channels),
        check_observed(channels, observations),
        check_sharing(channels),
    ):
        is_sound = False
        yield problem
    if is_sound:
        uses = parameter_uses(channels)
        for index, measurement in enumerate(measurements):
            yield from check_config(measurement, uses, f"measurements[{index}].config.parameters")


def check_workspace(
    channels: tuple[Channel, ...],
    observations: tuple[Observation, ...],
    measurements: tuple[Measurement, ...],
) -> dict[str, ParameterUse]:
    """Refuse what cannot be right, and return the parameters that the modifiers ask for.

    Raises
    ------
    WorkspaceError
        For the first contradiction found, with its path; the caller adds the names along it.
    """
    for problem in contradictions(channels, observations, measurements):
        raise problem
    return parameter_uses(channels)
