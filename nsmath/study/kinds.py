"""Kinds of values in a study file: each reads a value or says what is wrong with it, and knows its JSON schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nsmath.errors import StudyError
from nsmath.spec.wording import json_type, listed, nearest

Schema = dict[str, Any]


class Kind(Protocol):
    """One kind of value; ``words`` is what messages and docs call it."""

    @property
    def words(self) -> str:
        """What is expected, such as ``a whole number from 1 on``."""

    def read(self, value: object, place: str) -> Any:
        """Return the value as the study takes it.

        Raises
        ------
        StudyError
            It is of another kind or out of range; the message begins with ``place``.
        """

    def schema(self) -> Schema:
        """Return the JSON schema of the kind."""


def refusal(place: str, value: object, words: str) -> StudyError:
    """Return the error of a value that is no ``words``."""
    return StudyError(f"{place}: got {json_type(value)}, expected {words}.{_hint(value, words)}")


def _hint(value: object, words: str) -> str:
    """Return what may be meant by text in the place of a number, with a leading blank."""
    if not isinstance(value, str) or "number" not in words:
        return ""
    try:
        number = float(value)
    except ValueError:
        return ""
    # YAML takes 1e-3 for text, since its numbers with an exponent have a point and a sign.
    return f" Write {int(number) if number.is_integer() else f'{number:f}'.rstrip('0')} without quotes or exponent."


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty, such as a name or a file."""

    words: str = "a text"

    def read(self, value: object, place: str) -> str:
        """Return the text."""
        if not isinstance(value, str) or not value.strip():
            raise refusal(place, value, self.words)
        return value

    def schema(self) -> Schema:
        """Return the JSON schema."""
        return {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; ``table`` gives them."""

    table: Callable[[], Sequence[str]]

    @property
    def words(self) -> str:
        """The words."""
        return f"one of {', '.join(self.table())}"

    def read(self, value: object, place: str) -> str:
        """Return the word."""
        if not isinstance(value, str) or value not in self.table():
            near = nearest(value, self.table()) if isinstance(value, str) else ""
            raise StudyError(f"{place}: got {json_type(value)}, expected {self.words}.{near}")
        return value

    def schema(self) -> Schema:
        """Return the JSON schema."""
        return {"enum": list(self.table())}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, ``least`` <= n < ``below``."""

    least: int
    below: int | None = None

    @property
    def words(self) -> str:
        """The range."""
        if self.below is None:
            return f"a whole number from {self.least} on"
        power = self.below.bit_length() - 1
        last = f"2^{power} - 1" if self.below == 1 << power and power > 16 else f"{self.below - 1}"
        return f"a whole number from {self.least} to {last}"

    def read(self, value: object, place: str) -> int:
        """Return the number."""
        # 2000.0 and 1.0e4 are whole numbers too, in YAML as in JSON schemas.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal(place, value, self.words)
        if value < self.least or (self.below is not None and value >= self.below):
            raise refusal(place, value, self.words)
        return value

    def schema(self) -> Schema:
        """Return the JSON schema."""
        above = {} if self.below is None else {"maximum": self.below - 1}
        return {"type": "integer", "minimum": self.least, **above}


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number, with ``above`` < x < ``below`` where they are given."""

    above: float | None = None
    below: float | None = None

    @property
    def words(self) -> str:
        """The range."""
        return "a number" if self.above is None else f"a number between {self.above:g} and {self.below:g}"

    def read(self, value: object, place: str) -> float:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise refusal(place, value, self.words)
        if (self.above is not None and value <= self.above) or (self.below is not None and value >= self.below):
            raise refusal(place, value, self.words)
        return float(value)

    def schema(self) -> Schema:
        """Return the JSON schema."""
        ends = {"exclusiveMinimum": self.above, "exclusiveMaximum": self.below}
        return {"type": "number", **{name: end for name, end in ends.items() if end is not None}}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    words: str = "true or false"

    def read(self, value: object, place: str) -> bool:
        """Return the flag."""
        if not isinstance(value, bool):
            raise refusal(place, value, self.words)
        return value

    def schema(self) -> Schema:
        """Return the JSON schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Share:
    """An error on CLs: a number such as 0.002, or a share of CLs such as ``5%``; read as text."""

    words: str = "a number such as 0.002, or a share of CLs such as 5%"

    def read(self, value: object, place: str) -> str:
        """Return the text."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise refusal(place, value, self.words)
        text = str(value)
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = math.nan
        # Both below 1 (or 100 %): a larger error would say nothing about CLs.
        if not 0.0 < number < (100.0 if text.endswith("%") else 1.0):
            raise StudyError(f"{place}: got {json_type(value)}, expected {self.words}, below 1 (or 100%).")
        return text

    def schema(self) -> Schema:
        """Return the JSON schema."""
        number = Number(0.0, 1.0).schema()
        return {"anyOf": [number, {"type": "string", "pattern": r"^\s*[0-9.eE+-]+\s*%?$"}]}


@dataclass(frozen=True, slots=True)
class Many:
    """A list without repetitions, or one entry alone; read as a tuple. ``single``: one entry may stand alone."""

    item: Kind
    noun: str
    single: bool = True

    @property
    def words(self) -> str:
        """The entries."""
        return (f"{self.item.words}, or " if self.single else "") + f"a list of {self.noun}"

    def read(self, value: object, place: str) -> tuple[Any, ...]:
        """Return the entries."""
        if not isinstance(value, list | tuple):
            if not self.single or isinstance(value, Mapping) or value is None:
                raise refusal(place, value, self.words)
            return (self.item.read(value, place),)
        if not value:
            raise StudyError(f"{place}: the list is empty, expected at least one entry.")
        found = [self.item.read(item, f"{place}[{index}]") for index, item in enumerate(value)]
        for index, item in enumerate(found):
            if item in found[:index]:
                raise StudyError(f"{place}[{index}]: {item!r} stands in the list already. Remove one of the two.")
        return tuple(found)

    def schema(self) -> Schema:
        """Return the JSON schema."""
        item = self.item.schema()
        items = {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}
        return {"anyOf": [item, items]} if self.single else items


@dataclass(frozen=True, slots=True)
class Names:
    """A mapping from names to values of one kind; read as a dict."""

    item: Kind
    words: str

    def read(self, value: object, place: str) -> dict[str, Any]:
        """Return the mapping."""
        if not isinstance(value, Mapping) or not value:
            raise refusal(place, value, self.words)
        for key in value:
            if not isinstance(key, str) or not key.strip():
                raise StudyError(f"{place}: the key {key!r} is no name. Put it in quotes.")
        return {key: self.item.read(item, f"{place}.{key}") for key, item in value.items()}

    def schema(self) -> Schema:
        """Return the JSON schema."""
        item, names = self.item.schema(), {"pattern": r"\S"}
        return {"type": "object", "propertyNames": names, "additionalProperties": item, "minProperties": 1}


@dataclass(frozen=True, slots=True)
class Either:
    """A mapping of one kind, or anything else of another."""

    mapping: Kind
    other: Kind

    @property
    def words(self) -> str:
        """Both."""
        return f"{self.other.words}, or {self.mapping.words}"

    def read(self, value: object, place: str) -> Any:
        """Return what the kind that fits returns."""
        if isinstance(value, Mapping):
            return self.mapping.read(value, place)
        try:
            return self.other.read(value, place)
        except StudyError as error:
            # A scalar of neither kind may be a slip of either; the error of an entry is the clearer one.
            if f"{place}[" in str(error) or isinstance(value, str):
                raise
            raise refusal(place, value, self.words) from None

    def schema(self) -> Schema:
        """Return the JSON schema."""
        return {"anyOf": [self.other.schema(), self.mapping.schema()]}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: its kind, what it means, and the value that it has when it is left away."""

    name: str
    kind: Kind
    about: str
    default: Any = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys; read as a dict of those that are given."""

    keys: tuple[Key, ...]
    words: str

    def read(self, value: object, place: str) -> dict[str, Any]:
        """Return the given keys with their values."""
        if not isinstance(value, Mapping):
            raise refusal(place or "the study", value, self.words)
        known = {key.name: key for key in self.keys}
        dot = f"{place}." if place else ""
        for name in value:
            if name not in known:
                near = nearest(str(name), known).strip()
                # In one line with the key, as compilers say it.
                said = near[:1].lower() + near[1:] if near else f"expected {listed(known)}."
                raise StudyError(f"{dot}{name}: unknown key; {said}")
        for key in self.keys:
            if key.required and key.name not in value:
                raise StudyError(f"{dot}{key.name}: missing; expected {key.kind.words}. {key.about}")
        return {name: known[name].kind.read(item, f"{dot}{name}") for name, item in value.items()}

    def schema(self) -> Schema:
        """Return the JSON schema."""
        required = [key.name for key in self.keys if key.required]
        return {
            "type": "object",
            "properties": {key.name: {"description": key.about, **key.kind.schema()} for key in self.keys},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }
