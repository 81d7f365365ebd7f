"""docs/migration.md: every line of nsmath on the page runs, and gives what the line of pyhf beside it gives."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyhf
import pytest
from workspaces import document, modifier, mu, sample

from nsmath.cli.main import cli

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "migration.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in TEXT.split("\n## ")[1:])
JES = modifier("JES", "normsys", {"lo": 0.95, "hi": 1.04})
WORKSPACE = document(
    {
        "SR_low": [
            sample("signal", [6.0, 9.0], mu("mu_sig"), JES),
            sample("ttbar", [40.0, 30.0], mu("norm_ttbar"), JES, modifier("mc_SR_low", "staterror", [3.0, 2.0])),
        ],
        "CR_ttbar": [sample("ttbar", [300.0], mu("norm_ttbar"), JES)],
    },
    {"SR_low": [44.0, 36.0], "CR_ttbar": [310.0]},
    poi="mu_sig",
)
WORKSPACE["measurements"][0]["name"] = "search"
"""With the names that stand on the page."""
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
SLOW_PEERS = ("toybased", "upper_limit(data, pdf)")
"""Toys by pyhf take minutes (and fail with NumPy 2.4); its limits are compared in tests/from_pyhf."""
TOLERANCE = 2e-4
"""Of the lines of pyhf with its own settings: its minimiser stops early."""


def rows(section: str) -> list[tuple[str, str]]:
    return ROW.findall(SECTIONS[section])


def value_of(line: str, names: dict[str, Any]) -> Any:
    """Return the value of an expression; None for a statement, which is carried out."""
    try:
        code = compile(line, line, "eval")
    except SyntaxError:
        exec(compile(line, line, "exec"), names)
        return None
    return eval(code, names)


def number(value: Any) -> Any:
    """Return what is a number, or numbers in an order that both programs share; None for anything else."""
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(value, dtype=float)
        return array if array.ndim <= 1 and array.size <= 5 else None
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migration")
    (path / "ws.json").write_text(json.dumps(WORKSPACE))
    return path


@pytest.fixture(scope="module")
def names(folder: Path) -> dict[str, Any]:
    """Return the names that the blocks of code on the page define, one after the other."""
    found: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for block in re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE):
            exec(compile(block, "migration.md", "exec"), found)
    return found


PYTHON = [(section, *row) for section in SECTIONS if section != "On the command line" for row in rows(section)]


def test_every_row_of_the_page_is_read() -> None:
    written = [line for line in TEXT.splitlines() if line.startswith("| `")]
    assert len(written) == len(PYTHON) + len(rows("On the command line"))
    assert len(PYTHON) > 50


@pytest.mark.parametrize(("section", "theirs", "ours"), PYTHON, ids=[row[2] for row in PYTHON])
def test_a_line_runs_and_agrees_with_the_one_beside_it(
    section: str, theirs: str, ours: str, names: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    pyhf.set_backend("numpy")
    own = value_of(ours, dict(names))
    if section == "cabinetry" or any(slow in theirs for slow in SLOW_PEERS):
        return
    other = value_of(theirs, dict(names))
    expected = number(other)
    if expected is not None and number(own) is not None:
        np.testing.assert_allclose(number(own), expected, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize(("theirs", "ours"), rows("On the command line"), ids=lambda line: line)
def test_a_command_runs(
    theirs: str, ours: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    program, *arguments = ours.split()
    assert program == "nsmath" and theirs.split()[0] == "pyhf"
    assert not cli.main(arguments, standalone_mode=False)
    assert capsys.readouterr().out
