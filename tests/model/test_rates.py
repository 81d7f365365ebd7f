"""Expected rates and their derivatives, against pyhf and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from workspaces import (
    ALPHAS,
    EXAMPLES,
    FEW_EXAMPLES,
    FIXTURES,
    PYHF_CODES,
    PyhfModel,
    document,
    five_point,
    modifier,
    mu,
    one_channel,
    points,
    sample,
    workspaces,
)

from nsmath.formulas.interpolation import ADDITIVE_CODES, MULTIPLICATIVE_CODES, Interpolation
from nsmath.model.model import Model
from nsmath.model.rates import additive_code, curvature, jacobian, multiplicative_code, rate_table, rates
from nsmath.spec.modifiers import MODIFIERS

EVERY_CODE = [
    Interpolation(histosys=additive, normsys=multiplicative)
    for additive in ADDITIVE_CODES
    for multiplicative in MULTIPLICATIVE_CODES
]


@pytest.mark.parametrize("interp", PYHF_CODES)
@EXAMPLES
@given(spec=workspaces())
def test_rates_are_those_of_pyhf(interp, spec):
    model = Model.from_workspace(spec, interp=interp).unprofiled
    theta = points(model, 1)
    expected = PyhfModel(spec, model, interp).rates(theta)
    np.testing.assert_allclose(rates(model.tensors, theta), expected, rtol=1e-10, atol=1e-10)


def test_random_workspaces_use_every_modifier_type():
    seen = set()

    @EXAMPLES
    @given(spec=workspaces())
    def collect(spec):
        seen.update(m["type"] for c in spec["channels"] for s in c["samples"] for m in s["modifiers"])

    collect()
    assert seen == set(MODIFIERS)


# C27: nominal 100, lo 90, hi 120.
CLOSED_SHIFTS = {
    "code0": {-2.0: -20.0, -0.5: -5.0, 0.5: 10.0, 1.5: 30.0},
    "code4p": {-2.0: -20.0, -0.5: -5.51757812, 0.5: 9.48242188, 1.5: 30.0},
    # Beyond 1 along the tangent: slope S + 2 A = 25 above, S - 2 A = 5 below, from +20 and -10.
    "code2": {-0.5: -6.25, 0.5: 8.75, 1.0: 20.0, -1.0: -10.0, 1.5: 32.5, -2.0: -15.0},
}


@pytest.mark.parametrize("code", ADDITIVE_CODES)
def test_additive_shifts_have_their_closed_form_values(code):
    variation = modifier("h", "histosys", {"lo_data": [90.0], "hi_data": [120.0]})
    spec = one_channel(sample("b", [100.0], variation), sample("s", [1.0], mu()), observed=[100.0])
    model = Model.from_workspace(spec, interp={"histosys": code})
    for alpha, shift in CLOSED_SHIFTS[code].items():
        theta = model.parameter_vector({"h": alpha, "mu": 0.0})[None]
        assert rates(model.tensors, theta)[0, 0] == pytest.approx(100.0 + shift, abs=1e-8)


@pytest.mark.parametrize("code", ADDITIVE_CODES.values(), ids=ADDITIVE_CODES)
def test_additive_codes_are_even_functions_that_are_one_at_one(code):
    row = np.array([code.threshold, *code.inner, code.slope, code.intercept])
    alpha = np.array([0.3, 1.0, 2.4])
    np.testing.assert_array_equal(additive_code(row, alpha)[0], additive_code(row, -alpha)[0])
    assert additive_code(row, np.array([1.0, 0.0]))[0] == pytest.approx([1.0, 0.0], abs=1e-15)


@pytest.mark.parametrize("code", ADDITIVE_CODES.values(), ids=ADDITIVE_CODES)
def test_additive_codes_are_continuous_and_as_smooth_as_they_say(code):
    row = np.array([code.threshold, *code.inner, code.slope, code.intercept])
    eps = 1e-9
    below, above = (np.array(additive_code(row, np.array([1.0 + e]))) for e in (-eps, eps))
    smoothness = {"code0": 3, "code2": 2, "code4p": 3}[code.name]
    np.testing.assert_allclose(below[:smoothness], above[:smoothness], atol=1e-7)


@pytest.mark.parametrize("code", MULTIPLICATIVE_CODES)
def test_normsys_factors_are_lo_and_hi_at_minus_and_plus_one(code):
    spec = one_channel(sample("b", [1.0], modifier("n", "normsys", {"lo": 0.8, "hi": 1.3})), observed=[1.0])
    spec["measurements"][0]["config"]["poi"] = ""
    tensors = Model.from_workspace(spec, interp={"normsys": code}).tensors
    alpha = np.array([[-1.0], [0.0], [1.0], [-2.0], [2.5]])
    value = multiplicative_code(tensors, alpha)[0]
    np.testing.assert_allclose(value[:, 0], [0.8, 1.0, 1.3, 0.8**2, 1.3**2.5], rtol=1e-14)
    eps = 1e-8
    for edge in (-1.0, 1.0):
        inner, outer = (np.array(multiplicative_code(tensors, np.array([[edge + e]]))).ravel() for e in (-eps, eps))
        np.testing.assert_allclose(inner, outer, atol=1e-6)


@pytest.mark.parametrize("interp", EVERY_CODE, ids=lambda i: f"{i.histosys}-{i.normsys}")
@FEW_EXAMPLES
@given(spec=workspaces())
def test_derivatives_of_rates_are_their_finite_differences(interp, spec):
    model = Model.from_workspace(spec, interp=interp)
    tensors, table = model.tensors, rate_table(model.tensors)
    theta = points(model, 2, 2, smooth=True)
    scale = 1.0 + np.abs(rates(tensors, theta)).max()
    jac = jacobian(table, theta)
    np.testing.assert_allclose(jac, five_point(lambda x: rates(tensors, x), theta), rtol=1e-7, atol=1e-9 * scale)
    weight = np.random.default_rng(3).normal(size=(2, tensors.n_bins))
    second = five_point(lambda x: np.einsum("nb,nbp->np", weight, jacobian(table, x)), theta)
    np.testing.assert_allclose(curvature(table, theta, weight), second, rtol=1e-6, atol=1e-8 * scale)


def test_derivatives_hold_where_factors_are_zero():
    model = Model.from_workspace(FIXTURES["F6"])
    theta = np.zeros((1, 2))
    table = rate_table(model.tensors)
    names = {name: model.names.index(name) for name in ("mu", "nu")}
    jac = jacobian(table, theta)[0]
    np.testing.assert_array_equal(jac[:, names["nu"]], [100.0, 10.0])  # CR before SR
    np.testing.assert_array_equal(jac[:, names["mu"]], [0.0, 5.0])
    # s mu nu at mu = nu = 0 has a mixed derivative although both first ones vanish.
    both = one_channel(sample("s", [7.0], mu(), mu("nu")), sample("b", [1.0]), observed=[1.0])
    tensors = Model.from_workspace(both).tensors
    hessian = curvature(rate_table(tensors), theta, np.ones((1, 1)))[0]
    np.testing.assert_array_equal(hessian, [[0.0, 7.0], [7.0, 0.0]])


def test_shared_normsys_and_histosys_multiply_the_shifted_nominal():
    # C31: (nominal + delta) * factor.
    spec = one_channel(
        sample(
            "b", [100.0, 100.0], modifier("a", "normsys", {"lo": 0.9, "hi": 1.1}),
            modifier("a", "histosys", {"lo_data": [90.0, 100.0], "hi_data": [110.0, 100.0]}),
        ),
        sample("s", [1.0, 1.0], mu()), observed=[100.0, 100.0],
    )  # fmt: skip
    model = Model.from_workspace(spec)
    np.testing.assert_allclose(
        rates(model.tensors, model.parameter_vector({"a": 1.0, "mu": 0.0})[None])[0], [121.0, 110.0], rtol=1e-14
    )


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_shapefactor_has_as_many_parameters_as_its_longest_channel(order):
    # C59, which pyhf answers by the order of channels.
    data = {"A": [10.0, 20.0], "B": [100.0, 200.0, 300.0]}
    channels = {name: [sample("b", data[name], modifier("f", "shapefactor"))] for name in order}
    channels["A"].append(sample("s", [5.0, 5.0], mu()))
    model = Model.from_workspace(document(channels, data))
    theta = model.parameter_vector({"f[0]": 2.0, "f[1]": 3.0, "f[2]": 4.0, "mu": 0.0})
    np.testing.assert_array_equal(rates(model.tensors, theta[None])[0], [20.0, 60.0, 200.0, 600.0, 1200.0])


def test_observations_are_matched_by_name():
    # C61
    spec = document({"Z": [sample("s", [5.0], mu())], "A": [sample("b", [50.0], mu("k"))]}, {"A": [60.0], "Z": [4.0]})
    model = Model.from_workspace(spec)
    np.testing.assert_array_equal(model.data, [60.0, 4.0])
    assert list(model.channels) == ["A", "Z"]


def test_points_cover_inside_on_and_beyond_one():
    sizes = np.abs(ALPHAS)
    assert (sizes < 1.0).any() and (sizes == 1.0).any() and (sizes > 1.0).any()


def test_digest_does_not_depend_on_the_last_bits_of_logarithms():
    model = Model.from_workspace(FIXTURES["F4"])
    t = model.tensors
    assert len(t.entry_z)
    other = replace(t, entry_log=np.nextafter(t.entry_log, 1.0), entry_poly=np.nextafter(t.entry_poly, 1.0))
    assert other.digest() == t.digest()
    assert replace(t, entry_factor=np.nextafter(t.entry_factor, 2.0)).digest() != t.digest()
