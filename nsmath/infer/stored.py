"""Results of the toys in a store, without their workspace."""

from __future__ import annotations

from nsmath.infer.result import Provenance, ToyTestResult, toy_test_result
from nsmath.infer.teststats import test_statistic
from nsmath.store.ranges import merged
from nsmath.store.toystore import ToyStore

ALL = 2**62


def stored_results(store: ToyStore, *, expected: bool = False) -> list[ToyTestResult]:
    """Return the tests of every mu in ``store``, by mu, from all of its toys.

    Raises
    ------
    StoreError
        A part or a point is damaged.
    """
    identity = store.identity
    statistic = test_statistic(identity.test_stat)
    assert store.tuned is not None
    provenance = Provenance(
        poi=identity.poi, poi_max=identity.poi_max, measurement=identity.measurement,
        interpolation=identity.interpolation, model_digest=identity.model_digest, versions=store.made_with,
        backend=store.made_with.get("backend", ""), dtype=store.made_with.get("dtype", ""),
        device=store.made_with.get("device", ""),
        threads=None, tile_width=store.tuned.width, seed=identity.seed, aux=identity.aux, transfers=None,
    )  # fmt: skip
    results = []
    for mu in sorted({mu for mu, _ in store.held()}):
        nominal = [name for at, name in store.held() if at == mu and name.endswith("nominal")]
        names = ("b", "sb", *(nominal if len(nominal) == 2 else ()))
        ensembles = {name: store.toys((mu, name), (0, ALL)) for name in names}
        results.append(toy_test_result(statistic, mu, store.observed(mu), ensembles, provenance, expected=expected))
    return results


def gaps(store: ToyStore, mu: float, hypothesis: str) -> list[tuple[int, int]]:
    """Return the ranges of toys that are missing before the last one."""
    there = merged(store.there((mu, hypothesis)))
    ends = [0, *(last for _, last in there)]
    return [(end, first) for end, (first, _) in zip(ends, there, strict=False) if first > end]
