"""Whoever computes the toys, they are the same to the last bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from studies import run, same_toys

from nsmath.errors import FitError
from nsmath.infer.engine import Workers
from nsmath.infer.result import ToyTestResult


@pytest.fixture(scope="module")
def alone() -> ToyTestResult:
    return run(500, threads=1)


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_processes_give_the_toys_of_one(alone: ToyTestResult, processes: ProcessPoolExecutor) -> None:
    same_toys(run(500, engine=Workers(processes, 2)), alone)


def test_any_executor_will_do(alone: ToyTestResult) -> None:
    class Plain(Executor):
        """The least that the interface asks for."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    same_toys(run(500, engine=Workers(Plain(), 1)), alone)
    with ThreadPoolExecutor(3) as pool:
        same_toys(run(500, engine=Workers(pool, 3)), alone)


def test_a_process_that_dies_is_named_and_the_store_goes_on(alone: ToyTestResult, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def kill(done: int, total: int, phase: str) -> None:
            for process in multiprocessing.active_children():
                os.kill(process.pid or 0, signal.SIGKILL)

        with pytest.raises(FitError, match=r"a worker process died.*run the same command again"):
            run(500, engine=Workers(pool, 1), store=tmp_path, progress=kill)
    same_toys(run(500, store=tmp_path), alone)


def test_a_dask_cluster_gives_the_same_toys_even_when_it_loses_a_worker(alone: ToyTestResult) -> None:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        killed: list[int] = []

        def kill_one(done: int, total: int, phase: str) -> None:
            if not killed:
                pid = next(iter(client.run(os.getpid).values()))
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                time.sleep(0.1)

        result = run(500, engine=Workers(client.get_executor(), 2), progress=kill_one)
        assert killed
        same_toys(result, alone)
