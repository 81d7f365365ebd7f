"""`nsmath run` as a user meets it: shipped studies, tables, interrupts, and one error for each bad study."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
from pathlib import Path
from typing import Any

import pyhf
import pytest
from test_commands import run

from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.main import cli
from nsmath.study.result import StudyResult

ROOT = Path(__file__).resolve().parents[2]
FEW = ["--n-toys", "20", "--threads", "1"]
SCAN = "workspace: example\nmu: [0.5, 1.0]\nn_toys: 20\nthreads: 1\n"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(SCAN)
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


SHIPPED = {"study-scan": [("example", mu) for mu in ("0.5", "1.0", "1.5")],
           "study-grid": [(f"signal_{m}_{n}", "1.0") for m in (500, 700, 900) for n in (100, 300)]}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_studies_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, table = tmp_path / "o.json", tmp_path / "t.csv"
    path = ROOT / "plans" / f"{name}.yaml"
    code, out, _ = run(["run", str(path), *FEW, "-o", str(output), "--table", str(table)], capsys)
    assert code == 0
    rows = rows_of(table.read_text())
    assert [(row["point"], row["mu"]) for row in rows] == SHIPPED[name]
    result = json.loads(output.read_text())
    assert result["complete"] is True
    tests = [test for point in result["points"] for test in point["tests"]]
    for row, test in zip(rows, tests, strict=True):
        assert row["status"] == test["status"] == "done"
        assert float(row["clsb"]) == test["result"]["clsb"]
        assert row["n_toys_b"] == row["n_toys_sb"] == "20"
        assert test["result"]["expected_set"]["cls"][2] == (
            float(row["expected_median"]) if row["expected_median"] else None
        )
        assert row["point"] in out
    if name == "study-grid":
        assert [(row["m_parent"], row["m_child"]) for row in rows] == [
            tuple(point.split("_")[1:]) for point, _ in SHIPPED[name]
        ]


def test_the_shipped_patch_set_is_that_of_its_script_and_belongs_to_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    spec = importlib.util.spec_from_file_location("make_study_grid", ROOT / "scripts" / "make_study_grid.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    shipped = json.loads((ROOT / "plans" / "study-grid-patches.json").read_text())
    assert shipped == script.patch_set()
    patches, example = pyhf.PatchSet(shipped), pyhf.Workspace(json.loads(EXAMPLE.read_text()))
    for patch in patches:
        patches.apply(example, patch.name).model()


def test_the_examples_of_the_description_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    (tmp_path / "plans").symlink_to(ROOT / "plans")
    monkeypatch.chdir(tmp_path)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    for line in commands.splitlines():
        arguments = line.split("#")[0].split()
        assert arguments.pop(0) == "nsmath"
        assert cli.main([*arguments, "--n-toys", "10"], standalone_mode=False) == 0, line
    assert len(rows_of(Path("grid.csv").read_text())) == 6
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    exec(compile(example, "docs/studies.md", "exec"), {})
    assert "True 1 0." in capsys.readouterr().out


def test_every_field_of_the_output_is_described_and_no_other(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = (ROOT / "docs" / "json.md").read_text(encoding="utf-8").split("\n## run\n")[1].split("\n## ")[0]
    described = {name for line in about.splitlines() if line.startswith("| `")
                 for name in re.findall(r"`([^`]+)`", line.split("|")[1])}  # fmt: skip
    code, out, _ = run(["run", str(study), "-q", "-o", "-"], capsys)
    assert code == 0
    result = json.loads(out)
    point = result["points"][0]
    assert described == {
        *result, *(f"points[].{name}" for name in point), *(f"points[].tests[].{name}" for name in point["tests"][0])
    }  # fmt: skip
    assert set(result["counts"]) == {"done", "untrusted", "failed", "not run"}


def test_paths_in_a_file_are_relative_to_it_and_options_go_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "ws.json").write_text(EXAMPLE.read_text())
    text = SCAN.replace("example", "../ws.json") + "output: o.json\ntable: t.csv\nstore: toys\n"
    (tmp_path / "sub" / "study.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert run(["run", "sub/study.yaml", "-q"], capsys) == (0, "", "")
    assert {path.name for path in (tmp_path / "sub").iterdir()} == {"study.yaml", "o.json", "t.csv", "toys"}
    assert json.loads((tmp_path / "sub" / "o.json").read_text())["points"][0]["name"] == "ws"
    options = ["-o", "p.json", "--table", "u.csv", "--store", "more", "--n-toys", "5"]
    assert run(["run", "sub/study.yaml", "-q", *options], capsys)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"sub", "ws.json", "p.json", "u.csv", "more"}
    assert rows_of((tmp_path / "u.csv").read_text())[0]["n_toys_b"] == "5"


def test_a_failed_point_is_code_1_and_in_every_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(SCAN + "points:\n- name: good\n- name: gone\n  workspace: gone.json\n")
    code, out, err = run(["run", str(path), "-o", str(tmp_path / "o.json"), "--table", "-"], capsys)
    assert code == 1
    assert [row["status"] for row in rows_of(out)] == ["done", "done", "failed", "failed"]
    assert json.loads((tmp_path / "o.json").read_text())["counts"]["failed"] == 2
    # With the table on stdout people read stderr.
    assert "2 of 4 tests done" in err
    assert "failed: point 'gone', mu = 0.5: there is no file" in err
    code, out, err = run(["run", str(path), "--strict", "-o", str(tmp_path / "p.json")], capsys)
    assert (code, out) == (2, "")
    assert "error: point 'gone': there is no file" in err
    assert not (tmp_path / "p.json").exists()


def test_a_dry_run_lists_points_and_toys_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_plan(*_: Any, **__: Any) -> None:
        raise AssertionError("a dry run plans nothing")

    monkeypatch.setattr("nsmath.study.run.Plan", no_plan)
    path = tmp_path / "study.yaml"
    path.write_text(SCAN + "store: toys\noutput: o.json\npoints:\n- name: good\n- name: far\n  mu: [1, 99]\n")
    code, out, err = run(["run", str(path), "--dry-run"], capsys)
    assert code == 1
    assert "2 points, 3 tests, 120 toys" in out
    assert "mu = 99 is outside the bounds" in " ".join(out.split())
    assert "1 of 4 tests cannot be done" in err
    assert list(tmp_path.iterdir()) == [path]
    code, out, _ = run(["run", str(ROOT / "plans" / "study-grid.yaml"), "--dry-run"], capsys)
    assert code == 0
    assert "6 points, 6 tests, 12000 toys" in out


def test_an_interrupt_keeps_what_is_done_and_the_same_command_goes_on(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nsmath.study.tasks import HypotestToys

    computed = HypotestToys.outcome

    def interrupted(task: Any, calculator: Any, settings: Any, job: float) -> Any:
        if job == 1.0:
            raise KeyboardInterrupt
        return computed(task, calculator, settings, job)

    command = ["run", str(study), "-q", "-o", str(tmp_path / "o.json"), "--store", str(tmp_path / "toys")]
    with monkeypatch.context() as patched:
        patched.setattr(HypotestToys, "outcome", interrupted)
        code, _, err = run(command, capsys)
    assert code == 130
    assert f"interrupted: 1 of 2 tests are done; the output has what was done; the toys are kept in {tmp_path}" in err
    first = json.loads((tmp_path / "o.json").read_text())
    assert [test["status"] for test in first["points"][0]["tests"]] == ["done", "not run"]
    assert first["complete"] is False
    code, _, err = run(command, capsys)
    assert code == 0
    assert "point 'example' goes on: 40 toys are in" in err
    again = json.loads((tmp_path / "o.json").read_text())
    assert again["complete"] is True
    done = [result["points"][0]["tests"][0]["result"] for result in (first, again)]
    assert done[0]["cls"] == done[1]["cls"]
    assert done[1]["fits"]["b"]["fits"] == 0


def test_warnings_that_points_share_come_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(EXAMPLE.read_text())
    document["measurements"][0]["config"]["parameters"].append({"name": "unused", "inits": [1.0]})
    (tmp_path / "ws.json").write_text(json.dumps(document))
    (tmp_path / "study.yaml").write_text("workspace: ws.json\nmu: 1\npoints: [{name: a}, {name: b}, {name: c}]\n")
    code, _, err = run(["run", str(tmp_path / "study.yaml"), "--dry-run"], capsys)
    assert code == 0
    (line,) = [line for line in err.splitlines() if "unused" in line]
    assert line.endswith("(point 'a' and 2 more)")


def test_a_bound_in_the_place_of_a_number_is_an_empty_cell_and_words_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("workspace: example\nmu: 9\nn_toys: 20\nthreads: 1\n")
    code, out, err = run(["run", str(path), "--table", "-"], capsys)
    assert code == 0
    (row,) = rows_of(out)
    assert (row["cls"], row["cls_error"], row["clsb"]) == ("", "", "")
    assert 0.0 < float(row["cls_upper"]) < 1.0
    assert "no toy in the tail" in err


GOOD = "workspace: example\nmu: 1\n"
# content (None: no file), options, what the one error must say
BAD: dict[str, tuple[str | None, list[str], list[str]]] = {
    "missing": (None, [], ["no file", "study.yaml"]),
    "empty": ("", [], ["study.yaml", "empty"]),
    "not YAML": ("mu: [1", [], ["study.yaml", "not valid YAML", "line"]),
    "a list": ("- mu\n", [], ["study.yaml", "an array of 1", "mapping"]),
    "unknown key": (GOOD + "n_toy: 5\n", [], ["study.yaml: n_toy: unknown key; did you mean 'n_toys'?"]),
    "unknown key of a point": (
        GOOD + "points: [{}, {name: a, n_toy: 5}]\n", [], ["points[1].n_toy: unknown key; did you mean 'n_toys'?"]
    ),
    "type": (GOOD + "n_toys: [5]\n", [], ["n_toys", "an array of 1", "a whole number from 1"]),
    "range": (GOOD + "seed: -1\n", [], ["seed", "-1", "from 0"]),
    "key twice": (GOOD + "mu: 2\n", [], ["line 3", "'mu'", "line 2"]),
    "no mu": ("workspace: example\n", [], ["mu: missing"]),
    "no workspace": ("mu: 1\n", [], ["workspace: missing", "'example'"]),
    "task": (GOOD + "task: hypotest\n", [], ["task", "'hypotest'", "hypotest-toys"]),
    "statistic": (GOOD + "test_stat: t\n", [], ["test_stat", "'t'", "qtilde"]),
    "patch name": (GOOD + "patchset: {file: {set}, names: signal_5}\n", [], ["patchset.names", "'signal_5'"]),
    "output in no folder": (GOOD + "output: none/o.json\n", [], ["output ", "none/o.json", "does not exist"]),
    "option in no folder": (GOOD, ["-o", "{tmp}/none/o.json"], ["--output ", "none/o.json", "does not exist"]),
    "table is a folder": (GOOD, ["--table", "{tmp}"], ["--table ", "is a folder"]),
    "output is the study": (GOOD, ["-o", "{tmp}/study.yaml"], ["is the input itself"]),
    "table is the patch set": (GOOD + "patchset: {file: {set}}\n", ["--table", "{set}"], ["is the input itself"]),
    "store is a file": (GOOD + "store: set.json\n", [], ["store ", "set.json is a file", "a folder"]),
    "table and output": (GOOD + "output: a.json\ntable: ./a.json\n", [], ["output and table", "a.json"]),
    "both on stdout": (GOOD, ["-o", "-", "--table", "-"], ["output and table", "-"]),
    "strict": ("workspace: no.json\nmu: 1\n", ["--strict"], ["point 'no'", "no.json"]),
    "strict mu": (GOOD.replace("1", "99"), ["--strict"], ["point 'example'", "mu = 99", "[0, 10]"]),
    "n-toys": (GOOD, ["--n-toys", "0"], ["--n-toys", "0"]),
    "workers": (GOOD, ["--workers", "2", "--dask", "a"], ["--workers", "--dask"]),
    "option": (GOOD, ["--toyz"], ["--toyz"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_study_gives_one_error_and_writes_nothing(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, options, fragments = BAD[case]
    names = {"{tmp}": str(tmp_path), "{set}": str(tmp_path / "set.json")}

    def filled(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    (tmp_path / "set.json").write_text((ROOT / "plans" / "study-grid-patches.json").read_text())
    if content is not None:
        (tmp_path / "study.yaml").write_text(filled(content))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = run(["run", str(tmp_path / "study.yaml"), *map(filled, options)], capsys)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert len([line for line in err.lower().splitlines() if line.startswith("error")]) == 1
    for fragment in fragments:
        assert fragment in err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_result_of_a_study_is_public() -> None:
    import nsmath

    assert nsmath.StudyResult is StudyResult
    assert callable(nsmath.run_study)
