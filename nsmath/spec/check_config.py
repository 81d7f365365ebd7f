"""Parameter configurations of a measurement against the parameters that the modifiers make."""

from collections.abc import Iterator

from nsmath.errors import WorkspaceError
from nsmath.spec.records import Measurement, ParameterConfig
from nsmath.spec.uses import ParameterUse
from nsmath.spec.wording import counted

__all__ = ["check_config"]


def check_config(measurement: Measurement, uses: dict[str, ParameterUse], path: str) -> Iterator[WorkspaceError]:
    """What is wrong with configurations: missing, of the wrong length, without meaning, or out of range.

    Parameters
    ----------
    measurement : Measurement
    uses : dict of str to ParameterUse
        As `parameter_uses` returns.
    path : str
        Where the measurement's list of configurations is.
    """
    by_name = {config.name: (index, config) for index, config in enumerate(measurement.parameters)}
    for use in uses.values():
        if use.row.requires:
            index, found = by_name.get(use.name, (None, None))
            yield from _check_required(use, found, path if index is None else f"{path}[{index}]")
    for index, config in enumerate(measurement.parameters):
        place = f"{path}[{index}]"
        use_or_none = uses.get(config.name)
        problems = list(_check_ranges(config, place))
        if use_or_none is not None:  # an unused configuration is a warning
            problems += _check_lengths(config, use_or_none, place)
            problems += _check_meaning(config, use_or_none, place)
            if not problems:
                problems += _check_inits(config, use_or_none, place)
        yield from problems


def _check_required(use: ParameterUse, config: ParameterConfig | None, path: str) -> Iterator[WorkspaceError]:
    missing = [key for key in use.row.requires if config is None or getattr(config, key) is None]
    if missing:
        example = '{"name": "%s", "auxdata": [1.0], "sigmas": [0.02], "bounds": [[0.5, 1.5]], "inits": [1.0]}'
        yield WorkspaceError(
            f"{use.row.name} '{use.name}' needs a configuration with {' and '.join(use.row.requires)}; "
            f"{' and '.join(missing)} missing. Add for instance {example % use.name}.",
            path,
        )


def _check_lengths(config: ParameterConfig, use: ParameterUse, path: str) -> Iterator[WorkspaceError]:
    for key in ("inits", "bounds", "auxdata", "sigmas"):
        values = getattr(config, key)
        if values is not None and len(values) != use.n_values:
            found, expected = counted(len(values), "entry"), counted(use.n_values, "value")
            yield WorkspaceError(
                f"'{key}' has {found}, but {use.row.name} '{use.name}' has {expected}. Give one entry for each.",
                f"{path}.{key}",
            )


def _check_meaning(config: ParameterConfig, use: ParameterUse, path: str) -> Iterator[WorkspaceError]:
    constraint = use.row.constraint
    if constraint == "none":
        for key in ("auxdata", "sigmas"):
            if getattr(config, key) is not None:
                yield WorkspaceError(
                    f"'{key}' has no meaning for {use.row.name} '{use.name}', which has no constraint. "
                    "Remove it, or use a constrained modifier such as normsys.",
                    f"{path}.{key}",
                )
    if constraint == "poisson":
        if config.sigmas is not None:
            yield WorkspaceError(
                f"'sigmas' has no meaning for {use.row.name} '{use.name}', whose constraint is a Poisson "
                "term of (yield / uncertainty)^2 events. Change the uncertainty in the modifier instead.",
                f"{path}.sigmas",
            )
        for index, n_events in enumerate(config.auxdata or ()):
            if n_events < 0:
                yield WorkspaceError(
                    f"'auxdata' has {n_events:g} for value {index} of {use.row.name} '{use.name}'; its "
                    "constraint is a Poisson term, so expected at least 0 auxiliary events.",
                    f"{path}.auxdata[{index}]",
                )


def _check_ranges(config: ParameterConfig, path: str) -> Iterator[WorkspaceError]:
    for index, (low, high) in enumerate(config.bounds or ()):
        if low > high:
            yield WorkspaceError(
                f"the bounds are [{low:g}, {high:g}]; expected the lower one first. Swap them.",
                f"{path}.bounds[{index}]",
            )
    for index, sigma in enumerate(config.sigmas or ()):
        if sigma <= 0:
            yield WorkspaceError(
                f'sigma is {sigma:g}; expected a positive number. To fix the parameter set "fixed": true.',
                f"{path}.sigmas[{index}]",
            )


def _check_inits(config: ParameterConfig, use: ParameterUse, path: str) -> Iterator[WorkspaceError]:
    auxdata = config.auxdata or (None,) * use.n_values
    for index in range(use.n_values):
        init, bounds = use.row.start(auxdata[index])
        init = config.inits[index] if config.inits is not None else init
        low, high = config.bounds[index] if config.bounds is not None else bounds
        if not low <= init <= high:
            default_init = " (the default)" if config.inits is None else ""
            default_bounds = " (the default)" if config.bounds is None else ""
            yield WorkspaceError(
                f"value {index} of '{config.name}' starts at {init:g}{default_init}, outside its bounds "
                f"[{low:g}, {high:g}]{default_bounds}. Change 'inits' or 'bounds'.",
                f"{path}.{'inits' if config.inits is not None else 'bounds'}[{index}]",
            )
