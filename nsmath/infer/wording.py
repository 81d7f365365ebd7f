"""Numbers of results in words, for tables and plots."""

from __future__ import annotations


def with_error(value: float | None, error: float | None, upper: float | None = None) -> str:
    """Return a number with its error for people; a bound or a word where there is none."""
    if value is None:
        return f"< {upper:.2g} (95 % C.L., no toy in the tail)" if upper is not None else "undefined"
    if error is None:
        return f"{value:.4g}"
    return f"{value:.4g} +- {error:.2g}"
