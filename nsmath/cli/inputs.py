"""Options that commands share, and the model and plan that they describe."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath.errors import NsmathError, OptionError

if TYPE_CHECKING:
    from nsmath.model.model import Model
    from nsmath.plan.plan import Plan
    from nsmath.plan.tuned import Tuned

EXAMPLE = Path(__file__).resolve().parent.parent / "data" / "example.json"
EXAMPLE_WORD = "example"
STDIN = "-"


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a model; the command receives them as keywords."""
    options = [
        click.option(
            "--input", "-i", "input_", required=True, metavar="FILE",
            help=f"pyhf JSON workspace, '-' for stdin; the word '{EXAMPLE_WORD}' takes the one that nsmath ships.",
        ),
        click.option("--measurement", metavar="NAME", help="Measurement; the first one if not given."),
        click.option("--poi", metavar="NAME", help="Parameter of interest, instead of the measurement's."),
        click.option(
            "--patch", "patches", multiple=True, metavar="FILE[:NAME]",
            help="JSON patch, or one patch of a patch set by name; may be repeated, applied in order.",
        ),
        click.option(
            "--interp-defaults", type=click.Choice(["root", "pyhf"]), default="root",
            help="Interpolation: root is code4 (normsys) and code4p (histosys), pyhf is code1 and code0.",
        ),
        click.option(
            "--interp", "interp", multiple=True, metavar="TYPE=CODE",
            help="Interpolation code of one modifier type, such as normsys=code1; may be repeated.",
        ),
    ]  # fmt: skip
    return functools.reduce(lambda f, option: option(f), reversed(options), function)


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose how a model is computed."""
    options = [
        click.option("--backend", type=click.Choice(["cpu", "reference"]), default="cpu", help="What computes."),
        click.option("--threads", type=click.IntRange(min=1), help="Worker threads; all cores if not given."),
        click.option("--plan", "plan_file", metavar="FILE", help="Plan file with tuned choices, instead of the cache."),
    ]
    return functools.reduce(lambda f, option: option(f), reversed(options), function)


def chosen_interpolation(defaults: str, overrides: tuple[str, ...]) -> Any:
    """Return the interpolation that the options mean."""
    from nsmath.formulas.interpolation import interpolation

    codes = interpolation(defaults).to_dict()
    for override in overrides:
        kind, equals, code = override.partition("=")
        if not equals:
            raise OptionError(f"--interp {override!r}: expected TYPE=CODE, such as normsys=code1 or histosys=code0.")
        codes[kind] = code
    return interpolation(codes)


def chosen_model(options: dict[str, Any]) -> Model:
    """Return the model of `model_options`; warnings of the workspace go to stderr, one line a kind."""
    from nsmath.model.model import Model
    from nsmath.spec.workspace import Workspace

    path = EXAMPLE if options["input_"] == EXAMPLE_WORD else Path(options["input_"])
    patches = list(options["patches"])
    try:
        if options["input_"] == STDIN:
            workspace = Workspace.from_json(sys.stdin.buffer.read(), patches=patches)
        else:
            workspace = Workspace.from_file(path, patches=patches)
        interp = chosen_interpolation(options["interp_defaults"], options["interp"])
        model = Model.from_workspace(workspace, measurement=options["measurement"], poi=options["poi"], interp=interp)
    except NsmathError as error:
        # The checks know the place in the document; only here is it known which document.
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from None
    for line in workspace.warning_summary():
        click.echo(f"warning: {line}", err=True)
    return model


def chosen_plan(model: Model, options: dict[str, Any], *, tuned: Tuned | None = None) -> Plan:
    """Return the plan of `plan_options`, with ``tuned`` values if given; says when kernels must be compiled first."""
    if options["backend"] == "cpu":
        announce_compilation()
    from nsmath.plan.plan import Plan

    return Plan(model, backend=options["backend"], threads=options["threads"], file=options["plan_file"], tuned=tuned)


def announce_compilation() -> None:
    """Say on stderr that kernels are compiled now, if this machine has none for these sources."""
    from nsmath.backends.jit import kernel_cache_folder

    # The folder is that of exactly these sources and versions: after an upgrade kernels are compiled again.
    if not any(kernel_cache_folder().rglob("*.nbi")):
        click.echo("compiling kernels for this machine, once: about a minute on two cores ...", err=True)
