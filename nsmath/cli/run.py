"""``nsmath run``."""

from __future__ import annotations

import csv
import io
import math
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import announce_compilation, device_options
from nsmath.cli.output import STDOUT, checked_output, console, finite, progress, with_error, write_json, write_text
from nsmath.cli.plots import checked_plot, plot_option, write_grid_plots
from nsmath.cli.studies import EXIT_INTERRUPTED, chosen_engine, terminated_like_interrupted
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.study.points import Study
    from nsmath.study.result import StudyResult, StudyRow
    from nsmath.study.run import Prepared

EXIT_INCOMPLETE = 1
COLOURS = {"done": "", "untrusted": "yellow", "failed": "red", "not run": "dim"}


@click.command("run")
@click.argument("study", metavar="STUDY.yaml")
@click.option("--output", "-o", metavar="FILE", help="Write all results as JSON; '-' for stdout.")
@click.option("--table", metavar="FILE", help="Write a CSV table, a row for each point and mu; '-' for stdout.")
@plot_option("limits, CLs or p0 over the points of a patch set, or by name")
@click.option("--store", metavar="DIR", help="Keep the toys in this folder; the same command goes on there.")
@click.option("--n-toys", type=click.IntRange(min=1), help="Toys of each ensemble, at every point.")
@device_options
@click.option("--threads", type=click.IntRange(min=1), help="Worker threads.")
@click.option("--workers", type=int, help="Compute in so many processes, one thread each, not in threads.")
@click.option("--dask", metavar="ADDRESS", help="Compute on the Dask cluster of this scheduler.")
@click.option("--strict", is_flag=True, help="Compute nothing if a point cannot be loaded.")
@click.option("--dry-run", is_flag=True, help="List points and toys; compute and write nothing.")
@click.option("--quiet", "-q", is_flag=True, help="No summary, no progress bar.")
def run_command(study: str, **options: Any) -> int:
    """Compute a study that a YAML file describes, point after point; options go before what the file says.

    A point that fails is in the results with its error, and the exit code is 1.
    """
    from nsmath.study.points import study_of
    from nsmath.study.run import Loader, StudyRun, prepared_points, raise_first_error

    started = time.perf_counter()
    names = ("output", "table", "store", "n_toys", "threads", "gpu", "dtype")
    laid_out = study_of(study, **{name: options[name] for name in names})
    checked_targets(laid_out, options)
    checked_plot({**options, "input_": study, "output": laid_out.output})
    loader = Loader()
    points = prepared_points(laid_out, loader)
    if options["strict"]:
        raise_first_error(laid_out, points)
    warn_once(points)
    if options["dry_run"]:
        return print_plan(laid_out, points)
    if laid_out.backend == "cpu" and laid_out.gpu in ("none", "auto"):
        announce_compilation()
    rows: list[StudyRow] = []
    interrupted = False
    with ExitStack() as opened:
        opened.enter_context(terminated_like_interrupted())
        engine = opened.enter_context(chosen_engine(options))
        callback = opened.enter_context(progress(options["quiet"]))
        run = StudyRun(laid_out, points, loader, engine=engine, progress=callback, note=_note)
        try:
            with closing(run.rows()) as computed:
                # Left early, `extend` has kept the rows that came before.
                rows.extend(computed)
        except KeyboardInterrupt:
            interrupted = True
    return finished(laid_out, rows, time.perf_counter() - started, interrupted, options)


def finished(study: Study, rows: list[StudyRow], seconds: float, interrupted: bool, options: dict[str, Any]) -> int:
    """Write what was computed, say how it ended, and return the exit code."""
    from nsmath.study.result import DONE, FAILED, UNTRUSTED, StudyResult

    result = StudyResult.of(study, rows, seconds)
    write_json(result.to_dict(), study.output)
    if study.table is not None:
        write_text(csv_text(result), study.table, "--table")
    if not interrupted:
        write_grid_plots(result, options)
    if not options["quiet"]:
        print_table(result)
    for row in result.rows:
        if row.status in (FAILED, UNTRUSTED):
            at = "" if math.isnan(row.mu) else f", mu = {row.mu:g}"
            click.echo(f"{row.status}: point '{row.point.name}'{at}: {row.error}", err=True)
    if interrupted:
        kept = f"the toys are kept in {study.store}, and the same command goes on from there" if study.store else (
            "toys are not kept without --store"
        )  # fmt: skip
        written = "; the output has what was done" if study.output or study.table else ""
        n_done = result.count(DONE, UNTRUSTED)
        click.echo(f"interrupted: {n_done} of {len(result.rows)} tests are done{written}; {kept}.", err=True)
        return EXIT_INTERRUPTED
    return 0 if result.complete else EXIT_INCOMPLETE


def checked_targets(study: Study, options: dict[str, Any]) -> None:
    """Refuse output files that cannot be written, that are read, or that are the same, and a store that is a file."""
    if study.store is not None and study.store.exists() and not study.store.is_dir():
        raise OptionError(f"store {study.store} is a file; expected a folder, or a name that is free.")
    targets = {"--output": study.output, "--table": study.table}
    for option, target in targets.items():
        label = option if options[option[2:]] is not None else option[2:]
        for source in study.inputs:
            checked_output(target, str(source), label)
    same = study.output is not None and study.table is not None and (
        study.output == study.table or (STDOUT not in targets.values() and _same_file(study.output, study.table))
    )  # fmt: skip
    if same:
        raise OptionError(f"output and table are both {study.output}; one would be lost. Name two files.")


def _same_file(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _note(line: str) -> None:
    click.echo(line, err=True)


def warn_once(points: list[Prepared]) -> None:
    """Write the warnings of all workspaces to stderr; one that many points share comes once."""
    from nsmath.study.grid import shared_warnings

    for line in shared_warnings((ready.point.name, ready.warnings) for ready in points):
        click.echo(f"warning: {line}", err=True)


def print_plan(study: Study, points: list[Prepared]) -> int:
    """Print points and toys, and what cannot be loaded; return the exit code."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("point", "workspace", "patches", "mu", "toys", "error", title=f"{study.task_name}, not run")
    for ready in points:
        point, settings = ready.point, ready.point.settings
        jobs = study.task.jobs(settings)
        n_computed = sum(ready.error_of(job) is None for job in jobs)
        patches = [*point.patches, *([] if point.patch is None else point.patch.names)]
        cells = (
            point.name, point.workspace.name, ", ".join(patches),
            " ".join(f"{job:g}" for job in jobs if not math.isnan(job)),
            f"{n_computed * study.task.n_toys(settings)}", ready.error or "; ".join(ready.job_errors.values()),
        )  # fmt: skip
        table.add_row(*map(escape, cells))
    jobs_ready = [
        (ready, ready.error_of(job) is None) for ready in points for job in study.task.jobs(ready.point.settings)
    ]
    n_toys = sum(study.task.n_toys(ready.point.settings) for ready, is_ready in jobs_ready if is_ready)
    n_good = sum(is_ready for _, is_ready in jobs_ready)
    out = console(None)
    out.print(table)
    out.print(f"{len(points)} points, {n_good} tests, {n_toys} toys")
    if n_good == len(jobs_ready):
        return 0
    click.echo(f"error: {len(jobs_ready) - n_good} of {len(jobs_ready)} tests cannot be done, see above.", err=True)
    return EXIT_INCOMPLETE


def print_table(result: StudyResult) -> None:
    """Print one row for each point and mu, for people."""
    from rich.markup import escape
    from rich.table import Table

    study = result.study
    quantity = "limit" if "limit" in study.task.columns else "CLs"
    table = Table(title=study.task_name)
    for head in ("point", "mu", quantity, "expected", "toys", "failed", "seconds"):
        table.add_column(head, overflow="fold")
    rows = result.table()
    for row in rows:
        cells = [escape(row["point"]), "" if math.isnan(row["mu"]) else f"{row['mu']:g}"]
        if row["n_toys_b"] is None:
            cells.append(row["status"])
        else:
            name = quantity.lower()
            value = f"p0 {short(row, 'p0')}" if row.get("p0") is not None else short(row, name)
            cells += [value, short(row, "expected_median"), f"{row['n_toys_b']} + {row['n_toys_sb']}",
                      f"{row['failed']}", f"{row['seconds']:.1f}"]  # fmt: skip
        table.add_row(*cells, style=COLOURS[row["status"]])
    out = console(STDOUT if STDOUT in (study.output, study.table) else None)
    out.print(table)
    if any(row.get(name) is not None for row in rows for name in ("cls_upper", "expected_median_upper")):
        out.print("<: 95 % C.L., no toy in the tail")
    n_done = sum(row.status == "done" for row in result.rows)
    out.print(f"{n_done} of {len(result.rows)} tests done in {result.seconds:.1f} s")


def short(row: dict[str, Any], name: str) -> str:
    """Return a number of the table with its error, or its bound, or nothing."""
    value, error, upper = (row.get(f"{name}{part}") for part in ("", "_error", "_upper"))
    if value is None and row.get(f"{name}_beyond") is not None:
        return f"> {row[f'{name}_beyond']:g}"
    if value is None:
        return "" if upper is None else f"< {upper:.2g}"
    return with_error(value, error)


def csv_text(result: StudyResult) -> str:
    """Return the table as CSV: empty cells where there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, result.columns(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(finite(row) for row in result.table())
    return text.getvalue()
