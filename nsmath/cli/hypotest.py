"""``nsmath hypotest-toys``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, plan_options, tested_model_options, toys_plan
from nsmath.cli.output import checked_output, console, progress, with_error, write_json
from nsmath.cli.plots import CONVERGENCE, PLOT, checked_plot, convergence_option, plot_option, write_test_plots
from nsmath.cli.studies import (
    Command,
    chosen_engine,
    kept_toys,
    shard_of,
    stopping_rule,
    study_options,
    terminated_like_interrupted,
)

if TYPE_CHECKING:
    from nsmath.infer.result import ToyTestResult

EXIT_UNTRUSTED = 1


def test_options(command: Command) -> Command:
    """Add the options that say which test: mu, statistic, auxiliary data, seed."""
    for option in reversed((
        click.option("--mu", type=float, required=True, help="Value of the parameter of interest to test."),
        click.option("--seed", type=int, default=0, help="Seed; toys depend on it, ensemble and index alone."),
        click.option(
            "--test-stat", type=click.Choice(["qtilde", "q", "q0"]), default="qtilde",
            help="Test statistic (arXiv:1007.1727, eqs. 16, 14, 12); q0 tests mu = 0 against --mu.",
        ),
        click.option(
            "--aux", type=click.Choice(["random", "fixed"]), default="random",
            help="Auxiliary data fluctuate with the toys, or stay as observed.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


test_options.__test__ = False  # type: ignore[attr-defined]


@click.command("hypotest-toys")
@tested_model_options
@test_options
@click.option("--n-toys", type=int, default=1000, help="Toys of each of the two ensembles; with a rule, at least.")
@click.option("--expected-set", is_flag=True, help="Also the band of CLs expected from background alone.")
@click.option(
    "--expected", "expected_from", type=click.Choice(["data", "nominal"]), default="data",
    help="What the band comes from: toys at the fits to the data, or further toys at the nominal parameters.",
)  # fmt: skip
@study_options(rules=True)
@click.option("--shard", metavar="i/N", help="Only part i of N of the toys, into its own --store; see merge-toys.")
@plan_options
@click.option("--output", "-o", metavar="FILE", help="Write the result as JSON; '-' for stdout.")
@plot_option("the distributions of the test statistic")
@convergence_option
@click.option("--quiet", "-q", is_flag=True, help="No summary, no progress bar.")
def hypotest_toys_command(**options: Any) -> int:
    """Test one value of the parameter of interest with toys: CLs+b, CLb, CLs and their errors.

    Fits the observed data, throws toys at the conditional fits with the POI at 0 and at --mu, and fits every one.
    """
    checked_output(options["output"], options["input_"])
    checked_plot(options, PLOT, CONVERGENCE)
    model = chosen_model(options)
    # The cheap checks come before kernels are compiled and plans tuned.
    from nsmath.infer.hypotest import checked_options, checked_shard, hypotest_toys

    names = ("mu", "n_toys", "seed", "test_stat", "aux")
    statistic = checked_options(model, **{name: options[name] for name in names})
    rule, shard = stopping_rule(options), shard_of(options["shard"])
    checked_shard(shard, options["store"], rule)
    with ExitStack() as opened:
        opened.enter_context(terminated_like_interrupted())
        store = opened.enter_context(kept_toys(options["store"], model, statistic, options))
        engine = opened.enter_context(chosen_engine(options))
        plan = opened.enter_context(toys_plan(model, options, tuned=None if store is None else store.tuned))
        callback = opened.enter_context(progress(options["quiet"]))
        result = hypotest_toys(
            model, options["mu"], n_toys=options["n_toys"], seed=options["seed"], test_stat=options["test_stat"],
            aux=options["aux"], expected_set=options["expected_set"],
            expected_from=options["expected_from"], stop=rule, store=store, shard=shard,
            engine=engine, plan=plan, progress=callback,
        )  # fmt: skip
    write_json(result.to_dict(), options["output"])
    write_test_plots([result], options)
    if not options["quiet"]:
        print_summary(result, options["output"])
    return exit_code(result)


def exit_code(result: ToyTestResult) -> int:
    """Return 0, or 1 where too many toys failed for the numbers to be trusted; then says so on stderr."""
    from nsmath.infer.result import untrusted

    reason = untrusted(result)
    if reason is None:
        return 0
    click.echo(f"error: {reason}", err=True)
    return EXIT_UNTRUSTED


def print_summary(result: ToyTestResult, output: str | None) -> None:
    """Print a test for people: the numbers, how they came about, and what is wrong with them."""
    out = console(output)
    toys = f"{result.n_toys['b']} + {result.n_toys['sb']} toys"
    out.print(f"[bold]{result.poi} = {result.mu_test:g}[/bold]  ({result.measurement}, {result.test_stat}, {toys})")
    out.print(f"  best fit   {result.mu_hat:.5g}")
    out.print(f"  q observed {result.q_obs:.6g}")
    if result.test_stat == "q0":
        out.print(f"  p0         {with_error(result.p0, result.p0_error, result.p0_upper)}")
        out.print(f"  Z          {'undefined' if result.z0 is None else f'{result.z0:.3f}'}")
    else:
        out.print(f"  CLs+b      {with_error(result.clsb, result.clsb_error, result.clsb_upper)}")
        out.print(f"  CLb        {with_error(result.clb, result.clb_error, result.clb_upper)}")
        out.print(f"  CLs        [bold]{with_error(result.cls, result.cls_error, result.cls_upper)}[/bold]")
    if result.expected_set is not None:
        band = result.expected_set
        out.print(f"  expected from {'the fit to the data' if band.expected_from == 'data' else 'nominal parameters'}:")
        edges = zip(("-2", "-1", " 0", "+1", "+2"), band.cls, band.cls_error, band.cls_upper, strict=True)
        for name, value, error, upper in edges:
            out.print(f"  CLs expected at {name} sigma  {with_error(value, error, upper)}")
    failed = sum(int(ensemble.failed.sum()) for ensemble in result.ensembles.values())
    if failed:
        low, high = result.bracket or (None, None)
        ends = " to ".join("undefined" if x is None else f"{x:.4g}" for x in (low, high))
        out.print(
            f"  [yellow]{failed} toys failed after all retries (b {result.n_nonconverged['b']}, sb "
            f"{result.n_nonconverged['sb']}); counted either way, CLs lies in {ends}[/yellow]"
        )
    if result.stopping is not None:
        reached = "satisfied" if result.stopping["reached"] else "[yellow]not satisfied at --max-toys[/yellow]"
        out.print(f"  stopping rule {reached}" + (
            f": {result.stopping['decision']} {result.stopping['decide']:g}" if result.stopping["decision"] else ""
        ))  # fmt: skip
    if result.shard is not None:
        out.print(f"  shard {result.shard[0]} of {result.shard[1]}: these are numbers of a part of the toys")
    codes = ", ".join(f"{kind} {code}" for kind, code in result.interpolation.items())
    out.print(f"  interpolation {codes}; seed {result.seed}; auxiliary data {result.aux}")
    if not result.timing:
        return
    who = "workers" if result.threads is None else f"{result.threads} threads"
    out.print(
        f"  {result.timing['toys_seconds']:.2f} s for the toys ({result.timing['toys_per_second']:.0f} a second) on "
        f"{who}, {result.versions['blas']}; model {result.model_digest[:12]}"
    )
