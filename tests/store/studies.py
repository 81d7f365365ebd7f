"""A small study for the tests of stores and engines."""

from __future__ import annotations

from typing import Any

import numpy as np
from workspaces import document, modifier, mu, sample

from nsmath.infer.hypotest import hypotest_toys
from nsmath.infer.result import ToyTestResult
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import Tuned

TUNED = Tuned(width=64, robust_width=16, newton_cost=8.0)
SPEC = document(
    {
        "SR": [
            sample("s", [5.0, 3.0], mu()),
            sample(
                "b",
                [50.0, 20.0],
                modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}),
                modifier("stat", "staterror", [2.0, 1.5]),
            ),
        ]
    },
    {"SR": [52.0, 24.0]},
)
MODEL = Model.from_workspace(SPEC)


def run(n_toys: int = 300, model: Model = MODEL, mu_test: float = 1.0, **options: Any) -> ToyTestResult:
    threads = options.pop("threads", 2)
    with Plan(model, threads=threads, tuned=TUNED) as plan:
        return hypotest_toys(model, mu_test, n_toys=n_toys, plan=plan, **options)


def same_toys(a: ToyTestResult, b: ToyTestResult, *, atol: float = 0.0) -> None:
    """Every number of every toy, and all that follows from them."""
    for name, ensemble in a.ensembles.items():
        for column, array in ensemble.columns().items():
            np.testing.assert_allclose(
                array, getattr(b.ensembles[name], column), rtol=0.0, atol=atol, err_msg=f"{name} {column}"
            )
    ours, theirs = a.to_dict(), b.to_dict()
    for name in ("timing", "fits", "threads", "transfers"):
        ours.pop(name)
        theirs.pop(name)
    assert ours == theirs
