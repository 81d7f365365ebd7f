"""The minimiser: fits with known answers, independence of batching, statuses, and other minimisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from iminuit import Minuit
from scipy.optimize import minimize
from workspaces import (
    BACKEND_NAMES,
    EXAMPLES,
    FEW_EXAMPLES,
    FIXTURES,
    columns,
    document,
    fitted,
    modifier,
    mu,
    one_channel,
    sample,
    theta_of,
    workspaces,
)

from nsmath.fitting.minimiser import FitStatus, Tolerances
from nsmath.model.likelihood import gradient, nll, nll_constant
from nsmath.model.model import Model

ROBUST_ONLY = Tolerances(cheap=0)


def observed_fit(spec, *, backend="cpu", poi=None, tolerances=None, interp="root"):
    """Return (parameters by name, 2 NLL with all constants, status) of the fit to the observed data."""
    model = Model.from_workspace(spec, interp=interp)
    if poi is not None:
        model = model.with_fixed({model.poi: poi})
    data, aux = model.data[None], model.auxdata[None]
    fits = fitted(model, data, aux, backend=backend, tolerances=tolerances)
    values = dict(zip(model.names, theta_of(model, fits)[0], strict=True))
    twice_nll = 2.0 * (fits.nll + nll_constant(model.tensors, data, aux))[0]
    return values, twice_nll, FitStatus(int(fits.status[0]))


F4_FIXED = {**FIXTURES["F4"]["measurements"][0]["config"], "parameters": [{"name": "n", "inits": [1.0], "fixed": True}]}
C07 = one_channel(
    sample("s", [1.0], mu()), sample("b", [5.0], modifier("h", "histosys", {"lo_data": [1.0], "hi_data": [12.0]})),
    observed=[0.0],
)  # fmt: skip

CLOSED_FORMS = {
    "C03: pure signal, nothing seen": (
        one_channel(sample("s", [3.0], mu()), observed=[0.0]), {"mu": 0.0}, 0.0),
    "C05: negative sample": (
        one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), sample("i", [-4.0]), observed=[52.0]),
        {"mu": 1.2}, 2.0 * (52.0 - 52.0 * math.log(52.0) + math.lgamma(53.0))),
    "C09: a count that is no integer": (
        one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.5]), {"mu": 0.5}, 5.801865),
    "C33: lumi": (
        one_channel(
            sample("s", [10.0], mu(), modifier("lumi", "lumi")), sample("b", [50.0], modifier("lumi", "lumi")),
            observed=[65.0], lumi={"auxdata": [1.0], "sigmas": [0.02], "bounds": [[0.5, 1.5]], "inits": [1.0]},
        ), {"mu": 1.5, "lumi": 1.0}, None),
    "C39: no parameter of interest": (
        {**FIXTURES["F4"], "measurements": [{"name": "m", "config": {"poi": "", "parameters": []}}]},
        {"mu": 1.5, "n": 0.0}, 7.852705),
    "C47: fixed nuisance": (
        {**FIXTURES["F4"], "measurements": [{"name": "m", "config": F4_FIXED}]}, {"mu": 1.0, "n": 1.0}, 8.852705),
    "C49: parameter of interest on its bound": (
        one_channel(
            sample("s", [1.0], mu()), sample("b", [100.0], modifier("n", "normsys", {"lo": 0.99, "hi": 1.01})),
            observed=[150.0], mu={"bounds": [[0.0, 1.0]]},
        ), {"mu": 1.0, "n": 0.477338}, None),
    "C51: normfactors only": (
        document(
            {"SR": [sample("s", [10.0], mu()), sample("b", [50.0], mu("k"))], "CR": [sample("b", [100.0], mu("k"))]},
            {"SR": [65.0], "CR": [110.0]},
        ), {"mu": 1.0, "k": 1.1}, None),
    "C59: shapefactor over channels": (
        document(
            {"A": [sample("s", [5.0, 5.0], mu()), sample("b", [10.0, 20.0], modifier("f", "shapefactor"))],
             "B": [sample("b", [100.0, 200.0, 300.0], modifier("f", "shapefactor"))]},
            {"A": [25.0, 65.0], "B": [200.0, 600.0, 1200.0]},
        ), {"mu": 1.0, "f[0]": 2.0, "f[1]": 3.0, "f[2]": 4.0}, None),
    "C61: observations in another order": (
        document({"Z": [sample("s", [5.0], mu())], "A": [sample("b", [50.0], mu("k"))]}, {"A": [60.0], "Z": [4.0]}),
        {"mu": 0.8, "k": 1.2}, None),
    "C19: shapesys with a bin that cannot vary": (
        one_channel(
            sample("s", [1.0, 5.0], mu()), sample("b", [0.0, 10.0], modifier("u", "shapesys", [0.0, 2.0])),
            observed=[0.0, 12.0],
        ), {"mu": 0.0, "u[0]": 1.0, "u[1]": 1.0571429}, None),
    "F6": (FIXTURES["F6"], {"mu": 0.6, "nu": 3.0}, None),
}  # fmt: skip


@pytest.mark.parametrize("tolerances", [None, ROBUST_ONLY], ids=["both tiers", "robust tier"])
@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("case", CLOSED_FORMS)
def test_fit_has_its_closed_form(case, backend, tolerances):
    spec, expected, twice_nll = CLOSED_FORMS[case]
    values, got, status = observed_fit(spec, backend=backend, tolerances=tolerances)
    assert status == FitStatus.CONVERGED
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, abs=1e-4), name  # a decrement of 1e-9 is 4.5e-5 sigma
    if twice_nll is not None:
        assert got == pytest.approx(twice_nll, abs=2e-6)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_minimum_on_the_edge_of_the_domain_is_found(backend):
    # C07, where pyhf reports a yield of -11. The rate is 5 + a 5.5 + q(a) 1.5; q(a) = |a| beyond 1.
    values, twice_nll, status = observed_fit(C07, backend=backend)
    assert status == FitStatus.CONVERGED
    assert values["h"] == pytest.approx(-1.25, abs=1e-4)
    assert values["mu"] == pytest.approx(0.0, abs=1e-6)
    assert twice_nll == pytest.approx(3.400378, abs=1e-6)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize(("poi", "gamma"), [(0.0, 0.9615385), (1.0, 0.8315577)])
def test_conditional_gammas_of_the_counting_experiment_are_exact(backend, poi, gamma):
    values, _, status = observed_fit(FIXTURES["F2"], backend=backend, poi=poi)
    assert status == FitStatus.CONVERGED
    assert values["u[0]"] == pytest.approx(gamma, abs=5e-8)


def test_q_of_the_counting_experiment_is_exact():
    free, conditional = (observed_fit(FIXTURES["F2"], poi=poi)[1] for poi in (None, 1.0))
    assert conditional - free == pytest.approx(2.0282213, abs=5e-8)


def test_failing_fit_of_a_public_report_converges():
    # C83, pyhf#1427: toy n = 20, aux = -0.126 failed at mu = 2.
    spec = one_channel(
        sample("s", [1.0], mu()),
        sample("b", [16.6925], modifier("c", "histosys", {"lo_data": [15.5146], "hi_data": [17.8704]})),
        observed=[17.3521], mu={"bounds": [[0.0, 10.0]]}, c={"bounds": [[-10.0, 10.0]]},
    )  # fmt: skip
    model = Model.from_workspace(spec)
    data, aux = np.array([[20.0]]), np.array([[-0.126]])
    for poi in (None, *np.arange(2.0, 11.0)):
        assert fitted(model, data, aux, poi=poi).status[0] == FitStatus.CONVERGED
    # The free fit reaches the data exactly: mu = 20 - 16.6925 + 0.126 * 1.1779.
    fits = fitted(model, data, aux)
    assert theta_of(model, fits)[0][model.poi_index] == pytest.approx(3.4559154, abs=1e-6)


MODELS = ["F2", "F4", "F6", "three_gammas", "negative_slot", "small_tau", "clipped"]


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_toys_of_small_models_converge(name, backend):
    model = Model.from_workspace(FIXTURES[name])
    data, aux = columns(model, 50, 60)
    for poi in (None, 0.0, 1.0):
        fits = fitted(model, data, aux, poi=poi, backend=backend)
        assert (fits.status == FitStatus.CONVERGED).all()


@pytest.mark.parametrize("name", MODELS)
def test_result_does_not_depend_on_batch_width_or_order(name):
    model = Model.from_workspace(FIXTURES[name])
    data, aux = columns(model, 51, 70)
    expected = fitted(model, data, aux).nll
    order = np.random.default_rng(52).permutation(70)
    shuffled = fitted(model, data[order], aux[order], width=33)
    single = fitted(model, data[:8], aux[:8], width=1)
    np.testing.assert_allclose(shuffled.nll, expected[order], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(single.nll, expected[:8], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_both_tiers_and_both_backends_find_the_same_minimum(name):
    model = Model.from_workspace(FIXTURES[name])
    data, aux = columns(model, 53, 40)
    expected = fitted(model, data, aux).nll
    for options in ({"tolerances": ROBUST_ONLY}, {"backend": "reference"}):
        np.testing.assert_allclose(fitted(model, data, aux, **options).nll, expected, rtol=1e-9, atol=2e-8)


@settings(FEW_EXAMPLES, max_examples=6)
@given(spec=workspaces())
def test_no_other_minimiser_gets_lower_from_what_is_called_converged(spec):
    # From beside our answer, over all parameters, gammas too: random likelihoods have more than one minimum.
    model = Model.from_workspace(spec)
    t = model.tensors
    data, aux = columns(model, 54, 2)
    fits = fitted(model, data, aux)
    theta = theta_of(model, fits)
    lower, upper = (np.where(model.is_fixed, t.init, bound) for bound in model.bounds)
    bounds = list(zip(lower, upper, strict=True))
    for i in np.flatnonzero(fits.status == FitStatus.CONVERGED):
        function = _one_column(model, data[i], aux[i])
        other = minimize(
            lambda x, i=i, f=function: (f(x), np.nan_to_num(gradient(t, x[None], data[i], aux[i])[0])),
            np.clip(theta[i] * 1.001 + 0.001, lower, upper), jac=True, bounds=bounds, method="L-BFGS-B",
            options={"maxiter": 400, "ftol": 1e-13, "gtol": 1e-7},
        )  # fmt: skip
        assert fits.nll[i] <= other.fun - _inert(model, aux[i])[0] + 1e-7


def test_nearly_all_fits_of_random_workspaces_converge():
    statuses = []

    @EXAMPLES
    @given(spec=workspaces())
    def collect(spec):
        model = Model.from_workspace(spec)
        statuses.extend(fitted(model, *columns(model, 58, 8)).status)

    collect()
    # What is left: unidentified parameters with negative yields, and several rates held at 0 at once.
    assert np.mean(np.array(statuses) == FitStatus.CONVERGED) > 0.98


@pytest.mark.parametrize("tolerances", [None, ROBUST_ONLY], ids=["both tiers", "robust tier"])
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_flat_direction_does_not_prevent_convergence(backend, tolerances):
    # Only the products k free[i] matter, and mu not at all (C95).
    spec = one_channel(
        sample("s", [0.0] * 3, mu()), sample("b", [6.0] * 3, mu("k"), modifier("free", "shapefactor")),
        observed=[1.0, 2.0, 4.0],
    )  # fmt: skip
    values, _, status = observed_fit(spec, backend=backend, tolerances=tolerances)
    assert status == FitStatus.CONVERGED
    products = [6.0 * values["k"] * values[f"free[{i}]"] for i in range(3)]
    assert products == pytest.approx([1.0, 2.0, 4.0], abs=1e-3)


def _one_column(model, data, aux):
    return lambda x: _finite(nll(model.tensors, np.asarray(x)[None], data, aux)[0])


def _finite(value):
    return value if np.isfinite(value) else 1e10


def _inert(model, aux):
    """Return what inert gammas add to the NLL over all parameters, (N,)."""
    return nll_constant(model.tensors, model.data, aux) - nll_constant(model.unprofiled.tensors, model.data, aux)


def test_minuit_agrees_with_the_closed_form_gammas():
    model = Model.from_workspace(FIXTURES["three_gammas"])
    t = model.tensors
    data, aux = columns(model, 55, 3)
    data, aux = np.maximum(data, 3.0), np.where(t.aux_is_poisson == 1, np.maximum(aux, 1.0), aux)
    fits = fitted(model, data, aux)
    for i in range(3):
        minuit = Minuit(_one_column(model, data[i], aux[i]), model.init)
        minuit.limits = list(zip(*model.bounds, strict=True))
        minuit.errordef, minuit.tol, minuit.strategy = 0.5, 1e-4, 2
        minuit.migrad(ncall=20000)
        assert fits.nll[i] == pytest.approx(minuit.fval, abs=1e-5)
        assert fits.nll[i] <= minuit.fval + 1e-8


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_bins_and_auxiliary_counts_of_zero_are_fitted(backend):
    model = Model.from_workspace(FIXTURES["small_tau"])
    t = model.tensors
    n_aux = t.n_aux
    data = np.array([[0.0, 0.0], [7.0, 0.0], [0.0, 5.0], [12.0, 9.0]])
    for aux in (np.zeros((4, n_aux)), np.tile([0.0, 3.0, 0.0, 1.0], (4, 1))):
        fits = fitted(model, data, aux, backend=backend)
        assert (fits.status == FitStatus.CONVERGED).all()
        theta = theta_of(model, fits)
        np.testing.assert_allclose(nll(t, theta, data, aux), fits.nll, rtol=1e-9, atol=1e-9)
    # With an auxiliary count of 0 the gammas are free at a price: nothing pulls the rates away from empty data.
    fits = fitted(model, data[:1], np.zeros((1, n_aux)), backend=backend)
    np.testing.assert_allclose(theta_of(model, fits)[0], [0.0, *[1e-10] * 4], atol=1e-8)


def test_gammas_end_on_their_bounds_where_data_pull_them_there():
    model = Model.from_workspace(FIXTURES["clipped"])
    t = model.tensors
    fits = fitted(model, model.data[None], model.auxdata[None], poi=0.0)
    theta = dict(zip(model.names, theta_of(model, fits)[0], strict=True))
    assert theta["e[0]"] == 1.1 and theta["w[0]"] == 1.05  # 150 seen, 90 expected
    assert theta["e[1]"] == 0.9 and theta["w[1]"] == 0.8  # 20 seen, 60 expected
    assert fits.status[0] == FitStatus.CONVERGED
    expected = nll(t, theta_of(model, fits), model.data[None], model.auxdata[None])
    assert fits.nll[0] == pytest.approx(expected[0], rel=1e-12)


def test_fit_without_a_legal_start_says_so():
    spec = one_channel(sample("b", [-2.0]), sample("s", [1.0], mu()), observed=[1.0], mu={"bounds": [[0.0, 1.5]]})
    _, _, status = observed_fit(spec)
    assert status == FitStatus.OUT_OF_DOMAIN
    assert "start" in status.message


def test_fit_that_runs_out_of_iterations_is_not_called_converged():
    model = Model.from_workspace(FIXTURES["three_gammas"])
    data, aux = columns(model, 56, 10)
    fits = fitted(model, data, aux, tolerances=Tolerances(cheap=1, robust=1, edge=()))
    assert (fits.status == FitStatus.MAX_ITERATIONS).any()
    assert set(fits.status) <= {FitStatus.MAX_ITERATIONS, FitStatus.CONVERGED}


def test_every_status_has_its_sentence():
    assert len({status.message for status in FitStatus}) == len(FitStatus)


def test_gammas_belong_to_the_reported_point():
    model = Model.from_workspace(FIXTURES["negative_slot"])
    data, aux = columns(model, 57, 60)
    fits = fitted(model, data, aux)
    given = nll(model.tensors, theta_of(model, fits), data, aux) - _inert(model, aux)
    np.testing.assert_allclose(given, fits.nll, rtol=1e-9, atol=1e-9)
