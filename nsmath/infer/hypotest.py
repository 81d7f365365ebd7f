"""`hypotest_toys`: CLs (or a discovery p-value) of one value of the parameter of interest, by toys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nsmath.errors import ModelError, OptionError
from nsmath.infer.calculator import ToyCalculator, study_identity
from nsmath.infer.engine import Engine, Threads
from nsmath.infer.ensembles import Progress
from nsmath.infer.observed import checked_mu
from nsmath.infer.result import ToyTestResult
from nsmath.infer.stopping import StoppingRule
from nsmath.infer.teststats import TestStatistic, test_statistic
from nsmath.infer.toy_limit import ToyLimitResult, limits_by_toys
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.store.memory import MemoryRecord
from nsmath.store.toystore import ToyStore

AUX_CHOICES = ("random", "fixed")
EXPECTED_CHOICES = ("data", "nominal")
MAX_TOYS = 2**48


def checked_options(model: Model, *, mu: float, n_toys: int, seed: int, test_stat: str, aux: str) -> TestStatistic:
    """Return the test statistic of options that all make sense.

    Raises
    ------
    OptionError, ModelError
        What is wrong, and what was expected.
    """
    statistic = test_statistic(test_stat)
    if aux not in AUX_CHOICES:
        raise OptionError(f"aux is {aux!r}; expected one of {', '.join(AUX_CHOICES)}.")
    if isinstance(n_toys, bool) or int(n_toys) != n_toys or not 1 <= n_toys < MAX_TOYS:
        raise OptionError(f"n_toys is {n_toys!r}; expected a whole number from 1 on.")
    if isinstance(seed, bool) or int(seed) != seed or not 0 <= seed < 2**64:
        raise OptionError(f"seed is {seed!r}; expected a whole number from 0 to 2^64 - 1.")
    checked_mu(model, mu)
    return statistic


def checked_shard(shard: tuple[int, int] | None, store: object, rule: StoppingRule | None) -> None:
    """Check that a shard makes sense.

    Raises
    ------
    OptionError
        Out of range, without a store, or together with a stopping rule.
    """
    if shard is None:
        return
    i, of = shard
    if not 1 <= i <= of:
        raise OptionError(f"shard {i}/{of}: expected i/N with i from 1 to N.")
    if store is None:
        raise OptionError(f"shard {i}/{of} without a store: its toys would be lost. Add a store (--store DIR).")
    if rule is not None:
        raise OptionError(f"shard {i}/{of} cannot stop by its own toys; give the number of toys instead.")


def toy_calculator(
    plan: Plan, statistic: TestStatistic, *, seed: int, aux: str, expected_from: str = "data",
    store: ToyStore | None = None, engine: Engine | None = None, progress: Progress | None = None,
) -> ToyCalculator:  # fmt: skip
    """Return a calculator whose toys go to ``store``, or stay in memory, and are computed by ``engine``."""
    if store is not None:
        store.begin(plan.tuned, {**plan.versions, **plan.origin})
    return ToyCalculator(
        plan, statistic, seed, aux, expected_from, store or MemoryRecord(), engine or Threads(), progress
    )


def hypotest_toys(
    model: Model,
    mu: float = 1.0,
    *,
    n_toys: int = 1000,
    seed: int = 0,
    test_stat: str = "qtilde",
    aux: str = "random",
    expected_set: bool = False,
    expected_from: str = "data",
    stop: StoppingRule | None = None,
    store: ToyStore | str | Path | None = None,
    shard: tuple[int, int] | None = None,
    engine: Engine | None = None,
    threads: int | None = None,
    plan: Plan | None = None,
    progress: Progress | None = None,
) -> ToyTestResult:
    """Return the toy-based test of ``mu``.

    Phase A fits the observed data freely, at mu and at 0; phase B throws ``n_toys`` toys at each of the two
    conditional fits and fits every one. Toys depend on (seed, ensemble, index) alone.

    Parameters
    ----------
    test_stat : ``qtilde``, ``q`` (upper limits) or ``q0`` (discovery; mu is then the alternative).
    aux : ``random``: auxiliary data fluctuate with the toys; ``fixed``: they stay as observed.
    expected_set : also the band of CLs expected from background alone.
    expected_from : ``data``: that band comes from toys at the conditional fits to the observed data; ``nominal``:
        from further toys, at the nominal parameters.
    stop : go on beyond ``n_toys`` until this is satisfied.
    store : folder (or open store) that keeps the toys; those that it holds already are not computed again.
    shard : (i, of): only this part of the toys, i from 1 on; needs a store.
    engine : `Workers` over an executor, instead of this process's threads.
    plan : a plan of this model; made for the call, tuned, from the cache or as the store's toys were, when None.
    progress : called with (toys done, toys in all, phase).

    Raises
    ------
    OptionError, ModelError, FitError, StoreError
        Bad options, no POI, an observed fit that does not converge, a store that belongs to something else.
    """
    statistic = checked_options(model, mu=mu, n_toys=n_toys, seed=seed, test_stat=test_stat, aux=aux)
    checked_shard(shard, store, stop)
    with opened_calculator(
        model, statistic, seed=int(seed), aux=aux, store=store, engine=engine, threads=threads, plan=plan,
        progress=progress, expected_from=expected_from,
    ) as calculator:  # fmt: skip
        return calculator.at(float(mu), int(n_toys), expected=expected_set, rule=stop, shard=shard)


def toy_upper_limit(
    model: Model,
    *,
    n_toys: int = 1000,
    cl: float = 0.95,
    seed: int = 0,
    test_stat: str = "qtilde",
    aux: str = "random",
    expected_from: str = "data",
    store: ToyStore | str | Path | None = None,
    engine: Engine | None = None,
    threads: int | None = None,
    plan: Plan | None = None,
    progress: Progress | None = None,
) -> ToyLimitResult:
    """Return the upper limits on the POI by toys, observed and expected, with their statistical errors.

    Parameters are those of `hypotest_toys`; ``n_toys`` toys of each ensemble are thrown at every mu that the six
    crossings of CLs = 1 - ``cl`` need.

    Raises
    ------
    OptionError, ModelError, FitError, StoreError
        As for `hypotest_toys`; `FitError` also where the crossings are not found.
    """
    statistic = checked_options(model, mu=0.0, n_toys=n_toys, seed=seed, test_stat=test_stat, aux=aux)
    with opened_calculator(
        model, statistic, seed=int(seed), aux=aux, store=store, engine=engine, threads=threads, plan=plan,
        progress=progress, expected_from=expected_from,
    ) as calculator:  # fmt: skip
        return limits_by_toys(calculator, int(n_toys), cl=cl)


@contextmanager
def opened_calculator(
    model: Model, statistic: TestStatistic, *, seed: int, aux: str, store: ToyStore | str | Path | None,
    engine: Engine | None, threads: int | None, plan: Plan | None, progress: Progress | None,
    expected_from: str = "data",
) -> Iterator[ToyCalculator]:  # fmt: skip
    """Yield a calculator with the store and the plan that are given, or made for it and closed behind it.

    Raises
    ------
    ModelError, StoreError
        A plan or a store of something else.
    """
    if plan is not None and plan.model.digest != model.digest:
        raise ModelError("the plan was made for another model; make one with Plan(model).")
    if expected_from not in EXPECTED_CHOICES:
        raise OptionError(f"expected_from is {expected_from!r}; expected one of {', '.join(EXPECTED_CHOICES)}.")
    with ExitStack() as opened:
        if store is not None and not isinstance(store, ToyStore):
            store = opened.enter_context(ToyStore.create(store, study_identity(model, statistic, seed=seed, aux=aux)))
        if plan is None:
            plan = opened.enter_context(Plan(model, threads=threads, tuned=None if store is None else store.tuned))
        yield toy_calculator(
            plan, statistic, seed=seed, aux=aux, expected_from=expected_from, store=store, engine=engine,
            progress=progress,
        )  # fmt: skip
