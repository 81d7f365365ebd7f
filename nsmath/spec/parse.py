"""JSON objects to records: the form of the document, one function per kind of object.

This is pyhf's schema of version 1.0.0 as code: which keys an object has, and of what type each value is.
What the values mean to each other is checked afterwards, in `check`.

Errors are raised with the path below the object at hand; each level that they pass puts its own step in
front. So no path is written for the many thousand objects that are fine. All errors of an object are found
(`FormProblems`): the load stops at the first, `lint` lists them.
"""

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from nsmath.errors import WorkspaceError
from nsmath.spec.modifiers import MODIFIERS, ModifierType
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

__all__ = ["VERSION", "FormProblems", "parse_workspace"]

T = TypeVar("T")
Reader = Callable[[object], object]

VERSION = "1.0.0"

# Squares and products of numbers beyond this overflow float64, and no yield or uncertainty is near it.
_LARGEST = 1e100


class FormProblems(WorkspaceError):
    """Everything that is wrong with the form of an object; reads like the first of them.

    Attributes
    ----------
    problems : tuple of WorkspaceError
        In the order of the document, paths below the object at hand.
    """

    def __init__(self, problems: Sequence[WorkspaceError]) -> None:
        super().__init__(problems[0].message, problems[0].path)
        self.problems = tuple(problems)


def _below(step: str, problem: WorkspaceError) -> list[WorkspaceError]:
    """The problems with a step put in front of their paths."""
    found = problem.problems if isinstance(problem, FormProblems) else (problem,)
    joints = ["." if each.path and not each.path.startswith("[") else "" for each in found]
    return [
        WorkspaceError(each.message, f"{step}{joint}{each.path}") for each, joint in zip(found, joints, strict=True)
    ]


def _array(of: Callable[[object], T], least: int = 1) -> Callable[[object], tuple[T, ...]]:
    """A reader of arrays whose entries are read by `of`."""
    return lambda value: _items(value, of, least)


def _items(value: object, of: Callable[[object], T], least: int = 1) -> tuple[T, ...]:
    if not isinstance(value, list | tuple):
        raise WorkspaceError(f"got {json_type(value)}, expected an array.")
    if len(value) < least:
        raise WorkspaceError("the array is empty; expected at least one entry.")
    found: list[T] = []
    problems: list[WorkspaceError] = []
    for index, item in enumerate(value):
        try:
            found.append(of(item))
        except WorkspaceError as problem:
            problems += _below(f"[{index}]", problem)
    if problems:
        raise FormProblems(problems)
    return tuple(found)


def _read(value: object, required: Mapping[str, Reader], options: Mapping[str, Reader] | None = None) -> dict[str, Any]:
    """The values of an object, each read as the tables say; absent options are left out."""
    if not isinstance(value, Mapping):
        raise WorkspaceError(f"got {json_type(value)}, expected an object with the keys {listed(sorted(required))}.")
    problems: list[WorkspaceError] = []
    readers = required if options is None else {**required, **options}
    if value.keys() != required.keys():  # in the common case they are
        problems += _key_problems(value, required, readers)
    found = {}
    for key, of in readers.items():
        if key in value:
            try:
                found[key] = of(value[key])
            except WorkspaceError as problem:
                problems += _below(key, problem)
    if problems:
        raise FormProblems(problems)
    return found


def _key_problems(
    value: Mapping[object, object], required: Mapping[str, Reader], allowed: Mapping[str, Reader]
) -> Iterator[WorkspaceError]:
    for key in sorted(required.keys() - value.keys()):
        yield WorkspaceError(f"the key '{key}' is missing; the object has {listed(map(str, value))}. Add '{key}'.")
    for unknown in value:
        if unknown not in allowed:
            hint = nearest(str(unknown), [key for key in allowed if key not in value])
            yield WorkspaceError(
                f"unknown key '{unknown}'; expected {listed(sorted(allowed))}.{hint} "
                "It would have no effect: correct or remove it."
            )


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
    FormProblems, WorkspaceError
        For every value that is not of the form that the format asks for. A patch or patch set in the
        place of the workspace is recognised and said so.
    """
    if isinstance(document, list):
        raise WorkspaceError("got an array, expected an object. If this is a JSON patch, pass it as a patch.")
    if isinstance(document, Mapping) and "patches" in document:
        raise WorkspaceError("this is a patch set, no workspace. Pass it as a patch, with the name of the patch.")
    top = _read(document, _TOP)
    return top["channels"], top["observations"], top["measurements"]


def _version(value: object) -> None:
    if value != VERSION:
        raise WorkspaceError(f"got {json_type(value)}, expected the string '{VERSION}', the only version there is.")


def _channel(value: object) -> Channel:
    fields = _read(value, _CHANNEL)
    return Channel(fields["name"], fields["samples"])


def _sample(value: object) -> Sample:
    fields = _read(value, _SAMPLE)
    return Sample(fields["name"], fields["data"], fields["modifiers"])


def _modifier(value: object) -> Modifier:
    fields = _read(value, _MODIFIER)
    name, row = fields["name"], fields["type"]
    if row.fixed_name is not None and name != row.fixed_name:
        raise WorkspaceError(
            f"a {row.name} modifier is named '{name}', expected '{row.fixed_name}'. "
            "Rename it, or use a normsys or normfactor.",
            "name",
        )
    try:
        return Modifier(name, row.name, _DATA[row.data](fields["data"]))
    except WorkspaceError as problem:
        raise FormProblems(_below("data", problem)) from None


def _type(value: object) -> ModifierType:
    type_name = _text(value)
    row = MODIFIERS.get(type_name)
    if row is None:
        message = f"unknown modifier type '{type_name}'; expected {listed(MODIFIERS)}."
        raise WorkspaceError(message + nearest(type_name, MODIFIERS))
    return row


def _as_it_is(value: object) -> object:
    return value


def _parameter_name(value: object) -> str:
    if value == "":
        raise WorkspaceError("the name is empty, and an empty POI means 'no POI'. Give the modifier a name.")
    return _text(value)


def _no_data(value: object) -> None:
    if value is not None:
        raise WorkspaceError(f"got {json_type(value)}, expected null: this modifier type carries no data.")


def _lo_hi(value: object) -> LoHi:
    return LoHi(**_read(value, _LO_HI))


def _lo_hi_data(value: object) -> LoHiData:
    return LoHiData(**_read(value, _LO_HI_DATA))


def _observation(value: object) -> Observation:
    fields = _read(value, _OBSERVATION)
    return Observation(fields["name"], fields["data"])


def _measurement(value: object) -> Measurement:
    fields = _read(value, _MEASUREMENT)
    return Measurement(fields["name"], fields["config"]["poi"], fields["config"]["parameters"])


def _config(value: object) -> dict[str, Any]:
    return _read(value, _CONFIG)


def _parameter(value: object) -> ParameterConfig:
    if isinstance(value, Mapping) and "factors" in value:
        raise WorkspaceError(
            "'factors' cannot be set: the rate factors of a shapesys follow from its data as "
            "(yield / uncertainty)^2. Change the uncertainty in the modifier, and remove 'factors'."
        )
    return ParameterConfig(**_read(value, _PARAMETER, _PARAMETER_OPTIONS))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise WorkspaceError(f"got {json_type(value)}, expected true or false.")
    return value


_DATA: dict[str, Callable[[object], ModifierData]] = {
    "none": _no_data,
    "lo_hi": _lo_hi,
    "lo_hi_data": _lo_hi_data,
    "per_bin": _numbers,
}

# The keys of each object, with what reads their values.
_LO_HI: dict[str, Reader] = {"lo": _number, "hi": _number}
_LO_HI_DATA: dict[str, Reader] = {"lo_data": _numbers, "hi_data": _numbers}
# How the data of a modifier are read depends on its type.
_MODIFIER: dict[str, Reader] = {"name": _parameter_name, "type": _type, "data": _as_it_is}
_SAMPLE: dict[str, Reader] = {"name": _text, "data": _numbers, "modifiers": _array(_modifier, least=0)}
_CHANNEL: dict[str, Reader] = {"name": _text, "samples": _array(_sample)}
_OBSERVATION: dict[str, Reader] = {"name": _text, "data": _numbers}
_PARAMETER: dict[str, Reader] = {"name": _text}
_PARAMETER_OPTIONS: dict[str, Reader] = {
    "inits": _numbers,
    "bounds": _array(_pair),
    "auxdata": _numbers,
    "sigmas": _numbers,
    "fixed": _flag,
}
_CONFIG: dict[str, Reader] = {"poi": _text, "parameters": _array(_parameter, least=0)}
_MEASUREMENT: dict[str, Reader] = {"name": _text, "config": _config}
_TOP: dict[str, Reader] = {
    "version": _version,
    "channels": _array(_channel),
    "observations": _array(_observation),
    "measurements": _array(_measurement),
}
