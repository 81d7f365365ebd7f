"""Commands over all patches of a set: the last ``--patch`` names several, as FILE:PATTERN."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import announce_compilation, chosen_interpolation, naming, parsed_input
from nsmath.cli.output import console, progress, write_json
from nsmath.cli.plots import write_grid_plots
from nsmath.cli.studies import chosen_engine
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.study.grid import GridResult

EXIT_INCOMPLETE = 1
WILD = "*?["


def pattern_of(patches: tuple[str, ...]) -> tuple[str, str] | None:
    """Return file and pattern of a last patch that names several; None where it names one, or there is none."""
    if not patches:
        return None
    file, colon, name = patches[-1].rpartition(":")
    # A file that is called so is a file.
    if Path(patches[-1]).is_file():
        return None
    return (file, name) if colon and any(sign in name for sign in WILD) else None


def refuse_workers(options: dict[str, Any]) -> None:
    """Refuse processes for one asymptotic test, which is a few batches of fits.

    Raises
    ------
    OptionError
        They were asked for.
    """
    used = [f"--{name}" for name in ("workers", "dask") if options[name] is not None]
    if used:
        raise OptionError(
            f"{' and '.join(used)}: one asymptotic test needs no workers. They compute the points of a grid (--patch "
            "FILE:PATTERN), or toys."
        )


def run_grid(task: str, options: dict[str, Any], **arguments: Any) -> int:
    """Compute ``task`` at every patch that the last ``--patch`` names; write, draw and print; return the exit code.

    Raises
    ------
    OptionError
        Options that a grid does not take.
    """
    found = pattern_of(options["patches"])
    assert found is not None
    file, pattern = found
    for name in ("plan_file", "log_transfers", "assert_resident"):
        if options[name]:
            flag = "--plan" if name == "plan_file" else f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} belongs to one model; the patches {options['patches'][-1]} are several.")
    gpu = options["gpu"] or "none"
    if gpu == "auto":
        raise OptionError("--gpu auto predicts for one model; over several patches name the device, or leave it away.")
    from nsmath.plan.choice import asked_for
    from nsmath.study.grid import signal_grid

    choice = asked_for(gpu, options["dtype"], options["backend"])
    label, document = parsed_input(options["input_"])
    if choice.backend == "cpu":
        announce_compilation()
    with naming(label), chosen_engine(options) as engine, progress(options["quiet"]) as callback:
        result = signal_grid(
            document, file, task, names=(pattern,), patches=options["patches"][:-1],
            measurement=options["measurement"], poi=options["poi"],
            poi_max=options["poi_max"], interp=chosen_interpolation(options["interp_defaults"], options["interp"]),
            backend=choice.backend, dtype=choice.dtype, threads=options["threads"], engine=engine, progress=callback,
            note=lambda line: click.echo(f"warning: {line}", err=True), **arguments,
        )  # fmt: skip
    write_json(result.to_dict(), options["output"])
    write_grid_plots(result, options)
    if not options["quiet"]:
        print_grid(result, options["output"])
    if not result.n_failed:
        return 0
    first = next(point for point in result.points if point.error is not None)
    click.echo(
        f"error: {result.n_failed} of {len(result.points)} points failed; the first, {first.name}: {first.error}",
        err=True,
    )
    return EXIT_INCOMPLETE


def print_grid(result: GridResult, output: str | None) -> None:
    """Print one row for each point."""
    from rich.markup import escape
    from rich.table import Table

    heads = {
        "upper-limit": ("limit", "-2", "-1", "expected", "+1", "+2"),
        "hypotest": ("CLs", "-2", "-1", "expected", "+1", "+2"),
        "significance": ("p0", "Z"),
    }  # fmt: skip
    table = Table(box=None)
    for name in ("point", *map(escape, result.labels), *heads[result.task]):
        table.add_column(name, overflow="fold")
    for point in result.points:
        values = [f"{v:g}" if isinstance(v, (int, float)) else str(v) for v in point.values.values()]
        table.add_row(*map(escape, (point.name, *values, *_numbers(result.task, point))))
    out = console(output)
    out.print(table)
    out.print(f"  {len(result.points)} points, asymptotic")


def _numbers(task: str, point: Any) -> list[str]:
    if point.outcome is None:
        return ["failed"]
    found = point.outcome.to_dict()
    if task == "upper-limit":
        pairs = [(found["observed"], found["observed_beyond"]),
                 *zip(found["expected"]["limit"], found["expected"]["beyond"], strict=True)]  # fmt: skip
        return [f"> {beyond:g}" if value is None else f"{value:.4g}" for value, beyond in pairs]
    if task == "hypotest":
        return [f"{x:.4g}" for x in (found["cls"], *found["expected_set"]["cls"])] if found["cls"] is not None else [
            f"{found['clsb']:.4g}"
        ]  # fmt: skip
    z = point.outcome.z
    return [f"{found['clsb']:.4g}", "undefined" if z is None else f"{z:.3f}"]
