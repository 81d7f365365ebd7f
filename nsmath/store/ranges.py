"""Ranges of toy indices, (first, last) with last excluded: which are there, which are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Range = tuple[int, int]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return sorted ranges with neighbours joined; overlapping ones count once."""
    result: list[Range] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        elif last > first:
            result.append((first, last))
    return result


def missing(wanted: Range, there: Iterable[Range]) -> list[Range]:
    """Return the parts of ``wanted`` that none of ``there`` covers."""
    result, at = [], wanted[0]
    for first, last in merged(there):
        if first >= wanted[1]:
            break
        if first > at:
            result.append((at, first))
        at = max(at, last)
    if at < wanted[1]:
        result.append((at, wanted[1]))
    return result


def first_overlap(ranges: Iterable[Range]) -> Range | None:
    """Return the first indices that two of ``ranges`` share; None when they are disjoint."""
    end = None
    for first, last in sorted(ranges):
        if end is not None and first < end:
            return first, min(end, last)
        end = last if end is None else max(end, last)
    return None


def tiles(ranges: Iterable[Range], width: int) -> Iterator[Range]:
    """Yield ``ranges`` cut at multiples of ``width``: toy i belongs to tile i // width, whatever is missing."""
    for first, last in ranges:
        at = first
        while at < last:
            end = min((at // width + 1) * width, last)
            yield at, end
            at = end


def shard_range(shard: tuple[int, int], n: int) -> Range:
    """Return the indices of shard (i, of), i from 1 on, of ``n`` toys."""
    i, of = shard
    return n * (i - 1) // of, n * i // of
