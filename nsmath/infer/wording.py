"""Numbers of results in words, for tables and plots."""

from nsmath.summary import with_error as with_error

__all__ = ["with_error"]
