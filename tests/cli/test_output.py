"""Where results go: whole files or none, JSON that every reader takes, streams that do not mix."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nsmath.cli import output
from nsmath.cli.combine import combine_command
from nsmath.cli.hypotest import EXIT_UNTRUSTED, hypotest_toys_command
from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.main import COMMANDS, main
from nsmath.cli.output import checked_output, json_text, write_json
from nsmath.errors import OptionError
from nsmath.formulas.interpolation import INTERPOLATION_SETS
from nsmath.infer.teststats import TEST_STATISTICS
from nsmath.spec import JOINS

RESULT = {"cls": 0.1, "row": [1.0, 2.0], "matrix": [[1.0] * 50, [2.0] * 50], "n": {"b": 3}, "none": None, "s": "µ"}


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_json_text_is_the_same_document_with_rows_of_numbers_on_one_line() -> None:
    text = json_text(RESULT)
    assert json.loads(text) == RESULT
    assert '"row": [1.0, 2.0]' in text
    assert len(text.splitlines()) < 15


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    write_json({"a": float("nan"), "b": [float("inf"), 1.0], "c": (1, 2)}, str(tmp_path / "o.json"))
    assert json.loads((tmp_path / "o.json").read_text()) == {"a": None, "b": [None, 1.0], "c": [1, 2]}


def test_a_result_replaces_a_file_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text("old")
    path.chmod(0o640)
    write_json(RESULT, str(path))
    assert json.loads(path.read_text(encoding="utf-8")) == RESULT
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_result_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    write_json(RESULT, str(tmp_path / "o.json"))
    assert (tmp_path / "o.json").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write_json(RESULT, str(tmp_path / "link.json"))
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text(encoding="utf-8")) == RESULT


def test_a_device_is_written_to_and_not_replaced() -> None:
    checked_output(os.devnull)
    write_json(RESULT, os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_failing_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "replace", full)
    with pytest.raises(OptionError, match=r"o\.json could not be written: No space left"):
        write_json(RESULT, str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_input_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ws.json"
    path.write_bytes(EXAMPLE.read_bytes())
    code, _, err = run(["fit", "-i", str(path), "-o", str(path)], capsys)
    assert code == 2
    assert "is the input itself" in err
    assert path.read_bytes() == EXAMPLE.read_bytes()


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="does not exist"):
        checked_output(str(tmp_path / "file" / "o.json"))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system that takes no files")
def test_a_folder_that_takes_no_files_is_found_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["fit", "-i", "example", "-o", "/proc/o.json"], capsys)
    assert code == 2
    assert out == ""
    assert "no file can be made in /proc" in err


def test_a_workspace_can_come_from_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for name in ("example", "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(EXAMPLE.read_bytes())))
        code, out, _ = run(["fit", "-i", name, "-q", "-o", "-"], capsys)
        assert code == 0
        results.append(json.loads(out))
    assert results[0] == results[1]


def test_the_example_is_copied_and_never_over_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["example"], capsys)
    assert (code, Path(out.strip())) == (0, EXAMPLE)
    copy = tmp_path / "copy.json"
    assert run(["example", "-o", str(copy)], capsys)[0] == 0
    assert copy.read_bytes() == EXAMPLE.read_bytes()
    copy.write_text("mine")
    code, _, err = run(["example", "-o", str(copy)], capsys)
    assert code == 2
    assert "exists already" in err
    assert copy.read_text() == "mine"
    code, out, _ = run(["example", "-o", "-"], capsys)
    assert out == EXAMPLE.read_text(encoding="utf-8")


def test_too_many_failed_toys_end_with_code_1_and_the_result_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsmath.infer.result.MAX_FAILED_SHARE", -1.0)
    path = tmp_path / "o.json"
    code, _, err = run(
        ["hypotest-toys", "-i", "example", "--mu", "1", "--n-toys", "20", "--threads", "1", "-q", "-o", str(path)],
        capsys,
    )
    assert code == EXIT_UNTRUSTED
    assert "0 of 20 toys of ensemble" in err
    assert json.loads(path.read_text())["n_toys"] == {"b": 20, "sb": 20}


def test_an_interrupt_is_one_line_and_code_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nsmath.cli.fit.chosen_model", interrupted)
    code, out, err = run(["fit", "-i", "example"], capsys)
    assert (code, out) == (130, "")
    assert err.strip() == "interrupted: nothing was written."


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "nsmath", "example", "-o", "-"],
        stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""


def test_choices_on_the_command_line_are_those_of_the_tables() -> None:
    def choices(command: object, name: str) -> list[str]:
        return next(list(p.type.choices) for p in command.params if p.name == name)  # type: ignore[attr-defined]

    assert choices(hypotest_toys_command, "test_stat") == list(TEST_STATISTICS)
    assert choices(hypotest_toys_command, "interp_defaults") == list(INTERPOLATION_SETS)
    assert choices(combine_command, "join") == list(JOINS)
    assert {"fit", "hypotest-toys", "info", "example", "plans"} <= set(COMMANDS)
