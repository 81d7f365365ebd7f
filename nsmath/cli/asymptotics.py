"""``nsmath hypotest`` and ``nsmath significance``."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.grid import pattern_of, refuse_workers, run_grid
from nsmath.cli.inputs import chosen_model, chosen_plan, plan_options, tested_model_options
from nsmath.cli.output import checked_output, console, write_json
from nsmath.cli.plots import checked_plot, plot_option, write_plots
from nsmath.cli.studies import WORKER_OPTIONS, Command
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from nsmath.infer.asymptotics import AsymptoticTestResult
    from nsmath.viz.files import Figures


def result_options(command: Command) -> Command:
    """Add the options that all asymptotic commands share."""
    option: Callable[[Command], Command]
    for option in reversed((
        click.option(
            "--expected", "expected_from", type=click.Choice(["data", "nominal"]), default="data",
            help="Where the Asimov data lie: at the fit to the data, or at the nominal parameters.",
        ),
        plan_options,
        *WORKER_OPTIONS,
        click.option("--output", "-o", metavar="FILE", help="Write the result as JSON; '-' for stdout."),
        click.option("--quiet", "-q", is_flag=True, help="No summary."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command("hypotest")
@tested_model_options
@click.option("--mu", "mus", type=float, multiple=True, help="Value of the POI to test, 1 if not given; repeat it.")
@click.option("--scan", metavar="LO:HI:N", help="N values from LO to HI, or X,Y,..., beside those of --mu.")
@click.option("--test-stat", type=click.Choice(["qtilde", "q", "q0"]), default="qtilde", help="Test statistic.")
@plot_option("CLs against mu, with the expected band; needs several values")
@result_options
def hypotest_command(**options: Any) -> int:
    """Asymptotic tests of values of the parameter of interest: CLs+b, CLb, CLs and the expected band.

    All values are fitted in one batch.
    """
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    mus = [*options["mus"], *scan_values(options["scan"])] or [1.0]
    if pattern_of(options["patches"]) is not None:
        if len(mus) > 1:
            raise OptionError(f"{len(mus)} values of mu; over several patches one value is tested.")
        return run_grid(
            "hypotest", options, mu=mus[0], test_stat=options["test_stat"], expected_from=options["expected_from"]
        )
    refuse_workers(options)
    model = chosen_model(options)
    from nsmath.infer.asymptotic_api import hypotest

    with chosen_plan(model, options, n_fits=2 * len(mus) + 3, what=f"asymptotic tests of {len(mus)} mu") as plan:
        results = hypotest(
            model, mus, test_stat=options["test_stat"], expected_from=options["expected_from"], plan=plan
        )
    write_json({"results": [result.to_dict() for result in results]}, options["output"])
    write_plots(lambda: _figures(results), options)
    if not options["quiet"]:
        print_tests(results, options["output"])
    return 0


def _figures(results: list[AsymptoticTestResult]) -> Figures:
    from nsmath.viz import cls_figure

    return {"cls": cls_figure(results)}


@click.command("significance")
@tested_model_options
@plot_option("the local p0 over the patches of a set, which it needs")
@result_options
def significance_command(**options: Any) -> int:
    """Discovery: the asymptotic p-value p0 of mu = 0 and its significance Z, observed and expected."""
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    if pattern_of(options["patches"]) is not None:
        return run_grid("significance", options, expected_from=options["expected_from"])
    if options["plot"] is not None:
        raise OptionError("--plot: p0 is drawn over several patches, and this is one test. Add --patch FILE:PATTERN.")
    refuse_workers(options)
    model = chosen_model(options)
    from nsmath.infer.asymptotic_api import significance

    with chosen_plan(model, options, n_fits=5, what="an asymptotic significance") as plan:
        result = significance(model, expected_from=options["expected_from"], plan=plan)
    write_json(significance_dict(result), options["output"])
    if not options["quiet"]:
        out = console(options["output"])
        numbers = significance_dict(result)
        out.print(f"[bold]{result.poi} = 0[/bold]  ({result.measurement}, q0)")
        out.print(f"  best fit  {result.mu_hat:.5g}")
        out.print(f"  observed  p0 {numbers['p0']:.4g}, Z [bold]{numbers['z']:.3f}[/bold]")
        p0, z = numbers["expected"]["p0"][2], numbers["expected"]["z"][2]
        out.print(f"  expected  p0 {p0:.4g}, Z {'undefined' if z is None else f'{z:.3f}'} for {result.poi} = 1")
    return 0


def significance_dict(result: AsymptoticTestResult) -> dict[str, Any]:
    """Return a test with q0 for JSON, under the names of a discovery."""
    shared = ("mu_hat", "poi", "poi_max", "measurement", "interpolation", "model_digest", "backend", "dtype", "device",
              "expected_from")  # fmt: skip
    expected = [-NormalDist().inv_cdf(p) if 0.0 < p < 1.0 else None for p in result.expected_clsb]
    return {
        "calculator": "asymptotic", "p0": result.clsb, "z": result.z, "q0": result.q_obs,
        "expected": {"nsigma_order": list(result.nsigma_order), "p0": list(result.expected_clsb), "z": expected},
        **{name: getattr(result, name) for name in shared},
    }  # fmt: skip


def scan_values(text: str | None) -> list[float]:
    """Return the values of ``LO:HI:N``, or of ``X,Y,...``; none without a text.

    Raises
    ------
    OptionError
        It is neither.
    """
    if text is None:
        return []
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        low, high, n = text.split(":")
        first, last, count = float(low), float(high), int(n)
        if count < 2 or not first < last:
            raise ValueError
    except ValueError:
        raise OptionError(f"--scan {text!r}: expected LO:HI:N, LO < HI and N > 1, or values such as 0.5,1,2.") from None
    return [first + (last - first) * k / (count - 1) for k in range(count)]


def print_tests(results: list[AsymptoticTestResult], output: str | None) -> None:
    """Print tests for people: one in full, several as a table."""
    from rich.table import Table

    out = console(output)
    first = results[0]
    is_limit = first.cls is not None
    out.print(f"[bold]{first.poi}[/bold]  ({first.measurement}, {first.test_stat}, best fit {first.mu_hat:.5g})")
    columns = ["mu", "q", "CLs+b", "CLb", "CLs"] if is_limit else ["mu", "q", "p0", "Z"]
    names = ["-2", "-1", "0", "+1", "+2"]
    table = Table(*columns, *(f"{'CLs' if is_limit else 'p0'} exp. {name}" for name in names), box=None)
    for r in results:
        numbers = [r.clsb, r.clb, r.cls] if is_limit else [r.clsb, r.z]
        band = r.expected_cls if r.expected_cls is not None else r.expected_clsb
        table.add_row(f"{r.mu_test:g}", f"{r.q_obs:.5g}", *(f"{x:.4g}" for x in numbers), *(f"{x:.4g}" for x in band))
    out.print(table)
    codes = ", ".join(f"{kind} {code}" for kind, code in first.interpolation.items())
    source = "the fit to the data" if first.expected_from == "data" else "nominal parameters"
    out.print(f"  asymptotic; expected from {source}; interpolation {codes}; model {first.model_digest[:12]}")
