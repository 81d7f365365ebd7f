"""Sections of a report on a workspace: a row of `WORKSPACE_SECTIONS` each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nsmath.errors import NsmathError
from nsmath.fitting.fit import FitResult, fit
from nsmath.fitting.inspection import Inspection, inspection, pulls
from nsmath.infer.asymptotic_api import significance, upper_limit
from nsmath.infer.asymptotic_limit import AsymptoticLimitResult
from nsmath.infer.goodness import GoodnessOfFit, goodness_of_fit
from nsmath.infer.ranking import Impact, RankingResult, ranking
from nsmath.model.model import Model
from nsmath.model.yields import prefit_uncertainties
from nsmath.plan.plan import Plan
from nsmath.report.blocks import Block, Facts, Note, facts, image, images, summary_blocks, table
from nsmath.spec.lint import lint_warnings
from nsmath.spec.workspace import Workspace
from nsmath.viz import (
    channel_figures,
    correlations,
    goodness_figure,
    limit_figure,
    pull_pages,
    ranking_figure,
)

TOP = 25
"""Parameters in the figure of the ranking; the table has them all."""
CORRELATION = 0.1
"""Correlations at least this large are in the table."""


@dataclass
class WorkspaceSubject:
    """A workspace and what sections ask about it, each computed once."""

    workspace: Workspace
    model: Model
    plan: Plan
    n_toys: int
    seed: int
    note: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def best(self) -> FitResult:
        """The best fit."""
        self.note("best fit")
        return fit(self.model, plan=self.plan)

    @cached_property
    def looked(self) -> Inspection:
        """Channels, modifiers, yields."""
        return inspection(self.workspace, self.model, self.best)

    @cached_property
    def limit(self) -> AsymptoticLimitResult:
        """Asymptotic limits."""
        self.note("upper limits")
        return upper_limit(self.model, plan=self.plan)

    @cached_property
    def ranked(self) -> RankingResult:
        """Impacts."""
        self.note("ranking")
        return ranking(self.model, plan=self.plan)

    @cached_property
    def goodness(self) -> GoodnessOfFit:
        """Goodness of the best fit."""
        self.note("goodness of fit")
        return goodness_of_fit(self.model, n_toys=self.n_toys, seed=self.seed, plan=self.plan)

    @property
    def has_tests(self) -> bool:
        """There is a POI that can be tested."""
        poi = self.model.poi_index
        return poi is not None and not self.model.parameters[poi].is_fixed


@dataclass(frozen=True, slots=True)
class Section:
    """One section: where it applies, and what it shows."""

    name: str
    title: str
    applies: Callable[[Any], bool]
    blocks: Callable[[Any], list[Block]]


def summary_section(subject: WorkspaceSubject) -> list[Block]:
    """The numbers that a reader wants first."""
    model, best = subject.model, subject.best
    rows: list[tuple[str, object]] = [
        ("measurement", model.measurement),
        ("size", f"{len(model.channels)} channels, {len(model.data)} bins, {len(model.names)} parameters"),
        ("fit", best.status.message),
    ]
    if model.poi:
        error = best.uncertainties[model.names.index(model.poi)]
        fixed = model.parameters[model.require_poi()].is_fixed
        shown = "fixed" if fixed else ("at a bound" if error != error else f"+- {error:.4g}")
        rows.append((f"parameter of interest {model.poi}", f"{best[model.poi]:.5g} ({shown})"))
    if subject.has_tests:
        limit = subject.limit
        rows += [
            (f"upper limit on {model.poi} at 95 % C.L.", limit.observed),
            ("expected", f"{limit.expected[2]} (within 1 sigma {limit.expected[1]} to {limit.expected[3]})"),
        ]
        discovery = significance(model, plan=subject.plan)
        rows.append(("significance", f"p0 {discovery.clsb:.4g}, Z {discovery.z:.3f} (asymptotic)"))
    goodness = subject.goodness
    chi2 = "undefined without degrees of freedom" if goodness.p_chi2 is None else f"{goodness.p_chi2:.4g}"
    rows.append(("goodness of fit, p by chi2", chi2))
    if best.at_bound:
        rows.append(("at a bound", ", ".join(best.at_bound)))
    return [facts(rows)]


def warnings_section(subject: WorkspaceSubject) -> list[Block]:
    """Everything doubtful that the load check and lint have found."""
    found = [*subject.workspace.warnings, *lint_warnings(subject.workspace)]
    if not found:
        return [Note("Nothing doubtful was found.")]
    return [table(("kind", "where", "what"), [(w.kind, w.path, w.message) for w in found])]


def parameters_section(subject: WorkspaceSubject) -> list[Block]:
    """All parameters with their pulls."""
    model, best = subject.model, subject.best
    pull, widths = pulls(model, best.values), prefit_uncertainties(model)
    rows = []
    for k, parameter in enumerate(model.parameters):
        error, width = float(best.uncertainties[k]), float(widths[k])
        known = error == error and not parameter.is_fixed
        rows.append((
            parameter.name, float(best.values[k]), error if known else None,
            f"{pull[k]:+.3f}" if pull[k] == pull[k] else None, error / width if known and width > 0.0 else None,
            parameter.constraint, f"{parameter.lower:g} to {parameter.upper:g}",
            "fixed" if parameter.is_fixed else "at a bound" if parameter.name in best.at_bound else "",
        ))  # fmt: skip
    columns = ("parameter", "value", "uncertainty", "pull", "constraint", "auxiliary", "bounds", "note")
    return [
        table(columns, rows, "Pull and constraint are in widths of the auxiliary measurement."),
        *images(pull_pages(model, best), "pulls"),
    ]  # fmt: skip


def ranking_section(subject: WorkspaceSubject) -> list[Block]:
    """Impacts of nuisance parameters."""
    rows = []
    for k, row in enumerate(subject.ranked.parameters, start=1):
        rows.append((str(k), row.name, *_shifts(row.postfit_impact), *_shifts(row.prefit_impact)))
    columns = ("", "parameter", "after the fit, up", "after the fit, down", "before, up", "before, down")
    return [
        image(ranking_figure(subject.ranked, top=TOP), f"the {TOP} largest impacts and their pulls"),
        table(columns, rows, f"Shifts of {subject.model.poi}. * held at a bound nearer than a standard deviation."),
    ]


def _shifts(pair: tuple[Impact, Impact] | None) -> list[str | None]:
    """Return the shifts up and down as text; nothing where there is none."""
    if pair is None:
        return [None, None]
    return [
        "failed" if impact.shift is None else f"{impact.shift:+.4g}" + ("*" if impact.is_cut else "")
        for impact in (pair[1], pair[0])
    ]


def correlations_section(subject: WorkspaceSubject) -> list[Block]:
    """The correlation matrix, and the large ones as a table."""
    best = subject.best
    matrix = best.correlation
    n = len(best.names)
    large = [
        (f"{matrix[i, j]:+.3f}", f"{abs(matrix[i, j]):.3f}", best.names[i], best.names[j])
        for i in range(n)
        for j in range(i + 1, n)
        if abs(matrix[i, j]) >= CORRELATION
    ]
    large.sort(key=lambda row: row[1], reverse=True)
    rows = table(("correlation", "size", "", ""), large, f"Correlations of {CORRELATION:g} or more.")
    return [image(correlations(best), "correlation matrix"), rows]


def yields_section(subject: WorkspaceSubject) -> list[Block]:
    """Events by channel and sample, before and after the fit."""
    before, after = subject.looked.nominal, subject.looked.postfit
    assert after is not None
    rows = []
    for old, new in zip(before, after, strict=True):
        for name in (*old.samples, None):
            first, second = (old.all, new.all) if name is None else (old.samples[name], new.samples[name])
            rows.append((
                old.name, name or "all", _with(first.total, first.total_uncertainty),
                _with(second.total, second.total_uncertainty), float(old.observed.sum()) if name is None else None,
            ))  # fmt: skip
    return [
        table(("channel", "sample", "before the fit", "after the fit", "observed"), rows),
        *images(channel_figures(before, after), "observed and expected events"),
    ]


def _with(value: float, error: float | None) -> str:
    return f"{value:.5g}" if error is None or error != error else f"{value:.5g} +- {error:.2g}"


def limit_section(subject: WorkspaceSubject) -> list[Block]:
    """The CLs curves of the asymptotic limit."""
    limit = subject.limit
    blocks = summary_blocks(limit.summary())
    if len(limit.points) > 1:
        blocks.append(image(limit_figure(limit), f"CLs against {subject.model.poi}"))
    rows = [(p.mu_test, p.q_obs, p.clsb, p.clb, p.cls) for p in limit.points]
    return [*blocks, table((subject.model.poi, "q", "CLs+b", "CLb", "CLs"), rows)]


def goodness_section(subject: WorkspaceSubject) -> list[Block]:
    """The best fit against the saturated model."""
    return [
        *summary_blocks(subject.goodness.summary()),
        image(goodness_figure(subject.goodness), "goodness of fit: toys, chi2 and the observed value"),
    ]


def model_section(subject: WorkspaceSubject) -> list[Block]:
    """Modifiers and what they act on."""
    rows = [
        (m.name, "+".join(m.types), m.constraint, m.n_parameters, ", ".join(m.channels), ", ".join(m.samples))
        for m in subject.looked.modifiers
    ]
    codes = ", ".join(f"{kind} {code}" for kind, code in subject.model.interp.to_dict().items())
    return [
        Facts((("interpolation", codes),)),
        table(("modifier", "types", "constraint", "parameters", "channels", "samples"), rows),
    ]


def always(subject: WorkspaceSubject) -> bool:
    """Every workspace."""
    return True


def with_tests(subject: WorkspaceSubject) -> bool:
    """Workspaces with a POI that can be tested."""
    return subject.has_tests


def with_ranking(subject: WorkspaceSubject) -> bool:
    """Workspaces with a POI and something else that is fitted."""
    return subject.has_tests and sum(not p.is_fixed for p in subject.model.parameters) > 1


WORKSPACE_SECTIONS: tuple[Section, ...] = (
    Section("summary", "Summary", always, summary_section),
    Section("warnings", "Warnings", always, warnings_section),
    Section("limit", "Upper limit", with_tests, limit_section),
    Section("yields", "Events", always, yields_section),
    Section("parameters", "Parameters", always, parameters_section),
    Section("ranking", "Ranking", with_ranking, ranking_section),
    Section("correlations", "Correlations", always, correlations_section),
    Section("goodness", "Goodness of fit", always, goodness_section),
    Section("model", "Modifiers", always, model_section),
)


def section_blocks(section: Section, subject: Any) -> list[Block]:
    """Return what a section shows; the error where it cannot be computed, so that the page has the others."""
    try:
        return section.blocks(subject)
    except NsmathError as error:
        return [Note(f"This section could not be computed: {error}", warning=True)]
