"""``nsmath merge-toys``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsmath.cli.hypotest import exit_code, print_summary
from nsmath.cli.output import checked_output, write_json
from nsmath.cli.plots import CONVERGENCE, PLOT, checked_plot, convergence_option, plot_option, write_test_plots

if TYPE_CHECKING:
    from nsmath.infer.result import ToyTestResult


@click.command("merge-toys")
@click.argument("stores", nargs=-1, required=True, metavar="DIR...")
@click.option("--into", required=True, metavar="DIR", help="Store that takes all toys; made if it is not there.")
@click.option("--expected-set", is_flag=True, help="Also the band of CLs expected from background alone.")
@click.option("--output", "-o", metavar="FILE", help="Write the results as JSON, one for each mu; '-' for stdout.")
@plot_option("the distributions of the test statistic, for every mu")
@convergence_option
@click.option("--quiet", "-q", is_flag=True, help="No summary.")
def merge_toys_command(stores: tuple[str, ...], **options: Any) -> int:
    """Merge stores of toys, such as the shards of a study, and give the CLs of all their toys.

    The stores must be of the same model and options, and no toy may stand in two of them.
    """
    checked_output(options["output"])
    checked_plot(options, PLOT, CONVERGENCE)
    from nsmath.infer.stored import gaps, stored_results
    from nsmath.store.merge import merge_stores

    with merge_stores(stores, options["into"]) as store:
        results = stored_results(store, expected=options["expected_set"])
        for mu, name in store.held():
            for first, last in gaps(store, mu, name):
                click.echo(f"warning: toys {first} to {last - 1} of {name} at {mu:g} are in none of them.", err=True)
    write_json({"results": [result.to_dict() for result in results]}, options["output"])
    write_test_plots(results, options)
    return finished(results, options["output"], options["quiet"])


def finished(results: list[ToyTestResult], output: str | None, quiet: bool) -> int:
    """Print the results and return the worst exit code."""
    for result in results if not quiet else ():
        print_summary(result, output)
    codes: list[Any] = [exit_code(result) for result in results]
    return max(codes, default=0)
