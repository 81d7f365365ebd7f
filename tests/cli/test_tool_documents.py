"""docs/json.md has every field that the workspace tools write, and no other."""

from __future__ import annotations

import json
import re

import pytest
from test_bad_inputs import ALL
from test_commands import run
from test_documents import ROOT, documented_fields, fenced, section

COMMANDS = {
    "inspect": ["inspect", "-i", "example", "--fit", "-q", "-o", "-"],
    "lint": ["lint", "-i", "example", "-q", "-o", "-"],
    "digest": ["digest", "-i", "example", "-q", "-o", "-"],
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


@pytest.mark.parametrize("name", ALL)
def test_every_option_of_every_command_is_described(name: str) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    shared = ("Options that choose a model", "Options that choose how it is computed")
    about = section(text, name.split()[0]) + "".join(section(text, heading) for heading in shared)
    for parameter in ALL[name].params:
        for option in parameter.opts:
            if option.startswith("-"):
                assert f"`{option}" in about or f"{option} " in about, option


def test_every_kind_of_warning_is_described() -> None:
    sources = [ROOT / "nsmath" / path for path in ("spec/warn.py", "spec/check_poi.py", "spec/lint.py",
                                                   "fitting/inspection.py", "cli/lint.py")]  # fmt: skip
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    kinds = set(re.findall(r'LoadWarning\(\s*"([a-z-]+)"', text)) | {"missing-poi", "vector-poi"}
    assert {"same-side", "large-pull", "fit-failed", "no-effect"} <= kinds
    about = section((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), "lint")
    for kind in kinds:
        assert f"`{kind}`" in about, kind


def test_the_python_example_of_the_workspace_tools_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = fenced((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), "python")
    exec(compile(example, "docs/cli.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "channel 'SR_low' removed" in printed
    assert "expected at mu_sig = 0 and the best fit of the other channels" in printed
    assert "5 channels, 20 bins" in printed
