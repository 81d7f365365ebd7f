"""``nsmath upper-limit``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.asymptotics import scan_values
from nsmath.cli.grid import pattern_of, refuse_workers, run_grid
from nsmath.cli.hypotest import EXIT_UNTRUSTED, exit_code
from nsmath.cli.inputs import chosen_model, chosen_plan, plan_options, tested_model_options, toys_plan
from nsmath.cli.output import checked_output, console, progress, with_error, write_json
from nsmath.cli.plots import checked_plot, plot_option, write_plots
from nsmath.cli.studies import chosen_engine, kept_toys, study_options, terminated_like_interrupted
from nsmath.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from nsmath.infer.asymptotic_limit import AsymptoticLimitResult
    from nsmath.infer.toy_limit import ToyLimitResult
    from nsmath.viz.files import Figures


TESTS, ASYMPTOTIC_FITS = 8, 100
"""Values of mu that a search typically tests with toys, and fits that one by asymptotics makes."""


@click.command("upper-limit")
@tested_model_options
@click.option(
    "--calculator", type=click.Choice(["asymptotic", "toys"]), default="asymptotic", help="How CLs is computed."
)
@click.option(
    "--scan", metavar="LO:HI:N", help="Further mu to test, or X,Y,..., for the shape of the curves (asymptotic)."
)
@click.option("--cl", type=float, default=0.95, help="Confidence level.")
@click.option("--n-toys", type=int, default=1000, help="Toys of each of the two ensembles at every mu.")
@click.option("--seed", type=int, default=0, help="Seed; toys depend on it, ensemble and index alone.")
@click.option("--test-stat", type=click.Choice(["qtilde", "q"]), default="qtilde", help="Test statistic.")
@click.option(
    "--aux", type=click.Choice(["random", "fixed"]), default="random", help="Auxiliary data fluctuate or not."
)
@click.option(
    "--expected", "expected_from", type=click.Choice(["data", "nominal"]), default="data",
    help="What expected limits come from: toys at the fits to the data, or further toys at the nominal parameters.",
)  # fmt: skip
@study_options(rules=False)
@plan_options
@click.option("--output", "-o", metavar="FILE", help="Write the result as JSON; '-' for stdout.")
@plot_option("CLs against mu, with the expected band")
@click.option("--quiet", "-q", is_flag=True, help="No summary, no progress bar.")
def upper_limit_command(**options: Any) -> int:
    """Upper limits on the parameter of interest: observed, and the five expected ones.

    With toys: at as many mu as the six crossings need, each limit with its statistical error.
    """
    checked_output(options["output"], options["input_"])
    checked_plot(options)
    return {"toys": _by_toys, "asymptotic": _by_asymptotics}[options["calculator"]](options)


def _by_asymptotics(options: dict[str, Any]) -> int:
    if options["store"] is not None:
        raise OptionError("--store: the asymptotic calculator throws no toys; add --calculator toys.")
    scan = scan_values(options["scan"])
    if pattern_of(options["patches"]) is not None:
        return run_grid(
            "upper-limit", options, cl=options["cl"], test_stat=options["test_stat"],
            expected_from=options["expected_from"], scan=scan,
        )  # fmt: skip
    refuse_workers(options)
    model = chosen_model(options)
    from nsmath.infer.asymptotic_api import upper_limit

    with chosen_plan(model, options, n_fits=ASYMPTOTIC_FITS, what="asymptotic limits") as plan:
        result = upper_limit(
            model, cl=options["cl"], test_stat=options["test_stat"], expected_from=options["expected_from"], scan=scan,
            plan=plan,
        )  # fmt: skip
    write_json(result.to_dict(), options["output"])
    write_plots(lambda: _figures(result), options)
    if not options["quiet"]:
        out = _print_crossings(result, options["output"])
        out.print(f"  asymptotic, from tests at {len(result.points)} values; best fit {result.points[0].mu_hat:.5g}")
    return 0


def _by_toys(options: dict[str, Any]) -> int:
    if options["scan"] is not None:
        raise OptionError("--scan: with toys the search chooses the values itself; test others with hypotest-toys.")
    if pattern_of(options["patches"]) is not None:
        raise OptionError(
            f"--patch {options['patches'][-1]} names several patches, and toys of several are a study: `nsmath run` "
            "with a patchset and task: upper-limit (docs/studies.md)."
        )
    model = chosen_model(options)
    from nsmath.infer.hypotest import checked_options, toy_calculator
    from nsmath.infer.toy_limit import checked_level, limits_by_toys

    names = ("n_toys", "seed", "test_stat", "aux")
    statistic = checked_options(model, mu=0.0, **{name: options[name] for name in names})
    checked_level(options["cl"])
    with ExitStack() as opened:
        opened.enter_context(terminated_like_interrupted())
        store = opened.enter_context(kept_toys(options["store"], model, statistic, options))
        engine = opened.enter_context(chosen_engine(options))
        plan = opened.enter_context(
            toys_plan(model, options, tuned=None if store is None else store.tuned, n_tests=TESTS)
        )
        callback = opened.enter_context(progress(options["quiet"]))
        calculator = toy_calculator(
            plan, statistic, seed=options["seed"], aux=options["aux"], expected_from=options["expected_from"],
            store=store, engine=engine, progress=callback,
        )  # fmt: skip
        result = limits_by_toys(calculator, options["n_toys"], cl=options["cl"])
    write_json(result.to_dict(), options["output"])
    write_plots(lambda: _figures(result), options)
    if not options["quiet"]:
        print_limits(result, options["output"])
    return max((exit_code(point) for point in result.points), default=EXIT_UNTRUSTED)


def _figures(result: ToyLimitResult | AsymptoticLimitResult) -> Figures:
    from nsmath.viz import limit_figure

    return {"cls": limit_figure(result)}


def _print_crossings(result: ToyLimitResult | AsymptoticLimitResult, output: str | None) -> Console:
    out = console(output)
    first = result.points[0]
    out.print(
        f"[bold]upper limits on {first.poi} at {result.cl:.4g} C.L.[/bold]  ({first.measurement}, {first.test_stat})"
    )
    out.print(f"  observed           [bold]{result.observed}[/bold]")
    for name, crossing in zip(("-2", "-1", " 0", "+1", "+2"), result.expected, strict=True):
        out.print(f"  expected {name} sigma  {crossing}")
    if any(crossing.mu is None for crossing in (result.observed, *result.expected)):
        out.print(
            f"  [yellow]>: not excluded anywhere up to {result.mu_max:g}, the upper bound of {first.poi}; "
            "--poi-max X goes further[/yellow]"
        )
    return out


def print_limits(result: ToyLimitResult, output: str | None) -> None:
    """Print limits by toys for people."""
    out = _print_crossings(result, output)
    first, nearest = result.points[0], result.at_limit
    if nearest is not None:
        out.print(f"  CLs at {nearest.mu_test:g}: {with_error(nearest.cls, nearest.cls_error, nearest.cls_upper)}")
    toys = ", ".join(f"{point.mu_test:g}" for point in result.points)
    out.print(f"  best fit {first.mu_hat:.5g}; {first.n_toys['b']} + {first.n_toys['sb']} toys at each of {toys}")
