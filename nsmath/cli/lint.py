"""``nsmath lint``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import announce_compilation, model_of, model_options, naming, parsed_input
from nsmath.cli.output import checked_output, console, write_json
from nsmath.errors import FitError, OptionError

if TYPE_CHECKING:
    from nsmath.spec.lint import LintReport

EXIT_ERRORS = 2


@click.command("lint")
@model_options
@click.option("--fit", "with_fit", is_flag=True, help="Fit the observed data too: large pulls, bounds, failures.")
@click.option("--max-pull", type=float, default=3.0, help="Pull beyond which --fit warns, in widths of the constraint.")
@click.option("--all", "show_all", is_flag=True, help="Print every warning, not only the first of each kind.")
@click.option("--output", "-o", metavar="FILE", help="Write all findings as JSON; '-' for stdout.")
@click.option("--quiet", "-q", is_flag=True, help="No list.")
def lint_command(**options: Any) -> int:
    """List everything that is wrong or doubtful in a workspace: all errors, not the first alone, and warnings.

    Ends with 0 where there are warnings at most, with 2 where there are errors.
    """
    checked_output(options["output"], options["input_"])
    if options["max_pull"] <= 0.0:
        raise OptionError(f"--max-pull {options['max_pull']:g}: expected a number above 0, such as 3.")
    from nsmath.spec.lint import lint
    from nsmath.spec.patch import apply_patches

    label, document = parsed_input(options["input_"])
    if options["patches"] and isinstance(document, dict):
        with naming(label):
            document = apply_patches(document, options["patches"])
    report = lint(document)
    if options["with_fit"] and not report.errors:
        report = with_fit(report, label, document, options)
    write_json(report.to_dict(), options["output"])
    if not options["quiet"]:
        print_findings(report, label, options["show_all"], options["output"])
    return EXIT_ERRORS if report.errors else 0


def with_fit(report: LintReport, label: str, document: Any, options: dict[str, Any]) -> LintReport:
    """Return the report with what a fit of the observed data says."""
    from nsmath.spec.workspace import LoadWarning, Workspace

    announce_compilation()
    from nsmath.fitting.fit import fit
    from nsmath.fitting.inspection import fit_warnings

    workspace = Workspace.from_dict(document)
    model = model_of(workspace, label, options)
    try:
        result = fit(model)
    except FitError as error:
        return report.with_fit([LoadWarning("fit-failed", "", str(error))])
    return report.with_fit(fit_warnings(workspace, model, result, options["max_pull"]))


def print_findings(report: LintReport, label: str, show_all: bool, output: str | None) -> None:
    """Print findings for people: every error, and the warnings by kind."""
    out = console(output)
    for finding in report.errors:
        out.print(f"error: {finding}", style="red", markup=False)
    by_kind: dict[str, list[str]] = {}
    for finding in report.warnings:
        by_kind.setdefault(finding.kind, []).append(str(finding))
    for kind, texts in by_kind.items():
        out.print(f"warning: {len(texts)} x {kind}", style="yellow", markup=False)
        for text in texts if show_all else texts[:1]:
            out.print(f"  {text}", markup=False)
    n_errors, n_warnings = len(report.errors), len(report.warnings)
    out.print(f"{label}: {n_errors} errors, {n_warnings} warnings; looked at {', '.join(report.stages)}", markup=False)
