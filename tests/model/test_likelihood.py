"""The absolute NLL, against pyhf and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from scipy.special import gammaln
from workspaces import (
    BACKEND_NAMES,
    EXAMPLES,
    FIXTURES,
    PYHF_CODES,
    PyhfModel,
    columns,
    evaluated,
    five_point,
    modifier,
    mu,
    one_channel,
    points,
    real_model,
    reference,
    sample,
    workspaces,
)

from nsmath.model.likelihood import gradient, nll, nll_constant, poisson_term, saturated_poisson
from nsmath.model.model import Model
from nsmath.model.rates import rates


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("interp", PYHF_CODES)
@EXAMPLES
@given(spec=workspaces())
def test_nll_is_that_of_pyhf(backend, interp, spec):
    model = Model.from_workspace(spec, interp=interp).unprofiled
    theta = points(model, 4)
    theta = theta[(rates(model.tensors, theta) > 1e-3).all(axis=1)]
    data, aux = columns(model, 5, len(theta))
    if not len(theta):
        return
    tile = evaluated(model, backend, theta, data, aux)
    expected = PyhfModel(spec, model, interp).nll(theta, data, aux)
    np.testing.assert_allclose(tile.nll + nll_constant(model.tensors, data, aux), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@EXAMPLES
@given(spec=workspaces())
def test_nll_with_inert_gammas_left_out_is_that_of_pyhf(backend, spec):
    model = Model.from_workspace(spec)
    theta = points(model, 6)
    theta[:, model.is_fixed] = 1.0
    theta = theta[(rates(model.tensors, theta) > 1e-3).all(axis=1)]
    data, aux = columns(model, 7, len(theta))
    if not len(theta):
        return
    tile = evaluated(model, backend, theta, data, aux, profile=False)
    expected = PyhfModel(spec, model, "root").nll(theta, data, aux)
    np.testing.assert_allclose(tile.nll + nll_constant(model.tensors, data, aux), expected, rtol=1e-10, atol=1e-9)


REAL = [(name, interp) for name in reference() for interp in PYHF_CODES] or [
    pytest.param("", "", marks=pytest.mark.skip(reason="../shared/data/reference.json is absent"))
]


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize(("name", "interp"), REAL)
def test_nll_of_real_workspaces_is_that_of_pyhf(backend, name, interp):
    model = real_model(name, interp).unprofiled
    given_points = reference()[name][interp]["points"]
    theta = np.array([model.parameter_vector(point["params"]) for point in given_points])
    expected = np.array([point["nll"] for point in given_points])
    data, aux = (np.tile(x, (len(theta), 1)) for x in (model.data, model.auxdata))
    got = evaluated(model, backend, theta, data, aux).nll + nll_constant(model.tensors, data, aux)
    # pyhf's own rounding: tau = 2e11 in this workspace.
    atol = 2e-3 if name == "real/erjr_3L_200_100" else 0.0
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=atol)
    if "expected_main" in given_points[0]:
        main = [point["expected_main"] for point in given_points]
        np.testing.assert_allclose(rates(model.tensors, theta), main, rtol=1e-12)


@EXAMPLES
@given(spec=workspaces())
def test_gradient_over_all_parameters_is_the_finite_difference(spec):
    model = Model.from_workspace(spec)
    theta = points(model, 8, smooth=True)
    theta = theta[(rates(model.tensors, theta) > 0.5).all(axis=1)]
    data, aux = columns(model, 9, len(theta))
    slope = five_point(lambda x: nll(model.tensors, x, data, aux), theta)
    np.testing.assert_allclose(gradient(model.tensors, theta, data, aux), slope, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("count", [0.0, 0.25, 1.0, 17.0, 999.5, 1000.0, 1e5])
def test_saturated_poisson_is_the_log_probability_of_a_count_at_its_own_rate(count):
    direct = count - (count * math.log(count) if count else 0.0) + gammaln(count + 1.0)
    assert saturated_poisson(np.array([count]))[0] == pytest.approx(direct, rel=1e-13, abs=4e-16 * count * 12)


def test_saturated_poisson_of_huge_counts_keeps_its_digits():
    # 2e11 log 2e11 alone would round to 1e-3.
    assert saturated_poisson(np.array([2e11]))[0] == pytest.approx(0.5 * math.log(2.0 * math.pi * 2e11), rel=1e-12)


def test_poisson_term_is_exact_near_its_minimum_and_infinite_outside_the_domain():
    n = 1e6
    for shift in (1e-3, -1e-3, 2.0):
        d = shift / n
        series = n * (d * d / 2.0 - d**3 / 3.0 + d**4 / 4.0)
        assert poisson_term(np.array([n + shift]), np.array([n]))[0] == pytest.approx(series, rel=1e-9)
    got = poisson_term(np.array([0.0, 0.0, -1.0, -1.0, 3.0]), np.array([0.0, 1.0, 0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(got, [0.0, np.inf, np.inf, np.inf, 3.0])


def test_negative_sample_with_positive_total_is_accepted():
    # C05
    spec = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), sample("i", [-4.0]), observed=[52.0])
    tensors = Model.from_workspace(spec).tensors
    data = np.array([[52.0]])
    value = nll(tensors, np.ones((1, 1)), data, np.zeros((1, 0))) + nll_constant(tensors, data, np.zeros((1, 0)))
    assert value[0] == pytest.approx(2.905903, abs=5e-7)


def test_gammas_that_cannot_vary_keep_the_constraint_that_pyhf_gives_them():
    # C11, C19: fixed at 1, with Pois(1 | 1) and N(1 | 1, 1).
    spec = one_channel(
        sample("s", [1.0, 5.0], mu()),
        sample("b", [0.0, 10.0], modifier("u", "shapesys", [0.0, 2.0]), modifier("e", "staterror", [0.1, 1.0])),
        observed=[0.0, 12.0],
    )
    model = Model.from_workspace(spec)
    fixed = [name for name, is_fixed in zip(model.names, model.is_fixed, strict=True) if is_fixed]
    assert sorted(fixed) == ["e[0]", "u[0]"]
    theta, data, aux = (x[None] for x in (model.init, model.data, model.auxdata))
    got = nll(model.tensors, theta, data, aux) + nll_constant(model.tensors, data, aux)
    np.testing.assert_allclose(got, PyhfModel(spec, model, "root").nll(theta, data, aux), rtol=1e-13)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("name", FIXTURES)
def test_nll_of_the_fixtures_is_that_of_pyhf_at_their_start(backend, name):
    model = Model.from_workspace(FIXTURES[name])
    theta = np.where(model.is_fixed, 1.0, 1.02 * model.init)[None]
    theta = np.clip(theta, *model.bounds)
    data, aux = model.data[None], model.auxdata[None]
    got = evaluated(model, backend, theta, data, aux, profile=False).nll + nll_constant(model.tensors, data, aux)
    np.testing.assert_allclose(got, PyhfModel(FIXTURES[name], model, "root").nll(theta, data, aux), rtol=1e-11)
