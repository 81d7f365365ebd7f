"""Time nsmath beside its peers on the same workspaces, in one run; print a table with ratios and floors.

    python scripts/bench.py toys --data ../shared/data --nextstat /path/to/nextstat
    python scripts/bench.py fit | profiles | process | help | memory | plans | stores | compile

Peers are used where they are found and named as absent where not. Times are medians of ``--repeat`` runs with a warm
plan; absolute ones drift with the machine, so read the ratios. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

REAL = ("displep_SRee_mm_em_v2", "b2kpi_20bin", "sbottomC_900_250_60", "stau_combined_120_1", "erjr_3L_200_100",
        "compressed_SR2l_patch", "ttbar_ljets_pruned")  # fmt: skip
TOYS = {"tHu": (1000, 40), "complex": (10_000, 10_000), "god": (10_000, 10_000)}
"""Workspace -> toys of each ensemble for nsmath, and for the peer, whose time is scaled up."""
REAL_TOYS = (1000, 40)


def median_time(function: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def gemm_gflops() -> float:
    """GFLOP/s of one thread in float64 matmul, by the library that nsmath uses."""
    from nsmath.backends.matmul import matmul_library

    n = 768
    a, b, out = np.ones((n, n)), np.ones((n, n)), np.empty((n, n))
    matmul = matmul_library().planner(a, b, out)
    seconds = min(median_time(matmul.execute, 3) for _ in range(3))
    matmul.free()
    return 2e-9 * n**3 / seconds


def column_floor(model: object) -> tuple[float, float]:
    """Return (flops in matmuls, bytes of event data) of one evaluation and step of a column."""
    t = model.tensors  # type: ignore[attr-defined]
    z, r, h = t.n_minimised, t.n_rows, t.n_histosys
    flops = 2.0 * r * (2 * h + 1) + 2.0 * r * 2 * h + 2.0 * z * z
    return flops, 8.0 * (t.n_bins + t.n_aux + 2 * z)


def peer_toys_time(nextstat: str | None, path: Path, n: int, threads: int, limit: float) -> tuple[float | None, str]:
    if nextstat is None:
        return None, "absent"
    command = [nextstat, "hypotest-toys", "--input", str(path), "--mu", "1.0", "--n-toys", str(n), "--seed", "1",
               "--threads", str(threads), "--expected-set"]  # fmt: skip
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, f"over {limit:.0f} s"
    seconds = time.perf_counter() - start
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1][:60] if done.stderr.strip() else "failed"
    lost = json.loads(done.stdout)["n_nonconverged"]
    return seconds, f"{lost['b']}+{lost['sb']} not converged" if sum(lost.values()) else ""


def bench_toys(options: argparse.Namespace) -> None:
    from nsmath import Model, Plan, Workspace, hypotest_toys

    gflops = gemm_gflops()
    print(f"float64 matmul: {gflops:.1f} GFLOP/s a thread; {options.threads} threads; times in seconds\n")
    print("| workspace | par | toys | nsmath | toys/s | failed | floor | peer (scaled) | ratio | prototype | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in options.only or [*TOYS, *(f"real/{name}" for name in REAL)]:
        path = options.data / f"{name}.json"
        n, n_peer = TOYS.get(name, REAL_TOYS)
        n_peer = min(n_peer, options.peer_toys or n_peer)
        model = Model.from_workspace(Workspace.from_file(path))
        with Plan(model, threads=options.threads) as plan:
            hypotest_toys(model, 1.0, n_toys=50, plan=plan)
            results = []
            seconds = median_time(
                lambda: results.append(hypotest_toys(model, 1.0, n_toys=n, plan=plan, expected_set=True)),  # noqa: B023
                options.repeat,
            )
        result = results[-1]
        failed = sum(int(e.failed.sum()) for e in result.ensembles.values())
        evaluations = sum(fits["evaluations"] for fits in result.fits.values())
        floor = evaluations * column_floor(model)[0] / (gflops * 1e9 * options.threads)
        peer, note = peer_toys_time(options.nextstat, path, n_peer, options.threads, options.limit)
        scaled = None if peer is None else peer * n / n_peer
        prototype = prototype_time(options.prototype, path, n)
        print(
            f"| {name} | {len(model.names)} | {n} + {n} | {seconds:.3f} | {2 * n / seconds:.0f} | {failed} | "
            f"{floor:.3f} | {shown(scaled, '.1f')} {note} | {shown(scaled and scaled / seconds, '.0f')}x | "
            f"{shown(prototype, '.2f')} | {shown(prototype and prototype / seconds, '.1f')}x |",
            flush=True,
        )


def shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def prototype_time(prototype: Path | None, path: Path, n: int) -> float | None:
    """Return the throwaway prototype's own time for n + n toys on two threads; only for what it can read."""
    if prototype is None or "real" in path.parts:
        return None
    environment = {**os.environ, "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for source in prototype.parent.glob("*.py"):
            shutil.copy(source, folder)
        done = subprocess.run([sys.executable, "fast.py", str(path.resolve()), str(n), "250"], cwd=folder,
                              env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    walls = [float(line.split()[-1]) for line in done.stdout.splitlines() if " wall " in line]
    return walls[-1] if walls else None


def bench_fit(options: argparse.Namespace) -> None:
    from nsmath import Model, Plan, Workspace, fit

    path = options.data / "tHu.json"
    model = Model.from_workspace(Workspace.from_file(path))
    with Plan(model, threads=1) as plan:
        fit(model, plan=plan)
        seconds = median_time(lambda: fit(model, plan=plan), 5 * options.repeat)
    print(f"one free fit of tHu.json, with uncertainties, in process: nsmath {seconds * 1e3:.1f} ms")
    for name in PEER_FITS:
        peer = peer_fit_time(name, path, options)
        if peer is not None:
            print(f"  {name}: {peer * 1e3:.1f} ms, ratio {peer / seconds:.0f}x")


def peer_fit_time(name: str, path: Path, options: argparse.Namespace) -> float | None:
    """Return the seconds of one free fit by a peer in Python; None, and a word why, where it is absent or fails."""
    python = options.peer_python or sys.executable
    done = subprocess.run([python, "-c", PEER_FITS[name], str(path.resolve())], capture_output=True, text=True,
                          check=False, timeout=options.limit)  # fmt: skip
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1][:80] if done.stderr.strip() else "failed"
        print(f"  {name}: absent or failed ({reason})")
        return None
    return float(done.stdout.split()[-1])


PEER_FITS = {
    "nextstat": (
        "import sys, time, statistics, nextstat as ns\n"
        "model = ns.from_pyhf(open(sys.argv[1]).read())\n"
        "mle = ns.MaximumLikelihoodEstimator(); mle.fit(model); t = []\n"
        "for _ in range(3):\n"
        "    s = time.perf_counter(); mle.fit(model); t.append(time.perf_counter() - s)\n"
        "print(statistics.median(t))"
    ),
    "pyhf": (
        "import sys, time, json, pyhf\n"
        "ws = pyhf.Workspace(json.load(open(sys.argv[1])))\n"
        "m = ws.model(modifier_settings={'normsys': {'interpcode': 'code4'}, 'histosys': {'interpcode': 'code4p'}})\n"
        "d = ws.data(m); s = time.perf_counter(); pyhf.infer.mle.fit(d, m); print(time.perf_counter() - s)"
    ),
}


def bench_profiles(options: argparse.Namespace) -> None:
    """Scans, rankings, intervals and limits of tHu.json, in process with a warm plan; peers by single fits, scaled."""
    from nsmath import Model, Plan, Workspace, intervals, ranking, scan, upper_limit

    path = options.data / "tHu.json"
    model = Model.from_workspace(Workspace.from_file(path))
    work = {
        "30 x 30 scan": (900, lambda plan: scan(model, (model.poi, "NFHFdecay_mu"), points=30, plan=plan)),
        "full ranking": (732, lambda plan: ranking(model, plan=plan)),
        "all 183 intervals": (919, lambda plan: intervals(model, plan=plan)),
        "asymptotic limit with band": (None, lambda plan: upper_limit(model, plan=plan)),
    }
    peers = {name: peer_fit_time(name, path, options) for name in PEER_FITS}
    python = options.peer_python or sys.executable
    with Plan(model, threads=options.threads) as plan:
        for name, (n_fits, function) in work.items():
            function(plan)
            seconds = median_time(lambda run=function: run(plan), options.repeat)
            print(f"tHu.json, {name}: {seconds:.3f} s in process, {options.threads} threads", flush=True)
            for peer, fit_seconds in peers.items():
                if n_fits and fit_seconds:
                    print(f"  {peer}, {n_fits} fits scaled from one: {n_fits * fit_seconds:.0f} s, "
                          f"{n_fits * fit_seconds / seconds:.0f}x")  # fmt: skip
            if name in PEER_CALLS:
                done = subprocess.run([python, "-c", PEER_CALLS[name], str(path.resolve())], capture_output=True,
                                      text=True, check=False, timeout=options.limit)  # fmt: skip
                if done.returncode:
                    print(f"  nextstat's own: absent or failed ({(done.stderr.strip().splitlines() or [''])[-1][:90]})")
                else:
                    peer_seconds = float(done.stdout.split()[-1])
                    print(f"  nextstat's own: {peer_seconds:.1f} s, {peer_seconds / seconds:.0f}x")


PEER_CALLS = {
    "full ranking": (
        "import sys, time, nextstat as ns\n"
        "model = ns.from_pyhf(open(sys.argv[1]).read()); s = time.perf_counter(); ns.ranking(model)\n"
        "print(time.perf_counter() - s)"
    ),
    "asymptotic limit with band": (
        "import sys, time, nextstat as ns\n"
        "model = ns.from_pyhf(open(sys.argv[1]).read()); s = time.perf_counter()\n"
        "ns.upper_limit(model, method='root', hi=5.0)\n"
        "print(time.perf_counter() - s)"
    ),
}


def bench_process(options: argparse.Namespace) -> None:
    path = options.data / "complex.json"
    command = [sys.executable, "-m", "nsmath", "hypotest-toys", "--input", str(path), "--mu", "1", "--n-toys", "1000",
               "--threads", str(options.threads), "--output", os.devnull]  # fmt: skip
    subprocess.run(command, capture_output=True, check=True)
    seconds = median_time(lambda: subprocess.run(command, capture_output=True, check=True), 3 * options.repeat)
    peer, note = peer_toys_time(options.nextstat, path, 1000, options.threads, options.limit)
    print(f"whole process, complex.json, 1000 toys: nsmath {seconds:.2f} s, peer {shown(peer, '.2f')} s {note}")


def bench_help(options: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "nsmath", "--help"]
    seconds = median_time(lambda: subprocess.run(command, capture_output=True, check=True), 5 * options.repeat)
    bare = median_time(lambda: subprocess.run([sys.executable, "-c", ""], check=True), 5 * options.repeat)
    print(f"nsmath --help: {seconds:.3f} s (python alone {bare:.3f} s)")


def bench_memory(options: argparse.Namespace) -> None:
    from nsmath import Model, Plan, Workspace, hypotest_toys

    model = Model.from_workspace(Workspace.from_file(options.data / "complex.json"))
    with Plan(model, threads=options.threads) as plan:
        for n in (10_000, 100_000, options.toys):
            start = time.perf_counter()
            hypotest_toys(model, 1.0, n_toys=n, plan=plan, expected_set=True)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
                1024 if platform.system() == "Linux" else 1024**2
            )
            print(
                f"complex.json, {n} + {n} toys: {time.perf_counter() - start:.2f} s, peak memory {peak:.0f} MiB",
                flush=True,
            )


def bench_stores(options: argparse.Namespace) -> None:
    """The same toys without and with a store, in turn; peak memory of a million of them in one."""
    from nsmath import Model, Plan, Workspace, hypotest_toys

    for name, n in (("complex", options.toys), ("tHu", 2000)):
        model = Model.from_workspace(Workspace.from_file(options.data / f"{name}.json"))
        times: dict[str, list[float]] = {"without": [], "with": []}
        with Plan(model, threads=options.threads) as plan:
            hypotest_toys(model, 1.0, n_toys=100, plan=plan)
            for _ in range(options.repeat):
                for which, found in times.items():
                    with tempfile.TemporaryDirectory() as folder:
                        start = time.perf_counter()
                        hypotest_toys(model, 1.0, n_toys=n, plan=plan, store=folder if which == "with" else None)
                        found.append(time.perf_counter() - start)
        bare, kept = (statistics.median(found) for found in times.values())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if platform.system() == "Linux" else 1024**2)
        print(
            f"{name}.json, {n} + {n} toys: {bare:.2f} s without a store, {kept:.2f} s with one "
            f"({100 * (kept / bare - 1):+.1f} %), peak memory {peak:.0f} MiB",
            flush=True,
        )


def bench_compile(options: argparse.Namespace) -> None:
    """Wall and processor time of compiling all kernels into an empty cache."""
    code = (
        "import time; start = time.perf_counter()\n"
        "from nsmath.backends import cpu_warm\n"
        "cpu_warm.compile_all(); print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "NSMATH_CACHE_DIR": folder}, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"compiling all kernels: {float(done.stdout):.1f} s, {after.ru_utime - before.ru_utime:.1f} processor seconds"
    )


def bench_plans(options: argparse.Namespace) -> None:
    """First call, planned call, tuned call from disk: what a plan saves."""
    from nsmath import Model, Plan, Workspace, hypotest_toys

    model = Model.from_workspace(Workspace.from_file(options.data / "tHu.json"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NSMATH_CACHE_DIR"] = folder
        for label in ("measured now", "from disk"):
            start = time.perf_counter()
            with Plan(model, threads=options.threads) as plan:
                made = time.perf_counter() - start
                for call in ("first", "second"):
                    start = time.perf_counter()
                    hypotest_toys(model, 1.0, n_toys=200, plan=plan)
                    print(
                        f"plan {label}: made in {made:.3f} s; {call} 200 + 200 toys {time.perf_counter() - start:.3f} s"
                    )


BENCHES = {
    "toys": bench_toys, "fit": bench_fit, "profiles": bench_profiles, "process": bench_process, "help": bench_help,
    "memory": bench_memory, "plans": bench_plans, "stores": bench_stores, "compile": bench_compile,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*BENCHES, "all"])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--only", nargs="*", help="workspaces, such as tHu real/erjr_3L_200_100")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--toys", type=int, default=1_000_000, help="toys of each ensemble in the memory benchmark")
    parser.add_argument("--peer-toys", type=int, help="at most this many toys of each ensemble for the peer")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that a peer may take")
    parser.add_argument("--nextstat", default=shutil.which("nextstat"), help="the peer's command")
    parser.add_argument("--peer-python", help="python that has nextstat or pyhf")
    parser.add_argument("--prototype", type=Path, help="fast.py of the design folder, a stop-watch to beat")
    options = parser.parse_args()
    import nsmath

    print(
        f"nsmath {nsmath.__version__}, {platform.platform()}, python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}"
    )
    for name in BENCHES if options.what == "all" else [options.what]:
        BENCHES[name](options)


if __name__ == "__main__":
    main()
