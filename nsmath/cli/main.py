"""The ``nsmath`` command: global options, and commands that load on use so that ``--help`` answers at once."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from nsmath import __version__
from nsmath.errors import FitError, NsmathError, StoreWriteError

# Command -> module, attribute, short help (known here so that listing the commands imports none of them).
COMMANDS = {
    "fit": ("nsmath.cli.fit", "fit_command", "Best fit, uncertainties and correlations of a workspace."),
    "hypotest-toys": ("nsmath.cli.hypotest", "hypotest_toys_command", "Toy-based CLs of one value of the POI."),
    "hypotest": ("nsmath.cli.asymptotics", "hypotest_command", "Asymptotic CLs of values of the POI."),
    "significance": ("nsmath.cli.asymptotics", "significance_command", "Discovery: p0 and Z, observed and expected."),
    "upper-limit": ("nsmath.cli.upper_limit", "upper_limit_command", "Upper limits on the POI, observed and expected."),
    "scan": ("nsmath.cli.scan", "scan_command", "Profile likelihood over one or two parameters."),
    "intervals": ("nsmath.cli.intervals", "intervals_command", "Profile-likelihood intervals of parameters."),
    "ranking": ("nsmath.cli.ranking", "ranking_command", "Pulls, constraints and impacts of nuisance parameters."),
    "gof": ("nsmath.cli.gof", "gof_command", "Goodness of fit: the saturated model, by chi2 and by toys."),
    "correlations": ("nsmath.cli.correlations", "correlations_command", "Correlations of the best fit."),
    "report": ("nsmath.cli.report", "report_command", "One HTML page of a workspace or a store of toys."),
    "run": ("nsmath.cli.run", "run_command", "A study in a file: workspaces, patches, values of mu."),
    "toy": ("nsmath.cli.toy", "toy_command", "One toy of a study, drawn again and fitted."),
    "merge-toys": ("nsmath.cli.merge_toys", "merge_toys_command", "Toys of several stores as one, and their CLs."),
    "inspect": ("nsmath.cli.inspect", "inspect_command", "Channels, modifiers, parameters and yields of a workspace."),
    "lint": ("nsmath.cli.lint", "lint_command", "Everything that is wrong or doubtful in a workspace."),
    "combine": ("nsmath.cli.combine", "combine_command", "Two workspaces joined into one."),
    "prune": ("nsmath.cli.prune", "prune_command", "A workspace without some channels, samples, modifiers ..."),
    "rename": ("nsmath.cli.rename", "rename_command", "A workspace with other names of channels, samples ..."),
    "digest": ("nsmath.cli.digest", "digest_command", "sha256 or md5 of a workspace, as patch sets know it."),
    "asimov": ("nsmath.cli.asimov", "asimov_command", "A workspace with expected data in the place of observed."),
    "blind": ("nsmath.cli.blind", "blind_command", "A workspace with channels hidden behind the expectation."),
    "patch": ("nsmath.cli.patch", "patch_group", "Patch sets: list, extract, apply, verify."),
    "info": ("nsmath.cli.info", "info_command", "Versions, BLAS, threads, devices and cache folders."),
    "example": ("nsmath.cli.example", "example_command", "The example workspace that nsmath ships."),
    "completion": ("nsmath.cli.completion", "completion_command", "The completion script of bash, zsh or fish."),
    "plans": ("nsmath.cli.plans", "plans_group", "Tuned plans in the cache: list, show, clear."),
}
EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
LOG_LEVELS = ("debug", "info", "warning", "error")


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing its module."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if ctx.resilient_parsing:  # so click parses while it completes, and never else
            from nsmath.cli.completion import complete_paths

            complete_paths(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table above."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="nsmath")
@click.option(
    "--log-level", type=click.Choice(LOG_LEVELS, case_sensitive=False), default="warning",
    help="What is logged to stderr.",
)  # fmt: skip
def cli(log_level: str) -> None:
    """Fits of HistFactory models (pyhf workspaces) and toy-based CLs, tens of thousands of fits at a time.

    Results are written as JSON with --output; exit codes: 0 done, 1 no trustworthy result, 2 bad input.
    """
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger = logging.getLogger("nsmath")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(log_level.upper())
    # nvmath times every execution once its logger is at INFO, so its messages come at DEBUG alone.
    logging.getLogger("nsmath.nvmath").setLevel("DEBUG" if log_level == "debug" else "WARNING")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 no trustworthy result, 2 bad input or usage, 130 interrupted."""
    try:
        code: Any = cli.main(args=arguments, prog_name="nsmath", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("interrupted: nothing was written.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        click.echo("interrupted: nothing was written.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (`| head`); without this Python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (FitError, StoreWriteError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except NsmathError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USAGE)
