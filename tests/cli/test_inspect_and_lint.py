"""`nsmath inspect` and `nsmath lint` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyhf
import pytest
from test_commands import run
from workspaces import FIXTURES, mu, one_channel, sample

from nsmath import Model, Workspace, fit
from nsmath.cli.inputs import EXAMPLE


def inspected(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    code, out, err = run(["inspect", *arguments, "-o", "-"], capsys)
    return code, json.loads(out), err


def test_inspect_knows_what_pyhf_knows_about_the_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    code, found, err = inspected(["-i", "example"], capsys)
    assert code == 0
    theirs = pyhf.Workspace(json.loads(EXAMPLE.read_text())).model().config
    ours = {parameter["name"]: parameter for parameter in found["parameters"]}
    bounds, inits, fixed = theirs.suggested_bounds(), theirs.suggested_init(), theirs.suggested_fixed()
    assert set(ours) == set(theirs.par_names)
    for name, pair, init, is_fixed in zip(theirs.par_names, bounds, inits, fixed, strict=True):
        assert (ours[name]["bounds"], ours[name]["init"]) == (list(pair), init)
        assert (ours[name]["fixed"], ours[name]["is_poi"]) == (is_fixed, name == theirs.poi_name)
        assert name in err
    assert {channel["name"]: channel["n_bins"] for channel in found["channels"]} == theirs.channel_nbins
    assert {s for channel in found["channels"] for s in channel["samples"]} == set(theirs.samples)
    types = {(row["name"], kind) for row in found["modifiers"] for kind in row["types"]}
    assert types == set(theirs.modifiers)
    assert found["interpolation"] == {"normsys": "code4", "histosys": "code4p"}
    assert [row["name"] for row in found["measurements"]] == ["search", "search_fixed_theory"]
    assert found["fit"] is None and found["yields"]["fit"] is None


def test_inspect_after_a_fit_has_the_yields_of_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    code, found, err = inspected(["-i", "example", "--fit", "--bins"], capsys)
    assert code == 0
    model = Model.from_workspace(Workspace.from_file(EXAMPLE))
    result = fit(model)
    assert found["fit"]["status"] == "converged"
    for parameter, value in zip(found["parameters"], result.values, strict=True):
        assert parameter["value"] == pytest.approx(value, abs=1e-9)
    # At the best fit the free shapefactors make the yields of their control region those observed.
    for before, after in zip(found["yields"]["nominal"], found["yields"]["fit"], strict=True):
        assert after["observed"] == before["observed"]
        assert after["total"] == pytest.approx(sum(after["events"]))
        assert after["total"] == pytest.approx(sum(s["total"] for s in after["samples"]))
        assert abs(after["total"] - after["observed_total"]) <= abs(before["total"] - before["observed_total"])
        assert f"yields: {before['name']}" in err


def test_inspect_prints_the_sections_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["inspect", "-i", "example", "--section", "modifiers"], capsys)
    assert code == 0
    assert "fakes_shape" in out
    assert "yields" not in out and "bounds" not in out
    assert run(["inspect", "-i", "example", "-q"], capsys)[1] == ""


def write(path: Path, spec: dict[str, Any]) -> str:
    path.write_text(json.dumps(spec))
    return str(path)


def test_lint_ends_with_0_for_warnings_and_2_for_errors_and_writes_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.json"
    code, out, _ = run(["lint", "-i", "example", "-o", str(output)], capsys)
    assert code == 0
    assert json.loads(output.read_text())["n_errors"] == 0

    doubtful = one_channel(sample("s", [0.0]), sample("b", [3.0]), observed=[4.0], poi="")
    code, out, _ = run(["lint", "-i", write(tmp_path / "doubt.json", doubtful), "-o", str(output)], capsys)
    assert code == 0
    assert "1 x empty-template" in out
    assert json.loads(output.read_text())["n_errors"] == 0

    broken = one_channel(sample("s", [-1.0, 2.0]), sample("b", ["3"]), observed=[None])  # type: ignore[list-item]
    code, out, _ = run(["lint", "-i", write(tmp_path / "broken.json", broken), "-o", str(output)], capsys)
    assert code == 2
    found = json.loads(output.read_text())
    assert found["n_errors"] == 2
    assert found["stages"] == ["form"]
    assert [row["path"] for row in found["findings"]] == ["channels[0].samples[1].data[0]", "observations[0].data[0]"]
    assert out.count("error: ") == 2


def test_lint_looks_at_the_workspace_after_its_patches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patch = [{"op": "replace", "path": "/channels/0/samples/0/data", "value": [1.0, 2.0]}]
    arguments = ["-i", write(tmp_path / "in.json", FIXTURES["F1"]), "--patch", write(tmp_path / "p.json", patch)]  # type: ignore[arg-type]
    code, out, _ = run(["lint", *arguments], capsys)
    assert code == 2
    assert "channels[0].samples[1].data" in out


def test_lint_with_a_fit_tells_of_pulls_bounds_and_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def kinds(spec: dict[str, Any], *arguments: str) -> dict[str, str]:
        base = ["lint", "-i", write(tmp_path / "in.json", spec), "--fit", "-q", "-o", "-", *arguments]
        code, out, _ = run(base, capsys)
        assert code == 0
        return {row["kind"]: row["message"] for row in json.loads(out)["findings"]}

    # F4 with 165 events and the signal fixed: n takes what it can.
    pulled = json.loads(json.dumps(FIXTURES["F4"]))
    pulled["observations"][0]["data"] = [165.0]
    pulled["measurements"][0]["config"]["parameters"] = [{"name": "mu", "inits": [1.0], "fixed": True}]
    found = kinds(pulled)
    assert "'n'" in found["large-pull"]
    assert "large-pull" not in kinds(pulled, "--max-pull", "50")
    none_seen = json.loads(json.dumps(FIXTURES["F4"]))
    none_seen["observations"][0]["data"] = [20.0]
    assert "'mu' ends on its bound at 0" in kinds(none_seen)["at-bound"]
    impossible = one_channel(sample("s", [0.0], mu()), observed=[4.0])
    assert "likelihood is zero" in kinds(impossible)["fit-failed"]
