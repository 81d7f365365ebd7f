"""Every command with every kind of bad input: one clear error, exit code 2, nothing written."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyhf
import pytest
from test_commands import run
from workspaces import document, modifier, mu, one_channel, sample

from nsmath.cli.main import COMMANDS, cli

GOOD = document(
    {"SR": [sample("s", [5.0], mu()), sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))],
     "CR": [sample("b", [100.0], mu("k"))]},
    {"SR": [52.0], "CR": [99.0]},
)  # fmt: skip
SIGNAL = [{"op": "add", "path": "/channels/0/samples/0", "value": sample("t", [2.0], mu("mu_t"))}]
PATCH_SET = {
    "metadata": {"references": {"hepdata": "ins1234567"}, "digests": {"sha256": pyhf.utils.digest(GOOD)},
                 "labels": ["mass"], "description": "signals"},
    "patches": [{"metadata": {"name": "m100", "values": [100]}, "patch": SIGNAL}],
    "version": "1.0.0",
}  # fmt: skip
BAD_DOCUMENTS: dict[str, tuple[str | dict[str, Any] | list[Any] | None, list[str]]] = {
    "missing": (None, ["no file", "in.json"]),
    "empty": ("", ["in.json", "not valid JSON", "empty"]),
    "not JSON": ("{ not json", ["in.json", "not valid JSON", "line 1, column 3"]),
    "ROOT": ("root\x00\x01", ["in.json", "ROOT file"]),
    "a key twice": ('{"version": "1.0.0", "version": "1.0.0"}', ["in.json", "'version' occurs twice"]),
    "NaN": ('{"version": NaN}', ["in.json", "NaN is no JSON number"]),
    "array": ([], ["in.json", "expected an object"]),
    "patch set": (PATCH_SET, ["in.json", "patch set"]),
    "version": ({**GOOD, "version": "2.0.0"}, ["in.json", "version", "'2.0.0'", "'1.0.0'"]),
    "missing key": ({k: v for k, v in GOOD.items() if k != "observations"}, ["in.json", "'observations' is missing"]),
    "lengths": (one_channel(sample("b", [50.0, 2.0]), observed=[52.0]), ["in.json", "observations[0].data", "1 bin"]),
}  # fmt: skip
# lint lists what it can read, with code 2 as well: see test_inspect_and_lint.
LISTED_BY_LINT = ("array", "patch set", "version", "missing key", "lengths")
# What a command needs besides the input; others get a value of the right type.
NEEDED = {
    "combine": ["-i", "{good}"],
    "prune": ["--channel", "CR"],
    "rename": ["--channel", "CR", "VR"],
    "blind": ["--channel", "SR"],
    "upper-limit": ["--calculator", "toys"],
    "toy": ["--mu", "1", "--hypothesis", "b", "--index", "0"],
    "patch apply": ["--patchset", "{set}", "--name", "m100"],
    "patch verify": ["--patchset", "{set}"],
}


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command without subcommands, by its full name."""
    if isinstance(command, click.Group):
        for sub in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), sub)
            assert found is not None
            yield from leaves(found, f"{name} {sub}".strip())
    else:
        yield name, command


ALL = {name: command for top in COMMANDS for name, command in leaves(cli.get_command(click.Context(cli), top), top)}  # type: ignore[arg-type]
WITH_INPUT = {
    name: command for name, command in ALL.items() if any("--input" in parameter.opts for parameter in command.params)
}


def arguments_of(name: str) -> list[str]:
    """Return the command with everything that it needs, valid, but for ``-i``."""
    needed = [] if name in NEEDED else [
        word
        for parameter in WITH_INPUT[name].params
        if parameter.required and "--input" not in parameter.opts
        for word in (parameter.opts[0], "1" if isinstance(parameter.type, click.types.FloatParamType) else "x")
    ]  # fmt: skip
    output = any("--output" in parameter.opts for parameter in WITH_INPUT[name].params)
    return [*name.split(), *needed, *NEEDED.get(name, []), *(["-o", "{tmp}/out.json"] if output else [])]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.json").write_text(json.dumps(GOOD))
    (tmp_path / "set.json").write_text(json.dumps(PATCH_SET))
    (tmp_path / "patch.json").write_text(json.dumps(SIGNAL))
    return tmp_path


def refused(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail; return what it says on stderr."""
    names = {"tmp": folder, "good": folder / "good.json", "set": folder / "set.json", "in": folder / "in.json",
             "patch": folder / "patch.json"}  # fmt: skip
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, out, err = run([argument.format(**names) for argument in arguments], capsys)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert len([line for line in err.lower().splitlines() if line.startswith("error")]) == 1
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return err


@pytest.mark.parametrize("defect", BAD_DOCUMENTS)
@pytest.mark.parametrize("name", WITH_INPUT)
def test_a_bad_workspace_gives_one_error_with_its_file_and_place(
    name: str, defect: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "lint" and defect in LISTED_BY_LINT:
        code, out, _ = run(["lint", "-i", str(_written(folder, defect))], capsys)
        assert code == 2
        assert "error: " in out
        return
    _written(folder, defect)
    err = refused([*arguments_of(name), "-i", "{in}"], folder, capsys)
    for fragment in BAD_DOCUMENTS[defect][1]:
        assert fragment in err


def _written(folder: Path, defect: str) -> Path:
    content, path = BAD_DOCUMENTS[defect][0], folder / "in.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


BAD_OPTIONS = {
    "folder": (["-i", "{tmp}"], ["is a folder"]),
    "output in no folder": (["-i", "{good}", "-o", "{tmp}/none/out.json"], ["does not exist"]),
    "output is a folder": (["-i", "{good}", "-o", "{tmp}"], ["is a folder"]),
    "output is the input": (["-i", "{good}", "-o", "{good}"], ["is the input itself"]),
    "unknown option": (["-i", "{good}", "--no-such-option"], ["--no-such-option"]),
    "patch missing": (["-i", "{good}", "--patch", "none.json"], ["none.json"]),
    "patch name": (["-i", "{good}", "--patch", "{set}:m10"], ["'m10'", "'m100'"]),
    "patch of a workspace": (["-i", "{good}", "--patch", "{good}"], ["is a workspace, no patch"]),
}


@pytest.mark.parametrize("defect", BAD_OPTIONS)
@pytest.mark.parametrize("name", WITH_INPUT)
def test_bad_files_and_options_give_one_error(
    name: str, defect: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, fragments = BAD_OPTIONS[defect]
    has = {opt for parameter in WITH_INPUT[name].params for opt in (*parameter.opts, *parameter.secondary_opts)}
    if not {option for option in options if option in ("-o", "--patch")} <= has:
        # The command has no such option, and says so.
        fragments = ["o such option"]
    err = refused([*arguments_of(name), *options], folder, capsys)
    for fragment in fragments:
        assert fragment in err


PRUNE, RENAME, BLIND = (["prune", "-i", "{good}"], ["rename", "-i", "{good}"], ["blind", "-i", "{good}"])
ASIMOV, LINT, INSPECT = (["asimov", "-i", "{good}"], ["lint", "-i", "{good}"], ["inspect", "-i", "{good}"])
COMBINE, APPLY = (["combine", "-i", "{good}"], ["patch", "apply", "-i", "{good}"])
BAD_WISHES: dict[str, tuple[list[str], list[str]]] = {
    "prune nothing": (PRUNE, ["nothing was named", "--channel"]),
    "prune channel": ([*PRUNE, "--channel", "Sr"], ["good.json", "no channel 'Sr'", "Did you mean 'SR'"]),
    "prune sample": ([*PRUNE, "--sample", "bb"], ["no sample 'bb'", "'s', 'b'"]),
    "prune modifier": ([*PRUNE, "--modifier", "mu1"], ["no modifier 'mu1'", "Did you mean 'mu'"]),
    "prune type": ([*PRUNE, "--modifier-type", "normsis"], ["'normsis'", "Did you mean 'normsys'"]),
    "prune measurement": ([*PRUNE, "--measurement", "man"], ["'man'", "Did you mean 'main'"]),
    "prune the last measurement": ([*PRUNE, "--measurement", "main"], ["measurements", "empty"]),
    "rename nothing": (RENAME, ["nothing was named"]),
    "rename one word": ([*RENAME, "--channel", "SR"], ["2 arguments"]),
    "rename channel": ([*RENAME, "--channel", "SRR", "x"], ["no channel 'SRR'", "Did you mean 'SR'"]),
    "rename twice": ([*RENAME, "--channel", "SR", "x", "--channel", "SR", "y"], ["twice", "'x'", "'y'"]),
    "rename onto another": ([*RENAME, "--channel", "SR", "CR"], ["second channel 'CR'"]),
    "rename onto another type": ([*RENAME, "--modifier", "mu", "n"], ["'n'", "name of a normfactor"]),
    "blind without channel": (BLIND, ["--channel"]),
    "blind channel": ([*BLIND, "--channel", "SRR"], ["good.json", "no channel 'SRR'", "Did you mean 'SR'"]),
    "blind all and fit": ([*BLIND, "--channel", "SR", "--channel", "CR", "--fit"], ["none is left to fit"]),
    "blind value": ([*BLIND, "--channel", "SR", "--set", "k=11"], ["11", "[0, 10]", "'k'"]),
    "blind poi": ([*BLIND, "--channel", "SR", "--poi", "muu"], ["'muu'", "Did you mean 'mu'"]),
    "asimov form": ([*ASIMOV, "--set", "mu"], ["--set", "NAME=VALUE"]),
    "asimov twice": ([*ASIMOV, "--set", "mu=1", "--set", "mu=2"], ["'mu' is given twice"]),
    "asimov name": ([*ASIMOV, "--set", "muu=1"], ["no parameter 'muu'", "'mu'"]),
    "asimov nan": ([*ASIMOV, "--set", "mu=nan"], ["nan", "[0, 10]"]),
    "asimov measurement": ([*ASIMOV, "--measurement", "man"], ["'man'", "Did you mean 'main'"]),
    "asimov aux": ([*ASIMOV, "--aux", "random"], ["'random'", "observed"]),
    "asimov interp": ([*ASIMOV, "--interp", "normsys=code0"], ["code0", "code1"]),
    "combine one": (COMBINE, ["1 times", "two workspaces"]),
    "combine three": ([*COMBINE, "-i", "{good}", "-i", "{good}"], ["3 times"]),
    "combine stdin twice": (["combine", "-i", "-", "-i", "-"], ["one stdin"]),
    "combine the same": ([*COMBINE, "-i", "{good}"], ["both", "channel 'SR'", "'left outer'"]),
    "combine join": ([*COMBINE, "-i", "{good}", "--join", "inner"], ["'inner'", "outer"]),
    "combine merge": ([*COMBINE, "-i", "{good}", "--merge-channels"], ["'outer'"]),
    "digest algorithm": (["digest", "-i", "{good}", "-a", "sha1"], ["'sha1'", "sha256"]),
    "lint pull": ([*LINT, "--max-pull", "-1"], ["--max-pull", "above 0"]),
    "lint poi": ([*LINT, "--fit", "--poi", "muu"], ["'muu'", "Did you mean 'mu'"]),
    "inspect section": ([*INSPECT, "--section", "bins"], ["'bins'", "yields"]),
    "extract name": (["patch", "extract", "-p", "{set}", "--name", "m10"], ["set.json", "'m10'", "'m100'"]),
    "extract from a workspace": (["patch", "extract", "-p", "{good}", "--name", "m"], ["good.json", "missing"]),
    "extract from a patch": (["patch", "extract", "-p", "{patch}", "--name", "m"], ["patch.json", "an object"]),
    "extract onto the set": (["patch", "extract", "-p", "{set}", "--name", "m100", "-o", "{set}"], ["input itself"]),
    "apply name": ([*APPLY, "-p", "{set}", "--name", "m200"], ["'m200'", "Did you mean 'm100'"]),
    "apply onto the set": ([*APPLY, "-p", "{set}", "--name", "m100", "-o", "{set}"], ["input itself"]),
    "apply set missing": ([*APPLY, "-p", "{tmp}/none.json", "--name", "m100"], ["no file", "none.json"]),
    "list of a workspace": (["patch", "list", "-p", "{good}"], ["good.json", "missing"]),
    "patch command": (["patch", "aply"], ["aply"]),
}  # fmt: skip


@pytest.mark.parametrize("wish", BAD_WISHES)
def test_a_wish_that_cannot_be_met_gives_one_error(wish: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, fragments = BAD_WISHES[wish]
    err = refused(arguments, folder, capsys)
    for fragment in fragments:
        assert fragment in err


@pytest.mark.parametrize("command", ["apply", "verify"])
def test_a_patch_set_of_another_workspace_is_refused(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copy.deepcopy(GOOD)
    other["observations"][0]["data"] = [53.0]
    (folder / "in.json").write_text(json.dumps(other))
    name = ["--name", "m100"] if command == "apply" else []
    err = refused(["patch", command, "-i", "{in}", "-p", "{set}", *name], folder, capsys)
    assert pyhf.utils.digest(GOOD) in err and pyhf.utils.digest(other) in err
