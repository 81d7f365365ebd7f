"""Options of toy studies that several commands share: where toys are kept, who computes them, when they are enough."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsmath.errors import OptionError

if TYPE_CHECKING:
    from types import FrameType

    from nsmath.infer.engine import Engine
    from nsmath.infer.stopping import StoppingRule
    from nsmath.infer.teststats import TestStatistic
    from nsmath.model.model import Model
    from nsmath.store.toystore import ToyStore

EXIT_INTERRUPTED = 130

Command = TypeVar("Command", bound=Callable[..., Any])


WORKER_OPTIONS = (
    click.option("--workers", type=int, help="Compute in so many processes, one thread each, not in threads."),
    click.option("--dask", metavar="ADDRESS", help="Compute on the Dask cluster of this scheduler."),
)
"""Who computes toys, or the points of a grid."""


def study_options(*, rules: bool) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of a toy study: store, workers and, with ``rules``, when to stop."""
    options = [
        click.option("--store", metavar="DIR", help="Keep the toys in this folder; the same command goes on there."),
        *WORKER_OPTIONS,
    ]
    if rules:
        options += [
            click.option(
                "--cls-error", "cls_errors", multiple=True, metavar="E",
                help="Go on until CLs is known to this error: absolute (0.002) or relative (5%); with both, to the "
                "stricter one.",
            ),
            click.option("--decide", type=float, help="Go on until CLs is on one side of this, such as 0.05."),
            click.option("--sigmas", type=float, default=3.0, help="Standard errors that --decide asks for."),
            click.option(
                "--max-toys", type=int, default=1_000_000, help="Toys at which --cls-error and --decide give up."
            ),
        ]  # fmt: skip

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def stopping_rule(options: dict[str, Any]) -> StoppingRule | None:
    """Return the rule that the options mean; None for a given number of toys.

    Raises
    ------
    OptionError
        Not a number, or out of range.
    """
    if not options["cls_errors"] and options["decide"] is None:
        return None
    from nsmath.infer.stopping import StoppingRule

    return StoppingRule.of(
        options["cls_errors"], options["decide"], n_sigma=options["sigmas"], n_toys=options["n_toys"],
        max_toys=options["max_toys"],
    )  # fmt: skip


def shard_of(text: str | None) -> tuple[int, int] | None:
    """Return (i, N) of ``i/N``.

    Raises
    ------
    OptionError
        Not two whole numbers.
    """
    if text is None:
        return None
    try:
        i, of = (int(part) for part in text.split("/"))
    except ValueError:
        raise OptionError(f"--shard {text!r}: expected i/N, such as 3/20.") from None
    return i, of


@contextmanager
def kept_toys(
    folder: str | None, model: Model, statistic: TestStatistic, options: dict[str, Any]
) -> Iterator[ToyStore | None]:
    """Yield the open store of ``--store``; None without one. Says what is kept when the run is interrupted."""
    if folder is None:
        yield None
        return
    from nsmath.infer.calculator import study_identity
    from nsmath.store.toystore import ToyStore

    with ToyStore.create(folder, study_identity(model, statistic, seed=options["seed"], aux=options["aux"])) as store:
        for path in store.damaged:
            click.echo(f"warning: a damaged part was set aside as {path}; its toys are computed again.", err=True)
        try:
            yield store
        except KeyboardInterrupt:
            store.flush()
            n = sum(last - first for key in store.held() for first, last in store.there(key))
            click.echo(f"interrupted: {n} toys are kept in {folder}; the same command goes on from there.", err=True)
            sys.exit(EXIT_INTERRUPTED)


@contextmanager
def chosen_engine(options: dict[str, Any]) -> Iterator[Engine]:
    """Yield what computes the toys; ends processes and connections that were made for it.

    Raises
    ------
    OptionError
        Both kinds asked for, a bad number, no dask, no scheduler.
    """
    from nsmath.infer.engine import Threads, Workers

    workers, address = options["workers"], options["dask"]
    if workers is not None and address is not None:
        raise OptionError("--workers and --dask exclude each other; choose one.")
    if workers is not None:
        if workers < 1:
            raise OptionError(f"--workers is {workers}; expected 1 or more.")
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts) as pool:
            yield Workers(pool, workers)
    elif address is not None:
        with _dask_engine(address) as engine:
            yield engine
    else:
        yield Threads()


@contextmanager
def _dask_engine(address: str) -> Iterator[Engine]:
    try:
        from distributed import Client
    except ImportError:
        raise OptionError("--dask needs dask.distributed: pip install 'nsmath[dask]'.") from None
    from nsmath.infer.engine import Workers

    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise OptionError(f"--dask {address}: no scheduler answers there ({error}).") from error
    with client:
        # A pure function of its arguments, which Dask may repeat on another worker when one is lost.
        yield Workers(client.get_executor(pure=False), max(sum(client.ncores().values()), 1))


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which keeps what is done and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM, which batch systems send before they kill, like Ctrl-C: what is done is kept."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        # Not the main thread: whoever runs it there looks after signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
