"""Stores merged into one: the same toys, as if a single run had made them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from nsmath.errors import StoreError
from nsmath.store.parts import read_part
from nsmath.store.ranges import Range, first_overlap
from nsmath.store.toystore import ToyStore

logger = logging.getLogger("nsmath.store")


def merge_stores(sources: Sequence[str | Path], target: str | Path) -> ToyStore:
    """Copy the parts of all ``sources`` into the store ``target`` and return that, open for writing.

    ``target`` is made if it is not there; if it holds toys already, they count like those of a source. Everything is
    checked before anything is copied.

    Raises
    ------
    StoreError
        Models or options differ, a toy stands in two of them, a part is damaged.
    """
    stores = [ToyStore.read(folder) for folder in sources]
    if not stores:
        raise StoreError("no store to merge; name at least one folder.")
    first = stores[0]
    for store in stores[1:]:
        difference = first.identity.difference(store.identity)
        if difference is not None:
            raise StoreError(f"{store.folder} and {first.folder} hold toys of different studies: {difference}.")
    merged = ToyStore.create(target, first.identity)
    try:
        _check_disjoint([*stores, *([merged] if merged.tuned is not None else [])])
        assert first.tuned is not None
        merged.begin(first.tuned, first.made_with)
        for store in stores:
            for mu in sorted({mu for mu, _ in store.held()}):
                merged.note_observed(mu, store.observed(mu))
            for header, path in store.part_paths():
                merged.add((header.mu, header.hypothesis), read_part(path)[1])
            merged.flush()
            logger.info("merged %s", store.folder)
    except BaseException:
        merged.close()
        raise
    return merged


def _check_disjoint(stores: Sequence[ToyStore]) -> None:
    for key in sorted({key for store in stores for key in store.held()}):
        owned: list[tuple[Range, Path]] = [(r, s.folder) for s in stores for r in s.there(key)]
        double = first_overlap(r for r, _ in owned)
        if double is not None:
            folders = [str(folder) for (low, high), folder in owned if low < double[1] and high > double[0]]
            raise StoreError(
                f"toys {double[0]} to {double[1] - 1} of {key[1]} at {key[0]:g} stand in more than one store "
                f"({', '.join(folders)}); each toy may be counted once. Give every job its own --shard or seed."
            )
