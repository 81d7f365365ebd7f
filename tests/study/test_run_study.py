"""A study computes what its points alone would, survives what single points do not, and goes on where it stopped."""

from __future__ import annotations

import copy
import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyhf
import pytest
from studies import SPEC
from workspaces import mu, one_channel, sample

from nsmath import Model, Plan, StudyResult, Workers, Workspace, hypotest_toys, run_study, toy_upper_limit
from nsmath.errors import StoreWriteError, StudyError
from nsmath.paths import EXAMPLE
from nsmath.store.toystore import ToyStore
from nsmath.study import run as study_run
from nsmath.study.points import study_of
from nsmath.study.run import folder_name

# Zero events are expected where five are observed, at every point of the parameters: no fit can start.
HOPELESS = one_channel(sample("s", [0.0], mu()), sample("b", [0.0]), observed=[5.0])
MASSES = {"m100_light": (100, 7.0), "m200_light": (200, 5.0), "m300": (300, 2.0)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace, a patch set of three signals for it, and a workspace that cannot be fitted."""
    background = copy.deepcopy(SPEC)
    signal = background["channels"][0]["samples"].pop(0)
    patches = [
        {
            "metadata": {"name": name, "values": [mass]},
            "patch": [
                {"op": "add", "path": "/channels/0/samples/0", "value": {**signal, "data": [events, 0.6 * events]}}
            ],
        }
        for name, (mass, events) in MASSES.items()
    ]
    metadata = {"references": {"hepdata": "ins1234567"}, "digests": {"sha256": pyhf.utils.digest(background)},
                "labels": ["mass"], "description": "signals"}  # fmt: skip
    files = {
        "ws.json": SPEC, "background.json": background, "hopeless.json": HOPELESS, "one.json": patches[0]["patch"],
        "set.json": {"metadata": metadata, "patches": patches, "version": "1.0.0"},
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


SCAN: dict[str, Any] = {"workspace": "ws.json", "mu": [0.5, 1.0, 2.0], "n_toys": 200, "seed": 3, "threads": 1}
GRID: dict[str, Any] = {
    "workspace": "background.json", "patchset": {"file": "set.json"}, "mu": [1.0, 2.0], "n_toys": 150, "threads": 1,
}  # fmt: skip


def numbers(result: StudyResult) -> list[dict[str, Any]]:
    """All that two runs of one study must have in common."""
    found = []
    for point in result.to_dict()["points"]:
        for test in point["tests"]:
            kept = {
                k: v for k, v in (test["result"] or {}).items() if k not in ("timing", "fits", "threads", "transfers")
            }
            found.append({"point": point["name"], "mu": test["mu"], "status": test["status"], **kept})
    return found


def test_every_mu_has_the_numbers_of_a_test_of_its_own(folder: Path) -> None:
    options = {"test_stat": "q", "aux": "fixed", "expected_set": True}
    result = run_study({**SCAN, **options}, folder=folder)
    assert result.complete
    assert [row.mu for row in result.rows] == SCAN["mu"]
    model = Model.from_workspace(SPEC)
    for row in result.rows:
        assert row.outcome is not None
        with Plan(model, threads=1) as plan:
            alone = hypotest_toys(model, row.mu, n_toys=200, seed=3, plan=plan, **options)  # type: ignore[arg-type]
        ours, theirs = row.outcome.to_dict(), alone.to_dict()
        assert ours["q_obs"] == pytest.approx(theirs["q_obs"], abs=1e-8)
        for name in ("cls", "clsb", "clb", "cls_error", "expected_set", "n_toys", "model_digest", "seed", "aux"):
            assert ours[name] == theirs[name]


def test_a_grid_has_the_models_that_pyhf_makes_of_the_patches_and_their_values(folder: Path) -> None:
    result = run_study(GRID, folder=folder)
    patches = pyhf.PatchSet(json.loads((folder / "set.json").read_text()))
    background = pyhf.Workspace(json.loads((folder / "background.json").read_text()))
    assert [point.name for point in result.study.points] == [patch.name for patch in patches]
    for row in result.rows:
        expected = Model.from_workspace(patches.apply(background, row.point.name))
        assert row.outcome is not None
        assert row.outcome.to_dict()["model_digest"] == expected.digest
        assert tuple(row.point.values.values()) == tuple(patches[row.point.name].values)
    table = result.table()
    assert [(line["point"], line["mass"], line["mu"]) for line in table] == [
        (name, mass, value) for name, (mass, _) in MASSES.items() for value in (1.0, 2.0)
    ]
    cls = {(line["mass"], line["mu"]): line["cls"] for line in table}
    assert cls[100, 1.0] < cls[200, 1.0] < cls[300, 1.0]
    assert all(cls[mass, 2.0] < cls[mass, 1.0] for mass in (100, 200))


LAYOUTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all patches": ({**GRID}, ["m100_light", "m200_light", "m300"]),
    "a pattern": ({**GRID, "patchset": {"file": "set.json", "names": "*_light"}}, ["m100_light", "m200_light"]),
    "names, in the order of the set": (
        {**GRID, "patchset": {"file": "set.json", "names": ["m300", "m1*"]}}, ["m100_light", "m300"]
    ),
    "workspaces": ({"workspaces": ["ws.json", "background.json"], "mu": 1}, ["ws", "background"]),
    "workspaces by name": ({"workspaces": {"a": "ws.json", "b": "background.json"}, "mu": 1}, ["a", "b"]),
    "workspaces and patches": (
        {**{k: v for k, v in GRID.items() if k != "workspace"}, "workspaces": {"a": "background.json", "b": "ws.json"},
         "patchset": {"file": "set.json", "names": "m300"}}, ["a-m300", "b-m300"]
    ),
    "points": (
        {**SCAN, "points": [{}, {"name": "x"}, {"workspace": "background.json", "patches": "one.json"},
                            {"workspace": "background.json", "patches": ["set.json:m300"]},
                            {"name": "y", "patchset": {"file": "set.json", "names": "m2*"}}]},
        ["ws", "x", "background-one", "background-m300", "y-m200_light"],
    ),
    "a set that is not there": ({**GRID, "patchset": {"file": "no.json"}}, ["no"]),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYOUTS)
def test_points_are_laid_out_in_order_and_named(case: str, folder: Path) -> None:
    document, names = LAYOUTS[case]
    assert [point.name for point in study_of(document, folder=folder).points] == names


def test_points_have_their_own_keys_before_those_of_the_study(folder: Path) -> None:
    document = {**SCAN, "points": [{"name": "a"}, {"name": "b", "mu": 3, "n_toys": 7, "interpolation": "pyhf"}]}
    first, second = study_of(document, folder=folder).points
    assert (first.settings["mu"], first.settings["n_toys"]) == ((0.5, 1.0, 2.0), 200)
    assert (second.settings["mu"], second.settings["n_toys"], second.settings["seed"]) == ((3.0,), 7, 3)
    assert first.settings["interpolation"] == {"normsys": "code4", "histosys": "code4p"}
    assert second.settings["interpolation"] == {"normsys": "code1", "histosys": "code0"}
    partly = study_of({**SCAN, "interpolation": {"normsys": "code1"}}, folder=folder).points[0]
    assert partly.settings["interpolation"] == {"normsys": "code1", "histosys": "code4p"}
    assert [p.settings["n_toys"] for p in study_of(document, folder=folder, n_toys=5).points] == [5, 5]


def test_model_plan_and_free_fit_of_a_point_are_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class CountedPlan(Plan):
        def __init__(self, model: Model, **options: Any) -> None:
            made.append(model.digest)
            super().__init__(model, **options)

    monkeypatch.setattr(study_run, "Plan", CountedPlan)
    tuned: list[str] = []
    autotune = Plan.autotune
    monkeypatch.setattr(Plan, "autotune", lambda plan: (tuned.append(plan.model.digest), autotune(plan))[1])
    result = run_study(GRID, folder=folder)
    assert len(made) == len(set(made)) == 3
    # The models are of one size: at most the first is tuned.
    assert len(tuned) <= 1
    assert len({row.outcome.to_dict()["tile_width"] for row in result.rows if row.outcome}) == 1


FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "no such workspace": ({"workspace": "no.json"}, r"there is no file '.*no\.json'"),
    "no workspace": ({"workspace": "set.json"}, r"set\.json"),
    "no such patch": ({"patches": "no.json"}, r"no\.json"),
    "a patch that cannot be applied": ({"patches": "one.json:m1"}, r"one\.json"),
    "no such patch set": ({"patchset": {"file": "no.json"}}, r"there is no file '.*no\.json'"),
    "a patch set of another workspace": ({"patchset": {"file": "set.json", "names": "m300"}}, r"digest"),
    "measurement": ({"measurement": "mein"}, r"'mein'"),
    "POI": ({"poi": "mo"}, r"'mo'"),
    "mu out of bounds": ({"mu": 50}, r"mu = 50 is outside the bounds \[0, 10\]"),
    "a fit that fails": ({"workspace": "hopeless.json"}, r"the free fit to the observed data failed"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_point_that_fails_is_recorded_and_the_others_are_computed(case: str, folder: Path) -> None:
    keys, pattern = FAILING[case]
    good = {"mu": 1.0, "n_toys": 40}
    study = {**SCAN, **good, "points": [{"name": "before"}, {"name": "bad", **keys}, {"name": "after"}]}
    result = run_study(study, folder=folder)
    assert [row.status for row in result.rows] == ["done", "failed", "done"]
    bad = result.rows[1]
    assert bad.outcome is None
    assert bad.error is not None
    assert re.search(pattern, bad.error), bad.error
    assert not result.complete
    (written,) = [p["tests"][0] for p in result.to_dict()["points"] if p["name"].startswith("bad")]
    assert (written["status"], written["error"], written["result"]) == ("failed", bad.error, None)
    assert result.table()[1]["error"] == bad.error
    assert result.table()[1]["cls"] is None
    if case != "a fit that fails":
        with pytest.raises(StudyError, match=r"^point 'bad.*'"):
            run_study(study, folder=folder, strict=True)


def test_one_bad_mu_does_not_lose_the_others_of_its_point(folder: Path) -> None:
    result = run_study({**SCAN, "mu": [1.0, 50.0, 2.0], "n_toys": 40}, folder=folder)
    assert [row.status for row in result.rows] == ["done", "failed", "done"]


def interrupted_after(n_calls: int) -> Any:
    calls = []

    def progress(done: int, total: int, phase: str) -> None:
        calls.append(done)
        if len(calls) >= n_calls:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_an_interrupted_study_goes_on_where_it_stopped(share: float, folder: Path) -> None:
    calls: list[int] = []
    whole = run_study(GRID, folder=folder, store=folder / "whole", progress=lambda done, *_: calls.append(done))
    progress = interrupted_after(round(share * len(calls)))
    with pytest.raises(KeyboardInterrupt):
        run_study(GRID, folder=folder, store=folder / "parts", progress=progress)
    held = 0
    for path in (folder / "parts").iterdir():
        store = ToyStore.read(path)
        held += sum(last - first for key in store.held() for first, last in store.there(key))
    assert 0 < held < 6 * 300
    lines: list[str] = []
    again = run_study(GRID, folder=folder, store=folder / "parts", note=lines.append)
    assert numbers(again) == numbers(whole)
    said = [line for line in lines if "goes on" in line]
    assert sum(int(line.split(": ")[1].split()[0]) for line in said) == held
    # A third run finds everything, and fits nothing.
    third = run_study(GRID, folder=folder, store=folder / "parts")
    assert numbers(third) == numbers(whole)
    for row in third.rows:
        assert row.outcome is not None
        assert all(part["fits"] == 0 for part in row.outcome.to_dict()["fits"].values())


def test_each_point_has_a_folder_of_its_name_in_the_store(folder: Path) -> None:
    run_study({**GRID, "n_toys": 10, "store": "toys"}, folder=folder)
    assert sorted(path.name for path in (folder / "toys").iterdir()) == sorted(MASSES)


def test_names_become_folders_one_to_one_and_stay_inside_the_store() -> None:
    names = ["a", "a/b", "a%2Fb", "..", ".", "_lock", "%2E.", "a b", "A", "µ", "C:x", "x" * 300, "x" * 301, "-", "con/"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    for name in folders:
        assert Path(name).name == name
        assert name not in (".", "..")
        assert name[0] != "_"
        assert len(name) < 160


def test_a_store_of_other_options_is_a_failed_point_that_says_what_differs(folder: Path) -> None:
    study = {**SCAN, "mu": 1.0, "n_toys": 20, "store": "toys"}
    run_study(study, folder=folder)
    row = run_study({**study, "seed": 4}, folder=folder).rows[0]
    assert row.status == "failed"
    assert row.error is not None
    assert "seed: 3 there, 4 here" in row.error


def test_a_full_disk_ends_the_study_and_marks_the_rest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(store: ToyStore) -> None:
        raise StoreWriteError("no space left")

    monkeypatch.setattr(ToyStore, "flush", full)
    lines: list[str] = []
    result = run_study({**GRID, "store": "toys"}, folder=folder, note=lines.append)
    assert [row.status for row in result.rows] == ["failed", *["not run"] * 5]
    assert result.rows[0].error == "no space left"
    assert any("the store takes no more toys" in line for line in lines)


def test_too_many_failed_toys_make_a_row_untrusted_and_keep_its_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsmath.infer.result.MAX_FAILED_SHARE", -1.0)
    result = run_study({**SCAN, "mu": 1.0, "n_toys": 20}, folder=folder)
    (row,) = result.rows
    assert row.status == "untrusted"
    assert row.error is not None
    assert "0 of 20 toys of ensemble" in row.error
    assert result.table()[0]["clb"] is not None
    assert not result.complete


def test_the_progress_is_that_of_the_whole_study(folder: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    study = {**GRID, "mu": [1.0, 50.0]}
    run_study(study, folder=folder, progress=lambda *call: calls.append(call))
    done, totals, phases = zip(*calls, strict=True)
    # mu = 50 lies beyond the bounds: its toys are not counted.
    assert set(totals) == {3 * 300}
    assert list(done) == sorted(done)
    assert done[-1] == totals[-1]
    assert {phase.split(",")[0] for phase in phases} == set(MASSES)


def test_a_stopping_rule_may_want_more_toys_than_planned(folder: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    study = {**SCAN, "mu": 1.0, "cls_error": ["8%", 0.5], "max_toys": 20000}
    result = run_study(study, folder=folder, progress=lambda *call: calls.append(call))
    outcome = result.rows[0].outcome
    assert outcome is not None
    found = outcome.to_dict()
    assert found["stopping"]["reached"]
    assert found["stopping"]["relative_error"] == 0.08
    assert found["cls_error"] <= 0.08 * found["cls"]
    assert found["n_toys"]["b"] > SCAN["n_toys"]
    assert calls[-1][0] == calls[-1][1] == 2 * found["n_toys"]["b"]


def test_any_executor_computes_a_study(folder: Path) -> None:
    here = run_study(GRID, folder=folder)
    with ThreadPoolExecutor(2) as pool:
        there = run_study(GRID, folder=folder, engine=Workers(pool, 2))
    assert numbers(there) == numbers(here)


def test_a_label_that_is_a_column_of_the_table_keeps_apart(folder: Path) -> None:
    content = json.loads((folder / "set.json").read_text())
    content["metadata"]["labels"] = ["mu"]
    (folder / "set.json").write_text(json.dumps(content))
    study = {**GRID, "mu": 1.0, "n_toys": 5, "patchset": {"file": "set.json", "names": "m300"}}
    (line,) = run_study(study, folder=folder).table()
    assert (line["patch_mu"], line["mu"]) == (300, 1.0)


def test_limits_of_a_grid_are_those_of_each_point_alone(tmp_path: Path) -> None:
    study = {"workspace": "example", "task": "upper-limit", "n_toys": 200, "seed": 4, "points": [
        {"name": "a"}, {"name": "b", "cl": 0.9},
    ]}  # fmt: skip
    result = run_study(study, store=tmp_path / "toys")
    assert result.complete
    model = Model.from_workspace(Workspace.from_file(EXAMPLE))
    for row, cl in zip(result.table(), (0.95, 0.9), strict=True):
        folder = tmp_path / "toys" / row["point"]
        with ToyStore.create(folder, ToyStore.read(folder).identity) as store:
            alone = toy_upper_limit(model, n_toys=200, seed=4, cl=cl, store=store)
        assert (row["limit"], row["limit_error"]) == (alone.observed.mu, alone.observed.error)
        assert row["expected_median"] == alone.expected[2].mu
        assert math.isnan(row["mu"])
