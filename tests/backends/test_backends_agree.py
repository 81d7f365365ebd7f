"""Every backend against ``reference``, and ``reference`` against what does not depend on it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from tolerances import TOLERANCES
from workspaces import (
    BACKEND_NAMES,
    COMPUTED,
    EXAMPLES,
    FEW_EXAMPLES,
    FIXTURES,
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
    symmetric,
    workspaces,
)

from nsmath.backends import ops
from nsmath.formulas.interpolation import ADDITIVE_CODES, MULTIPLICATIVE_CODES, Interpolation
from nsmath.model.likelihood import gradient, is_inert
from nsmath.model.model import Model

OTHERS = [backend for backend, dtype in COMPUTED if dtype == "float64"]
REDUCED = [(backend, dtype) for backend, dtype in COMPUTED if dtype != "float64"]
SURE_RATE = 0.3
"""Reduced precision cannot tell a rate just above 0 from one below: such columns are not compared."""
EVERY_CODE = [Interpolation(a, m) for a in ADDITIVE_CODES for m in MULTIPLICATIVE_CODES]


def check_agreement(model, backend, theta, data, aux, dtype="float64"):
    """Compare NLL, gradient, gammas, rates and Hessian with the reference's; return the compared columns."""
    tolerance = TOLERANCES[backend, dtype]
    expected = evaluated(model, "reference", theta, data, aux, hessian=True)
    got = evaluated(model, backend, theta, data, aux, hessian=True, dtype=dtype)
    legal = np.isfinite(expected.nll)
    if dtype == "float64":
        np.testing.assert_array_equal(np.isfinite(got.nll), legal)
    else:
        legal &= (expected.rate > SURE_RATE).all(axis=0)
    for name, size in (("nll", tolerance.nll), ("rate", tolerance.rate), ("gammas", tolerance.gamma)):
        a, b = (getattr(side, name)[..., legal] for side in (got, expected))
        np.testing.assert_allclose(a, b, rtol=size, atol=min(size, 1e-10) if dtype == "float64" else size)
    slope = expected.gradient[:, legal]
    scale = 1.0 + np.abs(slope).max(initial=0.0)
    np.testing.assert_allclose(
        got.gradient[:, legal], slope, rtol=tolerance.gradient, atol=0.1 * tolerance.gradient * scale
    )
    # Kernels give an auxiliary count of 0 a pseudo-count (TINY_AUX) in the Hessian alone: not compared.
    t = model.tensors
    whole = legal & (aux[:, t.gamma_aux[t.gamma_is_poisson == 1]] > 0.0).all(axis=1)
    a, b = symmetric(got.hessian)[whole], symmetric(expected.hessian)[whole]
    # Entries of the Hessian are sums over bins: in reduced precision a parameter may have none that its sum can show.
    least = 1e-6 if dtype == "float64" else 1.0
    scale = np.sqrt(np.abs(np.diagonal(b, axis1=1, axis2=2))) + least
    scale = scale[:, :, None] * scale[:, None]
    np.testing.assert_allclose(a / scale, b / scale, rtol=tolerance.hessian, atol=tolerance.hessian)
    return legal


@pytest.mark.parametrize(("backend", "dtype"), REDUCED)
@EXAMPLES
@given(spec=workspaces())
def test_random_workspaces_agree_in_reduced_precision(backend, dtype, spec):
    model = Model.from_workspace(spec)
    check_agreement(model, backend, points(model, 20, 6), *columns(model, 21, 6), dtype)


@pytest.mark.parametrize(("backend", "dtype"), REDUCED)
@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_agree_in_reduced_precision(backend, dtype, name):
    model = Model.from_workspace(FIXTURES[name])
    assert check_agreement(model, backend, points(model, 24, 40), *columns(model, 25, 40), dtype).any()


@pytest.mark.parametrize(("backend", "dtype"), REDUCED)
@pytest.mark.parametrize("name", list(reference()))
def test_real_workspaces_agree_in_reduced_precision(backend, dtype, name):
    model = real_model(name)
    rng = np.random.default_rng(26)
    theta = np.clip(model.init + rng.normal(0.0, 0.1, (3, len(model.names))), *model.bounds)
    check_agreement(model, backend, theta, *columns(model, 27, 3), dtype)


@pytest.mark.parametrize("backend", OTHERS)
@EXAMPLES
@given(spec=workspaces())
def test_random_workspaces_agree_with_reference(backend, spec):
    model = Model.from_workspace(spec)
    check_agreement(model, backend, points(model, 20, 6), *columns(model, 21, 6))


@pytest.mark.parametrize("backend", OTHERS)
@pytest.mark.parametrize("interp", EVERY_CODE, ids=lambda i: f"{i.histosys}-{i.normsys}")
@FEW_EXAMPLES
@given(spec=workspaces())
def test_every_interpolation_code_agrees_with_reference(backend, interp, spec):
    model = Model.from_workspace(spec, interp=interp)
    # At a kink (alpha = 0 of codes 0 and 1) either side's Hessian is right.
    check_agreement(model, backend, points(model, 22, 6, smooth=True), *columns(model, 23, 6))


@pytest.mark.parametrize("backend", OTHERS)
@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_agree_with_reference_on_toys(backend, name):
    model = Model.from_workspace(FIXTURES[name])
    legal = check_agreement(model, backend, points(model, 24, 40), *columns(model, 25, 40))
    assert legal.mean() > 0.5


@pytest.mark.parametrize("backend", OTHERS)
@pytest.mark.parametrize("name", list(reference()))
def test_real_workspaces_agree_with_reference(backend, name):
    model = real_model(name)
    rng = np.random.default_rng(26)
    theta = np.clip(model.init + rng.normal(0.0, 0.1, (3, len(model.names))), *model.bounds)
    check_agreement(model, backend, theta, *columns(model, 27, 3))


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@FEW_EXAMPLES
@given(spec=workspaces())
def test_profile_gradient_is_the_finite_difference_of_the_profile_nll(backend, spec):
    model = Model.from_workspace(spec)
    t, (data, aux) = model.tensors, columns(model, 29, 3)
    theta = points(model, 28, 3, smooth=True)
    tile = evaluated(model, backend, theta, data, aux)
    # Away from the edge of the domain, where the NLL has kinks or is infinite nearby.
    inside = np.isfinite(tile.nll) & (tile.rate > 0.3).all(axis=0)

    def profile_nll(z):
        moved = theta.copy()
        moved[:, t.parameter] = z
        return evaluated(model, backend, moved, data, aux).nll

    slope = five_point(profile_nll, theta[:, t.parameter], 1e-4)[inside]
    got = tile.gradient.T[inside]
    np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-6 * (1.0 + np.abs(got).max(initial=0.0)))


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("name", [name for name in FIXTURES if name not in ("clipped", "small_tau")])
def test_profile_hessian_is_the_finite_difference_of_the_profile_gradient(backend, name):
    model = Model.from_workspace(FIXTURES[name])
    t, (data, aux) = model.tensors, columns(model, 31, 4)
    data, aux = np.maximum(data, 1.0), np.where(t.aux_is_poisson == 1, np.maximum(aux, 1.0), aux)
    theta = points(model, 30, 4, smooth=True)
    tile = evaluated(model, backend, theta, data, aux, hessian=True)

    def profile_gradient(z):
        moved = theta.copy()
        moved[:, t.parameter] = z
        return evaluated(model, backend, moved, data, aux).gradient.T

    inside = np.isfinite(tile.nll)
    assert inside.any()
    expected = five_point(profile_gradient, theta[:, t.parameter], 1e-4)[inside]
    got = symmetric(tile.hessian)[inside]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("name", FIXTURES)
def test_profiled_gammas_are_stationary_or_pushed_against_a_bound(backend, name):
    model = Model.from_workspace(FIXTURES[name])
    t = model.tensors
    if not t.n_gammas:
        return
    theta, (data, aux) = points(model, 32, 40), columns(model, 33, 40)
    tile = evaluated(model, backend, theta, data, aux)
    theta[:, t.gamma_parameter] = tile.gammas.T
    # Where an empty bin's rate is held at 0, its gammas obey another condition: see the test below.
    ok = np.isfinite(tile.nll) & (tile.rate > 0.0).all(axis=0)
    slope = gradient(t, theta, data, aux)[:, t.gamma_parameter][ok]
    gammas, lower, upper = theta[ok][:, t.gamma_parameter], t.lower[t.gamma_parameter], t.upper[t.gamma_parameter]
    outward = np.where(gammas <= lower, np.minimum(slope, 0.0), slope)
    outward = np.where(gammas >= upper, np.maximum(outward, 0.0), outward)
    scale = 1.0 + np.abs(aux[ok]).max() + np.abs(tile.rate).max()
    assert np.abs(outward).max() < 1e-9 * scale


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("name", FIXTURES)
def test_no_other_gammas_have_a_smaller_nll(backend, name):
    model = Model.from_workspace(FIXTURES[name])
    t = model.tensors
    theta, (data, aux) = points(model, 34, 40), columns(model, 35, 40)
    tile = evaluated(model, backend, theta, data, aux)
    rng = np.random.default_rng(36)
    for size in (1e-3, 0.1, 1.0):
        other = theta.copy()
        moved = tile.gammas.T + size * rng.normal(size=(40, t.n_gammas))
        other[:, t.gamma_parameter] = np.clip(moved, t.lower[t.gamma_parameter], t.upper[t.gamma_parameter])
        other[:, is_inert(t)] = 1.0
        assert (evaluated(model, backend, other, data, aux, profile=False).nll >= tile.nll - 1e-10).all()


def _held_at_zero():
    """An empty bin with an interfering sample of -9 +- 1 beside 6 +- 4: its rate would be negative."""
    spec = one_channel(
        sample("s", [1.0], mu()), sample("i", [-9.0]), sample("b", [6.0], modifier("u", "shapesys", [4.0])),
        observed=[0.0],
    )  # fmt: skip
    return Model.from_workspace(spec)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_profiling_lifts_a_negative_rate_to_zero(backend):
    model = _held_at_zero()
    theta = model.parameter_vector({"mu": 1.0})[None]
    tile = evaluated(model, backend, theta, model.data[None], model.auxdata[None])
    # gamma = 8 / 6 gives -9 + 1 + 8 = 0; its constraint is all that the NLL holds, tau = (6 / 4)^2.
    tau, gamma = 2.25, 8.0 / 6.0
    assert tile.gammas[0, 0] == pytest.approx(gamma, rel=1e-12)
    assert tile.nll[0] == pytest.approx(tau * gamma - tau + tau * np.log(1.0 / gamma), rel=1e-12)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_column_does_not_depend_on_its_neighbours(backend):
    model = Model.from_workspace(FIXTURES["three_gammas"])
    theta, (data, aux) = points(model, 37, 70), columns(model, 38, 70)
    together = evaluated(model, backend, theta, data, aux)
    for i in (0, 31, 32, 69):
        alone = evaluated(model, backend, theta[i : i + 1], data[i : i + 1], aux[i : i + 1])
        assert alone.nll[0] == pytest.approx(together.nll[i], rel=1e-13)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_nll_outside_the_domain_is_infinite(backend):
    model = Model.from_workspace(one_channel(sample("s", [3.0], mu()), sample("b", [-2.0]), observed=[1.0]))
    theta = np.array([[0.0], [0.5], [2.0 / 3.0], [1.0]])
    for count, legal in ((1.0, [False, False, False, True]), (0.0, [False, False, True, True])):
        tile = evaluated(model, backend, theta, np.full((4, 1), count), np.zeros((4, 0)))
        np.testing.assert_array_equal(np.isfinite(tile.nll), legal)


def test_reference_needs_no_compiler_and_no_matmul_library():
    code = (
        "import sys; import nsmath.backends.reference; "
        "print([m for m in ('numba', 'nvmath', 'llvmlite') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_kernels_hold_the_rules_of_the_operation_table():
    for module in ("cpu_lbfgs", "cpu_steps"):
        copies = vars(importlib.import_module(f"nsmath.backends.{module}"))
        for name in ("ARMIJO", "SHRINK", "MIN_CURVATURE", "NLL_NOISE", "FLAT", "FIRST_DAMPING", "MAX_DAMPING",
                     "NO_DAMPING", "MIN_GAIN"):  # fmt: skip
            if name in copies:
                assert copies[name] == getattr(ops, name), name
