"""Error of q in a backend and precision against the CPU in float64, toy by toy; print a table.

    python scripts/precision.py --backend mlx --dtype float32 --n-toys 500 ../shared/data/tHu.json ...

The toys are the same ones: differences of q are those of the fits. Nothing here is a test.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from nsmath import Model, Plan, Workspace, hypotest_toys
from nsmath.infer.result import ToyTestResult
from nsmath.plan.tuned import Tuned

TUNED = Tuned(width=64, robust_width=16, newton_cost=8.0)


def toys(model: Model, mu: float, n_toys: int, backend: str, dtype: str) -> tuple[ToyTestResult, str]:
    with Plan(model, backend=backend, dtype=dtype, tuned=TUNED) as plan:
        return hypotest_toys(model, mu, n_toys=n_toys, plan=plan), plan.backend_model.description


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--backend", default="mlx")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--n-toys", type=int, default=500)
    parser.add_argument("--mu", type=float, default=1.0)
    options = parser.parse_args()
    titles = ("workspace", "parameters", "toys", "q: median", "99 %", "largest", "mu_hat: largest", "toys failed")
    print(f"| {' | '.join(titles)} | computed by |")
    print("|---" * (len(titles) + 1) + "|")
    for path in options.files:
        model = Model.from_workspace(Workspace.from_file(path))
        expected, _ = toys(model, options.mu, options.n_toys, "cpu", "float64")
        got, description = toys(model, options.mu, options.n_toys, options.backend, options.dtype)
        pairs = [(got.ensembles[name], ensemble) for name, ensemble in expected.ensembles.items()]
        good = [~(a.failed | b.failed) for a, b in pairs]
        q = np.concatenate([np.abs(a.q - b.q)[ok] for (a, b), ok in zip(pairs, good, strict=True)])
        mu_hat = np.concatenate([np.abs(a.mu_hat - b.mu_hat)[ok] for (a, b), ok in zip(pairs, good, strict=True)])
        failed = sum(int(a.failed.sum()) for a, _ in pairs)
        print(
            f"| {path.stem} | {len(model.names)} | {options.n_toys} + {options.n_toys} | {np.median(q):.1e} | "
            f"{np.quantile(q, 0.99):.1e} | {q.max():.1e} | {mu_hat.max():.1e} | {failed} | {description} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
