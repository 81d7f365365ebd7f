"""docs/json.md has every field that the workspace tools write, and no other."""

from __future__ import annotations

import json

import pytest
from test_commands import run
from test_documents import ROOT, documented_fields, section

COMMANDS = {
    "inspect": ["inspect", "-i", "example", "--fit", "-q", "-o", "-"],
    "lint": ["lint", "-i", "example", "-q", "-o", "-"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_field_is_described_and_no_other(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    about = section((ROOT / "docs" / "json.md").read_text(encoding="utf-8"), name)
    code, out, _ = run(COMMANDS[name], capsys)
    assert code == 0
    result = json.loads(out)
    assert documented_fields(about) == set(result)
    for key in ("parameters", "channels", "modifiers", "findings"):
        for row in result.get(key, []):
            for field in row:
                assert f"`{key}[].{field}`" in about or f"{field}" in about, field
