"""`intervals`: profile-likelihood intervals of many parameters at once, every edge a root that a column looks for.

F. James, M. Roos (MINOS), CPC 10 (1975) 343: the edges are where -2 ln L, minimised over all other parameters, has
risen by the quantile of a chi2 with one degree of freedom.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsmath._typing import Array, BoolArray
from nsmath.errors import OptionError
from nsmath.infer.profile import ProfileLikelihood, plan_for
from nsmath.infer.scan import chi2_quantile, natural_width
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.summary import Result, Summary, with_error

logger = logging.getLogger("nsmath.profile")

FOUND, AT_BOUND, FAILED = "found", "at bound", "failed"
ROOT_TOLERANCE = 1e-6
"""Of the root of 2 delta NLL, so an edge errs by this in standard deviations."""
MAX_ROUNDS = 40
GROWTH = 2.0
"""An edge that is not bracketed yet is looked for at most so many times further out."""
MAX_RESTARTS = 3

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, repr=False)
class Edge(Result):
    """One end of an interval.

    Attributes
    ----------
    value : where the likelihood has risen enough; None at a bound, which the likelihood allows, and where fits failed.
    status : ``found``, ``at bound`` or ``failed``. bound : the parameter's bound on this side.
    """

    value: float | None
    status: str
    bound: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {"value": self.value, "status": self.status, "bound": self.bound}

    def __str__(self) -> str:
        return self.status if self.value is None else f"{self.value:.5g}"

    def summary(self) -> Summary:
        """Return where the interval ends, or why it is not known."""
        return Summary(f"edge of an interval, {self.status}", (("value", str(self)), ("bound", f"{self.bound:.5g}")))


@dataclass(frozen=True, slots=True, repr=False)
class Interval(Result):
    """The interval of one parameter at one confidence level; ``uncertainty`` is the Hessian's, None at a bound."""

    name: str
    level: float
    value: float
    uncertainty: float | None
    lower: Edge
    upper: Edge

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "name": self.name, "level": self.level, "value": self.value, "uncertainty": self.uncertainty,
            "lower": self.lower.to_dict(), "upper": self.upper.to_dict(),
        }  # fmt: skip

    def summary(self) -> Summary:
        """Return best fit and edges."""
        facts = (("best fit", with_error(self.value, self.uncertainty)), ("lower", str(self.lower)),
                 ("upper", str(self.upper)))  # fmt: skip
        return Summary(f"{self.name} at {100.0 * self.level:g} % C.L., profile likelihood", facts)


@dataclass(frozen=True, slots=True, repr=False)
class IntervalsResult(Result):
    """Profile-likelihood intervals: one `Interval` for each parameter and level.

    Attributes
    ----------
    n_fits : conditional fits that were made. is_refitted : the free fit was started again from a lower point.
    """

    measurement: str
    levels: tuple[float, ...]
    intervals: tuple[Interval, ...]
    n_fits: int
    is_refitted: bool
    interpolation: dict[str, str]
    model_digest: str
    backend: str
    dtype: str
    device: str

    @property
    def n_failed(self) -> int:
        """Edges that were not found although no bound stands in the way."""
        return sum(edge.status == FAILED for each in self.intervals for edge in (each.lower, each.upper))

    def of(self, name: str, level: float | None = None) -> Interval:
        """Return the interval of a parameter at a level, the first one if not given."""
        wanted = self.levels[0] if level is None else level
        return next(each for each in self.intervals if each.name == name and each.level == wanted)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "measurement": self.measurement,
            "levels": list(self.levels),
            "intervals": [each.to_dict() for each in self.intervals],
            "n_fits": self.n_fits,
            "n_failed": self.n_failed,
            "is_refitted": self.is_refitted,
            "interpolation": self.interpolation,
            "model_digest": self.model_digest,
            "backend": self.backend,
            "dtype": self.dtype,
            "device": self.device,
        }

    def summary(self) -> Summary:
        """Return how many edges failed, and a table of the intervals, as shifts from the best fit."""

        def shift(edge: Edge, value: float) -> str:
            return edge.status if edge.value is None else f"{edge.value - value:+.4g}"

        rows = tuple(
            (each.name, f"{100.0 * each.level:g} %", f"{each.value:.5g}", shift(each.lower, each.value),
             shift(each.upper, each.value))
            for each in self.intervals
        )  # fmt: skip
        facts = (("conditional fits", str(self.n_fits)), ("edges that failed", str(self.n_failed)))
        columns = ("parameter", "C.L.", "best fit", "down", "up")
        return Summary(f"profile-likelihood intervals of '{self.measurement}'", facts, columns, rows)


def intervals(
    model: Model, parameters: str | Sequence[str] | None = None, *, levels: Sequence[float] = (0.6827,),
    plan: Plan | None = None, progress: Progress | None = None,
) -> IntervalsResult:  # fmt: skip
    """Return profile-likelihood intervals, all edges of all parameters at all levels in batches.

    Parameters
    ----------
    parameters : names; every fitted parameter when None.
    levels : confidence levels in (0, 1).
    plan : a plan of this model; one is made for the call when None.
    progress : called with (edges found, edges in all, phase).

    Raises
    ------
    ModelError, OptionError
        Unknown names, fixed parameters, levels out of range.
    FitError
        The free fit does not converge.
    """
    chosen = (parameters,) if isinstance(parameters, str) else parameters
    names = tuple(p.name for p in model.parameters if not p.is_fixed) if chosen is None else tuple(chosen)
    for level in levels:
        if not 0.0 < level < 1.0:
            raise OptionError(f"level is {level:g}; expected a confidence level between 0 and 1, such as 0.6827.")
    if not names or not levels or len(set(names)) < len(names):
        raise OptionError("expected different parameters, and one level or more.")
    with plan_for(model, plan) as used:
        profile = ProfileLikelihood(used, names)
        search = _Search.of(profile, names, tuple(levels))
        while search.is_open.any():
            search.advance(progress)
        edges = search.edges()
        best = profile.best
        found = []
        for name in names:
            index = model.index_of(name)
            error = float(best.uncertainties[index])
            found += [
                Interval(
                    name, level, float(profile.theta[index]), error if math.isfinite(error) else None,
                    edges[name, level, -1], edges[name, level, 1],
                )
                for level in levels
            ]  # fmt: skip
        return IntervalsResult(
            measurement=model.measurement, levels=tuple(levels), intervals=tuple(found), n_fits=search.n_fits,
            is_refitted=profile.is_refitted, interpolation=model.interp.to_dict(), model_digest=model.digest,
            **used.origin,
        )  # fmt: skip


@dataclass
class _Search:
    """All edges at once; every array has an entry for each of E edges.

    The root g of 2 delta NLL is nearly linear in the distance d from the best fit, so g(d) = target is solved by
    secants inside a bracket.

    Attributes
    ----------
    index, side, target, room : parameter (of P), -1 or +1, root wanted, distance to the bound.
    at : distance to be tried next. low, high, g_low, g_high : the bracket so far, NaN where there is none.
    theta : (E, P) last conditional fit. is_open : still looking. status : how it ended.
    """

    profile: ProfileLikelihood
    keys: list[tuple[str, float, int]]
    index: Any
    side: Array
    target: Array
    room: Array
    at: Array
    low: Array
    high: Array
    g_low: Array
    g_high: Array
    theta: Array
    is_open: BoolArray
    status: list[str]
    n_failures: Any
    n_fits: int = 0
    n_restarts: int = 0
    rounds: int = 0
    last: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, profile: ProfileLikelihood, names: tuple[str, ...], levels: tuple[float, ...]) -> _Search:
        """Return the search before its first fit."""
        keys = [(name, level, side) for name in names for level in levels for side in (-1, 1)]
        index = np.array([profile.model.index_of(name) for name, _, _ in keys])
        n = len(keys)
        nothing = np.full(n, np.nan)
        search = cls(
            profile, keys, index, np.array([float(side) for *_, side in keys]),
            np.array([math.sqrt(chi2_quantile(level, 1)) for _, level, _ in keys]), nothing.copy(), nothing.copy(),
            np.zeros(n), nothing.copy(), np.zeros(n), nothing.copy(), np.repeat(profile.theta[None], n, axis=0),
            np.ones(n, dtype=bool), [FAILED] * n, np.zeros(n, dtype=int),
        )  # fmt: skip
        search._begin()
        return search

    def _begin(self) -> None:
        """Start, or start again, from the profile's best fit."""
        centre = self.profile.theta[self.index]
        lower, upper = (bound[self.index] for bound in self.profile.model.bounds)
        self.room = np.where(self.side < 0.0, centre - lower, upper - centre)
        width = np.array([natural_width(self.profile, i) for i in self.index])
        self.at = np.minimum(self.target * width, self.room)
        n = len(self.index)
        self.low, self.g_low = np.zeros(n), np.zeros(n)
        self.high, self.g_high = np.full(n, np.nan), np.full(n, np.nan)
        self.last = np.zeros(n)
        self.theta = np.repeat(self.profile.theta[None], n, axis=0)
        self.is_open, self.status, self.n_failures = np.ones(n, dtype=bool), [FAILED] * n, np.zeros(n, dtype=int)
        self.rounds = 0
        for i in np.flatnonzero(self.room <= 0.0).tolist():
            self._close(i, AT_BOUND)

    def _close(self, i: int, status: str) -> None:
        self.is_open[i], self.status[i] = False, status

    def advance(self, progress: Progress | None) -> None:
        """Make one fit for every open edge and decide where each looks next."""
        todo = np.flatnonzero(self.is_open)
        at, centre = self.at[todo], self.profile.theta[self.index[todo]]
        values = centre + self.side[todo] * at
        lower, upper = (bound[self.index[todo]] for bound in self.profile.model.bounds)
        values = np.clip(values, lower, upper)
        fits = self.profile.conditional(self.index[todo, None], values[:, None], self._starts(todo))
        self.n_fits += len(todo)
        self.rounds += 1
        if self.n_restarts < MAX_RESTARTS and self.profile.refit(fits):
            # Another best fit: every distance and every rise counts from there.
            self.n_restarts += 1
            self._begin()
            return
        root = np.sqrt(np.maximum(fits.twice_delta_nll, 0.0))
        for k, i in enumerate(todo.tolist()):
            if not fits.converged[k]:
                self._step_back(i)
                continue
            self.theta[i], self.last[i] = fits.theta[k], self.at[i]
            self._narrow(i, float(root[k]))
        if self.rounds >= MAX_ROUNDS:
            for i in np.flatnonzero(self.is_open).tolist():
                self._close(i, FAILED)
        if progress is not None:
            progress(int((~self.is_open).sum()), len(self.keys), "edges of intervals")

    def _starts(self, todo: Any) -> Array | None:
        """Return where fits start: the last conditional fit's shift, stretched to the new distance."""
        if self.rounds == 0:
            return None
        best = self.profile.theta
        last = self.last[todo]
        stretch = np.divide(self.at[todo], last, out=np.zeros(len(todo)), where=last > 0.0)
        lower, upper = self.profile.model.bounds
        starts: Array = np.clip(best + stretch[:, None] * (self.theta[todo] - best), lower, upper)
        return starts

    def _step_back(self, i: int) -> None:
        """A fit failed: look nearer, where one has not; give up after some of it."""
        self.n_failures[i] += 1
        if self.n_failures[i] > 5:
            self._close(i, FAILED)
            return
        self.at[i] = 0.5 * (self.low[i] + self.at[i])

    def _narrow(self, i: int, g: float) -> None:
        """Take in the root ``g`` at distance ``at`` and choose the next one."""
        d, target = self.at[i], self.target[i]
        if abs(g - target) < ROOT_TOLERANCE:
            self._close(i, FOUND)
            return
        if g < target:
            self.low[i], self.g_low[i] = d, g
            if d >= self.room[i]:
                self._close(i, AT_BOUND)
                return
        else:
            self.high[i], self.g_high[i] = d, g
        low, high = self.low[i], self.high[i]
        if math.isnan(high):
            # As if g were linear from the best fit on; a plateau makes that a long way, so step by step.
            guess = d * target / g if g > 0.0 else math.inf
            self.at[i] = min(max(guess, d * 1.02), d * GROWTH, self.room[i])
            return
        share = (target - self.g_low[i]) / (self.g_high[i] - self.g_low[i])
        # Secants close in from one side; a little off the ends the bracket shrinks from both.
        guess = low + (high - low) * min(max(share, 1e-9), 1.0 - 1e-9)
        if self.rounds > 6 and self.rounds % 2:
            guess = 0.5 * (low + high)
        self.at[i] = guess
        if high - low <= 1e-13 * max(abs(high), 1e-300):
            self._close(i, FOUND)

    def edges(self) -> dict[tuple[str, float, int], Edge]:
        """Return the edges by parameter, level and side."""
        found = {}
        for i, key in enumerate(self.keys):
            parameter = self.profile.model.parameters[self.index[i]]
            bound = parameter.lower if self.side[i] < 0.0 else parameter.upper
            value = float(self.profile.theta[self.index[i]] + self.side[i] * self.at[i])
            found[key] = Edge(value if self.status[i] == FOUND else None, self.status[i], bound)
            if self.status[i] == FAILED:
                logger.warning("no edge of the %g %% interval of %r was found: fits failed on the way", 100.0 * key[1],
                               key[0])  # fmt: skip
        return found
