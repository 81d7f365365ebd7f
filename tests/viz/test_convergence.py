"""How p-values settle is drawn from the toys by index, with bounds as long as a tail is empty."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures import badly_placed, ensemble, legend_texts, toy_test
from studies import MODEL
from studies import run as toys_of
from test_commands import run

from nsmath.infer.pvalues import ratio, tail
from nsmath.viz import convergence_figure, iterations_figure
from nsmath.viz.toys import MAX_BINS

RNG = np.random.default_rng(5)
Q_B, Q_SB = RNG.chisquare(3, 500), RNG.chisquare(1, 500)
Q_OBS = 4.0  # the first toys of sb lie below


def curve(figure: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    line = figure.axes[0].lines[k]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_the_curves_are_the_p_values_of_the_first_n_toys() -> None:
    result = toy_test(Q_B, Q_SB, Q_OBS)
    figure = convergence_figure(result)
    steps, clsb = curve(figure, 0)
    _, clb = curve(figure, 1)
    _, cls = curve(figure, 2)
    _, bound = curve(figure, 3)
    assert steps[-1] == 500
    for k, n in enumerate(steps.astype(int)):
        top, bottom = tail(Q_SB[:n], Q_OBS), tail(Q_B[:n], Q_OBS)
        value, _, upper = ratio(top, bottom)
        for drawn, expected in (
            (clsb[k], top.p or None),
            (clb[k], bottom.p or None),
            (cls[k], value),
            (bound[k], upper),
        ):
            assert drawn == pytest.approx(expected) if expected is not None else np.isnan(drawn)
    assert np.isfinite(bound).any() and np.isnan(bound[-1])
    assert cls[-1] == pytest.approx(result.cls)
    assert badly_placed(figure) == []


def test_a_tail_that_stays_empty_has_a_bound_and_no_zero() -> None:
    result = toy_test(Q_B, Q_SB, 1e3)
    figure = convergence_figure(dataclasses.replace(result, test_stat="qtilde"))
    for k in range(3):
        assert np.isnan(curve(figure, k)[1]).all()
    discovery = convergence_figure(toy_test(Q_B, Q_SB, 1e3, "q0"))
    steps, bound = curve(discovery, 1)
    np.testing.assert_allclose(bound, 1.0 - 0.05 ** (1.0 / steps))
    assert any("no toy in the tail" in text for text in legend_texts(discovery))


def test_failed_toys_are_left_out_of_the_curves() -> None:
    with_failures = np.where(np.arange(500) % 10 == 3, np.nan, Q_SB)
    figure = convergence_figure(toy_test(Q_B, with_failures, 1.0))
    good = with_failures[np.isfinite(with_failures)]
    assert curve(figure, 0)[1][-1] == pytest.approx(np.mean(good >= 1.0))


@pytest.mark.parametrize("largest", [3, 79, 80, 400])
def test_bins_of_iterations_hold_equally_many_numbers(largest: int) -> None:
    counts = np.arange(largest + 1, dtype=float)
    part = dataclasses.replace(ensemble(np.zeros(largest + 1)), free_iterations=counts, conditional_iterations=counts)
    result = dataclasses.replace(toy_test(Q_B, Q_SB, 1.0), ensembles={"b": part, "sb": part})
    values, edges, _ = iterations_figure(result).axes[0].patches[0].get_data()
    widths = np.diff(edges)
    assert (widths == widths[0]).all() and widths[0] == round(widths[0])
    assert len(values) <= MAX_BINS
    assert values.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(values[:-1], values[0])


def test_toys_and_merged_stores_are_drawn_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for mu in (0.5, 1.0):
        toys_of(60, MODEL, mu, store=tmp_path / "toys")
    merge = ["merge-toys", str(tmp_path / "toys"), "--into", str(tmp_path / "all")]
    plots = ["--plot", str(tmp_path / "q.svg"), "--plot-convergence", str(tmp_path / "c.svg")]
    code, _, err = run([*merge, *plots], capsys)
    assert code == 0
    drawn = sorted(file.name for file in tmp_path.glob("*.svg"))
    assert drawn == [f"{kind}{at}.svg" for kind in ("c-convergence", "c-iterations", "q-q") for at in (
        "_mu_0.5", "_mu_1")]  # fmt: skip
    assert "--plot-convergence: " in err
    same = ["--plot", str(tmp_path / "same.svg"), "--plot-convergence", str(tmp_path / "same.svg")]
    code, _, err = run([*merge, *same], capsys)
    assert code == 2
    assert "--plot-convergence" in err and "is the file of --plot too" in err
    code, _, err = run(["hypotest-toys", "-i", "example", "--mu", "1", "--n-toys", "30", "-q", "--plot-convergence",
                        str(tmp_path / "t.pdf")], capsys)  # fmt: skip
    assert code == 0
    assert (tmp_path / "t.pdf").read_bytes().startswith(b"%PDF-")
