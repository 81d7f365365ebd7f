"""Every row of the table of exit codes, as it stands in docs/cli.md, happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from workspaces import mu, one_channel, sample

from nsmath.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
GOOD = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0])
# Events where nothing is expected: no fit can describe them.
HOPELESS = one_channel(sample("s", [5.0, 0.0], mu()), sample("b", [50.0, 0.0]), observed=[52.0, 3.0])
TOYS = ["--mu", "1", "--n-toys", "10", "--threads", "1", "-q"]


def table() -> list[tuple[int, str, str]]:
    """Return (code, meaning, output) of each row of the document."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split("\n## Exit codes\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return [(int(code), meaning, output) for code, meaning, output in cells if code.isdigit()]


def code_of(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(caught.value.code or 0)


def saved(folder: Path, document: object, name: str = "ws.json") -> str:
    path = folder / name
    path.write_text(json.dumps(document))
    return str(path)


def done(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    out = folder / "o.json"
    return code_of(["fit", "-i", saved(folder, GOOD), "-q", "-o", str(out)]), out.exists()


def untrusted(folder: Path, patch: pytest.MonkeyPatch) -> tuple[int, bool]:
    patch.setattr("nsmath.infer.result.MAX_FAILED_SHARE", -1.0)
    out = folder / "o.json"
    code = code_of(["hypotest-toys", "-i", saved(folder, GOOD), *TOYS, "-o", str(out)])
    return code, "n_nonconverged" in json.loads(out.read_text())


def fits_of_a_scan_fail(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    out = folder / "o.json"
    # Nothing is expected at mu = 0, where there are events.
    document = one_channel(sample("s", [50.0], mu()), observed=[52.0])
    arguments = ["--range", "0:2:3", "-q", "-o", str(out)]
    code = code_of(["scan", "-i", saved(folder, document), *arguments])
    rises = json.loads(out.read_text())["twice_delta_nll"]
    return code, rises[0] is None and None not in rises[1:]


def observed_fit_fails(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    out = folder / "o.json"
    return code_of(["hypotest-toys", "-i", saved(folder, HOPELESS), *TOYS, "-o", str(out)]), not out.exists()


def point_fails(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    points = [{"workspace": saved(folder, GOOD)}, {"workspace": saved(folder, HOPELESS, "bad.json")}]
    study, out = saved(folder, {"mu": [1.0], "n_toys": 10, "points": points}, "study.yaml"), folder / "o.json"
    code = code_of(["run", study, "--threads", "1", "-q", "-o", str(out)])
    written = json.loads(out.read_text())
    return code, written["counts"]["done"] == 1 and written["points"][1]["tests"][0]["error"] is not None


def reader_goes(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "nsmath", "example", "-o", "-"]
    ended = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    return ended.returncode, ended.stderr == b""


def bad_input(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    out = folder / "o.json"
    return code_of(["fit", "-i", saved(folder, {"channels": []}), "-o", str(out)]), not out.exists()


def lint_errors(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    out = folder / "o.json"
    code = code_of(["lint", "-i", saved(folder, {"channels": []}), "-q", "-o", str(out)])
    return code, json.loads(out.read_text())["n_errors"] > 0


def interrupted(folder: Path, _: pytest.MonkeyPatch) -> tuple[int, bool]:
    out, pipe = folder / "o.json", folder / "pipe"
    os.mkfifo(pipe)
    arguments = ["hypotest-toys", "-i", str(pipe), *TOYS, "-o", str(out)]
    running = subprocess.Popen([sys.executable, "-m", "nsmath", *arguments], stderr=subprocess.PIPE, text=True)
    # A pipe opens for writing once somebody reads it; then comes Ctrl-C.
    with pipe.open("wb"):
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    return running.returncode, not out.exists() and err.strip() == "interrupted: nothing was written."


CASES: dict[str, Callable[[Path, pytest.MonkeyPatch], tuple[int, bool]]] = {
    "done": done,
    "no trustworthy result": untrusted,
    "`scan`, `intervals`, `ranking`": fits_of_a_scan_fail,
    "a fit to the observed data": observed_fit_fails,
    "`nsmath run`": point_fails,
    "the reader of stdout": reader_goes,
    "bad input": bad_input,
    "`nsmath lint`": lint_errors,
    "interrupted": interrupted,
}


@pytest.mark.parametrize("begin", CASES)
def test_the_code_is_the_documented_one_and_the_output_too(
    begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = [row for row in table() if row[1].startswith(begin)]
    code, as_documented = CASES[begin](tmp_path, monkeypatch)
    assert code == row[0]
    assert as_documented, row[2]


def test_every_row_of_the_table_is_a_case() -> None:
    rows = table()
    assert len(rows) == len(CASES)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
