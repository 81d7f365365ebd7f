"""Scans, intervals, impacts and goodness of fit: against single fits, closed forms, MINOS and exact enumeration."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pyhf
import pytest
from iminuit import Minuit
from scipy.stats import chi2, poisson
from workspaces import FIXTURES, SHARED, PyhfModel, document, modifier, mu, one_channel, real_model, sample

from nsmath import Model, Plan, fit, goodness_of_fit, intervals, ranking, scan
from nsmath.errors import ModelError, OptionError
from nsmath.infer.goodness import upper_chi2
from nsmath.infer.intervals import AT_BOUND, FOUND
from nsmath.infer.scan import chi2_quantile
from nsmath.model.yields import prefit_uncertainties

SHAPES = {
    name: FIXTURES[name] for name in ("F2", "F3", "F4", "F6", "three_gammas", "negative_slot", "small_tau", "clipped")
}
EVERYTHING_OBSERVED = {"SR": [63.0, 31.0], "CR": [128.0]}
EVERYTHING = document(
    {
        "SR": [
            sample("s", [6.0, 9.0], mu(), modifier("acc", "normsys", {"lo": 0.92, "hi": 1.07})),
            sample("b", [40.0, 22.0], modifier("k", "normfactor"), modifier("e", "staterror", [3.0, 2.0]),
                   modifier("shape", "histosys", {"lo_data": [37.0, 23.0], "hi_data": [42.5, 20.5]})),
            sample("f", [8.0, 5.0], modifier("u", "shapesys", [2.0, 1.5]),
                   modifier("acc", "normsys", {"lo": 0.9, "hi": 1.1})),
        ],
        "CR": [sample("b", [120.0], modifier("k", "normfactor"))],
    },
    EVERYTHING_OBSERVED,
)  # fmt: skip


def fitted(model: Model) -> list[str]:
    return [parameter.name for parameter in model.parameters if not parameter.is_fixed]


def saturated(rate: float, n: float) -> float:
    return 2.0 * (rate - n + (n * math.log(n / rate) if n else 0.0))


def test_a_counting_experiment_is_scanned_as_its_closed_form_says():
    result = scan(Model.from_workspace(FIXTURES["F1"]), "mu", ranges=[(0.0, 4.0)], points=9)
    expected = [saturated(3.0 + 5.0 * value, 4.0) for value in result.values[0]]
    np.testing.assert_allclose(result.twice_delta_nll, expected, atol=1e-9)
    assert result.best == pytest.approx((0.2,), abs=1e-6)
    assert result.n_failed == 0


def test_a_point_of_zero_likelihood_is_a_failed_fit_and_not_another_point():
    # At mu = 0 nothing is expected where there are events; the best fit, from which fits start anew, is fine.
    result = scan(Model.from_workspace(one_channel(sample("s", [50.0], mu()), observed=[52.0])), "mu",
                  ranges=[(0.0, 2.0)], points=3)  # fmt: skip
    assert np.isnan(result.twice_delta_nll[0]) and result.n_failed == 1
    np.testing.assert_allclose(result.twice_delta_nll[1:], [saturated(50.0, 52.0), saturated(100.0, 52.0)], atol=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_every_parameter_of_a_model_is_scanned_as_single_fits_with_it_held(name):
    model = Model.from_workspace(SHAPES[name])
    best = fit(model)
    with Plan(model, threads=1, tune=False) as plan:
        for parameter in fitted(model):
            result = scan(model, parameter, points=4, plan=plan)
            single = [fit(model, fixed={parameter: value}).twice_nll - best.twice_nll for value in result.values[0]]
            np.testing.assert_allclose(result.twice_delta_nll, single, atol=2e-8)


def test_a_grid_over_two_parameters_holds_the_fits_with_both_held():
    model = Model.from_workspace(EVERYTHING)
    best = fit(model)
    for pair in (("mu", "k"), ("k", "e[1]"), ("u[0]", "acc")):
        result = scan(model, pair, points=(3, 4))
        assert result.twice_delta_nll.shape == (3, 4)
        for i, j in product(range(3), range(4)):
            held = dict(zip(pair, (result.values[0][i], result.values[1][j]), strict=True))
            alone = fit(model, fixed=held)
            assert result.twice_delta_nll[i, j] == pytest.approx(alone.twice_nll - best.twice_nll, abs=2e-8)
            np.testing.assert_allclose(result.theta[i, j], alone.values, atol=2e-3)


def test_a_scan_does_not_depend_on_threads_or_tiles():
    model = Model.from_workspace(EVERYTHING)
    found = []
    for threads, width in ((1, 8), (2, 64)):
        with Plan(model, threads=threads, width=width, tune=False) as plan:
            found.append(scan(model, ("mu", "k"), points=(6, 5), plan=plan).twice_delta_nll)
    np.testing.assert_allclose(*found, atol=1e-8)


def test_a_scan_of_pyhf_is_the_same():
    model = Model.from_workspace(EVERYTHING)
    oracle = PyhfModel(EVERYTHING, model, "root").model
    result = scan(model, "mu", ranges=[(0.0, 3.0)], points=4)
    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer(tolerance=1e-6))
    main = [n for channel in oracle.config.channels for n in EVERYTHING_OBSERVED[channel]]
    data = [*main, *oracle.config.auxdata]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, best = pyhf.infer.mle.fit(data, oracle, return_fitted_val=True)
        at = [
            pyhf.infer.mle.fixed_poi_fit(value, data, oracle, return_fitted_val=True)[1] for value in result.values[0]
        ]
    pyhf.set_backend("numpy", "scipy")
    np.testing.assert_allclose(result.twice_delta_nll, np.array(at) - best, atol=1e-5)


def test_a_range_that_is_not_given_spans_three_deviations_and_says_where_bounds_cut_it():
    model = Model.from_workspace(EVERYTHING)
    result = scan(model, "acc")
    best = fit(model)
    error = best.uncertainties[model.index_of("acc")]
    np.testing.assert_allclose(result.values[0][[0, -1]], best["acc"] + 3.0 * error * np.array([-1.0, 1.0]), rtol=1e-5)
    assert result.cut == (False,)
    cut = scan(Model.from_workspace(FIXTURES["F2"]), "mu")
    assert cut.values[0][0] == 0.0
    assert cut.cut == (True,)


@pytest.mark.parametrize("n_parameters", [1, 2])
def test_levels_of_regions_are_chi2_quantiles(n_parameters):
    for level in (0.5, 0.6827, 0.9, 0.9973):
        assert chi2_quantile(level, n_parameters) == pytest.approx(chi2.ppf(level, n_parameters), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parameters": "nope"}, "no parameter 'nope'"),
        ({"parameters": ("mu", "mu")}, "two different ones"),
        ({"parameters": ("mu", "k", "acc")}, "one parameter or two"),
        ({"parameters": "mu", "points": 1}, "from 2 on"),
        ({"parameters": "mu", "points": (3, 3)}, "each of 1 parameters"),
        ({"parameters": "mu", "ranges": [(1.0, 0.5)]}, "ascending order"),
        ({"parameters": "mu", "ranges": [(-1.0, 0.5)]}, "leaves its bounds"),
        ({"parameters": "mu", "ranges": [None, None]}, "2 ranges for 1 parameters"),
        ({"parameters": ("mu", "k"), "points": (2000, 2000)}, "4000000 points"),
    ],
)
def test_a_scan_that_cannot_be_is_refused(arguments, message):
    with pytest.raises((ModelError, OptionError), match=message):
        scan(Model.from_workspace(EVERYTHING), **arguments)


def test_a_fixed_parameter_is_neither_scanned_nor_ranked():
    model = Model.from_workspace(EVERYTHING).with_fixed({"k": 1.0})
    for call in (lambda: scan(model, "k"), lambda: intervals(model, "k"), lambda: ranking(model, ["k"])):
        with pytest.raises(OptionError, match=r"'k' is fixed at 1"):
            call()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("level", [0.6827, 0.95])
def test_the_likelihood_has_risen_by_the_quantile_at_every_edge_of_an_interval(name, level):
    model = Model.from_workspace(SHAPES[name])
    best = fit(model)
    result = intervals(model, levels=(level,))
    assert [row.name for row in result.intervals] == fitted(model)
    assert result.n_failed == 0
    for row in result.intervals:
        for edge in (row.lower, row.upper):
            at = edge.bound if edge.value is None else edge.value
            rise = fit(model, fixed={row.name: at}).twice_nll - best.twice_nll
            if edge.status == FOUND:
                assert rise == pytest.approx(chi2_quantile(level, 1), abs=1e-5)
            else:
                assert edge.status == AT_BOUND
                assert rise < chi2_quantile(level, 1)


def test_intervals_are_those_of_minos():
    model = Model.from_workspace(EVERYTHING)
    oracle = PyhfModel(EVERYTHING, model, "root")
    data, aux = model.data[None], model.auxdata[None]
    minuit = Minuit(lambda x: 2.0 * oracle.nll(x[None], data, aux)[0], model.init)
    minuit.limits = list(zip(*model.bounds, strict=True))
    minuit.tol, minuit.errordef = 1e-6, 1.0
    minuit.migrad(ncall=100000)
    minuit.minos("x2", cl=0.6827, ncall=100000)
    name = model.names[2]
    row = intervals(model, name).of(name)
    assert row.upper.value - row.value == pytest.approx(minuit.merrors["x2"].upper, rel=2e-3)
    assert row.lower.value - row.value == pytest.approx(minuit.merrors["x2"].lower, rel=2e-3)


def test_an_interval_of_a_gaussian_parameter_is_its_standard_deviation():
    # One bin for two parameters: the signal takes up what the data say, so the constraint alone speaks.
    spec = one_channel(
        sample("s", [10.0], mu()), sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1})),
        observed=[60.0],
    )  # fmt: skip
    spec["measurements"][0]["config"]["parameters"] = [{"name": "mu", "bounds": [[-50.0, 50.0]]}]
    row = intervals(Model.from_workspace(spec), "n", levels=(0.6827, 0.9545)).intervals
    for interval, n_sigma in zip(row, (1.0, 2.0), strict=True):
        assert interval.upper.value == pytest.approx(n_sigma, rel=1e-3)
        assert interval.lower.value == pytest.approx(-n_sigma, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": (1.0,)}, "between 0 and 1"),
        ({"parameters": ["mu", "mu"]}, "different"),
        ({"levels": ()}, "one level"),
    ],
)
def test_intervals_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        intervals(Model.from_workspace(EVERYTHING), **arguments)


def test_impacts_are_the_shifts_of_single_fits():
    model = Model.from_workspace(EVERYTHING)
    best, result = fit(model), ranking(model)
    prefit = prefit_uncertainties(model)
    assert {row.name for row in result.parameters} == set(model.names) - {"mu"}
    assert result.n_failed == 0
    for row in result.parameters:
        index = model.index_of(row.name)
        for pair, width in ((row.postfit_impact, best.uncertainties[index]), (row.prefit_impact, prefit[index])):
            if pair is None:
                assert width == 0.0
                continue
            for impact, side in zip(pair, (-1.0, 1.0), strict=True):
                assert impact.value == pytest.approx(best[row.name] + side * width, rel=1e-6)
                shifted = fit(model, fixed={row.name: impact.value})["mu"]
                assert impact.shift == pytest.approx(shifted - best["mu"], abs=2e-5)
    sizes = [row.size for row in result.parameters]
    assert sizes == sorted(sizes, reverse=True)


def test_pulls_and_constraints_are_in_widths_of_the_auxiliary_measurement():
    model = Model.from_workspace(EVERYTHING)
    best, result = fit(model), ranking(model)
    assert result["k"].pull is None
    assert result["k"].prefit_impact is None
    assert result["acc"].pull == pytest.approx(best["acc"])
    tau = (8.0 / 2.0) ** 2
    assert result["u[0]"].pull == pytest.approx((best["u[0]"] - 1.0) * math.sqrt(tau))
    assert result["u[0]"].constraint == pytest.approx(best.uncertainties[model.index_of("u[0]")] * math.sqrt(tau))


def test_a_parameter_near_its_bound_is_held_there_and_the_impact_says_so():
    result = ranking(Model.from_workspace(FIXTURES["clipped"]))
    cut = [i for row in result.parameters for i in (row.prefit_impact or ()) if i.is_cut]
    assert cut
    assert {i.value for i in cut} <= {0.9, 1.1, 0.8, 1.05}


def test_ranking_refuses_the_poi_and_a_measurement_without_one():
    with pytest.raises(OptionError, match="is the parameter of interest"):
        ranking(Model.from_workspace(EVERYTHING), ["mu"])
    with pytest.raises(ModelError, match="no parameter of interest"):
        ranking(Model.from_workspace(EVERYTHING, poi=""))


def test_the_tail_of_chi2_is_that_of_scipy():
    for n, x in product((1, 2, 3, 8, 35, 200), (0.0, 1e-3, 0.7, 12.0, 90.0, 400.0)):
        assert upper_chi2(x, n) == pytest.approx(chi2.sf(x, n), rel=1e-12, abs=1e-300)


def test_the_goodness_of_a_background_without_parameters_is_exact():
    rates, observed = (4.0, 2.5), (7.0, 1.0)
    model = Model.from_workspace(one_channel(sample("b", list(rates)), observed=list(observed)), poi="")
    result = goodness_of_fit(model, n_toys=20_000, seed=5)
    statistic = sum(saturated(r, n) for r, n in zip(rates, observed, strict=True))
    assert result.statistic == pytest.approx(statistic, rel=1e-12)
    assert result.n_dof == 2
    assert result.p_chi2 == pytest.approx(chi2.sf(statistic, 2), rel=1e-12)
    exact = sum(
        poisson.pmf(n, rates[0]) * poisson.pmf(m, rates[1])
        for n, m in product(range(60), repeat=2)
        if saturated(rates[0], n) + saturated(rates[1], m) >= statistic - 1e-9
    )
    assert abs(result.p_toys - exact) < 4.0 * result.p_toys_error


def test_goodness_counts_auxiliary_measurements_and_free_parameters():
    model = Model.from_workspace(EVERYTHING)
    result = goodness_of_fit(model)
    # 3 bins, of which mu and k are free; acc, shape, the gammas bring their own measurement.
    assert result.n_dof == 1
    best = fit(model)
    oracle = PyhfModel(EVERYTHING, model, "root")
    saturated_main = sum(-poisson.logpmf(n, n) for n in model.data)
    constrained = [p for p in model.parameters if p.constraint != "none"]
    saturated_aux = sum(
        0.5 * math.log(2.0 * math.pi) + math.log(p.scale)
        if p.constraint == "normal"
        else p.auxdata - p.auxdata * math.log(p.auxdata) + math.lgamma(p.auxdata + 1.0)
        for p in constrained
    )
    nll = oracle.nll(best.values[None], model.data[None], model.auxdata[None])[0]
    assert result.statistic == pytest.approx(2.0 * (nll - saturated_main - saturated_aux), abs=1e-8)


def test_goodness_toys_do_not_depend_on_threads_or_tiles():
    model = Model.from_workspace(EVERYTHING)
    found = []
    for threads, width in ((1, 8), (2, 64)):
        with Plan(model, threads=threads, width=width, tune=False) as plan:
            found.append(goodness_of_fit(model, n_toys=200, seed=3, plan=plan).toys)
    np.testing.assert_allclose(*found, atol=1e-7)


def test_p_values_of_toys_at_the_best_fit_are_flat_enough():
    # Toys of a good model: the observed statistic lies nowhere special, and both p-values agree.
    result = goodness_of_fit(Model.from_workspace(EVERYTHING), n_toys=4000)
    assert result.p_toys == pytest.approx(result.p_chi2, abs=0.05)


@pytest.mark.parametrize("name", ["tHu", "real/erjr_3L_200_100"])
@pytest.mark.skipif(not SHARED.exists(), reason="needs the real workspaces")
def test_real_models_have_intervals_and_impacts_without_a_failed_fit(name):
    model = real_model(name)
    with Plan(model, tune=False, width=64) as plan:
        found, ranked = intervals(model, plan=plan), ranking(model, plan=plan)
    assert found.n_failed == 0
    assert ranked.n_failed == 0
    for row in found.intervals:
        if row.uncertainty is not None and row.upper.value is not None:
            assert row.upper.value - row.value == pytest.approx(row.uncertainty, rel=1.0)
