"""Figures hold the numbers of the results, and nothing in them covers anything else."""

from __future__ import annotations

import matplotlib
import matplotlib.patches
import numpy as np
import pytest
from figures import badly_placed, legend_texts, made_fit, many_parameters, toy_test
from workspaces import FIXTURES, modifier, mu, one_channel, sample

from nsmath import Model, Workspace, fit
from nsmath.errors import OptionError
from nsmath.fitting.inspection import inspection
from nsmath.fitting.minimiser import FitStatus
from nsmath.infer.wording import with_error
from nsmath.model.yields import ChannelYields, Yield
from nsmath.viz import (
    channel_figures,
    cls_scan,
    correlations,
    data_and_model,
    likelihood_contour,
    likelihood_scan,
    pull_pages,
    pulls,
    q_distributions,
)
from nsmath.viz.channels import MAX_SAMPLES, count_interval, side_by_side
from nsmath.viz.parameters import MAX_CORRELATIONS, PER_PAGE

RNG = np.random.default_rng(11)
CHI2 = RNG.chisquare(1, 400) * (RNG.uniform(size=400) < 0.5)
FAILED = np.where(np.arange(400) < 7, np.nan, CHI2)
TESTS = {
    "usual": toy_test(CHI2 + 1.0, CHI2, 1.3),
    "empty tail": toy_test(CHI2 + 20.0, CHI2, 25.0),
    "empty tails": toy_test(CHI2, CHI2, 1e3),
    "all zero": toy_test(np.zeros(30), np.zeros(30), 0.0),
    "observed 0": toy_test(CHI2, CHI2, 0.0),
    "observed within a tie of toys": toy_test(np.full(9, 2.0), np.full(9, 2.0), 2.0 + 5e-7),
    "tiny": toy_test(CHI2, CHI2, 1e-4),
    "10 toys": toy_test(CHI2[:10], CHI2[10:20], 0.8),
    "a million toys": toy_test(RNG.chisquare(2, 10**6), RNG.chisquare(1, 10**6), 4.0),
    "failed toys": toy_test(FAILED, CHI2, 1.0),
    "only failed toys": toy_test(CHI2, np.full(400, np.nan), 1.0),
    "q0": toy_test(CHI2, CHI2 + 2.0, 3.0, "q0"),
    "q": toy_test(CHI2, CHI2, 3.0, "q"),
}


@pytest.mark.parametrize("name", TESTS)
def test_the_filled_part_of_the_distributions_of_q_is_what_the_p_values_count(name: str) -> None:
    result = TESTS[name]
    figure = q_distributions(result)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    inside_b, all_b, inside_sb, all_sb = [patch.get_data() for patch in axes.patches]
    tails = {"b": result.clb, "sb": result.clsb}
    if result.test_stat == "q0":
        tails = {"b": result.clsb, "sb": result.clb}
    for key, inside, everything in (("b", inside_b, all_b), ("sb", inside_sb, all_sb)):
        good = np.count_nonzero(~result.ensembles[key].failed)
        assert everything.values.sum() == pytest.approx(1.0 if good else 0.0)
        assert inside.values.sum() == pytest.approx(tails[key] or 0.0)
        # Nothing is filled before the observed value.
        before = everything.edges[1:] <= result.q_obs - 1e-6
        assert not inside.values[before].any()
        assert np.array_equal(inside.values[~before], everything.values[~before])
    assert result.q_obs in [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata())]
    low, high = axes.get_xlim()
    assert low < 0.0 < high and low < result.q_obs < high
    assert badly_placed(figure) == []


@pytest.mark.parametrize("name", TESTS)
def test_the_legend_of_the_distributions_has_the_p_values_and_the_failed_toys(name: str) -> None:
    result = TESTS[name]
    text = "\n".join(legend_texts(q_distributions(result))).replace("±", "+-")
    rows = (
        [(result.p0, result.p0_error, result.p0_upper)]
        if result.test_stat == "q0"
        else [
            (result.clsb, result.clsb_error, result.clsb_upper), (result.clb, result.clb_error, result.clb_upper),
            (result.cls, result.cls_error, result.cls_upper),
        ]
    )  # fmt: skip
    for row in rows:
        assert with_error(*row) in text
    for one in result.ensembles.values():
        assert (f"({one.n_failed} failed" in text) or not one.n_failed


def drawn_pulls(figure: matplotlib.figure.Figure) -> dict[str, tuple[float, float]]:
    """Return name -> (pull, error) as drawn with error bars."""
    found = {}
    for axes in figure.axes:
        names = [label.get_text() for label in axes.get_yticklabels()]
        for bars in axes.containers:
            x, y = bars.lines[0].get_data()
            for position, row, segment in zip(x, y, bars.lines[2][0].get_segments(), strict=True):
                found[names[round(row)]] = (position, 0.5 * (segment[1, 0] - segment[0, 0]))
    return found


def test_pulls_are_in_widths_of_each_kind_of_constraint() -> None:
    spec = one_channel(
        sample("s", [12.0, 11.0], mu(), modifier("lumi", "lumi")),
        sample("b", [50.0, 52.0], modifier("u", "shapesys", [10.0, 13.0]), modifier("e", "staterror", [5.0, 2.6]),
               modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}), modifier("held", "normsys", {"lo": 0.8, "hi": 1.1})),
        observed=[71.0, 48.0],
        lumi={"auxdata": [1.1], "sigmas": [0.02], "bounds": [[0.5, 1.5]], "inits": [1.1]},
    )  # fmt: skip
    model = Model.from_workspace(spec)
    result = fit(model, fixed={"held": 0.4})
    error = dict(zip(result.names, result.uncertainties, strict=True))
    # Centre and width by hand: sigma; the relative error; 1 / sqrt(tau) = error / nominal.
    known = {"lumi": (1.1, 0.02), "u[0]": (1.0, 0.2), "u[1]": (1.0, 0.25), "e[0]": (1.0, 0.1), "e[1]": (1.0, 0.05),
             "n": (0.0, 1.0)}  # fmt: skip
    found = drawn_pulls(pulls(model, result))
    assert set(found) == set(known)
    for name, (centre, width) in known.items():
        assert found[name] == pytest.approx(((result[name] - centre) / width, error[name] / width))
    assert "left out: 1 without constraint, 1 fixed" in legend_texts(pulls(model, result))


def test_pulls_without_uncertainty_or_far_away_are_marked_and_never_lost() -> None:
    model = many_parameters(6)
    values, errors = (
        np.array([0.0, 0.1, 12.5, -7.0, 1.0, 2.0, 0.0]),
        np.array([1.0, np.nan, 1.0, np.nan, 1.0, 9.0, 1.0]),
    )
    result = made_fit(model, values=values, uncertainties=errors, at_bound=(model.names[1],))
    figure = pulls(model, result)
    (axes,) = figure.axes
    assert len(drawn_pulls(figure)) == 3
    assert [text.get_text() for text in axes.texts] == ["+12.5", "-7"]
    assert axes.get_xlim() == (-5.0, 5.0)
    text = " ".join(legend_texts(figure))
    assert "at a bound" in text and "beyond 5 widths" in text
    assert badly_placed(figure) == []


@pytest.mark.parametrize("n", [8, 31, 200])
def test_no_labels_overlap_however_many_parameters_there_are(n: int) -> None:
    model = many_parameters(n)
    result = made_fit(model)
    pages = pull_pages(model, result)
    assert len(pages) == -(-n // PER_PAGE)
    drawn: dict[str, tuple[float, float]] = {}
    for figure in (pulls(model, result), correlations(result), *list(pages.values())[1:2]):
        assert badly_placed(figure) == []
    for figure in pages.values():
        drawn |= drawn_pulls(figure)
    beyond = [text for figure in pages.values() for axes in figure.axes for text in axes.texts]
    assert len(drawn) + len(beyond) == n


def test_a_model_without_constraints_has_a_figure_that_says_so() -> None:
    model = Model.from_workspace(FIXTURES["F1"])
    result = fit(model, fixed={"mu": 1.0})
    for figure in (pulls(model, result), correlations(result)):
        assert "there " in figure.axes[0].texts[0].get_text()


def test_the_correlation_matrix_is_that_of_the_fit() -> None:
    model = many_parameters(7)
    result = made_fit(model, status=FitStatus.MAX_ITERATIONS)
    figure = correlations(result)
    axes = figure.axes[0]
    assert np.array_equal(axes.images[0].get_array(), result.correlation)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(model.names)
    assert [label.get_text() for label in axes.get_xticklabels()] == list(model.names)
    assert [text.get_text() for text in axes.texts[:2]] == ["1.00", f"{result.correlation[0, 1] + 0.0:.2f}"]
    assert result.status.message in figure.get_suptitle()


def test_a_large_correlation_matrix_shows_what_its_title_says() -> None:
    result = made_fit(many_parameters(200))
    largest = np.abs(result.correlation - np.eye(201)).max(axis=0)
    figure = correlations(result)
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    threshold = float(figure.get_suptitle().split("≥ ")[1])
    assert shown == [name for name, value in zip(result.names, largest, strict=True) if value >= threshold]
    assert 0 < len(shown) <= MAX_CORRELATIONS < np.count_nonzero(largest >= threshold - 0.05)
    assert f"{len(shown)} of 201" in figure.get_suptitle()
    chosen = correlations(result, threshold=0.1)
    assert len(chosen.axes[0].get_yticklabels()) == np.count_nonzero(largest >= 0.1)
    assert "no correlation" in correlations(result, threshold=1.0).axes[0].texts[0].get_text()
    with pytest.raises(OptionError, match="threshold is -1"):
        correlations(result, threshold=-1.0)


def test_a_large_matrix_without_a_threshold_that_helps_shows_the_strongest_pairs() -> None:
    covariance = np.eye(201)
    covariance[0, 1:] = covariance[1:, 0] = np.linspace(-0.06, -0.061, 200)
    figure = correlations(made_fit(many_parameters(200), covariance=covariance, uncertainties=np.ones(201)))
    matrix = np.asarray(figure.axes[0].images[0].get_array())
    assert len(matrix) == MAX_CORRELATIONS - 1
    assert matrix[0, 1:] == pytest.approx(covariance[0, -len(matrix) + 1 :])
    assert f"{len(matrix)} of 201 parameters with the largest correlations" in figure.get_suptitle()


def yields(channel: str, observed: list[float], samples: dict[str, list[float]], error: float | None) -> ChannelYields:
    def one(events: np.ndarray) -> Yield:
        known = None if error is None else error * np.abs(events)
        return Yield(events, known, float(events.sum()), None)

    arrays = {name: np.array(events) for name, events in samples.items()}
    return ChannelYields(channel, np.array(observed), one(np.sum(list(arrays.values()), axis=0)), {
        name: one(events) for name, events in arrays.items()
    })  # fmt: skip


CHANNELS = {
    "example": yields("SR", [7.0, 30.0, 0.0], {"s": [1.0, 5.0, 0.5], "b": [8.0, 21.0, 1.5]}, 0.1),
    "negative": yields("SR", [7.0, 3.0], {"s": [-3.0, 1.0], "b": [9.0, 3.0], "$i$_x": [1.0, -2.0]}, 0.1),
    "nothing expected": yields("SR", [7.0, 0.0], {"b": [9.0, 0.0]}, 0.1),
    "nothing at all": yields("SR", [0.0, 0.0], {"b": [0.0, 0.0]}, None),
    "no uncertainty": yields("SR", [7.0, 4.0], {"b": [9.0, 5.0]}, None),
    "far": yields("SR", [70.0, 4.0], {"b": [9.0, 5.0]}, 0.1),
    "wide": yields("SR", [70.0, 4.0], {"b": [60.0, 5.0]}, 4.0),
    "steep": yields("_SR", [70000.0, 4.0], {"_b": [60000.0, 5.0], "s": [-1.0, 0.0]}, 0.1),
    "many samples": yields("SR", [70.0], {f"sample {k}": [float(k)] for k in range(30)}, 0.1),
    "many bins": yields("SR", [5.0] * 90, {"b": [4.0] * 90}, 0.1),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_data_and_model_hold_the_yields_before_and_after(name: str) -> None:
    state = CHANNELS[name]
    figure = data_and_model(state, state)
    assert len(figure.axes) == 4
    upper, lower = figure.axes[0], figure.axes[2]
    outline = next(patch for patch in upper.patches if patch.get_data().baseline is None)
    assert np.array_equal(outline.get_data().values, state.all.events)
    samples = [p.get_data() for p in upper.patches if p.get_data().baseline is not None and p.get_facecolor()[3] == 1.0]
    assert len(samples) == min(len(state.samples), MAX_SAMPLES)
    assert sum(data.values - data.baseline for data in samples) == pytest.approx(state.all.events)
    assert upper.containers[0].lines[0].get_ydata() == pytest.approx(state.observed)
    bands = [patch.get_data() for patch in upper.patches if patch.get_hatch() == "xxxxx"]
    assert len(bands) == (state.all.uncertainty is not None)
    for band in bands:
        assert band.values - band.baseline == pytest.approx(2.0 * state.all.uncertainty)
    positive = state.all.events > 0.0
    ratios = lower.containers[0].lines[0].get_ydata()
    assert ratios[positive] == pytest.approx(state.observed[positive] / state.all.events[positive])
    assert np.isnan(ratios[~positive]).all()
    assert ("ratio beyond the panel" in legend_texts(figure)) == (name == "far")
    assert (upper.get_yscale() == "log") == (name == "steep")
    assert ("samples below zero: not on this scale" in legend_texts(figure)) == (name == "steep")
    assert len(data_and_model(state).axes) == 2
    assert badly_placed(figure) == []


def test_samples_beyond_those_that_are_told_apart_share_an_entry_that_says_so() -> None:
    texts = legend_texts(data_and_model(CHANNELS["many samples"]))
    assert f"{30 - MAX_SAMPLES + 1} smallest samples" in texts
    assert "sample 29" in texts and "sample 3" not in texts


def test_count_intervals_end_where_the_count_is_one_deviation_off() -> None:
    n = np.array([0.0, 0.3, 1.0, 7.0, 1e6])
    low, high = count_interval(n)
    assert n - low == pytest.approx(np.sqrt(low), abs=1e-9)
    assert high - n == pytest.approx(np.sqrt(high))


def test_channels_of_one_bin_stand_together_and_all_are_drawn() -> None:
    single = [yields(f"R{k}", [float(k)], {"b": [k + 0.5], f"only {k}": [1.0]}, 0.1) for k in range(20)]
    channels = [CHANNELS["example"], *single]
    figures = channel_figures(channels, channels)
    assert list(figures) == ["SR", "channels of a single bin 1 of 2", "channels of a single bin 2 of 2"]
    names = [t.get_text() for figure in list(figures.values())[1:] for t in figure.axes[2].get_xticklabels()]
    assert names == [f"R{k}" for k in range(20)]
    joined = side_by_side(single[:3], "three")
    assert joined.observed.tolist() == [0.0, 1.0, 2.0]
    assert joined.samples["only 1"].events.tolist() == [0.0, 1.0, 0.0]
    assert joined.all.events.tolist() == [1.5, 2.5, 3.5]
    assert list(channel_figures(single[:1], None)) == ["R0"]


def test_every_real_channel_is_drawn_once() -> None:
    workspace = Workspace.from_dict(FIXTURES["negative_slot"])
    model = Model.from_workspace(workspace)
    found = inspection(workspace, model, fit(model))
    figures = channel_figures(found.nominal, found.postfit)
    assert list(figures) == ["SR"]
    values = [patch.get_data().values for patch in figures["SR"].axes[1].patches if patch.get_data().baseline is None]
    assert np.array_equal(values[0], found.postfit[0].all.events)  # type: ignore[index]


MU = np.linspace(0.0, 4.0, 9)


def test_a_cls_scan_holds_its_numbers_and_leaves_gaps_where_there_are_none() -> None:
    observed = [*np.exp(-MU[:-1]), None]
    band = np.exp(-MU * np.array([[2.0], [1.5], [1.0], [0.7], [0.4]]))
    figure = cls_scan(MU, observed, np.full(9, 0.01), band, poi="mu_sig", limit=3.0, title="search")
    (axes,) = figure.axes
    drawn = axes.containers[0].lines[0].get_ydata()
    assert drawn[:-1] == pytest.approx(np.exp(-MU[:-1])) and np.isnan(drawn[-1])
    assert any(np.array_equal(line.get_ydata(), band[2]) for line in axes.lines)
    for collection, row in zip(axes.collections, (0, 1), strict=False):
        assert set(collection.get_paths()[0].vertices[:, 1]) >= set(band[row]) | set(band[4 - row])
    assert [line.get_ydata()[0] for line in axes.lines if line.get_label().startswith("_child")][-2] == pytest.approx(
        0.05
    )
    assert "observed limit mu_sig < 3" in legend_texts(figure)
    assert badly_placed(figure) == []
    assert len(legend_texts(cls_scan(MU, band=band))) == 4


def test_likelihood_scans_hold_their_numbers_and_levels() -> None:
    figure = likelihood_scan(MU, (MU - 1.0) ** 2, name="mu_sig", best=1.0)
    lines = [line.get_ydata() for line in figure.axes[0].lines]
    assert any(np.array_equal(line, (MU - 1.0) ** 2) for line in lines)
    assert [line[0] for line in lines[1:3]] == [1.0, 3.841]
    assert badly_placed(figure) == []
    y = np.linspace(-4.0, 4.0, 21)
    rise = (MU[:, None] - 2.0) ** 2 + y**2
    figure = likelihood_contour(MU, y, rise, names=("mu", "a$b$"), best=(2.0, 0.0))
    mesh, inner, outer = figure.axes[0].collections
    assert np.array_equal(mesh.get_array(), rise.T)
    for contour, level in ((inner, 2.296), (outer, 5.991)):
        path = contour.get_paths()[0].vertices
        # Between points of the grid contours are straight.
        assert (path[:, 0] - 2.0) ** 2 + path[:, 1] ** 2 == pytest.approx(level, abs=0.1)
    assert badly_placed(figure) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cls_scan([1.0]), "two values or more"),
        (lambda: cls_scan([1.0, 0.0], [0.1, 0.2]), "ascending"),
        (lambda: cls_scan(MU, [0.1]), r"observed has shape \(1,\); expected \(9,\)"),
        (lambda: cls_scan(MU, band=np.ones((9, 5))), r"band has shape \(9, 5\); expected \(5, 9\)"),
        (lambda: likelihood_scan(MU, MU[:-1]), "twice_delta_nll has shape"),
        (lambda: likelihood_contour(MU, MU[:3], np.ones((3, 9)), names=("a", "b")), r"expected \(9, 3\)"),
    ],
)
def test_scans_refuse_what_does_not_fit_together(call: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        call()  # type: ignore[operator]
