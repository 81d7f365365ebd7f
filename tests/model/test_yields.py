"""Expected yields and their uncertainties are those that pyhf's rates give, sample by sample."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from workspaces import FEW_EXAMPLES, FIXTURES, PyhfModel, points, workspaces

from nsmath.cli.inputs import EXAMPLE
from nsmath.fitting.fit import fit
from nsmath.model.model import Model
from nsmath.model.yields import expected_yields, prefit_uncertainties


def by_sample(oracle: PyhfModel, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Return pyhf's rates (B,) of each sample."""
    rates = oracle.model.main_model.expected_data(theta[oracle.order], return_by_sample=True)
    return dict(zip(oracle.model.config.samples, np.asarray(rates), strict=True))


@pytest.mark.parametrize("interp", ["root", "pyhf"])
@given(spec=workspaces())
@FEW_EXAMPLES
def test_yields_of_every_sample_are_those_of_pyhf(interp: str, spec: dict) -> None:
    model = Model.from_workspace(spec, interp=interp)
    theta = points(model, 3, 1)[0]
    theirs = by_sample(PyhfModel(spec, model, interp), theta)
    first = 0
    for channel in expected_yields(model, theta):
        bins = slice(first, first + model.channels[channel.name])
        first = bins.stop
        for name, ours in channel.samples.items():
            np.testing.assert_allclose(ours.events, theirs[name][bins], rtol=1e-10, atol=1e-9)
            assert ours.total == pytest.approx(ours.events.sum())
            assert ours.uncertainty is None and ours.total_uncertainty is None
        together = sum(rate[bins] for rate in theirs.values())
        np.testing.assert_allclose(channel.all.events, together, rtol=1e-10, atol=1e-9)


def test_uncertainties_add_the_moves_of_all_parameters_with_their_correlations() -> None:
    spec = json.loads(EXAMPLE.read_text())
    model = Model.from_workspace(spec)
    result, oracle = fit(model), PyhfModel(spec, Model.from_workspace(spec), "root")
    sigma, correlation = result.uncertainties, result.correlation

    def moves(pick):
        return np.array([
            (pick(result.values + sigma[p] * unit) - pick(result.values - sigma[p] * unit)) / 2.0
            for p, unit in enumerate(np.eye(len(sigma)))
        ])  # fmt: skip

    first = 0
    for channel in expected_yields(model, result.values, result.covariance):
        bins = slice(first, first + model.channels[channel.name])
        first = bins.stop
        delta = moves(lambda theta, bins=bins: oracle.rates(theta[None])[0, bins])
        variance = np.einsum("pb,pq,qb->b", delta, correlation, delta)
        np.testing.assert_allclose(channel.all.uncertainty, np.sqrt(variance), rtol=1e-8)
        total = delta.sum(axis=1)
        assert channel.all.total_uncertainty == pytest.approx(np.sqrt(total @ correlation @ total), rel=1e-8)
        name, found = next(iter(channel.samples.items()))
        delta = moves(lambda theta, bins=bins, name=name: by_sample(oracle, theta)[name][bins])
        variance = np.einsum("pb,pq,qb->b", delta, correlation, delta)
        np.testing.assert_allclose(found.uncertainty, np.sqrt(variance), rtol=1e-8)


def test_the_widths_of_constraints_are_sigma_and_the_relative_error() -> None:
    # F3: shapesys of 3 on 50 and 7 on 52 events; F4: a normsys.
    widths = prefit_uncertainties(Model.from_workspace(FIXTURES["F3"]))
    np.testing.assert_allclose(widths, [0.0, 3.0 / 50.0, 7.0 / 52.0])
    assert prefit_uncertainties(Model.from_workspace(FIXTURES["F4"])).tolist() == [0.0, 1.0]


def test_a_fixed_parameter_moves_nothing() -> None:
    model = Model.from_workspace(FIXTURES["F4"]).with_fixed({"n": 0.5})
    (channel,) = expected_yields(model, model.init, np.diag(prefit_uncertainties(model) ** 2))
    assert channel.all.uncertainty.tolist() == [0.0]
