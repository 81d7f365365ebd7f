"""The exact Hessian over all parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from workspaces import FEW_EXAMPLES, FIXTURES, columns, evaluated, five_point, points, symmetric, workspaces

from nsmath.model.hessian import full_hessian, full_hessians
from nsmath.model.likelihood import gradient
from nsmath.model.model import Model
from nsmath.model.rates import rates


def schur(full, kept, solved):
    """Return the Hessian over ``kept`` when ``solved`` stay stationary."""
    mixed = full[np.ix_(kept, solved)]
    return full[np.ix_(kept, kept)] - mixed @ np.linalg.solve(full[np.ix_(solved, solved)], mixed.T)


@FEW_EXAMPLES
@given(spec=workspaces())
def test_full_hessian_is_the_finite_difference_of_the_gradient(spec):
    model = Model.from_workspace(spec)
    theta = points(model, 10, smooth=True)
    theta = theta[(rates(model.tensors, theta) > 0.5).all(axis=1)]
    data, aux = columns(model, 11, len(theta))
    if not len(theta):
        return
    expected = five_point(lambda x: gradient(model.tensors, x, data, aux), theta)
    scale = 1.0 + np.abs(expected).max()
    got = full_hessians(model.tensors, theta, data, aux)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8 * scale)
    np.testing.assert_allclose(got, got.transpose(0, 2, 1), rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("name", ["F2", "F3", "three_gammas", "negative_slot"])
def test_profile_hessian_is_the_schur_complement_of_the_full_one(name):
    model = Model.from_workspace(FIXTURES[name])
    t = model.tensors
    theta = points(model, 12, 3, smooth=True)
    data, aux = (np.tile(x, (3, 1)) for x in (model.data, model.auxdata))
    tile = evaluated(model, "cpu", theta, data, aux, hessian=True)
    theta[:, t.gamma_parameter] = tile.gammas.T
    for i, hessian in enumerate(symmetric(tile.hessian)):
        full = full_hessian(t, theta[i], data[i], aux[i])
        np.testing.assert_allclose(hessian, schur(full, t.parameter, t.gamma_parameter), rtol=1e-9)


def test_hessian_of_a_counting_experiment_is_its_fisher_information():
    model = Model.from_workspace(FIXTURES["F1"])
    hessian = full_hessian(model.tensors, np.array([0.2]), model.data, model.auxdata)
    assert hessian[0, 0] == pytest.approx(4.0 * 25.0 / 4.0**2, rel=1e-15)
