"""Tasks on an executor, a few ahead of its workers, results as they complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, TypeVar

Result = TypeVar("Result")
_NO_TASK = object()


def results_as_completed(
    executor: Executor, function: Callable[[Any], Result], tasks: Iterable[Any], n_ahead: int
) -> Iterator[Result]:
    """Yield ``function(task)`` of all tasks, as they complete.

    Tasks are drawn lazily, ``n_ahead`` before the results, so a million of them take no memory. Leaving the iterator
    early (an error, Ctrl-C) cancels what has not begun and waits for what has.
    """
    pending: set[Future[Result]] = set()
    queue = iter(tasks)
    try:
        while True:
            while len(pending) < n_ahead:
                task = next(queue, _NO_TASK)
                if task is _NO_TASK:
                    break
                pending.add(executor.submit(function, task))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        for future in pending:
            future.cancel()
        wait(pending)
