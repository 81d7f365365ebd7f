"""`ToyTestResult`: the outcome of a toy-based test, from the toys' q and the observed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any

from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.pvalues import NSIGMA_ORDER, Tail, expected_band, ratio, tail
from nsmath.infer.stopping import StoppingRule, Verdict, stopping_dict
from nsmath.infer.teststats import TEST_STATISTICS, TestStatistic
from nsmath.store.ensemble import Ensemble, Work
from nsmath.summary import Result, Summary, band, with_error

MAX_FAILED_SHARE = 0.01
"""Share of an ensemble's toys that may fail; the numbers of a test with more are not to be trusted."""


@dataclass(frozen=True, slots=True, repr=False)
class ExpectedSet(Result):
    """The band that background alone would give: an entry for each of ``nsigma_order``; see `expected_band`.

    ``expected_from``: ``data``, toys at the conditional fits to the observed data, or ``nominal``, toys at the
    nominal parameters, which know nothing of the data.
    """

    expected_from: str
    nsigma_order: tuple[int, ...]
    cls: tuple[float | None, ...]
    cls_error: tuple[float | None, ...]
    cls_upper: tuple[float | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        lists = {name: list(getattr(self, name)) for name in self.__slots__ if name != "expected_from"}
        return {"expected_from": self.expected_from, **lists}

    def summary(self) -> Summary:
        """Return the five values with their errors; a bound where toys give none."""
        names = [label for label, _ in band(self.cls)]
        values = [with_error(*three) for three in zip(self.cls, self.cls_error, self.cls_upper, strict=True)]
        return Summary(f"CLs expected from {self.expected_from}", tuple(zip(names, values, strict=True)))


@dataclass(frozen=True, slots=True, repr=False)
class ToyTestResult(Result):
    """Outcome of a toy-based test; numbers that toys cannot give are None, with a bound beside them.

    Attributes
    ----------
    clsb, clb, cls : p-values of the tested and of the background hypothesis, and their ratio; for ``q0`` clsb is
        the p-value of mu = 0, clb that of the alternative, and cls is None.
    clsb_error, clb_error, cls_error : statistical standard errors; None where a tail is empty or full.
    clsb_upper, clb_upper, cls_upper : one-sided 95 % C.L. upper limits where a tail is empty.
    bracket : (lowest, highest) cls with failed toys counted either way; None without failures.
    stopping : the rule that ended the study, and whether it was satisfied; None for a given number of toys.
    shard : (i, of) where this is a part of a study; then its numbers are those of the part.
    threads : None where toys came from other processes.
    transfers : copies between host and device, see `nsmath.backends.transfers.Ledger.to_dict`; None where toys came
        from elsewhere.
    fits : by ensemble, the work of this run; toys that a store held already took none.
    ensembles : q, mu_hat and statuses by toy, keys ``b`` and ``sb``; with a nominal band also ``b_nominal`` and
        ``sb_nominal``.
    """

    mu_test: float
    mu_hat: float
    q_obs: float
    clsb: float | None
    clb: float | None
    cls: float | None
    clsb_error: float | None
    clb_error: float | None
    cls_error: float | None
    clsb_upper: float | None
    clb_upper: float | None
    cls_upper: float | None
    bracket: tuple[float | None, float | None] | None
    expected_set: ExpectedSet | None
    p0: float | None
    p0_error: float | None
    p0_upper: float | None
    z0: float | None
    n_toys: dict[str, int]
    n_nonconverged: dict[str, int]
    n_error: dict[str, int]
    stopping: dict[str, Any] | None
    shard: tuple[int, int] | None
    seed: int
    test_stat: str
    aux: str
    poi: str
    poi_max: float | None
    measurement: str
    interpolation: dict[str, str]
    model_digest: str
    versions: dict[str, str]
    backend: str
    dtype: str
    device: str
    threads: int | None
    tile_width: int
    transfers: dict[str, Any] | None
    timing: dict[str, float]
    fits: dict[str, dict[str, int]]
    ensembles: dict[str, Ensemble] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, without the toys themselves."""
        names = [name for name in self.__slots__ if name not in ("ensembles", "expected_set", "bracket")]
        result: dict[str, Any] = {name: getattr(self, name) for name in names}
        result["expected_set"] = self.expected_set.to_dict() if self.expected_set else None
        result["cls_bracket"] = list(self.bracket) if self.bracket else None
        return result

    def summary(self) -> Summary:
        """Return best fit, q and p-values with their errors, observed and expected, and the number of toys."""
        facts = [("best fit", f"{self.mu_hat:.5g}"), ("q observed", f"{self.q_obs:.6g}")]
        if TEST_STATISTICS[self.test_stat].tests_null:
            title = f"{self.poi} = 0, toys ({self.test_stat}; alternative {self.mu_test:g})"
            facts += [("p0", with_error(self.p0, self.p0_error, self.p0_upper))]
            facts += [("Z", "undefined" if self.z0 is None else f"{self.z0:.4g}")]
        else:
            title = f"{self.poi} = {self.mu_test:g}, toys ({self.test_stat})"
            facts += [("CLs+b", with_error(self.clsb, self.clsb_error, self.clsb_upper))]
            facts += [("CLb", with_error(self.clb, self.clb_error, self.clb_upper))]
            facts += [("CLs", with_error(self.cls, self.cls_error, self.cls_upper))]
        if self.expected_set is not None:
            facts += self.expected_set.summary().facts
        failed = sum(self.n_nonconverged.values()) + sum(self.n_error.values())
        facts.append(("toys", f"{self.n_toys['b']} + {self.n_toys['sb']}, {failed} failed"))
        return Summary(title, tuple(facts))


def untrusted(result: ToyTestResult) -> str | None:
    """Return why the numbers of a test are not to be trusted; None where too few toys failed for that."""
    for name, ensemble in result.ensembles.items():
        n_toys = len(ensemble)
        if ensemble.n_failed > MAX_FAILED_SHARE * n_toys:
            look = "".join(
                f" Look at one with `nsmath toy --hypothesis {name} --index {index}` and the study's other options."
                for index in ensemble.index[ensemble.failed][:1]
            )
            return (
                f"{ensemble.n_failed} of {n_toys} toys of ensemble {name} failed, more than {MAX_FAILED_SHARE:.0%}: "
                f"do not trust CLs beyond the range that cls_bracket gives.{look}"
            )
    return None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a test comes from: what the result repeats for those who find it years later."""

    poi: str
    poi_max: float | None
    measurement: str
    interpolation: dict[str, str]
    model_digest: str
    versions: dict[str, str]
    backend: str
    dtype: str
    device: str
    threads: int | None
    tile_width: int
    seed: int
    aux: str
    transfers: dict[str, Any] | None


def tails(statistic: TestStatistic, ensembles: Mapping[str, Ensemble], q_obs: float) -> tuple[Tail, Tail]:
    """Return the tails of the tested and of the other hypothesis, failed toys left out."""
    tested, other = ("b", "sb") if statistic.tests_null else ("sb", "b")
    clsb, clb = (tail(ensembles[name].q[~ensembles[name].failed], q_obs) for name in (tested, other))
    return clsb, clb


def toy_test_result(
    statistic: TestStatistic, mu: float, observed: Mapping[str, float], ensembles: dict[str, Ensemble],
    provenance: Provenance, *, expected: bool, work: Mapping[str, Work] | None = None,
    timing: Mapping[str, float] | None = None, stopping: tuple[StoppingRule, Verdict] | None = None,
    shard: tuple[int, int] | None = None,
) -> ToyTestResult:  # fmt: skip
    """Return the test of ``mu``.

    Parameters
    ----------
    observed : ``q_obs`` and ``mu_hat``.
    ensembles : toys of ``b`` and ``sb``, and of ``b_nominal`` and ``sb_nominal`` if the band is to come from these.
    expected : also the band expected from background alone.
    """
    q_obs = observed["q_obs"]
    clsb, clb = tails(statistic, ensembles, q_obs)
    n_failed = {name: ensembles[name].n_failed for name in ("b", "sb")}
    good = {name: ensemble.q[~ensemble.failed] for name, ensemble in ensembles.items()}
    cls, cls_error, cls_upper = (None, None, None) if statistic.tests_null else ratio(clsb, clb)
    bands = None
    suffix = "_nominal" if "b_nominal" in ensembles else ""
    q_b, q_sb = good["b" + suffix], good["sb" + suffix]
    if expected and not statistic.tests_null and len(q_b) and len(q_sb):
        cls_values, errors, uppers = expected_band(q_b, q_sb)
        bands = ExpectedSet(
            "nominal" if suffix else "data", NSIGMA_ORDER, tuple(cls_values), tuple(errors), tuple(uppers)
        )
    p0 = clsb if statistic.tests_null else None
    tested, other = ("b", "sb") if statistic.tests_null else ("sb", "b")
    return ToyTestResult(
        mu_test=mu, mu_hat=observed["mu_hat"], q_obs=q_obs, clsb=_defined(clsb), clb=_defined(clb), cls=cls,
        clsb_error=clsb.error, clb_error=clb.error, cls_error=cls_error, clsb_upper=clsb.upper, clb_upper=clb.upper,
        cls_upper=cls_upper,
        bracket=_bracket(clsb, clb, n_failed[tested], n_failed[other]) if sum(n_failed.values()) else None,
        expected_set=bands,
        p0=_defined(p0) if p0 else None,
        p0_error=p0.error if p0 else None,
        p0_upper=p0.upper if p0 else None,
        z0=-NormalDist().inv_cdf(p0.p) if p0 and 0 < p0.n_tail < p0.n else None,
        n_toys={name: len(ensembles[name]) for name in ("b", "sb")},
        n_nonconverged={
            name: ensembles[name].count(FitStatus.MAX_ITERATIONS, FitStatus.NO_DECREASE) for name in ("b", "sb")
        },
        n_error={name: ensembles[name].count(FitStatus.OUT_OF_DOMAIN) for name in ("b", "sb")},
        stopping=stopping_dict(*(stopping or (None, None))),
        shard=shard,
        test_stat=statistic.name,
        timing={name: round(value, 6) for name, value in (timing or {}).items()},
        fits={name: asdict(part) for name, part in (work or {}).items()},
        ensembles=ensembles,
        **asdict(provenance),
    )  # fmt: skip


def _defined(p: Tail) -> float | None:
    """Return the p-value; None where no toy is left, or the tail is empty (its bound says what is known)."""
    return p.p if p.n and p.n_tail else None


def _bracket(clsb: Tail, clb: Tail, failed_sb: int, failed_b: int) -> tuple[float | None, float | None]:
    """Return the lowest and the highest CLs that failed toys allow: all in a tail, or none of them."""
    n_sb, n_b = clsb.n + failed_sb, clb.n + failed_b
    low = (clsb.n_tail / n_sb) / ((clb.n_tail + failed_b) / n_b) if clb.n_tail + failed_b and n_sb else None
    high = ((clsb.n_tail + failed_sb) / n_sb) / (clb.n_tail / n_b) if clb.n_tail and n_sb else None
    return low, high
