"""The same toys and the same q for any batch width, thread count, split or order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from workspaces import BACKEND_NAMES, LUMI, document, modifier, mu, sample

from nsmath.errors import ModelError, NsmathError, OptionError
from nsmath.infer.hypotest import hypotest_toys
from nsmath.infer.observed import observed_fits, studies
from nsmath.infer.teststats import test_statistic as statistic_named
from nsmath.infer.toys import run_toys
from nsmath.model.model import Model
from nsmath.plan.plan import Plan


def model() -> Model:
    return Model.from_workspace(
        document(
            {
                "SR": [
                    sample("s", [5.0, 9.0, 4.0], mu(), modifier("lumi", "lumi")),
                    sample(
                        "b",
                        [50.0, 40.0, 9.0],
                        modifier("n", "normsys", {"lo": 0.85, "hi": 1.2}),
                        modifier("h", "histosys", {"lo_data": [45.0, 42.0, 8.0], "hi_data": [58.0, 37.0, 11.0]}),
                        modifier("stat", "staterror", [3.0, 2.0, 1.5]),
                    ),
                    sample("fake", [4.0, 3.0, 2.0], modifier("f", "shapesys", [2.0, 1.0, 1.5])),
                ],
                "CR": [sample("b", [200.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))],
            },
            {"SR": [55.0, 41.0, 12.0], "CR": [190.0]},
            lumi=LUMI,
        )
    )


MODEL = model()


def q_of(n_toys: int = 300, **options: Any) -> dict[str, np.ndarray]:
    plan_options = {name: options.pop(name) for name in ("threads", "width", "backend") if name in options}
    plan_options = {"threads": 1, "width": 64, **plan_options}
    with Plan(MODEL, tune=False, **plan_options) as plan:
        result = hypotest_toys(MODEL, 1.0, n_toys=n_toys, plan=plan, **options)
        return {name: ensemble.q for name, ensemble in result.ensembles.items()}


@pytest.fixture(scope="module")
def reference_q() -> dict[str, np.ndarray]:
    return q_of()


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_q_is_bit_identical_for_any_number_of_threads(reference_q: dict[str, np.ndarray], threads: int) -> None:
    for name, q in q_of(threads=threads).items():
        np.testing.assert_array_equal(q, reference_q[name])


@pytest.mark.parametrize("width", [8, 72, 512])
def test_q_does_not_depend_on_the_tile_width(reference_q: dict[str, np.ndarray], width: int) -> None:
    for name, q in q_of(width=width).items():
        np.testing.assert_allclose(q, reference_q[name], rtol=0.0, atol=2e-8)


def test_more_toys_begin_with_the_same_toys(reference_q: dict[str, np.ndarray]) -> None:
    # 192 is a whole number of tiles: bit for bit. The last, partial tile agrees to rounding.
    for name, q in q_of(n_toys=500).items():
        np.testing.assert_array_equal(q[:192], reference_q[name][:192])
        np.testing.assert_allclose(q[:300], reference_q[name], rtol=0.0, atol=2e-8)


def test_a_toy_alone_is_the_toy_in_a_batch(reference_q: dict[str, np.ndarray]) -> None:
    statistic = statistic_named("qtilde")
    with Plan(MODEL, threads=1, tune=False, width=64) as plan:
        observed = observed_fits(plan, statistic, 1.0)
        recipe = studies(plan, observed, statistic, 1.0, seed=0, fluctuates=True)
        for name in ("b", "sb"):
            for index in (0, 17, 299):
                alone, _ = run_toys(plan, recipe[name], np.array([index]))
                assert alone.q[0] == pytest.approx(reference_q[name][index], abs=2e-8)


def test_neighbouring_seeds_share_no_toy(reference_q: dict[str, np.ndarray]) -> None:
    # The fault of generators that seed toy i with seed + i (case C85).
    other = q_of(seed=1)["b"]
    positive = reference_q["b"][reference_q["b"] > 0.0]
    assert not np.isclose(other[:, None], positive[None], rtol=0.0, atol=1e-9).any()


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_every_backend_gives_the_same_q(reference_q: dict[str, np.ndarray], backend: str) -> None:
    for name, q in q_of(n_toys=60, backend=backend).items():
        np.testing.assert_allclose(q, reference_q[name][:60], rtol=0.0, atol=1e-7)


@pytest.mark.parametrize(
    ("mu_test", "options", "error", "fragments"),
    [
        (1.0, {"n_toys": 0}, OptionError, ["n_toys", "0", "from 1"]),
        (1.0, {"n_toys": 2.5}, OptionError, ["n_toys", "2.5"]),
        (1.0, {"seed": -1}, OptionError, ["seed", "-1", "2^64"]),
        (1.0, {"test_stat": "t"}, OptionError, ["'t'", "qtilde, q, q0"]),
        (1.0, {"aux": "poisson"}, OptionError, ["'poisson'", "random, fixed"]),
        (11.0, {}, OptionError, ["11", "[0, 10]", "'mu'", "widen"]),
    ],
)
def test_bad_options_are_named(mu_test: float, options: dict[str, Any], error: type, fragments: list[str]) -> None:
    with Plan(MODEL, threads=1, tune=False, width=64) as plan, pytest.raises(error) as caught:
        hypotest_toys(MODEL, mu_test, plan=plan, **options)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_workspace_without_poi_is_refused_by_name() -> None:
    spec = document(
        {"SR": [sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))]}, {"SR": [65.0]}, poi=""
    )
    with pytest.raises(ModelError, match="no parameter of interest"):
        hypotest_toys(Model.from_workspace(spec), 1.0, n_toys=10)


def test_a_plan_of_another_model_is_refused() -> None:
    other = Model.from_workspace(document({"SR": [sample("s", [5.0], mu())]}, {"SR": [3.0]}))
    with Plan(MODEL, threads=1, tune=False, width=64) as plan, pytest.raises(NsmathError, match="another model"):
        hypotest_toys(other, 1.0, n_toys=10, plan=plan)


def test_progress_counts_every_toy_once() -> None:
    seen: list[tuple[int, int, str]] = []
    q_of(n_toys=150, progress=lambda done, total, phase: seen.append((done, total, phase)))
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert seen[-1] == (300, 300, "toys")


def test_leaving_a_run_early_stops_it_cleanly() -> None:
    def stop(done: int, total: int, phase: str) -> None:
        raise KeyboardInterrupt

    with Plan(MODEL, threads=2, tune=False, width=64) as plan:
        with pytest.raises(KeyboardInterrupt):
            hypotest_toys(MODEL, 1.0, n_toys=5000, plan=plan, progress=stop)
        # The plan is as good as before.
        assert hypotest_toys(MODEL, 1.0, n_toys=50, plan=plan).n_toys == {"b": 50, "sb": 50}
