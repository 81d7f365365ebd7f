"""Ensembles on record: what is missing is computed, what is there is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nsmath.infer.engine import Engine, Tile
from nsmath.infer.toys import ToyStudy
from nsmath.plan.plan import Plan
from nsmath.store.ensemble import Ensemble, Work
from nsmath.store.memory import ToyRecord
from nsmath.store.ranges import Range, missing, tiles

Progress = Callable[[int, int, str], None]
"""Called with (toys done, toys in all, phase)."""


def complete_ensembles(
    plan: Plan,
    studies: Mapping[str, ToyStudy],
    wanted: Range,
    record: ToyRecord,
    engine: Engine,
    progress: Progress | None = None,
) -> dict[str, Work]:
    """Bring the toys ``wanted`` of every study, by hypothesis, on ``record``; return the work by hypothesis.

    Toy i belongs to tile i // width, whatever the engine and whatever is missing. Left early (an error, Ctrl-C),
    what is done by then is on record and safe.
    """
    absent = {name: missing(wanted, record.there((study.mu, name))) for name, study in studies.items()}

    def todo() -> Iterator[Tile]:
        for name, ranges in absent.items():
            for tile in tiles(ranges, plan.tuned.width):
                yield name, tile, _known_elsewhere(record, name, studies[name].mu, tile)

    n_all = (wanted[1] - wanted[0]) * len(studies)
    done = n_all - sum(last - first for ranges in absent.values() for first, last in ranges)
    work = {name: Work() for name in studies}
    if progress is not None and done:
        progress(done, n_all, "toys")
    try:
        for name, part, took in engine.results(plan, studies, todo()):
            record.add((studies[name].mu, name), part)
            work[name] += took
            done += len(part)
            if progress is not None:
                progress(done, n_all, "toys")
    finally:
        record.flush()
    return work


def _known_elsewhere(record: ToyRecord, name: str, mu: float, tile: Range) -> Ensemble | None:
    """Return the toys of ``tile`` as they were tested at another mu, if they are the same ones there.

    Background toys do not know which mu is tested, and neither do their free fits.
    """
    if not name.startswith("b"):
        return None
    for key in record.held():
        if key[1] == name and key[0] != mu and not missing(tile, record.there(key)):
            return record.toys(key, tile)
    return None
