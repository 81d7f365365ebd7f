"""What the array expressions of the likelihood ask of an array library: its functions, and a door for tables.

MLX and CuPy spell these expressions alike, as NumPy does; what one of them spells otherwise stands behind the door.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from nsmath._typing import AnyArray, Array, IntArray

XpArray: TypeAlias = Any
"""An array of whichever library computes."""
Namespace: TypeAlias = Any
"""The functions of an array library by NumPy's names; its ``exp`` is accurate to the last digits in any precision."""
Compiler: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Returns a pure function of arrays in another form: `mx.compile`, or `as_it_is`."""

_NAMESPACES: dict[type, Namespace] = {}


def register(array_type: type, namespace: Namespace) -> None:
    """Let `namespace_of` know the arrays of a library."""
    _NAMESPACES[array_type] = namespace


def namespace_of(array: XpArray) -> Namespace:
    """Return the functions of the library that ``array`` belongs to."""
    return _NAMESPACES[type(array)]


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function``."""
    return function


class ArrayDoor(Protocol):
    """Makes a library's arrays of a model's tables, in the working precision."""

    @property
    def dtype(self) -> str:
        """The working precision by name."""

    @property
    def xp(self) -> Namespace:
        """The library's functions."""

    @property
    def float_type(self) -> Any:
        """The library's type of the working precision."""

    def constant(self, array: Array) -> XpArray:
        """Return a table of the model."""

    def index(self, array: IntArray) -> XpArray:
        """Return a table of positions."""

    def flag_table(self, array: AnyArray) -> XpArray:
        """Return a boolean table."""

    def add_matmul(self, c: XpArray, a: XpArray, b: XpArray) -> XpArray:
        """Return ``c + a @ b``, c broadcast."""

    def is_any(self, flags: XpArray) -> bool:
        """Return on the host whether any flag is set."""
