"""``nsmath hypotest-toys``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.inputs import chosen_model, chosen_plan, model_options, plan_options
from nsmath.cli.output import checked_output, console, progress, with_error, write_json

if TYPE_CHECKING:
    from nsmath.infer.hypotest import ToyTestResult

EXIT_UNTRUSTED = 1
MAX_FAILED_SHARE = 0.01
"""Share of an ensemble's toys that may fail; a result with more is written, and the command ends with code 1."""


@click.command("hypotest-toys")
@model_options
@click.option("--mu", type=float, required=True, help="Value of the parameter of interest to test.")
@click.option("--n-toys", type=int, default=1000, help="Toys of each of the two ensembles.")
@click.option("--seed", type=int, default=0, help="Seed; toys depend on it, the ensemble and their index alone.")
@click.option("--expected-set", is_flag=True, help="Also the band of CLs expected from background alone.")
@click.option(
    "--test-stat", type=click.Choice(["qtilde", "q", "q0"]), default="qtilde",
    help="Test statistic (arXiv:1007.1727, eqs. 16, 14, 12); q0 tests mu = 0 against --mu.",
)  # fmt: skip
@click.option(
    "--aux", type=click.Choice(["random", "fixed"]), default="random",
    help="Auxiliary data fluctuate with the toys, or stay as observed.",
)  # fmt: skip
@plan_options
@click.option("--output", "-o", metavar="FILE", help="Write the result as JSON; '-' for stdout.")
@click.option("--quiet", "-q", is_flag=True, help="No summary, no progress bar.")
def hypotest_toys_command(**options: Any) -> int:
    """Test one value of the parameter of interest with toys: CLs+b, CLb, CLs and their errors.

    Fits the observed data, throws toys at the conditional fits with the POI at 0 and at --mu, and fits every one.
    """
    checked_output(options["output"], options["input_"])
    model = chosen_model(options)
    # The cheap checks come before kernels are compiled and plans tuned.
    from nsmath.infer.hypotest import checked_options, hypotest_toys

    names = ("mu", "n_toys", "seed", "test_stat", "aux")
    checked_options(model, **{name: options[name] for name in names})
    with chosen_plan(model, options) as plan, progress(options["quiet"]) as callback:
        result = hypotest_toys(
            model, options["mu"], n_toys=options["n_toys"], seed=options["seed"], test_stat=options["test_stat"],
            aux=options["aux"], expected_set=options["expected_set"], plan=plan, progress=callback,
        )  # fmt: skip
    write_json(result.to_dict(), options["output"])
    if not options["quiet"]:
        print_summary(result, options["output"])
    return exit_code(result)


def exit_code(result: ToyTestResult) -> int:
    """Return 0, or 1 where too many toys failed for the numbers to be trusted; then says so on stderr."""
    for name, ensemble in result.ensembles.items():
        n_failed = int(ensemble.failed.sum())
        if n_failed > MAX_FAILED_SHARE * result.n_toys[name]:
            click.echo(
                f"error: {n_failed} of {result.n_toys[name]} toys of ensemble {name} failed, more than "
                f"{MAX_FAILED_SHARE:.0%}: do not trust CLs beyond the range that cls_bracket gives.",
                err=True,
            )
            return EXIT_UNTRUSTED
    return 0


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
        out.print(f"  CLb        {with_error(result.clb, result.clb_error)}")
        out.print(f"  CLs        [bold]{with_error(result.cls, result.cls_error, result.cls_upper)}[/bold]")
    if result.expected_set is not None:
        band = result.expected_set
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
    codes = ", ".join(f"{kind} {code}" for kind, code in result.interpolation.items())
    out.print(f"  interpolation {codes}; seed {result.seed}; auxiliary data {result.aux}")
    out.print(
        f"  {result.timing['toys_seconds']:.2f} s for the toys ({result.timing['toys_per_second']:.0f} a second) on "
        f"{result.threads} threads, {result.versions['blas']}; model {result.model_digest[:12]}"
    )
