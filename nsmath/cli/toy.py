"""``nsmath toy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.hypotest import test_options
from nsmath.cli.inputs import chosen_model, chosen_plan, plan_options, tested_model_options
from nsmath.cli.output import checked_output, console, write_json

if TYPE_CHECKING:
    from nsmath.infer.single_toy import SingleToy


@click.command("toy")
@tested_model_options
@test_options
@click.option(
    "--hypothesis",
    type=click.Choice(["b", "sb", "b_nominal", "sb_nominal"]),
    required=True,
    help="Ensemble of the toy.",
)
@click.option("--index", type=int, required=True, help="Its index, from 0 on.")
@plan_options
@click.option("--output", "-o", metavar="FILE", help="Write data, fits and q as JSON; '-' for stdout.")
@click.option("--quiet", "-q", is_flag=True, help="No summary.")
def toy_command(**options: Any) -> int:
    """Draw one toy of a study again and fit it: what it is, how the fits went.

    Give the options of the study; the toy is the one that hypotest-toys throws there.
    """
    checked_output(options["output"], options["input_"])
    model = chosen_model(options)
    from nsmath.infer.hypotest import checked_options
    from nsmath.infer.single_toy import single_toy

    names = ("mu", "seed", "test_stat", "aux")
    statistic = checked_options(model, n_toys=1, **{name: options[name] for name in names})
    with chosen_plan(model, options, n_fits=2, what="1 toy") as plan:
        toy = single_toy(
            plan, statistic, options["mu"], hypothesis=options["hypothesis"], index=options["index"],
            seed=options["seed"], aux=options["aux"],
        )  # fmt: skip
    write_json(toy.to_dict(), options["output"])
    if not options["quiet"]:
        print_toy(toy, options["output"])
    return 0 if toy.q is not None else 1


def print_toy(toy: SingleToy, output: str | None) -> None:
    """Print a toy for people."""
    from rich.table import Table

    out = console(output)
    q = "none: a fit failed after all retries" if toy.q is None else f"{toy.q:.9g}"
    out.print(f"[bold]toy {toy.index} of {toy.hypothesis}[/bold]  (mu = {toy.mu_test:g}, seed {toy.seed})")
    out.print(f"  q      {q} ({toy.test_stat}), mu_hat {toy.mu_hat:.6g}")
    for name, fit in (("free", toy.free), ("conditional", toy.conditional)):
        tier = "exact Newton" if fit.exact_newton else "L-BFGS"
        out.print(f"  {name} fit: {fit.status.message}; {fit.n_iterations} iterations, {tier}, NLL {fit.nll:.9g}")
    bins = Table("channel", "bin", "drawn", "expected", box=None)
    at = 0
    for channel, n in toy.channels.items():
        for b in range(n):
            bins.add_row(channel, str(b), f"{toy.data[at]:g}", f"{toy.expected_data[at]:.4g}")
            at += 1
    out.print(bins)
    parameters = Table("parameter", "free fit", "conditional fit", box=None)
    for name, free, conditional in zip(toy.names, toy.free.values, toy.conditional.values, strict=True):
        parameters.add_row(name, f"{free:.5g}", f"{conditional:.5g}")
    out.print(parameters)
