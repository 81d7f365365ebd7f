"""`lint` lists all that the load would refuse one at a time, and what is doubtful, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest
from test_workspace_checks import CONTRADICTIONS
from test_workspace_form import BAD_FORM
from workspaces import SHARED, reference

from nsmath.errors import WorkspaceError
from nsmath.spec import Workspace, lint
from nsmath.spec.lint import LintReport

REAL = list(reference()) or [pytest.param("", marks=pytest.mark.skip(reason="../shared/data is absent"))]


@pytest.mark.parametrize("change", [row[1] for row in (*BAD_FORM, *CONTRADICTIONS)])
def test_what_the_load_refuses_is_the_first_error_of_the_list(document: dict, change: Callable) -> None:
    change(document)
    with pytest.raises(WorkspaceError) as caught:
        Workspace.from_dict(document)
    first = lint(document).errors[0]
    assert (first.path, first.names, first.message) == (caught.value.path, caught.value.names, caught.value.message)
    assert str(caught.value) == str(first)


def broken_form(document: dict) -> list[str]:
    """Break the form in every kind of object, and return the paths in the order of the list."""
    background = document["channels"][0]["samples"][1]
    document["version"] = "2.0.0"
    background["data"] = [50.0, "60"]
    background["modifiers"][0]["data"] = {"lo": 0.9, "high": 1.1}
    background["modifiers"][2]["type"] = "statistical"
    document["channels"][1]["samples"] = []
    document["observations"][0]["data"] = [None]
    document["measurements"][0]["config"]["parameters"][0].update(fixed=1, bounds=[[0.5]])
    document["comment"] = ""
    return [
        "",
        "version",
        "channels[0].samples[1].data[1]",
        "channels[0].samples[1].modifiers[0].data",  # hi is missing
        "channels[0].samples[1].modifiers[0].data",  # high is unknown
        "channels[0].samples[1].modifiers[2].type",
        "channels[1].samples",
        "observations[0].data[0]",
        "measurements[0].config.parameters[0].bounds[0]",
        "measurements[0].config.parameters[0].fixed",
    ]


def test_all_errors_of_form_are_listed_each_with_its_place(document: dict) -> None:
    paths = broken_form(document)
    report = lint(document)
    assert [finding.path for finding in report.errors] == paths
    assert {finding.kind for finding in report.errors} == {"form"}
    assert report.stages == ("form",)
    assert report.errors[5].names == "channel 'SR', sample 'background', modifier 'mc'"


def test_all_contradictions_are_listed(document: dict) -> None:
    signal, background, fakes = document["channels"][0]["samples"]
    signal["data"] = [5.0, 7.0, 9.0]
    fakes["modifiers"][0]["data"] = [-1.0, 0.5]
    background["modifiers"][0]["data"]["lo"] = -0.1
    background["modifiers"].append(copy.deepcopy(background["modifiers"][0]))
    document["observations"].pop(0)
    report = lint(document)
    assert report.stages == ("form", "contradictions")
    assert {(finding.kind, finding.path) for finding in report.errors} == {
        ("contradiction", "channels[0].samples[1].data"),
        ("contradiction", "channels[0].samples[2].data"),
        ("contradiction", "channels[0].samples[1].modifiers[0].data.lo"),
        ("contradiction", "channels[0].samples[1].modifiers[4].data.lo"),
        ("contradiction", "channels[0].samples[2].modifiers[0].data[0]"),
        ("contradiction", "channels[0].samples[1].modifiers[4]"),
        ("contradiction", "observations[0].data"),
        ("contradiction", "channels[1]"),
    }


def test_an_error_in_one_configuration_does_not_hide_that_of_another(document: dict) -> None:
    document["measurements"][0]["config"]["parameters"] = [
        {"name": "mu", "inits": [1.0, 2.0]}, {"name": "jes", "sigmas": [-1.0]}, {"name": "mu_bkg", "inits": [20.0]},
    ]  # fmt: skip
    where = "measurements[0].config.parameters"
    assert [finding.path for finding in lint(document).errors] == [
        where, f"{where}[0].inits", f"{where}[1].sigmas[0]", f"{where}[2].inits[0]",
    ]  # fmt: skip


def _set(*steps: object, to: object) -> Callable[[dict], None]:
    def change(document: dict) -> None:
        target = document
        for step in steps[:-1]:
            target = target[step]  # type: ignore[index]
        target[steps[-1]] = to  # type: ignore[index]

    return change


BKG = ("channels", 0, "samples", 1)
DOUBTS = [
    ("same-side", _set(*BKG, "modifiers", 0, "data", to={"lo": 1.1, "hi": 1.2}), "channels[0].samples[1].modifiers[0]",
     "both variations (1.1, 1.2) lie above the nominal"),
    ("same-side", _set(*BKG, "modifiers", 1, "data", "hi_data", to=[49.0, 59.0]), "channels[0].samples[1].modifiers[1]",
     "on the same side of the nominal in bin 0"),
    ("one-sided", _set(*BKG, "modifiers", 0, "data", "hi", to=1.0), "channels[0].samples[1].modifiers[0]",
     "upper variation equals"),
    ("no-effect", _set(*BKG, "modifiers", 0, "data", to={"lo": 1.0, "hi": 1.0}), "channels[0].samples[1].modifiers[0]",
     "no effect"),
    ("empty-template", _set("channels", 0, "samples", 0, "data", to=[0.0, 0.0]), "channels[0].samples[0].data",
     "sample 'signal': the sample has no events"),
    ("negative-yield", _set("channels", 0, "samples", 0, "data", to=[5.0, -7.0]), "channels[0].samples[0].data",
     "negative in bin 1"),
    ("observed-without-expectation", _set("channels", 1, "samples", 0, "data", to=[-1.0]), "channels[1]",
     "in bin 0. The likelihood is zero"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "path", "text"), DOUBTS)
def test_doubtful_entries_are_warnings_with_their_place(
    document: dict, kind: str, change: Callable, path: str, text: str
) -> None:
    change(document)
    report = lint(document)
    assert report.errors == ()
    (found,) = [finding for finding in report.warnings if finding.kind == kind]
    assert found.path == path
    assert text in found.message


def test_nothing_expected_and_nothing_seen_is_a_doubt_of_another_kind(document: dict) -> None:
    document["channels"][1]["samples"][0]["data"] = [0.0]
    document["observations"][0]["data"] = [0.0]
    assert {finding.kind for finding in lint(document).warnings} == {"empty-template", "nothing-expected"}


def test_variations_that_differ_from_the_nominal_by_rounding_are_on_no_side(document: dict) -> None:
    document["channels"][0]["samples"][1]["modifiers"][1]["data"] = {
        "lo_data": [50.0 + 1e-12, 61.0], "hi_data": [54.0, 58.0],
    }  # fmt: skip
    assert lint(document).findings == ()


def test_a_good_workspace_has_no_findings_and_all_stages(document: dict) -> None:
    assert lint(document) == LintReport((), ("form", "contradictions", "warnings"))
    assert lint(Workspace.from_dict(document)) == lint(document)


@pytest.mark.parametrize("name", REAL)
def test_real_workspaces_have_no_errors_and_all_warnings_of_the_load(name: str) -> None:
    spec = json.loads((SHARED / f"{name}.json").read_text())
    report = lint(spec)
    assert report.errors == ()
    assert [finding.message for finding in report.warnings][: len(Workspace.from_dict(spec).warnings)] == [
        warning.message for warning in Workspace.from_dict(spec).warnings
    ]
