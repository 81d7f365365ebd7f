"""Pruning, renaming, sorting and combining give pyhf's documents; where pyhf is silent, a note or an error is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pyhf
import pytest
from workspaces import SHARED, reference

from nsmath.cli.inputs import EXAMPLE
from nsmath.errors import OptionError, WorkspaceError
from nsmath.spec import JOINS, Workspace, combined, digest, ordered, pruned, renamed, with_configs, with_observations

pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
EXAMPLE_SPEC = json.loads(EXAMPLE.read_text())


def theirs(spec: dict) -> pyhf.Workspace:
    return pyhf.Workspace(copy.deepcopy(spec))


PRUNINGS = [
    {"channels": ["SR"]},
    {"samples": ["fakes", "signal"]},
    {"modifiers": ["jes"]},
    {"modifiers": ["lumi", "mc"]},
    {"modifier_types": ["normsys", "shapesys"]},
    {"channels": ["CR"], "samples": ["fakes"], "modifiers": ["free"], "modifier_types": ["staterror"]},
]


@pytest.mark.parametrize("what", PRUNINGS, ids=str)
def test_pruned_workspaces_are_those_of_pyhf(document: dict, what: dict) -> None:
    before = copy.deepcopy(document)
    result = pruned(document, **what)
    assert result.document == dict(theirs(document).prune(**what))
    assert document == before
    assert result.notes


def test_a_type_that_shares_all_its_names_is_pruned_too(document: dict) -> None:
    # pyhf 0.7.6 does not find it: of a name with two types it knows one.
    with pytest.raises(pyhf.exceptions.InvalidWorkspaceOperation):
        theirs(document).prune(modifier_types=["histosys"])
    result = pruned(document, modifier_types=["histosys"])
    del document["channels"][0]["samples"][1]["modifiers"][1]
    assert result.document == document


def test_a_measurement_is_pruned() -> None:
    result = pruned(EXAMPLE_SPEC, measurements=["search"])
    assert result.document == dict(theirs(EXAMPLE_SPEC).prune(measurements=["search"]))
    assert result.workspace.measurement_names == ("search_fixed_theory",)


def test_pruning_says_what_went(document: dict) -> None:
    result = pruned(document, channels=["SR"], modifier_types=["normsys"])
    assert result.notes == ("channel 'SR' removed, with its observation", "normsys 'jes' removed from 1 sample")


RENAMINGS: list[dict[str, dict[str, str]]] = [
    {"channels": {"SR": "signal_region"}},
    {"samples": {"background": "ttbar"}},
    {"modifiers": {"mu": "mu_sig", "mc": "stat"}},
    {"measurements": {"main": "nominal"}},
    {"channels": {"SR": "CR", "CR": "SR"}, "samples": {"signal": "fakes", "fakes": "signal"}},
    {"modifiers": {"mu": "mu_bkg"}},
]


@pytest.mark.parametrize("what", RENAMINGS, ids=str)
def test_renamed_workspaces_are_those_of_pyhf(document: dict, what: dict) -> None:
    result = renamed(document, **what)
    assert result.document == dict(theirs(document).rename(**what))
    assert len(result.notes) >= sum(map(len, what.values()))


def test_modifiers_that_come_to_share_a_parameter_are_told(document: dict) -> None:
    (note,) = [note for note in renamed(document, modifiers={"mu": "mu_bkg"}).notes if "correlated" in note]
    assert "'mu'" in note and "'mu_bkg'" in note
    swapped = renamed(document, modifiers={"mu": "mu_bkg", "mu_bkg": "mu"})
    assert not [note for note in swapped.notes if "correlated" in note]


REFUSED: list[tuple[str, Callable[[dict], object], type[Exception], list[str]]] = [
    ("channel", lambda d: pruned(d, channels=["sr"]), OptionError, ["no channel 'sr'", "Did you mean 'SR'"]),
    ("sample", lambda d: pruned(d, samples=["backgrund"]), OptionError, ["'backgrund'", "Did you mean 'background'"]),
    ("modifier", lambda d: pruned(d, modifiers=["jess"]), OptionError, ["'jess'", "Did you mean 'jes'"]),
    ("type", lambda d: pruned(d, modifier_types=["normsis"]), OptionError, ["'normsis'", "Did you mean 'normsys'"]),
    ("measurement", lambda d: pruned(d, measurements=["Main"]), OptionError, ["'Main'", "Did you mean 'main'"]),
    ("last sample", lambda d: pruned(d, samples=["background"]), OptionError, ["channel 'CR'", "without samples"]),
    ("all channels", lambda d: pruned(d, channels=["SR", "CR"]), WorkspaceError, ["channels", "empty", "pruning"]),
    ("last measurement", lambda d: pruned(d, measurements=["main"]), WorkspaceError, ["measurements", "empty"]),
    ("lumi without its configuration", lambda d: renamed(d, modifiers={"lumi": "luminosity"}), WorkspaceError,
     ["'luminosity'", "'lumi'", "renaming"]),
    ("rename channel", lambda d: renamed(d, channels={"VR": "x"}), OptionError, ["no channel 'VR'", "'SR', 'CR'"]),
    ("rename onto another channel", lambda d: renamed(d, channels={"SR": "CR"}), WorkspaceError,
     ["second channel 'CR'", "renaming"]),
    ("rename onto another sample", lambda d: renamed(d, samples={"fakes": "signal"}), WorkspaceError,
     ["second sample 'signal'"]),
    ("rename onto another type", lambda d: renamed(d, modifiers={"mu": "jes"}), WorkspaceError,
     ["'jes'", "name of a normfactor"]),
    ("observations", lambda d: with_observations(d, {"Sr": [1.0]}), OptionError, ["'Sr'", "Did you mean 'SR'"]),
    ("bins", lambda d: with_observations(d, {"SR": [1.0]}), WorkspaceError, ["has 1 bin", "has 2"]),
    ("configuration", lambda d: with_configs(d, "main", {"mu": {"inits": [1.0, 2.0]}}), WorkspaceError, ["2 entries"]),
    ("measurement of it", lambda d: with_configs(d, "man", {}), OptionError, ["'man'", "Did you mean 'main'"]),
    ("join", lambda d: combined(d, d, join="inner"), OptionError, ["'inner'", "'outer'"]),
    ("merge", lambda d: combined(d, d, merge_channels=True), OptionError, ["'outer'"]),
    ("not a workspace", lambda d: pruned({"channels": []}, channels=["SR"]), WorkspaceError, ["missing"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "error", "fragments"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_done_is_refused(
    document: dict, attempt: Callable, error: type[Exception], fragments: list[str]
) -> None:
    before = copy.deepcopy(document)
    with pytest.raises(error) as caught:
        attempt(document)
    assert document == before
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_sorted_workspaces_are_those_of_pyhf_and_have_one_digest(document: dict) -> None:
    for spec in (document, EXAMPLE_SPEC):
        assert ordered(spec).document == dict(pyhf.Workspace.sorted(theirs(spec)))
    turned = copy.deepcopy(document)
    turned["channels"].reverse()
    turned["channels"][-1]["samples"].reverse()
    assert digest(turned) != digest(document)
    assert digest(ordered(turned).document) == digest(ordered(document).document)


@pytest.mark.parametrize(
    "name", list(reference()) or [pytest.param("", marks=pytest.mark.skip(reason="../shared/data is absent"))]
)
def test_an_edit_that_changes_nothing_keeps_numbers_as_written(name: str) -> None:
    spec = json.loads((SHARED / f"{name}.json").read_text())
    assert digest(pruned(spec).document) == digest(renamed(spec).document) == pyhf.utils.digest(spec)


# -- combine -----------------------------------------------------------------------------------------------------


def other_region(document: dict) -> dict:
    """A second workspace that shares no channel and no measurement with the first."""
    return dict(theirs(document).rename(channels={"SR": "SR2", "CR": "CR2"}, measurements={"main": "second"},
                                        modifiers={"mc": "mc2", "fake_rate": "fake_rate2"}))  # fmt: skip


def more_samples(document: dict) -> dict:
    """A second workspace that has another sample in the same channels."""
    names = {"signal": "signal2", "background": "background2", "fakes": "fakes2"}
    own = {"mc": "mc2", "fake_rate": "fake_rate2"}
    return dict(theirs(document).rename(samples=names, modifiers=own))


def _new_config(document: dict) -> dict:
    other = copy.deepcopy(document)
    other["measurements"][0]["config"]["parameters"].append({"name": "mu_bkg", "bounds": [[0.0, 5.0]]})
    return other


def _other_observation(document: dict) -> dict:
    other = copy.deepcopy(document)
    other["observations"][0]["data"] = [111.0]
    return other


PAIRS: dict[str, tuple[Callable[[dict], dict], bool]] = {
    "disjoint": (other_region, False),
    "same": (copy.deepcopy, False),
    "configuration": (_new_config, False),
    "observation": (_other_observation, False),
    "samples": (more_samples, True),
    "part of it": (lambda d: dict(theirs(d).prune(channels=["CR"])), False),
}


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("pair", PAIRS)
def test_combined_workspaces_are_those_of_pyhf_or_refused_like_there(document: dict, pair: str, join: str) -> None:
    make, merge = PAIRS[pair]
    other = make(document)
    options: dict[str, Any] = {"join": join, "merge_channels": merge and join != "none"}
    try:
        expected = dict(pyhf.Workspace.combine(theirs(document), theirs(other), **options))
    except pyhf.exceptions.InvalidWorkspaceOperation:
        with pytest.raises(WorkspaceError):
            combined(document, other, **options)
    else:
        assert combined(document, other, **options).document == expected


def test_combining_says_what_is_correlated_dropped_and_merged(document: dict) -> None:
    assert "correlated: 'free', 'jes', 'lumi', 'mu', 'mu_bkg'" in combined(document, other_region(document)).notes[-1]
    other = _other_observation(document)
    for join, side in (("left outer", "right"), ("right outer", "left")):
        result = combined(document, other, join=join)
        assert f"observation 'CR' of the {side} workspace dropped: the other one is kept" in result.notes
        assert result.workspace.observed("CR") == ((110.0,) if side == "right" else (111.0,))
    merged = combined(document, more_samples(document), join="outer", merge_channels=True)
    assert "channel 'SR' merged: 3 samples of the right workspace added" in merged.notes
    assert [sample.name for sample in merged.workspace.channels[0].samples][-1] == "fakes2"


def test_samples_that_differ_are_not_merged_in_silence(document: dict) -> None:
    other = copy.deepcopy(document)
    other["channels"][1]["samples"][0]["data"] = [101.0]
    with pytest.raises(WorkspaceError, match=r"channel 'CR': sample 'background' is not the same.*'data'"):
        combined(document, other, join="outer", merge_channels=True)
    kept = combined(document, other, join="left outer", merge_channels=True)
    assert "channel 'CR': sample 'background' of the right workspace dropped: the other one is kept" in kept.notes


def test_measurements_of_different_poi_are_refused(document: dict) -> None:
    other = copy.deepcopy(document)
    other["measurements"][0]["config"]["poi"] = "mu_bkg"
    with pytest.raises(WorkspaceError, match=r"'main' has the POI 'mu' in the left and 'mu_bkg'"):
        combined(document, other, join="outer")


def test_observations_and_configurations_are_replaced_in_place(document: dict) -> None:
    workspace = with_observations(document, {"SR": [1, 2]}).workspace
    assert (workspace.observed("SR"), workspace.observed("CR")) == ((1.0, 2.0), (110.0,))
    configured = with_configs(document, "main", {"lumi": {"fixed": True}, "mu": {"inits": [2.0]}}).workspace
    lumi, mu = configured.measurement().parameters
    assert (lumi.fixed, lumi.auxdata, mu.inits) == (True, (1.0,), (2.0,))


def test_a_workspace_or_the_result_of_an_edit_may_be_given(document: dict) -> None:
    twice = renamed(pruned(document, channels=["CR"]), channels={"SR": "x"})
    assert twice.document == dict(theirs(document).prune(channels=["CR"]).rename(channels={"SR": "x"}))
    workspace = Workspace.from_dict(document)
    assert pruned(workspace, channels=["CR"]).workspace == pruned(document, channels=["CR"]).workspace
