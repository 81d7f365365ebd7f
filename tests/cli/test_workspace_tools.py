"""The commands that write workspaces: pyhf's documents where pyhf has the operation, and nothing done in silence."""

from __future__ import annotations

import copy
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyhf
import pytest
from test_bad_inputs import GOOD, PATCH_SET, SIGNAL
from test_commands import run
from workspaces import SHARED, reference

from nsmath.fitting.datasets import asimov, blinded
from nsmath.spec import digest

pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
REAL = list(reference()) or [pytest.param("", marks=pytest.mark.skip(reason="../shared/data is absent"))]


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.json"
    path.write_text(json.dumps(GOOD))
    return str(path)


@pytest.fixture
def patch_set(tmp_path: Path) -> str:
    path = tmp_path / "set.json"
    path.write_text(json.dumps(PATCH_SET))
    return str(path)


def written(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """Run a command that writes a document to stdout; return it and what was said."""
    code, out, err = run(arguments, capsys)
    assert code == 0, err
    return json.loads(out), err


def theirs() -> pyhf.Workspace:
    return pyhf.Workspace(copy.deepcopy(GOOD))


def test_prune_and_rename_write_the_documents_of_pyhf(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = written(["prune", "-i", good, "--channel", "CR", "--modifier-type", "normsys"], capsys)
    assert found == dict(theirs().prune(channels=["CR"], modifier_types=["normsys"]))
    assert "channel 'CR' removed" in said and "normsys 'n' removed from 1 sample" in said
    found, said = written(["rename", "-i", good, "--sample", "b", "ttbar", "--modifier", "mu", "mu_sig"], capsys)
    assert found == dict(theirs().rename(samples={"b": "ttbar"}, modifiers={"mu": "mu_sig"}))
    assert "sample 'b' is now 'ttbar'" in said
    # A workspace that has lost its POI says so.
    assert "missing-poi" in written(["prune", "-i", good, "--modifier", "mu"], capsys)[1]
    assert run(["prune", "-i", good, "--modifier", "mu", "-q"], capsys)[2] == ""


def test_combine_writes_the_document_of_pyhf(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = theirs().rename(channels={"SR": "SR2", "CR": "CR2"}, measurements={"main": "second"})
    (tmp_path / "other.json").write_text(json.dumps(other))
    found, said = written(["combine", "-i", good, "-i", str(tmp_path / "other.json")], capsys)
    assert found == dict(pyhf.Workspace.combine(theirs(), other))
    assert "correlated: 'k', 'mu', 'n'" in said
    changed = copy.deepcopy(GOOD)
    changed["observations"][0]["data"] = [60.0]
    (tmp_path / "other.json").write_text(json.dumps(changed))
    base = ["combine", "-i", good, "-i", str(tmp_path / "other.json")]
    found, said = written([*base, "--join", "right outer"], capsys)
    assert found == changed
    assert "observation 'SR' of the left workspace dropped" in said


@pytest.mark.parametrize("name", REAL)
def test_digests_are_those_of_pyhf(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = SHARED / f"{name}.json"
    spec = json.loads(path.read_text())
    code, out, _ = run(["digest", "-i", str(path), "-a", "sha256", "-a", "md5"], capsys)
    assert code == 0
    assert out.split() == [f"{algorithm}:{pyhf.utils.digest(spec, algorithm)}" for algorithm in ("sha256", "md5")]


def test_digests_of_sorted_workspaces_and_of_patched_ones(
    good: str, patch_set: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["digest", "-i", good, "-q", "-o", "-"]
    found, _ = written([*base, "--sorted"], capsys)
    assert found == {"digests": {"sha256": pyhf.utils.digest(pyhf.Workspace.sorted(theirs()))}, "sorted": True}
    found, _ = written([*base, "--patch", f"{patch_set}:m100"], capsys)
    assert found["digests"]["sha256"] == pyhf.utils.digest(pyhf.PatchSet(PATCH_SET).apply(theirs(), "m100"))


def test_a_workspace_passes_through_unchanged_number_by_number(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = copy.deepcopy(GOOD)
    odd["channels"][0]["samples"][0].update(name="µ \ud800", data=[5])
    odd["channels"][0]["samples"][1]["data"] = [0.1 + 0.2]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(odd))
    output = tmp_path / "out.json"
    assert run(["rename", "-i", str(path), "--measurement", "main", "main", "-o", str(output)], capsys)[0] == 0
    assert json.loads(output.read_text()) == odd
    assert digest(json.loads(output.read_text())) == digest(odd)


def test_asimov_and_blind_write_what_their_functions_return(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = written(["asimov", "-i", good, "--set", "mu=0.5", "--fit"], capsys)
    assert found == asimov(GOOD, values={"mu": 0.5}, fitted=True).document
    assert "mu = 0.5 and the best fit" in said
    found, said = written(["asimov", "-i", good, "--aux", "observed", "--set", "n=1"], capsys)
    assert found["measurements"] == GOOD["measurements"]
    assert found["observations"][0]["data"] == pytest.approx([60.0])
    found, said = written(["blind", "-i", good, "--channel", "SR", "--interp-defaults", "pyhf", "--fit"], capsys)
    assert found == blinded(GOOD, ["SR"], fitted=True, interp="pyhf").document
    assert "channel 'SR' replaced by 50 events, expected at mu = 0 and the best fit of the other channels" in said
    assert "52" not in said


def test_patches_are_listed_extracted_applied_and_verified_as_by_pyhf(
    good: str, patch_set: str, capsys: pytest.CaptureFixture[str]
) -> None:
    oracle = pyhf.PatchSet(copy.deepcopy(PATCH_SET))
    code, out, _ = run(["patch", "list", "-p", patch_set], capsys)
    assert (code, out) == (0, "m100: mass = 100\n")
    extract = ["patch", "extract", "-p", patch_set, "--name", "m100"]
    assert written(extract, capsys)[0] == SIGNAL == oracle["m100"].patch
    found, _ = written([*extract, "--with-metadata"], capsys)
    assert found == {"metadata": {**oracle["m100"].metadata, **oracle.metadata}, "patch": SIGNAL}
    found, said = written(["patch", "apply", "-i", good, "-p", patch_set, "--name", "m100"], capsys)
    assert found == dict(oracle.apply(theirs(), "m100"))
    assert "patch 'm100' applied" in said
    code, out, _ = run(["patch", "verify", "-i", good, "-p", patch_set], capsys)
    assert code == 0
    assert "sha256 agree" in out


def test_commands_read_stdin_and_follow_each_other(
    good: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = written(["prune", "-i", good, "--modifier", "n"], capsys)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(first).encode())))
    second, _ = written(["rename", "-i", "-", "--channel", "SR", "region"], capsys)
    assert second == dict(theirs().prune(modifiers=["n"]).rename(channels={"SR": "region"}))
