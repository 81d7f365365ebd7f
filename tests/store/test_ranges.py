"""Arithmetic of toy ranges against sets of indices."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nsmath.store.ranges import first_overlap, merged, missing, shard_range, tiles

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda t: (t[0], t[0] + t[1])), max_size=8)
WANTED = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda t: (min(t), max(t)))


def indices(ranges: list[tuple[int, int]]) -> set[int]:
    return {i for first, last in ranges for i in range(first, last)}


@given(RANGES)
def test_merged_ranges_hold_the_same_indices_in_order_and_apart(ranges: list[tuple[int, int]]) -> None:
    result = merged(ranges)
    assert indices(result) == indices(ranges)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(result))


@given(WANTED, RANGES)
def test_missing_is_wanted_without_what_is_there(wanted: tuple[int, int], there: list[tuple[int, int]]) -> None:
    result = missing(wanted, there)
    assert indices(result) == indices([wanted]) - indices(there)
    assert result == merged(result)


@given(RANGES)
def test_an_overlap_is_found_where_an_index_is_there_twice(ranges: list[tuple[int, int]]) -> None:
    found = first_overlap(ranges)
    assert (found is not None) == (sum(b - a for a, b in ranges) > len(indices(ranges)))
    if found is not None:
        assert all(sum(a <= i < b for a, b in ranges) > 1 for i in range(*found))


@given(RANGES, st.integers(1, 9))
def test_tiles_never_cross_a_multiple_of_the_width(ranges: list[tuple[int, int]], width: int) -> None:
    cut = list(tiles(ranges, width))
    assert indices(cut) == indices(ranges)
    assert all(first // width == (last - 1) // width for first, last in cut)


@given(st.integers(1, 12), st.integers(0, 1000))
def test_shards_are_all_toys_each_once(of: int, n: int) -> None:
    ends = [shard_range((i, of), n) for i in range(1, of + 1)]
    assert (ends[0][0], ends[-1][1]) == (0, n)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
