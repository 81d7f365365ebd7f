"""Every code block of the README and the documentation runs, page by page, or says why it does not.

A block that cannot run here has ``<!-- not run: REASON -->`` on the line before it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from nsmath.cli.main import cli
from nsmath.study.keys import checked_document

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")), "plans/README.md")
BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.S | re.M)
SHELL = ("sh", "bash")
TEXT = ("", "text")
LINKED = ("nsmath", "plans", "docs")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    reason: str | None


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(m["language"], m["code"], m["reason"]) for m in BLOCK.finditer(text)]


# Line by line beside pyhf, with workspaces of its own: tests/test_migration.py.
ELSEWHERE = ("docs/migration.md",)
WITH_CODE = [
    page for page in PAGES if page not in ELSEWHERE and any(block.language not in TEXT for block in blocks(page))
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a clone, in which examples may write."""
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_shell(code: str) -> None:
    """Run commands: nsmath's in this process, which has its kernels loaded, others in a shell."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "nsmath" and not {"|", ">", "&&", ";"} & set(words) and "$(" not in line:
            assert cli.main(words[1:], standalone_mode=False) in (0, None), line
            continue
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True,
                              env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)})  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def check_yaml(code: str) -> None:
    """A study's keys are known, whatever its files are; other YAML is well formed."""
    document = yaml.safe_load(code)
    if isinstance(document, dict) and {"workspace", "workspaces"} & document.keys():
        checked_document(document)


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_examples_of_a_page_run_in_their_order(page: str, folder: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.reason is not None or block.language in TEXT:
            continue
        if block.language in SHELL:
            run_shell(block.code)
        elif block.language == "python":
            exec(compile(block.code, page, "exec"), names)
        elif block.language == "json":
            json.loads(block.code)
        else:
            assert block.language == "yaml", f"{page}: no way to run {block.language}"
            check_yaml(block.code)


def test_what_does_not_run_says_why() -> None:
    reasons = [block.reason for page in PAGES for block in blocks(page) if block.reason is not None]
    assert all(len(reason) > 10 for reason in reasons)
    run = [block for page in PAGES for block in blocks(page) if block.language not in TEXT]
    assert len(reasons) < len(run) / 2


def test_every_message_of_the_troubleshooting_page_is_one_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [m.group(1) for line in page.splitlines() if (m := re.match(r"\| `([^`]+)` \|", line))]
    assert len(quoted) > 25
    # Messages are written over several lines of source; joined strings are one text.
    source = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "nsmath").rglob("*.py")))
    joined = re.sub(r'"\s*\n\s*f?"', "", source)
    for message in quoted:
        assert message in joined, message
