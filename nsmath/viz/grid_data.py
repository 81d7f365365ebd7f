"""`grid_data`: the numbers that figures of a grid draw, one row for each point, from results of any task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nsmath.errors import OptionError
from nsmath.infer.asymptotics import upper_tail
from nsmath.spec.patchset import PatchValue
from nsmath.spec.wording import counted
from nsmath.study.grid import GridResult, numeric
from nsmath.study.result import StudyResult

NAN = math.nan
NO_BAND = (NAN,) * 5


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a number is drawn. Words may hold ``{poi}``, ``{mu}`` (the tested value) and ``{cl}``, such as 95 %.

    Attributes
    ----------
    title, axis : what it is, above the figure and along its axis.
    level : at or below it a point is marked; ``line``, ``marked`` and ``contour`` are what the legend calls the line at
        the level, the points, and the border between them (after ``observed`` or ``expected``).
    bound, marker : what the legend calls points of which only a bound is known, and how they look.
    is_log : on a logarithmic axis even where the numbers differ little.
    """

    title: str
    axis: str
    level: float
    line: str
    marked: str
    contour: str
    bound: str
    marker: str
    is_log: bool = False


QUANTITIES: dict[str, Quantity] = {
    "limit": Quantity(
        "{cl} C.L. upper limit on {poi}", "{cl} C.L. upper limit on {poi}", 1.0, "signal as predicted ({poi} = 1)",
        "excluded at {cl} C.L.", "exclusion at {cl} C.L.", "beyond the upper bound of {poi}", "^",
    ),
    "CLs": Quantity(
        r"$\mathrm{{CL}}_s$ of {poi} = {mu}", r"$\mathrm{{CL}}_s$", 0.05, "95 % C.L.", "excluded at 95 % C.L.",
        "exclusion at 95 % C.L.",        "lower than this: no toy in the tail", "v",
    ),
    "p0": Quantity(
        "local $p_0$ of {poi} = 0", "local $p_0$", upper_tail(3.0), "3 standard deviations",
        "3 standard deviations or more", "3 standard deviations", "lower than this: no toy in the tail", "v",
        is_log=True,
    ),
}  # fmt: skip
"""What is drawn of a point: its upper limit, or the CLs or the p0 of a test."""


@dataclass(frozen=True, slots=True)
class GridRow:
    """One point; numbers that there are none of are NaN.

    Attributes
    ----------
    at : its coordinates.
    observed, error : the number with its statistical error.
    expected : the band, from the lowest to the highest, cut at the bound where it is beyond: ``n_cut`` edges are.
    bound : what the number lies beyond, where it is not known itself.
    """

    name: str
    at: tuple[float, ...]
    observed: float
    error: float
    expected: tuple[float, ...]
    bound: float
    n_cut: int = 0

    @property
    def shown(self) -> float:
        """The number, or its bound."""
        return self.bound if math.isnan(self.observed) else self.observed


@dataclass(frozen=True, slots=True)
class GridData:
    """What is drawn.

    Attributes
    ----------
    labels : those of the patch set that tell the points apart, one or two; none where no such choice does.
    kind : a row of `QUANTITIES`. mu : the tested value; NaN for limits.
    n_missing : points left out, without such a result.
    """

    labels: tuple[str, ...]
    kind: str
    mu: float
    rows: tuple[GridRow, ...]
    n_missing: int
    poi: str
    measurement: str
    cl: str

    @property
    def quantity(self) -> Quantity:
        """How the numbers are drawn."""
        return QUANTITIES[self.kind]

    def words(self, text: str) -> str:
        """Return ``text`` with POI, tested value and confidence level in their places."""
        return text.format(poi=self.poi.replace("$", r"\$"), mu=f"{self.mu:g}", cl=self.cl)

    @property
    def title(self) -> str:
        """What the figure is of."""
        missing = f"; {self.n_missing} without a result left out" if self.n_missing else ""
        measurement = self.measurement.replace("$", r"\$")
        return f"{measurement}: {self.words(self.quantity.title)}, {counted(len(self.rows), 'point')}{missing}"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One test or limit of one point, as for JSON; ``found`` None where there is none."""

    name: str
    values: Mapping[str, PatchValue]
    mu: float
    found: dict[str, Any] | None


def _entries(result: GridResult | StudyResult) -> Iterator[_Entry]:
    if isinstance(result, StudyResult):
        for row in result.rows:
            found = None if row.outcome is None else row.outcome.to_dict()
            yield _Entry(row.point.name, row.point.values, row.mu, found)
        return
    # All points of such a grid are tested at the same mu; one that failed does not say at which.
    tested = [getattr(point.outcome, "mu_test", NAN) for point in result.points if point.outcome is not None]
    for point in result.points:
        found = None if point.outcome is None else point.outcome.to_dict()
        yield _Entry(point.name, point.values, tested[0] if tested else NAN, found)


def distinct_mu(result: GridResult | StudyResult) -> list[float]:
    """Return the values of mu that were tested, in order of appearance; one NaN for limits."""
    found: list[float] = []
    for entry in _entries(result):
        if not any(_same(entry.mu, mu) for mu in found):
            found.append(entry.mu)
    return found


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def grid_data(result: GridResult | StudyResult, *, mu: float | None = None) -> GridData:
    """Return the rows of a grid; of a study with several mu those of ``mu``, the first one if not given.

    Raises
    ------
    OptionError
        No point has a result (at this mu).
    """
    entries = list(_entries(result))
    wanted = entries[0].mu if mu is None and entries else NAN if mu is None else mu
    entries = [entry for entry in entries if _same(entry.mu, wanted)]
    kinds = [_kind(entry.found) for entry in entries if entry.found is not None]
    rows = [(entry, _row(entry)) for entry in entries if entry.found is not None and _kind(entry.found) == kinds[0]]
    drawn = [(entry, row) for entry, row in rows if row is not None]
    if not drawn:
        raise OptionError("no point of the grid has a result to draw.")
    labels = _axes([entry for entry, _ in drawn])
    placed = tuple(
        GridRow(row.name, tuple(numeric(entry.values[label]) for label in labels), *_numbers(row))
        for entry, row in drawn
    )
    found = [entry.found for entry, _ in drawn if entry.found is not None]
    return GridData(
        labels, kinds[0], wanted, placed, len(entries) - len(drawn), _joined(each["poi"] for each in found),
        _joined(each["measurement"] for each in found),
        " or ".join(dict.fromkeys(f"{100.0 * each.get('cl', 0.95):.4g} %" for each in found)),
    )  # fmt: skip


def _numbers(row: GridRow) -> tuple[float, float, tuple[float, ...], float, int]:
    return row.observed, row.error, row.expected, row.bound, row.n_cut


def _joined(names: Iterator[str] | Any) -> str:
    return ", ".join(dict.fromkeys(names))


def _axes(entries: list[_Entry]) -> tuple[str, ...]:
    """Return the labels that place every point somewhere of its own, with numbers; none where no one or two do."""
    labels = list(dict.fromkeys(label for entry in entries for label in entry.values))
    at = {label: [numeric(entry.values.get(label, "")) for entry in entries] for label in labels}
    usable = [label for label in labels if not any(map(math.isnan, at[label]))]
    varied = [label for label in usable if len(set(at[label])) > 1] or usable[:1]
    places = set(zip(*(at[label] for label in varied), strict=True))
    return tuple(varied) if 1 <= len(varied) <= 2 and len(places) == len(entries) else ()


def _kind(found: Mapping[str, Any]) -> str:
    return "limit" if "mu_max" in found else "p0" if found["test_stat"] == "q0" else "CLs"


def _float(value: Any) -> float:
    return NAN if value is None else float(value)


def _row(entry: _Entry) -> GridRow | None:
    """Return the numbers of one point, without its coordinates; None where not even a bound is known."""
    assert entry.found is not None
    row = _READERS[_kind(entry.found)](entry.name, entry.found)
    return None if math.isnan(row.shown) else row


def _limit(name: str, found: Mapping[str, Any]) -> GridRow:
    pairs = list(zip(found["expected"]["limit"], found["expected"]["beyond"], strict=True))
    band = tuple(_float(beyond if limit is None else limit) for limit, beyond in pairs)
    n_cut = sum(limit is None for limit, _ in pairs)
    bound = _float(found["observed_beyond"])
    return GridRow(name, (), _float(found["observed"]), _float(found["observed_error"]), band, bound, n_cut)


def _cls(name: str, found: Mapping[str, Any]) -> GridRow:
    expected = found["expected_set"]
    # Edges whose tail no toy reached lie somewhere below their bound: drawn at 0, or the band would end in mid-air.
    band = NO_BAND if expected is None else tuple(0.0 if x is None else float(x) for x in expected["cls"])
    error, bound = _float(found.get("cls_error")), _float(found.get("cls_upper"))
    return GridRow(name, (), _float(found["cls"]), error, band, bound)


def _p0(name: str, found: Mapping[str, Any]) -> GridRow:
    expected = found["expected_set"]
    band = NO_BAND if expected is None else tuple(map(_float, expected["clsb"]))
    # Asymptotic tests call it clsb, the p-value of what is tested.
    observed, error = _float(found.get("p0", found["clsb"])), _float(found.get("p0_error"))
    return GridRow(name, (), observed, error, band, _float(found.get("p0_upper")))


_READERS = {"limit": _limit, "CLs": _cls, "p0": _p0}
