"""JSON objects to records: the form of the document, one function per kind of object.

This is pyhf's schema of version 1.0.0 as code: which keys an object has, and of what type each value is.
What the values mean to each other is checked afterwards, in `check`.

An error is raised with the path below the object at hand; each level that it passes puts its own step in
front. So no path is written for the many thousand objects that are fine.
"""

import numbers
from collections.abc import Callable, Mapping
from typing import TypeVar

from nsmath.errors import WorkspaceError
from nsmath.spec.modifiers import MODIFIERS
from nsmath.spec.records import (
    Channel,
    LoHi,
    LoHiData,
    Measurement,
    Modifier,
    ModifierData,
    Observation,
    ParameterConfig,
    Sample,
)
from nsmath.spec.wording import counted, json_type, listed, nearest

__all__ = ["VERSION", "parse_workspace"]

T = TypeVar("T")
Fields = Mapping[str, object]

VERSION = "1.0.0"

# Squares and products of numbers beyond this overflow float64, and no yield or uncertainty is near it.
_LARGEST = 1e100

_TOP = frozenset({"channels", "observations", "measurements", "version"})
_CHANNEL = frozenset({"name", "samples"})
_SAMPLE = frozenset({"name", "data", "modifiers"})
_MODIFIER = frozenset({"name", "type", "data"})
_LO_HI = frozenset({"lo", "hi"})
_LO_HI_DATA = frozenset({"lo_data", "hi_data"})
_OBSERVATION = frozenset({"name", "data"})
_MEASUREMENT = frozenset({"name", "config"})
_CONFIG = frozenset({"poi", "parameters"})
_PARAMETER = frozenset({"name"})
_PARAMETER_OPTIONS = frozenset({"inits", "bounds", "auxdata", "sigmas", "fixed"})
_NO_OPTIONS: frozenset[str] = frozenset()


def _below(step: str, problem: WorkspaceError) -> WorkspaceError:
    joint = "." if problem.path and not problem.path.startswith("[") else ""
    return WorkspaceError(problem.message, f"{step}{joint}{problem.path}")


def _at(fields: Fields, key: str, of: Callable[[object], T]) -> T:
    """The value at a key, read by `of`."""
    try:
        return of(fields[key])
    except WorkspaceError as problem:
        raise _below(key, problem) from None


def _each(fields: Fields, key: str, of: Callable[[object], T], least: int = 1) -> tuple[T, ...]:
    """The entries of the array at a key, each read by `of`."""
    return _at(fields, key, lambda value: _items(value, of, least))


def _items(value: object, of: Callable[[object], T], least: int = 1) -> tuple[T, ...]:
    if not isinstance(value, list | tuple):
        raise WorkspaceError(f"got {json_type(value)}, expected an array.")
    if len(value) < least:
        raise WorkspaceError("the array is empty; expected at least one entry.")
    found: list[T] = []
    for index, item in enumerate(value):
        try:
            found.append(of(item))
        except WorkspaceError as problem:
            raise _below(f"[{index}]", problem) from None
    return tuple(found)


def _fields(value: object, required: frozenset[str], options: frozenset[str] = _NO_OPTIONS) -> Fields:
    if not isinstance(value, Mapping):
        raise WorkspaceError(f"got {json_type(value)}, expected an object with the keys {listed(sorted(required))}.")
    if value.keys() == required:  # the common case, decided at once
        return value
    for key in sorted(required - value.keys()):
        raise WorkspaceError(f"the key '{key}' is missing; the object has {listed(map(str, value))}. Add '{key}'.")
    allowed = required | options
    for key in value:
        if key not in allowed:
            hint = nearest(str(key), allowed - value.keys())
            raise WorkspaceError(
                f"unknown key '{key}'; expected {listed(sorted(allowed))}.{hint} "
                "It would have no effect: correct or remove it."
            )
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise WorkspaceError(f"got {json_type(value)}, expected a string.")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        cure = " Write a number, without quotes." if isinstance(value, str) else ""
        raise WorkspaceError(f"got {json_type(value)}, expected a number.{cure}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not -_LARGEST <= number <= _LARGEST:  # NaN fails this comparison too
        raise WorkspaceError(
            f"got the number {number}; expected a finite number of magnitude at most {_LARGEST:g}. "
            "Replace it: the likelihood could not be computed."
        )
    return number


def _numbers(value: object) -> tuple[float, ...]:
    # Most of a file is arrays of plain numbers: one pass in C, and the slow path only to name the culprit.
    if type(value) is list and value and {*map(type, value)} <= {float, int}:
        try:
            found = tuple(map(float, value))
        except OverflowError:
            found = (float("inf"),)
        if sum(map(abs, found)) <= _LARGEST:  # NaN fails this comparison too
            return found
    if not isinstance(value, list | tuple):
        cure = " Convert it with .tolist()." if hasattr(value, "tolist") else ""
        raise WorkspaceError(f"got {json_type(value)}, expected an array of numbers.{cure}")
    return _items(value, _number)


def _pair(value: object) -> tuple[float, float]:
    pair = _numbers(value)
    if len(pair) != 2:
        raise WorkspaceError(f"got {counted(len(pair), 'number')}, expected two: [low, high].")
    return pair[0], pair[1]


def parse_workspace(
    document: object,
) -> tuple[tuple[Channel, ...], tuple[Observation, ...], tuple[Measurement, ...]]:
    """Channels, observations and measurements of a document, each in file order.

    Raises
    ------
    WorkspaceError
        For the first value that is not of the form that the format asks for. A patch or patch set in the
        place of the workspace is recognised and said so.
    """
    if isinstance(document, list):
        raise WorkspaceError("got an array, expected an object. If this is a JSON patch, pass it as a patch.")
    if isinstance(document, Mapping) and "patches" in document:
        raise WorkspaceError("this is a patch set, no workspace. Pass it as a patch, with the name of the patch.")
    top = _fields(document, _TOP)
    _at(top, "version", _version)
    return (
        _each(top, "channels", _channel),
        _each(top, "observations", _observation),
        _each(top, "measurements", _measurement),
    )


def _version(value: object) -> None:
    if value != VERSION:
        raise WorkspaceError(f"got {json_type(value)}, expected the string '{VERSION}', the only version there is.")


def _channel(value: object) -> Channel:
    fields = _fields(value, _CHANNEL)
    return Channel(_at(fields, "name", _text), _each(fields, "samples", _sample))


def _sample(value: object) -> Sample:
    fields = _fields(value, _SAMPLE)
    return Sample(
        _at(fields, "name", _text),
        _at(fields, "data", _numbers),
        _each(fields, "modifiers", _modifier, least=0),
    )


def _modifier(value: object) -> Modifier:
    fields = _fields(value, _MODIFIER)
    name, type_name = _at(fields, "name", _parameter_name), _at(fields, "type", _text)
    row = MODIFIERS.get(type_name)
    if row is None:
        message = f"unknown modifier type '{type_name}'; expected {listed(MODIFIERS)}."
        raise WorkspaceError(message + nearest(type_name, MODIFIERS), "type")
    if row.fixed_name is not None and name != row.fixed_name:
        raise WorkspaceError(
            f"a {row.name} modifier is named '{name}', expected '{row.fixed_name}'. "
            "Rename it, or use a normsys or normfactor.",
            "name",
        )
    return Modifier(name, type_name, _at(fields, "data", _DATA[row.data]))


def _parameter_name(value: object) -> str:
    if value == "":
        raise WorkspaceError("the name is empty, and an empty POI means 'no POI'. Give the modifier a name.")
    return _text(value)


def _no_data(value: object) -> None:
    if value is not None:
        raise WorkspaceError(f"got {json_type(value)}, expected null: this modifier type carries no data.")


def _lo_hi(value: object) -> LoHi:
    fields = _fields(value, _LO_HI)
    return LoHi(_at(fields, "lo", _number), _at(fields, "hi", _number))


def _lo_hi_data(value: object) -> LoHiData:
    fields = _fields(value, _LO_HI_DATA)
    return LoHiData(_at(fields, "lo_data", _numbers), _at(fields, "hi_data", _numbers))


_DATA: dict[str, Callable[[object], ModifierData]] = {
    "none": _no_data,
    "lo_hi": _lo_hi,
    "lo_hi_data": _lo_hi_data,
    "per_bin": _numbers,
}


def _observation(value: object) -> Observation:
    fields = _fields(value, _OBSERVATION)
    return Observation(_at(fields, "name", _text), _at(fields, "data", _numbers))


def _measurement(value: object) -> Measurement:
    fields = _fields(value, _MEASUREMENT)
    poi, parameters = _at(fields, "config", _config)
    return Measurement(_at(fields, "name", _text), poi, parameters)


def _config(value: object) -> tuple[str, tuple[ParameterConfig, ...]]:
    fields = _fields(value, _CONFIG)
    return _at(fields, "poi", _text), _each(fields, "parameters", _parameter, least=0)


def _parameter(value: object) -> ParameterConfig:
    if isinstance(value, Mapping) and "factors" in value:
        raise WorkspaceError(
            "'factors' cannot be set: the rate factors of a shapesys follow from its data as "
            "(yield / uncertainty)^2. Change the uncertainty in the modifier, and remove 'factors'."
        )
    fields = _fields(value, _PARAMETER, _PARAMETER_OPTIONS)
    values = {key: _at(fields, key, _numbers) for key in ("inits", "auxdata", "sigmas") if key in fields}
    return ParameterConfig(
        _at(fields, "name", _text),
        inits=values.get("inits"),
        bounds=_each(fields, "bounds", _pair) if "bounds" in fields else None,
        auxdata=values.get("auxdata"),
        sigmas=values.get("sigmas"),
        fixed=_at(fields, "fixed", _flag) if "fixed" in fields else None,
    )


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise WorkspaceError(f"got {json_type(value)}, expected true or false.")
    return value
