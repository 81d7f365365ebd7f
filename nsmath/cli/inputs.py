"""Options that commands share, and the model and plan that they describe."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsmath import paths
from nsmath.errors import NsmathError, OptionError

if TYPE_CHECKING:
    from nsmath.backends.transfers import Ledger
    from nsmath.model.model import Model
    from nsmath.plan.choice import Choice
    from nsmath.plan.plan import Plan
    from nsmath.plan.tuned import Tuned
    from nsmath.spec.workspace import Workspace

EXAMPLE, EXAMPLE_WORD = paths.EXAMPLE, paths.EXAMPLE_WORD
STDIN = "-"


def _with_options(options: list[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda function: functools.reduce(lambda f, option: option(f), reversed(options), function)


input_option = click.option(
    "--input", "-i", "input_", required=True, metavar="FILE",
    help=f"pyhf JSON workspace, '-' for stdin; the word '{EXAMPLE_WORD}' takes the one that nsmath ships.",
)  # fmt: skip
patch_option = click.option(
    "--patch", "patches", multiple=True, metavar="FILE[:NAME]",
    help="JSON patch, or one patch of a patch set by name; may be repeated, applied in order. A pattern in the "
    "last one makes a grid (hypotest, upper-limit, significance).",
)  # fmt: skip
document_options = _with_options([input_option, patch_option])
"""Adds the options that choose a workspace; the command receives them as keywords."""
meaning_options = _with_options([
    click.option("--measurement", metavar="NAME", help="Measurement; the first one if not given."),
    click.option("--poi", metavar="NAME", help="Parameter of interest, instead of the measurement's."),
    click.option(
        "--interp-defaults", type=click.Choice(["root", "pyhf"]), default="root",
        help="Interpolation: root is code4 (normsys) and code4p (histosys), pyhf is code1 and code0.",
    ),
    click.option(
        "--interp", "interp", multiple=True, metavar="TYPE=CODE",
        help="Interpolation code of one modifier type, such as normsys=code1; may be repeated.",
    ),
])  # fmt: skip
"""Adds the options that choose what a workspace means."""
model_options = _with_options([document_options, meaning_options])
"""Adds the options that choose a model."""
tested_model_options = _with_options([
    model_options,
    click.option(
        "--poi-max", type=float, metavar="X",
        help="Upper bound of the parameter of interest for this command, instead of a narrower one in the measurement.",
    ),
])  # fmt: skip
"""Adds the options that choose a model whose parameter of interest is tested."""


def device_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the device and its precision; None where they are not given."""
    options = [
        click.option(
            "--gpu", type=click.Choice(["none", "cuda", "metal", "auto"]),
            help="Device: none is the CPU, the default; auto takes what tuned plans predict to be the fastest.",
        ),
        click.option(
            "--dtype", type=click.Choice(["float64", "float32"]),
            help="Precision; float64 if not given, or float32 with --gpu metal, which has no other.",
        ),
    ]  # fmt: skip
    return functools.reduce(lambda f, option: option(f), reversed(options), function)


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose how a model is computed."""
    options = [
        device_options,
        click.option("--backend", type=click.Choice(["cpu", "reference"]), default="cpu", help="What computes."),
        click.option("--threads", type=click.IntRange(min=1), help="Worker threads; all cores if not given."),
        click.option("--plan", "plan_file", metavar="FILE", help="Plan file with tuned choices, instead of the cache."),
        click.option(
            "--log-transfers", is_flag=True,
            help="Every copy between host and device as it happens, and a table of them.",
        ),
        click.option(
            "--assert-resident", is_flag=True,
            help="Stop if event data cross between host and device from the sampling of a toy to its q.",
        ),
    ]  # fmt: skip
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


@dataclass(frozen=True)
class Source:
    """A workspace that was read, and what it was read from.

    Attributes
    ----------
    label : the file, or ``-``; for messages.
    given : the document as read, numbers as they were written.
    patches : as named by the user.
    workspace : checked, with the patches applied.
    """

    label: str
    given: Any
    patches: tuple[str, ...]
    workspace: Workspace

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The document with the patches applied."""
        from nsmath.spec.patch import apply_patches

        return apply_patches(self.given, self.patches)


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Put the name of the document before errors: the checks know the place in it, but not which it is."""
    try:
        yield
    except NsmathError as error:
        text = str(error)
        raise type(error)(text if label in text else f"{label}: {text}") from None


def parsed_input(given: str) -> tuple[str, Any]:
    """Return name and parsed JSON of what ``--input`` names; nothing about it is checked."""
    from nsmath.spec.read import parse_json, read_bytes

    label = str(EXAMPLE if given == EXAMPLE_WORD else Path(given))
    with naming(label):
        if given == STDIN:
            return label, parse_json(sys.stdin.buffer.read(), "the workspace")
        return label, parse_json(read_bytes(label), f"'{label}'")


def read_source(given: str, patches: tuple[str, ...] = ()) -> Source:
    """Return the checked workspace that ``--input`` names, with its patches applied."""
    from nsmath.spec.workspace import Workspace

    label, document = parsed_input(given)
    with naming(label):
        return Source(label, document, tuple(patches), Workspace.from_dict(document, patches=patches))


def model_of(workspace: Workspace, label: str, options: dict[str, Any]) -> Model:
    """Return the model of a workspace that was read from ``label``, as `model_options` say."""
    from nsmath.model.model import Model

    with naming(label):
        interp = chosen_interpolation(options["interp_defaults"], options["interp"])
        return Model.from_workspace(
            workspace, measurement=options["measurement"], poi=options["poi"], interp=interp,
            poi_max=options.get("poi_max"),
        )  # fmt: skip


def warn(workspace: Workspace) -> None:
    """Write the warnings of a workspace to stderr, one line a kind."""
    for line in workspace.warning_summary():
        click.echo(f"warning: {line}", err=True)


def chosen_model(options: dict[str, Any]) -> Model:
    """Return the model of `model_options`; warnings of the workspace go to stderr, one line a kind."""
    return source_and_model(options)[1]


def source_and_model(options: dict[str, Any]) -> tuple[Source, Model]:
    """Return the model of `model_options`, and what it was made of; warnings as `chosen_model`."""
    source = read_source(options["input_"], options["patches"])
    model = model_of(source.workspace, source.label, options)
    warn(source.workspace)
    return source, model


@contextmanager
def chosen_plan(
    model: Model, options: dict[str, Any], *, n_fits: int = 10, what: str = "", tuned: Tuned | None = None
) -> Iterator[Plan]:  # fmt: skip
    """Yield the plan of `plan_options`, with ``tuned`` values if given; says when kernels must be compiled first.

    ``n_fits`` and ``what``, the same in words, are what ``--gpu auto`` decides by, and says.
    With ``--log-transfers`` what was copied between host and device is told as it happens, and as a table at the end.
    """
    choice = chosen_device(model, options, n_fits, what)
    import logging

    from nsmath.backends.transfers import Ledger
    from nsmath.plan.plan import Plan

    ledger = Ledger(assert_resident=options["assert_resident"])
    logging.getLogger("nsmath.transfer").setLevel(logging.INFO if options["log_transfers"] else logging.NOTSET)
    try:
        with Plan(
            model, backend=choice.backend, dtype=choice.dtype, threads=options["threads"], file=options["plan_file"],
            tuned=tuned, ledger=ledger,
        ) as plan:  # fmt: skip
            yield plan
    finally:
        # Also after an error: the table is what one looks for the culprit in.
        if options["log_transfers"]:
            print_transfers(ledger)


def toys_plan(
    model: Model, options: dict[str, Any], *, tuned: Tuned | None, n_tests: int = 1
) -> AbstractContextManager[Plan]:
    """Return the plan of ``n_tests`` tests with ``--n-toys`` toys each; see `chosen_plan`."""
    from nsmath.plan.choice import FITS_PER_TOY

    n_toys = options["n_toys"]
    what = f"{n_toys} toys" if n_tests == 1 else f"{n_toys} toys at {n_tests} values"
    return chosen_plan(model, options, n_fits=FITS_PER_TOY * n_toys * n_tests, what=what, tuned=tuned)


def chosen_device(model: Model, options: dict[str, Any], n_fits: int, what: str = "") -> Choice:
    """Return what computes, as `device_options` and ``--backend`` say; the reason of ``--gpu auto`` goes to stderr."""
    from nsmath.plan.choice import asked_for, chosen

    gpu, backend = options["gpu"] or "none", options.get("backend") or "cpu"
    if gpu != "auto":
        asked_for(gpu, options["dtype"], backend)
    if backend == "cpu" and gpu in ("none", "auto"):
        announce_compilation()
    choice = chosen(
        model, n_fits, gpu=gpu, dtype=options["dtype"], backend=backend, threads=options.get("threads"), what=what
    )  # fmt: skip
    if choice.reason:
        click.echo(f"gpu auto: {choice.reason}", err=True)
    return choice


def print_transfers(ledger: Ledger) -> None:
    """Print the table of copies between host and device to stderr."""
    from rich.console import Console
    from rich.table import Table

    out = Console(stderr=True, width=None if sys.stderr.isatty() else 140, highlight=False)
    rows = ledger.rows()
    if not rows:
        out.print("transfers: none; nothing was copied between host and device.")
        return
    table = Table(title="transfers between host and device")
    for name in ("phase", "operation", "direction", "reason", "event data"):
        table.add_column(name)
    for name in ("copies", "bytes"):
        table.add_column(name, justify="right")
    for row in rows:
        event = "yes" if row.event_data else "no"
        table.add_row(row.phase, row.operation, row.direction, row.reason, event, str(row.count), f"{row.n_bytes:,}")
    out.print(table)


def announce_compilation() -> None:
    """Say on stderr that kernels are compiled now, if this machine has none for these sources."""
    from nsmath.backends.jit import is_compiled

    # The folder is that of exactly these sources and versions: after an upgrade kernels are compiled again.
    if not is_compiled():
        click.echo("compiling kernels for this machine, once: about half a minute on two cores ...", err=True)
