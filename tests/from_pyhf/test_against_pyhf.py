"""`nsmath.pyhf` takes what pyhf takes and returns what pyhf returns."""

from __future__ import annotations

import copy
import inspect
import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pyhf
import pyhf.infer.calculators
import pytest
from peers import SPECS, peer

from nsmath.pyhf import infer
from nsmath.pyhf.infer import calculators, mle
from nsmath.pyhf.infer.choice import CALCULATORS
from nsmath.pyhf.infer.intervals import upper_limits

CODES = {"code4": {}, "code1": {"modifier_settings": {"normsys": {"interpcode": "code1"}}}}


@pytest.fixture(autouse=True)
def _exact_pyhf() -> Any:
    # As far as pyhf's minimisers go: twice the NLL at the minimum is right to 1e-9.
    pyhf.set_backend("numpy", pyhf.optimize.scipy_optimizer(tolerance=1e-12))
    yield
    pyhf.set_backend("numpy")


def settings(pdf: Any) -> dict[str, Any]:
    """Return start values, bounds and fixed parameters that are none of the model's own."""
    n = pdf.config.npars
    init, bounds = pdf.config.suggested_init(), [list(pair) for pair in pdf.config.suggested_bounds()]
    fixed = pdf.config.suggested_fixed()
    poi = pdf.config.poi_index
    bounds[poi] = [0.0, 7.0]
    for p in range(n):
        if p != poi and p % 3 == 2:
            init[p], fixed[p] = init[p] + 0.05, True
    free = next(p for p in range(n) if p != poi and not fixed[p])
    bounds[free] = [init[free] - 0.1, init[free] + 0.1]
    return {"init_pars": init, "par_bounds": bounds, "fixed_params": fixed}


def same(ours: Any, theirs: Any, tolerance: float = 1e-6) -> None:
    """Check that two results have the same nesting, shapes and numbers."""
    if isinstance(theirs, (list, tuple)):
        assert isinstance(ours, type(theirs)) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, tolerance)
        return
    assert isinstance(ours, np.ndarray) or np.isscalar(theirs)
    assert np.shape(ours) == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=0.0, atol=tolerance)


def derivatives(pdf: Any, data: Any, pars: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and Hessian of pyhf's NLL over the free parameters, by central differences to O(h^4)."""

    def nll(step: dict[int, float]) -> float:
        at = pars.copy()
        for p, size in step.items():
            at[p] += size
        return -float(pdf.logpdf(at, data)[0])

    h, weights = 2e-3, {-2: 1.0, -1: -8.0, 1: 8.0, 2: -1.0}
    gradient = np.array([sum(w * nll({p: k * h}) for k, w in weights.items()) / (12.0 * h) for p in free])
    hessian = np.empty((len(free), len(free)))
    for (i, p), (j, r) in itertools.product(enumerate(free), repeat=2):
        if p == r:
            second = {-2: -1.0, -1: 16.0, 0: -30.0, 1: 16.0, 2: -1.0}
            hessian[i, i] = sum(w * nll({p: k * h}) for k, w in second.items()) / (12.0 * h * h)
        elif i < j:
            pairs = itertools.product(weights.items(), repeat=2)
            value = sum(w * v * nll({p: k * h, r: m * h}) for (k, w), (m, v) in pairs) / (12.0 * h) ** 2
            hessian[i, j] = hessian[j, i] = value
    return gradient, hessian


@pytest.mark.parametrize("changed", [False, True], ids=["suggested", "own settings"])
@pytest.mark.parametrize("test_stat", ["qtilde", "q", "q0"])
@pytest.mark.parametrize("name", [name for name in SPECS if name != "F1"])
def test_hypotest_is_pyhfs(name: str, test_stat: str, changed: bool) -> None:
    pdf, data = peer(name)
    options = settings(pdf) if changed else {}
    value = 0.0 if test_stat == "q0" else 1.0
    options |= {"test_stat": test_stat, "return_tail_probs": True, "return_expected_set": True}
    theirs = pyhf.infer.hypotest(value, data, pdf, **copy.deepcopy(options))
    same(infer.hypotest(value, data, pdf, **options), theirs)


@pytest.mark.parametrize("flags", [*itertools.product([False, True], repeat=3)])
def test_hypotest_returns_what_was_asked_for_in_pyhfs_order(flags: tuple[bool, ...]) -> None:
    pdf, data = peer("F1")
    names = ("return_tail_probs", "return_expected", "return_expected_set")
    asked = dict(zip(names, flags, strict=True))
    same(infer.hypotest(1.0, data, pdf, **asked), pyhf.infer.hypotest(1.0, data, pdf, **asked))


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("name", SPECS)
def test_the_best_fit_is_where_pyhfs_likelihood_has_its_minimum(name: str, codes: str) -> None:
    pdf, data = peer(name, **CODES[codes])
    ours, theirs = (
        module.fit(np.array(data), pdf, return_fitted_val=True) for module in (mle, pyhf.infer.mle)
    )  # fmt: skip
    assert ours[0].shape == theirs[0].shape and ours[1].shape == theirs[1].shape == ()
    assert float(ours[1]) == pytest.approx(-2.0 * float(pdf.logpdf(ours[0], data)[0]), abs=1e-9)
    assert -1e-6 < float(ours[1] - theirs[1]) < 1e-9
    values, errors = mle.fit(data, pdf, return_uncertainties=True).T
    np.testing.assert_array_equal(values, ours[0])
    free = np.flatnonzero(errors > 0.0)
    gradient, hessian = derivatives(pdf, data, values, free)
    if codes == "code4":  # code 1 has no second derivative at 0
        assert np.abs(np.linalg.solve(hessian, gradient)).max() < 1e-6
        covariance = np.linalg.inv(hessian)
        np.testing.assert_allclose(errors[free], np.sqrt(np.diag(covariance)), rtol=1e-5)
        _, correlation, fun, found = mle.fit(
            data, pdf, return_correlations=True, return_fitted_val=True, return_result_obj=True
        )
        scale = np.sqrt(np.diag(covariance))
        block = np.ix_(free, free)
        np.testing.assert_allclose(correlation[block], covariance / np.outer(scale, scale), rtol=0.0, atol=1e-5)
        np.testing.assert_allclose(found.hess_inv[block], covariance, rtol=1e-4, atol=1e-8)
        assert found.success and found.fun == fun and "converged" in found.message


def test_uncertainties_and_correlations_are_minuits_in_shape_and_about_in_size() -> None:
    pdf, data = peer("everything")
    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer(strategy=2, tolerance=1e-6))
    flags = {"return_uncertainties": True, "return_correlations": True, "return_fitted_val": True}
    for ours, theirs in (
        (mle.fit(data, pdf, **flags), pyhf.infer.mle.fit(data, pdf, **flags)),
        (mle.fixed_poi_fit(1.5, data, pdf, **flags), pyhf.infer.mle.fixed_poi_fit(1.5, data, pdf, **flags)),
    ):
        same(ours, theirs, 0.02)


@pytest.mark.parametrize("changed", [False, True], ids=["suggested", "own settings"])
@pytest.mark.parametrize("name", SPECS)
def test_the_conditional_fit_is_pyhfs(name: str, changed: bool) -> None:
    pdf, data = peer(name)
    options = settings(pdf) if changed and name != "F1" else {}
    theirs = pyhf.infer.mle.fixed_poi_fit(0.8, data, pdf, return_fitted_val=True, **copy.deepcopy(options))
    ours = mle.fixed_poi_fit(0.8, data, pdf, return_fitted_val=True, **options)
    assert ours[0][pdf.config.poi_index] == 0.8
    same(ours[1], theirs[1])
    np.testing.assert_allclose(ours[0], theirs[0], atol=5e-5)
    fixed = np.array(options.get("fixed_params", pdf.config.suggested_fixed()))
    np.testing.assert_array_equal(
        ours[0][fixed], np.array(options.get("init_pars", pdf.config.suggested_init()))[fixed]
    )


@pytest.mark.parametrize("codes", [
    {"normsys": {"interpcode": "code4"}, "histosys": {"interpcode": "code4p"}},
    {"normsys": {"interpcode": "code1"}, "histosys": {"interpcode": "code0"}},
    {"normsys": {"interpcode": "code4"}}, {"histosys": {"interpcode": "code4p"}}, {},
])  # fmt: skip
def test_interpolation_is_that_of_the_pyhf_model(codes: dict[str, Any]) -> None:
    pdf, data = peer("everything", modifier_settings=codes)
    pars = np.array(pdf.config.suggested_init())
    pars[pdf.config.par_slice("jes")] = 0.7
    same(mle.twice_nll(pars, data, pdf), pyhf.infer.mle.twice_nll(pars, data, pdf), 1e-9)


def test_data_and_auxiliary_data_are_those_given() -> None:
    pdf, data = peer("everything")
    other = np.array(data) * np.linspace(0.9, 1.2, len(data))
    same(
        mle.twice_nll(pdf.config.suggested_init(), other, pdf),
        pyhf.infer.mle.twice_nll(pdf.config.suggested_init(), other, pdf), 1e-9,
    )  # fmt: skip
    same(infer.hypotest(1.0, other, pdf), pyhf.infer.hypotest(1.0, other, pdf))


@pytest.mark.parametrize("observed", [3.0, 9.0])
def test_qtilde_of_a_poi_that_may_be_negative_is_pyhfs_with_a_warning(
    observed: float, caplog: pytest.LogCaptureFixture
) -> None:
    pdf, data = peer("F2")
    data[0] = observed
    bounds = {"par_bounds": [[-1.5, 10.0], [0.1, 10.0]]}
    for value in (0.5, 2.0):
        ours = infer.hypotest(value, data, pdf, return_expected_set=True, **bounds)
        same(ours, pyhf.infer.hypotest(value, data, pdf, return_expected_set=True, **bounds))
    limit = float(upper_limits.upper_limit(data, pdf, **bounds)[0])
    assert float(pyhf.infer.hypotest(limit, data, pdf, **bounds)) == pytest.approx(0.05, abs=1e-6)
    told = [record for record in caplog.records if record.name == "nsmath.pyhf"]
    assert len(told) == 3 and "Pass test_stat='q'" in told[0].getMessage()


def test_a_poi_that_is_set_later_counts() -> None:
    pdf, data = peer("everything")
    before = infer.hypotest(1.0, data, pdf, test_stat="q")
    pdf.config.set_poi("jes")
    after = infer.hypotest(1.0, data, pdf, test_stat="q")
    same(after, pyhf.infer.hypotest(1.0, data, pdf, test_stat="q"))
    assert before != after


@pytest.mark.parametrize("name", ["F2", "everything"])
def test_limits_are_the_crossings_of_pyhfs_cls(name: str) -> None:
    pdf, data = peer(name)
    observed, expected, (values, results) = upper_limits.upper_limit(data, pdf, return_results=True)
    assert observed.shape == () and [limit.shape for limit in expected] == [()] * 5
    for which, limit in enumerate([observed, *expected]):
        cls, band = pyhf.infer.hypotest(float(limit), data, pdf, return_expected_set=True)
        assert float([cls, *band][which]) == pytest.approx(0.05, abs=1e-6)
    assert len(values) == len(results)
    same(results[3], infer.hypotest(values[3], data, pdf, return_expected_set=True), 1e-12)
    # pyhf 0.7.6 forgets `level` without a scan.
    wide = upper_limits.upper_limit(data, pdf, level=0.1)[0]
    assert float(pyhf.infer.hypotest(float(wide), data, pdf)) == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"level": 0.1, "test_stat": "q"}, {"calc_base_dist": "clipped_normal"}])
def test_a_scan_is_interpolated_as_pyhf_does(options: dict[str, Any]) -> None:
    pdf, data = peer("F2")
    scan = np.linspace(0.1, 8.0, 12)
    theirs = pyhf.infer.intervals.upper_limits.upper_limit(data, pdf, scan, return_results=True, **options)
    ours = upper_limits.upper_limit(data, pdf, scan, return_results=True, **options)
    same(ours, theirs, 1e-5)
    same(infer.intervals.upperlimit(data, pdf, scan, **options), theirs[:2], 1e-5)
    backwards = upper_limits.linear_grid_scan(data, pdf, scan[::-1], **options)
    same(backwards, ours[:2], 1e-9)


def test_the_asymptotic_calculator_has_pyhfs_parts() -> None:
    # To 3e-6: what pyhf's minimiser leaves of a small q is larger in its root.
    pdf, data = peer("everything")
    for test_stat, base in itertools.product(("qtilde", "q"), ("normal", "clipped_normal")):
        ours, theirs = (
            module.AsymptoticCalculator(data, pdf, test_stat=test_stat, calc_base_dist=base)
            for module in (calculators, pyhf.infer.calculators)
        )
        for value in (0.4, 2.0):
            same(ours.teststatistic(value), theirs.teststatistic(value), 3e-6)
            pairs = zip(ours.distributions(value), theirs.distributions(value), strict=True)
            for own, other in pairs:
                for x in (-2.5, 0.3):
                    same(own.cdf(x), np.asarray(other.cdf(x)), 3e-6)
                    same(own.pvalue(x), np.asarray(other.pvalue(x)), 3e-6)
                    same(own.expected_value(x), np.asarray(other.expected_value(x)), 3e-6)
            bands = [each.expected_pvalues(*each.distributions(value)) for each in (ours, theirs)]
            same(*bands, 3e-6)
    for field in inspect.signature(pyhf.infer.calculators.HypoTestFitResults).parameters:
        same(getattr(ours.fitted_pars, field), getattr(theirs.fitted_pars, field), 1e-4)


def test_toys_become_p_values_as_in_pyhf(monkeypatch: pytest.MonkeyPatch) -> None:
    def percentile(_: Any, samples: Any, q: Any, axis: Any = None, interpolation: str = "linear") -> Any:
        return np.percentile(samples, q, axis=axis, method=interpolation)

    # pyhf 0.7.6 calls it by an argument that NumPy 2.4 no longer has.
    monkeypatch.setattr(type(pyhf.tensorlib), "percentile", percentile)
    pdf, data = peer("F2")
    cls, tails, median, band, calculator = infer.hypotest(
        1.0, data, pdf, calctype="toybased", ntoys=300, seed=3, threads=1, return_tail_probs=True, return_expected=True,
        return_expected_set=True, return_calculator=True, track_progress=False,
    )  # fmt: skip
    pieces = [pyhf.infer.calculators.EmpiricalDistribution(d.samples) for d in calculator.distributions(1.0)]
    # Half a tie above each sample, so that both count the same toys.
    theirs = pyhf.infer.calculators.ToyCalculator(data, pdf, ntoys=300, track_progress=False)
    observed = calculator.teststatistic(1.0)
    same(observed, theirs.teststatistic(1.0))
    clsb, clb, ratio = theirs.pvalues(observed - 1e-6, *pieces)
    same([cls, *tails], [np.asarray(ratio), np.asarray(clsb), np.asarray(clb)], 1e-12)
    expected = theirs.expected_pvalues(*pieces)[2]
    same(band, [np.asarray(x) for x in expected], 0.02)
    assert median == band[2]
    for n in (-1.0, 0.0, 1.0):
        own, other = (d.expected_value(n) for d in (calculator.distributions(1.0)[1], pieces[1]))
        same(own, np.asarray(other), 1e-9)
    assert calculator.test(1.0).cls == pytest.approx(float(cls), abs=1e-12)


def test_toys_of_q0_test_the_background_against_a_signal_of_one() -> None:
    pdf, data = peer("F2")
    options = {"calctype": "toybased", "ntoys": 400, "threads": 1, "test_stat": "q0", "track_progress": False}
    p0, tails = infer.hypotest(0.0, data, pdf, return_tail_probs=True, **options)
    exact = infer.hypotest(0.0, data, pdf, test_stat="q0", return_tail_probs=True)
    assert len(tails) == 1
    assert float(tails[0]) == pytest.approx(float(exact[1][0]), abs=0.15)
    assert float(p0) > 0.4


def test_limits_by_toys_are_near_the_asymptotic_ones() -> None:
    pdf, data = peer("F2")
    toys = upper_limits.upper_limit(data, pdf, calctype="toybased", ntoys=400, threads=1, track_progress=False)
    exact = upper_limits.upper_limit(data, pdf)
    assert float(toys[0]) == pytest.approx(float(exact[0]), rel=0.2)
    scan = upper_limits.upper_limit(
        data, pdf, np.linspace(0.2, 8.0, 9), calctype="toybased", ntoys=400, threads=1, track_progress=False
    )
    assert float(scan[1][2]) == pytest.approx(float(toys[1][2]), rel=0.2)


@pytest.mark.parametrize("calctype", CALCULATORS)
def test_signatures_begin_as_pyhfs(calctype: str) -> None:
    ours = CALCULATORS[calctype]
    for mine, theirs in (
        (ours, getattr(pyhf.infer.calculators, ours.__name__)), (infer.hypotest, pyhf.infer.hypotest),
        (mle.fit, pyhf.infer.mle.fit), (mle.fixed_poi_fit, pyhf.infer.mle.fixed_poi_fit),
        (upper_limits.upper_limit, pyhf.infer.intervals.upper_limits.upper_limit),
        (upper_limits.linear_grid_scan, pyhf.infer.intervals.upper_limits.linear_grid_scan),
    ):  # fmt: skip
        names = [name for name, p in inspect.signature(theirs).parameters.items() if p.kind != p.VAR_KEYWORD]
        parameters = inspect.signature(mine).parameters
        assert list(parameters)[: len(names)] == names
        for name in names:
            assert parameters[name].default == inspect.signature(theirs).parameters[name].default


def test_pyhf_is_not_imported() -> None:
    script = "import nsmath.pyhf, sys; sys.exit(any(name.split('.')[0] == 'pyhf' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
