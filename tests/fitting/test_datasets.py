"""Asimov data are pyhf's, fits of them end where they were made, blinded channels tell nothing of their data."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import pyhf
import pytest
from workspaces import FIXTURES, PYHF_CODES, SHARED, document, modifier, mu, reference, sample

from nsmath import Model, fit
from nsmath.cli.inputs import EXAMPLE
from nsmath.errors import FitError, ModelError, OptionError
from nsmath.fitting.datasets import asimov, blinded
from nsmath.spec import Workspace, pruned

EXAMPLE_SPEC = json.loads(EXAMPLE.read_text())
SR = ["SR_high", "SR_low"]
SMALL = ("god", "complex", "real/b2kpi_20bin", "real/erjr_3L_200_100", "real/sbottomC_900_250_60")


def pyhf_model(spec: dict) -> tuple[pyhf.Model, list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        workspace = pyhf.Workspace(copy.deepcopy(spec))
        model = workspace.model(modifier_settings=PYHF_CODES["root"])
    return model, workspace.data(model)


def test_the_nominal_asimov_data_are_those_of_pyhf() -> None:
    theirs, _ = pyhf_model(EXAMPLE_SPEC)
    result = asimov(EXAMPLE_SPEC)
    _, data = pyhf_model(result.document)
    np.testing.assert_allclose(data, theirs.expected_data(theirs.config.suggested_init()), rtol=1e-12)
    # The start values are where the auxiliary data are, so nothing else has changed.
    result.document["observations"] = EXAMPLE_SPEC["observations"]
    assert result.document == EXAMPLE_SPEC


@pytest.mark.parametrize("name", ["F2", "F3", "F4", "three_gammas", "small_tau"])
@pytest.mark.parametrize("mu_asimov", [0.0, 1.0])
def test_the_fitted_asimov_data_are_those_of_pyhf_main_and_auxiliary(name: str, mu_asimov: float) -> None:
    theirs, observed = pyhf_model(FIXTURES[name])
    config = theirs.config
    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer(tolerance=1e-8, strategy=2))
    expected = pyhf.infer.calculators.generate_asimov_data(
        mu_asimov, observed, theirs, config.suggested_init(), config.suggested_bounds(), config.suggested_fixed()
    )
    pyhf.set_backend("numpy", pyhf.optimize.scipy_optimizer())
    _, data = pyhf_model(asimov(FIXTURES[name], values={"mu": mu_asimov}, fitted=True).document)
    np.testing.assert_allclose(data, expected, rtol=2e-4, atol=2e-4)


POINT = {
    "mu_sig": 0.7, "JES": 0.6, "b_tag": -1.2, "lumi": 1.01, "stat_SR_low[1]": 0.98, "fakes_SR_low[0]": 1.3,
    "norm_ttbar": 1.1, "fakes_shape[2]": 0.9,
}  # fmt: skip


def test_a_fit_of_asimov_data_ends_where_they_were_made() -> None:
    result = asimov(EXAMPLE_SPEC, values=POINT)
    model = Model.from_workspace(result.workspace)
    point = Model.from_workspace(EXAMPLE_SPEC).parameter_vector(POINT)
    np.testing.assert_allclose(fit(model).values, point, atol=1e-5)
    assert any("'lumi'" in note and "JES" in note for note in result.notes)
    assert any("'search_fixed_theory'" in note for note in result.notes)
    # Start values and bounds have stayed, also of lumi, whose defaults follow its auxiliary data.
    before = Model.from_workspace(EXAMPLE_SPEC)
    assert [(p.init, p.lower, p.upper) for p in model.parameters] == [
        (p.init, p.lower, p.upper) for p in before.parameters
    ]


@pytest.mark.parametrize("name", [name for name in SMALL if name in reference()] or [pytest.param(
    "", marks=pytest.mark.skip(reason="../shared/data is absent"))])  # fmt: skip
def test_a_fit_of_asimov_data_of_a_real_workspace_ends_where_they_were_made(name: str) -> None:
    spec = json.loads((SHARED / f"{name}.json").read_text())
    before = Model.from_workspace(spec)
    conditional = fit(before, fixed={before.poi: 0.5})
    again = fit(Model.from_workspace(asimov(spec, values={before.poi: 0.5}, fitted=True).workspace))
    sigma = np.where(again.uncertainties > 0.0, again.uncertainties, 1.0)
    np.testing.assert_allclose((again.values - conditional.values) / sigma, 0.0, atol=1e-4)


def test_lumi_without_start_and_bounds_keeps_those_it_had() -> None:
    spec = document(
        {"SR": [sample("s", [5.0], mu(), modifier("lumi", "lumi")), sample("b", [50.0])]}, {"SR": [52.0]},
        lumi={"auxdata": [1.0], "sigmas": [0.1]},
    )  # fmt: skip
    model = Model.from_workspace(asimov(spec, values={"lumi": 1.1}).workspace)
    lumi = model.parameters[model.index_of("lumi")]
    assert (lumi.auxdata, lumi.init, lumi.lower, lumi.upper) == (1.1, 1.0, 0.0, 10.0)


def test_auxiliary_data_are_left_alone_if_asked() -> None:
    result = asimov(EXAMPLE_SPEC, values=POINT, aux="observed")
    assert result.document["measurements"] == EXAMPLE_SPEC["measurements"]
    assert len(result.notes) == 1
    assert result.document["observations"] == asimov(EXAMPLE_SPEC, values=POINT).document["observations"]


def test_gammas_of_several_channels_get_their_own_auxiliary_data() -> None:
    # Channels out of order: their gammas are numbered by sorted name, as in pyhf.
    spec = document(
        {name: [sample("s", [5.0], mu()), sample("b", [b], modifier("mc", "staterror", [2.0]))]
         for name, b in (("Z", 50.0), ("A", 30.0))},
        {"A": [31.0], "Z": [52.0]},
    )  # fmt: skip
    result = asimov(spec, values={"mc[0]": 1.1, "mc[1]": 0.9})
    observed = {seen["name"]: seen["data"] for seen in result.document["observations"]}
    assert observed["A"] == pytest.approx([5.0 + 33.0])
    assert observed["Z"] == pytest.approx([5.0 + 45.0])
    assert pyhf_model(result.document)[0].config.auxdata == [1.1, 0.9]
    # A fit of one channel alone puts its gamma where that channel has it.
    held = {"mu": 0.8}
    assert blinded(spec, ["A"], fitted=True, values=held).workspace.observed("A") == pytest.approx((34.0,))
    alone = Model.from_workspace(pruned(spec, channels=["Z"]).workspace).with_fixed(held)
    expected = blinded(spec, ["Z"], values={**held, "mc[0]": fit(alone)["mc[0]"]})
    assert blinded(spec, ["Z"], fitted=True, values=held).document == expected.document


def test_blinded_channels_have_the_background_expectation_and_the_others_their_data() -> None:
    result = blinded(EXAMPLE_SPEC, SR)
    theirs, _ = pyhf_model(EXAMPLE_SPEC)
    theta = np.array(theirs.config.suggested_init())
    theta[theirs.config.poi_index] = 0.0
    expected = theirs.expected_data(theta, include_auxdata=False)
    before = Workspace.from_dict(EXAMPLE_SPEC)
    for channel, bins in theirs.config.channel_slices.items():
        events = result.workspace.observed(channel)
        if channel in SR:
            np.testing.assert_allclose(events, expected[bins], rtol=1e-12)
            assert any(f"'{channel}'" in note and "mu_sig = 0" in note for note in result.notes)
        else:
            assert events == before.observed(channel)
    assert result.document["measurements"] == EXAMPLE_SPEC["measurements"]


def test_a_blinded_channel_is_expected_from_the_fit_of_the_others_and_forgets_its_data() -> None:
    result = blinded(EXAMPLE_SPEC, SR, fitted=True)
    side = Model.from_workspace(pruned(EXAMPLE_SPEC, channels=SR).workspace, poi="")
    best = fit(side)
    whole = Model.from_workspace(EXAMPLE_SPEC)
    theta = whole.parameter_vector({name: best[name] for name in best.names} | {"mu_sig": 0.0})
    theirs, _ = pyhf_model(EXAMPLE_SPEC)
    order = [whole.index_of(name) for name in theirs.config.par_names]
    expected = theirs.expected_data(theta[order], include_auxdata=False)
    for channel in SR:
        events = result.workspace.observed(channel)
        np.testing.assert_allclose(events, expected[theirs.config.channel_slices[channel]], rtol=1e-10)
    other = copy.deepcopy(EXAMPLE_SPEC)
    for seen in other["observations"]:
        if seen["name"] in SR:
            seen["data"] = [2.0 * events + 1.0 for events in seen["data"]]
    assert blinded(other, SR, fitted=True).document == result.document
    assert blinded(other, SR, fitted=True).notes == result.notes


def test_a_background_only_workspace_is_blinded_though_its_poi_is_missing() -> None:
    spec = document({"SR": [sample("b", [50.0])], "CR": [sample("b", [9.0], mu("k"))]}, {"SR": [60.0], "CR": [18.0]},
                    poi="mu_SIG")  # fmt: skip
    result = blinded(spec, ["SR"])
    assert result.workspace.observed("SR") == (50.0,)
    assert result.workspace.measurements[0].poi == "mu_SIG"


def test_what_cannot_be_done_is_refused() -> None:
    spec = FIXTURES["F6"]
    with pytest.raises(OptionError, match=r"no channel 'SR1'.*Did you mean 'SR'"):
        blinded(spec, ["SR1"])
    with pytest.raises(OptionError, match="none is left to fit"):
        blinded(spec, ["SR", "CR"], fitted=True)
    with pytest.raises(OptionError, match="no channel was given"):
        blinded(spec, [])
    with pytest.raises(ModelError, match=r"'mu' is to be fixed at 11.*\[0, 10\]"):
        asimov(spec, values={"mu": 11.0})
    with pytest.raises(ModelError, match="no parameter 'mi'"):
        asimov(spec, values={"mi": 1.0})
    negative = document({"SR": [sample("s", [-5.0], mu()), sample("b", [3.0])]}, {"SR": [0.0]})
    with pytest.raises(ModelError, match=r"channel 'SR', bin 0: -2 events are expected"):
        asimov(negative)
    impossible = document({"SR": [sample("s", [0.0], mu())]}, {"SR": [4.0]})
    with pytest.raises(FitError, match="likelihood is zero"):
        asimov(impossible, fitted=True)
