"""``nsmath inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import announce_compilation, model_options, source_and_model
from nsmath.cli.output import checked_output, console, write_json
from nsmath.cli.plots import checked_plot, plot_option, write_plots

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from nsmath.fitting.inspection import Inspection
    from nsmath.model.yields import Yield
    from nsmath.viz.files import Figures

SECTIONS = ("channels", "modifiers", "parameters", "yields")
EXIT_NOT_CONVERGED = 1


@click.command("inspect")
@model_options
@click.option("--fit", "with_fit", is_flag=True, help="Fit the observed data; post-fit values and yields beside.")
@click.option(
    "--section", "sections", multiple=True, type=click.Choice(SECTIONS), help="Print these only; may be repeated."
)
@click.option("--bins", is_flag=True, help="Yields of every bin, not only of every channel.")
@click.option("--output", "-o", metavar="FILE", help="Write everything as JSON; '-' for stdout.")
@plot_option("observed and expected events of every channel")
@click.option("--quiet", "-q", is_flag=True, help="No tables.")
def inspect_command(**options: Any) -> int:
    """Show what a workspace means: channels, samples, modifiers, parameters, constraints, yields."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    source, model = source_and_model(options)
    result = None
    if options["with_fit"]:
        announce_compilation()
        from nsmath.fitting.fit import fit

        result = fit(model)
    from nsmath.fitting.inspection import inspection
    from nsmath.fitting.minimiser import FitStatus

    found = inspection(source.workspace, model, result)
    write_json(found.to_dict(), options["output"])
    write_plots(lambda: yield_figures(found), options)
    if not options["quiet"]:
        print_tables(found, options["sections"] or SECTIONS, options["bins"], console(options["output"]))
    return EXIT_NOT_CONVERGED if result is not None and result.status != FitStatus.CONVERGED else 0


def yield_figures(found: Inspection) -> Figures:
    """Return the figures of an inspection by channel."""
    from nsmath.viz.channels import channel_figures

    return channel_figures(found.nominal, found.postfit)


def print_tables(found: Inspection, sections: tuple[str, ...], bins: bool, out: Console) -> None:
    """Print an inspection for people, one table a section."""
    model = found.model
    codes = ", ".join(f"{kind} {code}" for kind, code in model.interp.to_dict().items())
    names = ", ".join(f"{m.name} (POI {m.poi or 'none'})" for m in found.workspace.measurements)
    n_fixed = int(model.is_fixed.sum())
    out.print(f"measurement {model.measurement}, POI {model.poi or 'none'}; the file has {names}", markup=False)
    out.print(
        f"{len(model.channels)} channels, {model.tensors.n_bins} bins, {len(model.names)} parameters "
        f"({n_fixed} fixed, {model.tensors.n_aux} constrained); interpolation {codes}; model {model.digest[:12]}"
    )
    if found.fit is not None:
        out.print(f"fit: {found.fit.status.message}; NLL {found.fit.nll:.9g}", markup=False)
    tables = {
        "channels": lambda: [channel_table(found)],
        "modifiers": lambda: [modifier_table(found)],
        "parameters": lambda: [parameter_table(found)],
        "yields": lambda: yield_tables(found, bins),
    }
    for section in SECTIONS:
        if section in sections:
            for table in tables[section]():
                out.print()
                out.print(table)


def titled(title: str, *columns: str) -> Table:
    """Return an empty table; columns whose heading ends in ``>`` are numbers, set to the right."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for column in columns:
        is_number = column.endswith(">")
        table.add_column(escape(column.rstrip(">")), justify="right" if is_number else "left", overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row; names such as ``stat[0]`` are no markup."""
    from rich.markup import escape

    table.add_row(*map(escape, cells))


def channel_table(found: Inspection) -> Table:
    """Return the channels with their bins, observed events and samples."""
    table = titled("channels", "channel", "bins>", "observed>", "samples")
    for channel, yields in zip(found.model.source.channels, found.nominal, strict=True):
        samples = ", ".join(sample.name for sample in channel.samples)
        add_row(table, channel.name, str(channel.n_bins), f"{yields.observed.sum():g}", samples)
    return table


def modifier_table(found: Inspection) -> Table:
    """Return the modifiers with their types, constraints and where they act."""
    table = titled("modifiers", "modifier", "type", "constraint", "parameters>", "channels", "samples")
    n_channels = len(found.model.channels)
    n_samples = len({sample.name for channel in found.model.source.channels for sample in channel.samples})
    for row in found.modifiers:
        channels = "all" if len(row.channels) == n_channels > 1 else ", ".join(row.channels)
        samples = "all" if len(row.samples) == n_samples > 1 else ", ".join(row.samples)
        add_row(table, row.name, "+".join(row.types), row.constraint, str(row.n_parameters), channels, samples)
    return table


def parameter_table(found: Inspection) -> Table:
    """Return the parameters with start, bounds, constraint, and the fitted value where there is one."""
    fitted = ("fit>", "uncertainty>") if found.fit is not None else ()
    table = titled("parameters", "parameter", "type", "init>", "bounds", "constraint", *fitted, "note")
    types = {
        p: "+".join(row.types)
        for row in found.modifiers
        for block in [found.model.source.blocks[row.name]]
        for p in range(block.start, block.start + block.size)
    }
    for p, parameter in enumerate(found.model.parameters):
        constraint = {
            "none": "none",
            "normal": f"normal({parameter.auxdata:g}, {parameter.scale:.4g})",
            "poisson": f"poisson({parameter.auxdata:.4g})",
        }[parameter.constraint]
        values = []
        if found.fit is not None:
            error = float(found.fit.uncertainties[p])
            values = [f"{found.fit.values[p]:.5g}", f"{error:.4g}" if error > 0.0 else ""]
        at_bound = found.fit is not None and parameter.name in found.fit.at_bound
        notes = [
            note
            for note, holds in (
                ("POI", parameter.name == found.model.poi),
                ("fixed", parameter.is_fixed),
                ("at a bound", at_bound),
            )
            if holds
        ]
        bounds = f"{parameter.lower:g} to {parameter.upper:g}"
        add_row(table, parameter.name, types[p], f"{parameter.init:g}", bounds, constraint, *values, ", ".join(notes))
    return table


def yield_tables(found: Inspection, bins: bool) -> list[Table]:
    """Return a table of yields for each channel: before the fit and, where there is one, after it."""
    tables = []
    for c, channel in enumerate(found.nominal):
        states = [channel] if found.postfit is None else [channel, found.postfit[c]]
        headings = ("nominal>", "fit>")[: len(states)]
        table = titled(f"yields: {channel.name}", "sample", *(("bin>",) if bins else ()), *headings)
        for name in channel.samples:
            add_yields(table, name, [state.samples[name] for state in states], bins)
        table.add_section()
        add_yields(table, "all samples", [state.all for state in states], bins)
        table.add_section()
        n = len(states)
        add_row(table, "observed", *(("all",) if bins else ()), *[f"{channel.observed.sum():g}"] * n)
        for b, events in enumerate(channel.observed if bins else ()):
            add_row(table, "", str(b), *[f"{events:g}"] * n)
        tables.append(table)
    return tables


def add_yields(table: Table, name: str, states: list[Yield], bins: bool) -> None:
    """Add the yields of one sample, of the channel and of every bin."""
    totals = [with_uncertainty(state.total, state.total_uncertainty) for state in states]
    add_row(table, name, *(("all",) if bins else ()), *totals)
    for b in range(len(states[0].events) if bins else 0):
        errors = [None if state.uncertainty is None else float(state.uncertainty[b]) for state in states]
        cells = [with_uncertainty(state.events[b], error) for state, error in zip(states, errors, strict=True)]
        add_row(table, "", str(b), *cells)


def with_uncertainty(value: float, error: float | None) -> str:
    """Return a yield for people."""
    return f"{value:.5g}" if error is None else f"{value:.5g} +- {error:.2g}"
