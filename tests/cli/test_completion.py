"""Shells complete nsmath: the scripts are valid, and the protocol behind them answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nsmath.cli.completion import SHELLS, VARIABLE
from nsmath.cli.main import COMMANDS, cli

CALL = [sys.executable, "-c", "from nsmath.cli.main import main; main()"]


def completed(words: str, shell: str = "bash") -> list[str]:
    """Return what ``shell`` would be offered for the last of ``words``, lines of the protocol."""
    # A final space means that the next word begins.
    at = len(words.split()) - (0 if words.endswith(" ") else 1)
    variables = {VARIABLE: f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    if shell == "fish":
        variables["COMP_CWORD"] = words.split()[-1]
    done = subprocess.run(CALL, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_by_the_protocol_and_is_valid(shell: str, tmp_path: Path) -> None:
    done = subprocess.run([*CALL, "completion", shell], capture_output=True, text=True, check=True)
    assert f"{VARIABLE}={shell}_complete" in done.stdout
    assert "nsmath" in done.stdout
    if program := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.stdout)
        subprocess.run([program, "-n", str(script)], check=True)


def test_commands_complete() -> None:
    assert completed("nsmath ") == [f"plain,{name}" for name in COMMANDS]
    assert completed("nsmath hypo") == ["plain,hypotest-toys", "plain,hypotest"]
    assert completed("nsmath patch ver") == ["plain,verify"]


def test_options_and_choices_complete() -> None:
    assert completed("nsmath fit --out") == ["plain,--output"]
    assert completed("nsmath hypotest --test-stat ") == ["plain,qtilde", "plain,q", "plain,q0"]
    assert completed("nsmath completion z") == ["plain,zsh"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [("nsmath fit --input some", "file"), ("nsmath fit --output ", "file"), ("nsmath hypotest-toys --store t", "dir"),
     ("nsmath run stu", "file"), ("nsmath merge-toys one tw", "dir"), ("nsmath patch list -p s", "file")],
)  # fmt: skip
def test_paths_are_left_to_the_shell(words: str, kind: str) -> None:
    assert completed(words) == [f"{kind},{'' if words.endswith(' ') else words.split()[-1]}"]


def test_the_word_example_completes_as_an_input() -> None:
    assert completed("nsmath fit --input ex") == ["plain,example"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_is_answered(shell: str) -> None:
    assert any("hypotest-toys" in line for line in completed("nsmath hypotest-t", shell))


def test_options_keep_their_types_outside_completion() -> None:
    command = cli.get_command(click.Context(cli), "lint")
    assert command is not None
    assert next(p for p in command.params if p.name == "output").type is click.STRING


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_bash_itself_completes(tmp_path: Path) -> None:
    script = subprocess.run([*CALL, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    program = tmp_path / "nsmath"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m nsmath \"$@\"\n")
    program.chmod(0o755)
    ask = '\nCOMP_WORDS=(nsmath hypotest-t); COMP_CWORD=1\n_nsmath_completion nsmath\necho "${COMPREPLY[@]}"\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", script + ask], capture_output=True, text=True, check=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.split() == ["hypotest-toys"]
