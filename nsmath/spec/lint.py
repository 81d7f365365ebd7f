"""Everything that is wrong or doubtful in a workspace, as one list: the load stops at the first error, this does not.

Three stages, each of which relies on those before it: the form of the document, contradictions between its parts,
and what is legal and may still not be meant. The last has the warnings of the load and more of them, which would be
too many to print with every command.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nsmath.errors import WorkspaceError
from nsmath.spec.check import contradictions
from nsmath.spec.parse import VERSION, FormProblems, parse_workspace
from nsmath.spec.records import Channel, LoadWarning, LoHi, LoHiData, Observation
from nsmath.spec.uses import each_modifier, parameter_uses, path_of
from nsmath.spec.warn import load_warnings
from nsmath.spec.wording import names_along
from nsmath.spec.workspace import Workspace
from nsmath.summary import Result, Summary

__all__ = ["Finding", "LintReport", "lint"]

_NOISE = 1e-9
"""Relative difference below which a variation counts as equal to the nominal: rounding of whoever wrote the file."""

Stage = Literal["form", "contradictions", "warnings", "fit"]


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Result):
    """One thing that is wrong or doubtful.

    Attributes
    ----------
    severity : {'error', 'warning'}
        A workspace with an error cannot be loaded; a warning never changes what is computed.
    kind : str
        'form' or 'contradiction' for errors, the kind of the warning otherwise.
    path : str
        Where it is in the JSON document; empty for the document as a whole.
    names : str
        The same place in the words of the analysis.
    message : str
    """

    severity: Literal["error", "warning"]
    kind: str
    path: str
    names: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "severity": self.severity,
            "kind": self.kind,
            "path": self.path,
            "names": self.names,
            "message": self.message,
        }

    def __str__(self) -> str:
        # A warning names the place in its message.
        names = f" ({self.names})" if self.names and self.severity == "error" else ""
        return f"{self.path}{names}: {self.message}" if self.path else self.message

    def summary(self) -> Summary:
        """Return kind and message."""
        return Summary(f"{self.severity}, {self.kind}", (("message", str(self)),))


@dataclass(frozen=True, slots=True, repr=False)
class LintReport(Result):
    """All findings, in the order of the document within each stage.

    Attributes
    ----------
    findings : tuple of Finding
    stages : tuple of {'form', 'contradictions', 'warnings', 'fit'}
        What was looked at; an error in one stage leaves the later ones without ground.
    """

    findings: tuple[Finding, ...]
    stages: tuple[Stage, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that keep the workspace from being loaded."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def with_fit(self, warnings: Iterable[LoadWarning]) -> "LintReport":
        """This report with the warnings that a fit brought."""
        found = tuple(_of_warning(warning) for warning in warnings)
        return LintReport(self.findings + found, (*self.stages, "fit"))

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "n_errors": len(self.errors),
            "n_warnings": len(self.warnings),
            "stages": list(self.stages),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def summary(self) -> Summary:
        """Return how many findings there are, and all of them."""
        rows = tuple((finding.severity, finding.kind, str(finding)) for finding in self.findings)
        title = f"{len(self.errors)} errors, {len(self.warnings)} warnings"
        columns = ("severity", "kind", "message") if rows else ()
        return Summary(title, (("looked at", ", ".join(self.stages)),), columns, rows)


def lint(spec: object) -> LintReport:
    """Everything that is wrong or doubtful in a workspace.

    Parameters
    ----------
    spec : mapping or Workspace
        The parsed document. Nothing about it is taken for granted.
    """
    if isinstance(spec, Workspace):
        spec = spec.to_dict()
    try:
        channels, observations, measurements = parse_workspace(spec)
    except WorkspaceError as problem:
        problems = problem.problems if isinstance(problem, FormProblems) else (problem,)
        return LintReport(tuple(_of_error("form", each, spec) for each in problems), ("form",))
    errors = tuple(
        _of_error("contradiction", each, spec) for each in contradictions(channels, observations, measurements)
    )
    if errors:
        return LintReport(errors, ("form", "contradictions"))
    workspace = Workspace(channels, observations, measurements, VERSION)
    warnings = (
        *load_warnings(channels, observations, measurements, parameter_uses(channels)),
        *lint_warnings(workspace),
    )
    return LintReport(tuple(map(_of_warning, warnings)), ("form", "contradictions", "warnings"))


def _of_error(kind: str, problem: WorkspaceError, spec: object) -> Finding:
    return Finding("error", kind, problem.path, names_along(spec, problem.path), problem.message)


def _of_warning(warning: LoadWarning) -> Finding:
    return Finding("warning", warning.kind, warning.path, "", warning.message)


def lint_warnings(workspace: Workspace) -> Iterator[LoadWarning]:
    """The warnings that only `lint` gives, of a workspace that has passed the checks of the load."""
    yield from _of_templates(workspace.channels)
    yield from _of_expectation(workspace.channels, workspace.observations)
    yield from _of_sides(workspace.channels)


def _of_templates(channels: tuple[Channel, ...]) -> Iterator[LoadWarning]:
    for c, channel in enumerate(channels):
        for s, sample in enumerate(channel.samples):
            place, path = f"channel '{channel.name}', sample '{sample.name}'", f"channels[{c}].samples[{s}].data"
            if not any(sample.data):
                yield LoadWarning("empty-template", path, f"{place}: the sample has no events in any bin.")
            negative = [b for b, events in enumerate(sample.data) if events < 0]
            if negative:
                message = f"{place}: the yield is negative in {_bins(negative)}."
                yield LoadWarning("negative-yield", path, message)


def _of_expectation(channels: tuple[Channel, ...], observations: tuple[Observation, ...]) -> Iterator[LoadWarning]:
    observed = {observation.name: observation.data for observation in observations}
    for c, channel in enumerate(channels):
        totals = [sum(events) for events in zip(*(sample.data for sample in channel.samples), strict=True)]
        empty = [b for b, total in enumerate(totals) if total <= 0]
        seen = [b for b in empty if observed[channel.name][b] > 0]
        if seen:
            message = (
                f"channel '{channel.name}': events are observed where none are expected at the nominal, in "
                f"{_bins(seen)}. The likelihood is zero there."
            )
            yield LoadWarning("observed-without-expectation", f"channels[{c}]", message)
        unseen = [b for b in empty if b not in seen]
        if unseen:
            message = f"channel '{channel.name}': nothing is expected at the nominal in {_bins(unseen)}."
            yield LoadWarning("nothing-expected", f"channels[{c}]", message)


def _of_sides(channels: tuple[Channel, ...]) -> Iterator[LoadWarning]:
    """Variations of which both lie on the same side of the nominal: up and down overlap."""
    for spot, channel, sample, modifier in each_modifier(channels):
        data = modifier.data
        place = f"channel '{channel.name}', sample '{sample.name}', {modifier.type} '{modifier.name}'"
        if isinstance(data, LoHi):
            if _side(data.lo, 1.0) * _side(data.hi, 1.0) > 0:
                side = "above" if data.lo > 1.0 else "below"
                message = f"{place}: both variations ({data.lo:g}, {data.hi:g}) lie {side} the nominal."
                yield LoadWarning("same-side", path_of(spot), message)
        elif isinstance(data, LoHiData):
            triples = zip(data.lo_data, sample.data, data.hi_data, strict=True)
            same = [b for b, (lo, nominal, hi) in enumerate(triples) if _side(lo, nominal) * _side(hi, nominal) > 0]
            if same:
                message = f"{place}: both variations lie on the same side of the nominal in {_bins(same)}."
                yield LoadWarning("same-side", path_of(spot), message)


def _side(varied: float, nominal: float) -> int:
    """Return on which side of the nominal a variation lies: -1, 0 or 1."""
    difference = varied - nominal
    return 0 if abs(difference) <= _NOISE * abs(nominal) else (1 if difference > 0 else -1)


def _bins(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:10])) + (f" and {len(indices) - 10} more" if len(indices) > 10 else "")
    return f"bin{'s' if len(indices) > 1 else ''} {shown}"
