"""Kill a toy study again and again, resume it, and compare what it ends with to an uninterrupted run, bit by bit.

    python scripts/faults.py [--kills 50] [--input example] [--n-toys 20000]

Ends with code 1 when anything differs: a toy lost, a toy twice, a bit of a number.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nsmath.store.ensemble import COLUMNS
from nsmath.store.toystore import ToyStore

RUN = "from nsmath.store import toystore; toystore.FLUSH_SECONDS = {}; from nsmath.cli.main import main; main()"
"""A run that writes its parts sooner than the usual ten seconds, so that a killed one leaves some."""


def command(options: argparse.Namespace, store: Path, output: Path) -> list[str]:
    return [
        sys.executable, "-c", RUN.format(options.flush), "hypotest-toys", "--input", options.input, "--mu", "1",
        "--expected-set",
        "--n-toys", str(options.n_toys), "--store", str(store), "--output", str(output), "--quiet",
    ]  # fmt: skip


def numbers(output: Path) -> dict[str, object]:
    result: dict[str, object] = json.loads(output.read_text())
    for name in ("timing", "fits"):
        result.pop(name)
    return result


def toys_of(store: ToyStore) -> int:
    return sum(last - first for key in store.held() for first, last in store.there(key))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--input", default="example")
    parser.add_argument("--n-toys", type=int, default=20_000)
    parser.add_argument("--flush", type=float, default=0.05, help="seconds that toys wait to be written")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which it is killed")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="nsmath-faults-"))
    whole, broken = folder / "whole", folder / "broken"

    # Kernels are compiled and plans tuned before anything is timed.
    subprocess.run([*command(options, folder / "first", folder / "first.json"), "--n-toys", "10"], check=True)
    started = time.perf_counter()
    subprocess.run(command(options, whole, folder / "whole.json"), check=True)
    seconds = time.perf_counter() - started
    print(f"uninterrupted: {seconds:.1f} s")

    run = command(options, broken, folder / "broken.json")
    kills, rounds, left = 0, 0, 0
    while kills < options.kills:
        rounds += 1
        began = time.perf_counter()
        process = subprocess.Popen(run)
        try:
            process.wait(timeout=rng.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            left += (broken / "_store.json").exists() and toys_of(ToyStore.read(broken)) > 0
            continue
        if process.returncode:
            print(f"FAILED: a resumed run ended with code {process.returncode}")
            return 1
        # Finished before it could be killed: compare, and begin anew, with less patience if it was quicker.
        seconds = min(seconds, time.perf_counter() - began)
        if not same(whole, broken, folder):
            return 1
        shutil.rmtree(broken)
    subprocess.run(run, check=True)
    print(f"killed {kills} times in {rounds} runs, {left} of which left toys to go on from")
    ok = same(whole, broken, folder)
    shutil.rmtree(folder)
    return 0 if ok else 1


def same(whole: Path, broken: Path, folder: Path) -> bool:
    """Compare stores toy by toy and results number by number."""
    ours, theirs = ToyStore.read(whole), ToyStore.read(broken)
    ok = ours.held() == theirs.held() and toys_of(ours) == toys_of(theirs)
    for key in ours.held():
        a, b = (store.toys(key, (0, 2**62)) for store in (ours, theirs))
        ok = ok and all(np.array_equal(getattr(a, n), getattr(b, n), equal_nan=n in ("q", "conditional_nll"))
                        for n in COLUMNS)  # fmt: skip
    ok = ok and numbers(folder / "whole.json") == numbers(folder / "broken.json")
    print("identical to the uninterrupted run" if ok else f"FAILED: {broken} differs from {whole}")
    return ok


if __name__ == "__main__":
    sys.exit(main())
