"""Asymptotic results over the patches of a set: those of single points, and a failed one does not lose the others."""

from __future__ import annotations

import copy
import json
import warnings
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

import numpy as np
import pyhf
import pytest
from test_commands import run
from workspaces import document, modifier, mu, sample

from nsmath import Model, Plan, Workers, signal_grid
from nsmath.errors import FitError, ModelError, OptionError, PatchError
from nsmath.infer.asymptotic_api import SINGLE_FIT_WIDTH
from nsmath.spec.patchset import PatchSet
from nsmath.study.grid import GRID_TASKS
from nsmath.viz import grid_figure

BACKGROUND = document(
    {"SR": [sample("b", [50.0, 20.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))],
     "CR": [sample("b", [200.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))]},
    {"SR": [53.0, 17.0], "CR": [204.0]},
)  # fmt: skip
BACKGROUND["measurements"][0]["config"]["poi"] = "mu"


def patch_set(masses, labels=("mass",)):
    patches = []
    for mass in masses:
        values = list(mass) if isinstance(mass, tuple) else [mass]
        size = 8000.0 / values[0] if values[0] > 0 else -1.0
        signal = sample("signal", [size, 0.6 * size + 0.002 * values[-1]], mu())
        patches.append({
            "metadata": {"name": "m" + "_".join(str(v) for v in values), "values": values},
            "patch": [{"op": "add", "path": "/channels/0/samples/-", "value": signal}],
        })  # fmt: skip
    return {
        "metadata": {"references": {"hepdata": "ins1234567"}, "digests": {"sha256": pyhf.utils.digest(BACKGROUND)},
                     "labels": list(labels), "description": "signals"},
        "patches": patches,
        "version": "1.0.0",
    }  # fmt: skip


MASSES = patch_set([400, 700, 1000])
PLANE = patch_set([(m, d) for m in (300, 500, 700, 900) for d in (50, 150, 250)], ("parent", "child"))


def patched(mass_index):
    spec = copy.deepcopy(BACKGROUND)
    for step in MASSES["patches"][mass_index]["patch"]:
        spec["channels"][0]["samples"].append(step["value"])
    return spec


@pytest.mark.parametrize("task", GRID_TASKS)
def test_every_point_has_the_result_of_its_model_alone(task):
    result = signal_grid(BACKGROUND, PatchSet.from_dict(MASSES), task, threads=2)
    assert [point.values for point in result.points] == [{"mass": m} for m in (400, 700, 1000)]
    assert result.n_failed == 0
    for i, point in enumerate(result.points):
        with Plan(Model.from_workspace(patched(i)), threads=1, tune=False, width=SINGLE_FIT_WIDTH) as plan:
            alone = GRID_TASKS[task](plan.model, plan=plan)
        assert point.outcome.to_dict() == alone.to_dict()


def test_the_points_of_a_grid_have_the_cls_of_pyhf():
    result = signal_grid(BACKGROUND, PatchSet.from_dict(MASSES), "hypotest", mu=1.0)
    codes = {"normsys": {"interpcode": "code4"}, "histosys": {"interpcode": "code4p"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        workspace = pyhf.Workspace(BACKGROUND)
        for point, patch in zip(result.points, MASSES["patches"], strict=True):
            model = workspace.model(patches=[patch["patch"]], modifier_settings=codes)
            observed, band = pyhf.infer.hypotest(
                1.0, workspace.data(model), model, test_stat="qtilde", return_expected_set=True
            )
            assert point.outcome.cls == pytest.approx(float(observed), abs=2e-4)
            np.testing.assert_allclose(sorted(point.outcome.expected_cls), sorted(map(float, band)), atol=2e-4)


def test_names_and_patterns_choose_patches_in_the_order_of_the_set():
    whole = PatchSet.from_dict(MASSES)
    result = signal_grid(BACKGROUND, whole, "significance", names=("m1*", "m400"))
    assert [point.name for point in result.points] == ["m400", "m1000"]
    with pytest.raises(PatchError, match=r"'m9\*' is no patch"):
        signal_grid(BACKGROUND, whole, names=("m9*",))
    with pytest.raises(OptionError, match="expected one of hypotest, upper-limit, significance"):
        signal_grid(BACKGROUND, whole, "limit")


def test_points_computed_by_workers_are_those_of_threads():
    broken = copy.deepcopy(MASSES)
    broken["patches"][1]["patch"][0]["path"] = "/channels/7/samples/-"
    for whole in (MASSES, broken):
        patches = PatchSet.from_dict(whole)
        with ThreadPoolExecutor(2) as pool:
            by_workers = signal_grid(BACKGROUND, patches, engine=Workers(pool, 2), cl=0.9)
        assert by_workers.to_dict() == signal_grid(BACKGROUND, patches, cl=0.9).to_dict()


def test_a_worker_process_computes_points(tmp_path, capsys):
    for name, content in (("b", BACKGROUND), ("set", MASSES)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    found = []
    for extra in ([], ["--workers", "1"]):
        out = tmp_path / "out.json"
        code, _, _ = run(["upper-limit", "-i", str(tmp_path / "b.json"), "--patch", f"{tmp_path / 'set.json'}:*",
                          "-q", "-o", str(out), *extra], capsys)  # fmt: skip
        assert code == 0
        found.append(json.loads(out.read_text()))
    assert found[0] == found[1]


class Dead(ThreadPoolExecutor):
    def submit(self, *_, **__):
        raise BrokenExecutor("gone")


def test_a_worker_that_dies_is_an_error():
    with Dead(1) as pool, pytest.raises(FitError, match=r"a worker process died \(gone\)"):
        signal_grid(BACKGROUND, PatchSet.from_dict(MASSES), engine=Workers(pool, 1))


def test_what_is_wrong_with_every_point_alike_is_raised_once():
    patches = PatchSet.from_dict(MASSES)
    other = copy.deepcopy(BACKGROUND)
    other["observations"][0]["data"][0] += 1.0
    with pytest.raises(PatchError, match="made for another workspace"):
        signal_grid(other, patches)
    with pytest.raises(OptionError, match=r"confidence level is 0\.3"):
        signal_grid(BACKGROUND, patches, cl=0.3)
    with pytest.raises(ModelError, match="expected a finite number from 10 on"):
        signal_grid(BACKGROUND, patches, poi_max=5.0)


def test_a_warning_that_many_points_share_comes_once():
    whole, lines = copy.deepcopy(MASSES), []
    for patch in whole["patches"]:
        patch["patch"][0]["value"]["modifiers"].append(modifier("odd", "normsys", {"lo": 1.0, "hi": 1.0}))
    signal_grid(BACKGROUND, PatchSet.from_dict(whole), note=lines.append)
    assert len(lines) == 1
    assert lines[0].endswith("(point 'm400' and 2 more)")


def test_a_point_that_fails_keeps_its_place_and_its_error():
    broken = copy.deepcopy(MASSES)
    broken["patches"][1]["patch"][0]["path"] = "/channels/7/samples/-"
    result = signal_grid(BACKGROUND, PatchSet.from_dict(broken))
    assert [point.outcome is None for point in result.points] == [False, True, False]
    assert "channels/7" in result.points[1].error
    assert result.to_dict()["n_failed"] == 1


def test_the_command_line_writes_all_points_and_the_code_says_whether_all_are_there(tmp_path, capsys):
    (tmp_path / "b.json").write_text(json.dumps(BACKGROUND))
    for name, content, expected in (("set", MASSES, 0), ("bad", copy.deepcopy(MASSES), 1)):
        if expected:
            content["patches"][0]["patch"][0]["path"] = "/channels/7/samples/-"
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        out = tmp_path / "out.json"
        arguments = [
            "upper-limit",
            "-i",
            str(tmp_path / "b.json"),
            "--patch",
            f"{tmp_path / name}.json:*",
            "-o",
            str(out),
        ]
        code, printed, err = run([*arguments, "--plot", str(tmp_path / "p.svg")], capsys)
        assert code == expected
        points = json.loads(out.read_text())["points"]
        assert [point["name"] for point in points] == ["m400", "m700", "m1000"]
        assert "m1000" in printed
        assert ("1 of 3 points failed; the first, m400" in err) == bool(expected)
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hypotest", "--mu", "1", "--mu", "2"], "2 values of mu; over several patches one value"),
        (["upper-limit", "--plan", "x.yaml"], "--plan belongs to one model"),
        (["hypotest", "--patch", "{set}:m400", "--workers", "2"], "one asymptotic test needs no workers"),
        (["upper-limit", "--gpu", "auto"], "--gpu auto predicts for one model"),
        (["upper-limit", "--dtype", "float32"], "does not compute in float32"),
        (["upper-limit", "--cl", "0.3"], "confidence level is 0.3"),
        (["significance", "--measurement", "nominal"], "'nominal'"),
        (["upper-limit", "--log-transfers"], "--log-transfers belongs to one model"),
        (["upper-limit", "--calculator", "toys"], "toys of several are a study: `nsmath run`"),
        (["significance", "--patch", "{set}:m400", "--plot", "{tmp}/p.svg"], "drawn over several patches"),
    ],
)
def test_options_that_a_grid_does_not_take_are_refused(arguments, message, tmp_path, capsys):
    (tmp_path / "b.json").write_text(json.dumps(BACKGROUND))
    (tmp_path / "set.json").write_text(json.dumps(MASSES))
    given = [word.format(set=tmp_path / "set.json", tmp=tmp_path) for word in arguments]
    pattern = [] if "--patch" in given else ["--patch", f"{tmp_path / 'set.json'}:*"]
    code, _, err = run([*given, "-i", str(tmp_path / "b.json"), *pattern], capsys)
    assert code == 2
    assert message in err
    assert not (tmp_path / "p.svg").exists()


def test_a_grid_over_one_label_is_drawn_in_its_order_with_the_band():
    shuffled = copy.deepcopy(MASSES)
    shuffled["patches"].reverse()
    result = signal_grid(BACKGROUND, PatchSet.from_dict(shuffled))
    axes = grid_figure(result).axes[0]
    observed = next(line for line in axes.lines if line.get_marker() == "o")
    np.testing.assert_array_equal(observed.get_xdata(), [400.0, 700.0, 1000.0])
    limits = {point.values["mass"]: point.outcome.observed.mu for point in result.points}
    np.testing.assert_allclose(observed.get_ydata(), [limits[m] for m in (400, 700, 1000)])


def test_a_grid_over_two_labels_is_drawn_with_the_exclusion_contour():
    result = signal_grid(BACKGROUND, PatchSet.from_dict(PLANE))
    observed = [point.outcome.observed.mu for point in result.points]
    assert min(observed) < 1.0 < max(observed)
    figure = grid_figure(result)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "observed exclusion at 95 % C.L." in texts
    assert len(figure.axes[0].collections[0].get_offsets()) == len(PLANE["patches"])


@pytest.mark.parametrize("task", GRID_TASKS)
def test_the_table_has_the_labels_and_the_numbers_of_every_point(task):
    broken = copy.deepcopy(MASSES)
    broken["patches"][1]["patch"][0]["path"] = "/channels/7/samples/-"
    result = signal_grid(BACKGROUND, PatchSet.from_dict(broken), task)
    rows = result.table()
    assert [(row["point"], row["mass"]) for row in rows] == [("m400", 400), ("m700", 700), ("m1000", 1000)]
    assert set(rows[1]) == {"point", "mass", "error"}
    assert "channels/7" in rows[1]["error"]
    for row, point in ((rows[0], result.points[0]), (rows[2], result.points[2])):
        found = point.outcome.to_dict()
        if task == "upper-limit":
            assert row["limit"] == found["observed"]
            band = found["expected"]["limit"]
        elif task == "hypotest":
            assert row["cls"] == found["cls"]
            band = found["expected_set"]["cls"]
        else:
            assert (row["p0"], row["z"]) == (found["clsb"], point.outcome.z)
            band = found["expected_set"]["clsb"]
        assert [row[f"expected_{edge}"] for edge in ("m2", "m1", "median", "p1", "p2")] == band
    assert result.to_dict()["table"] == rows


def test_a_label_that_is_called_like_a_column_keeps_apart():
    result = signal_grid(BACKGROUND, PatchSet.from_dict(patch_set([400], ("limit",))))
    (row,) = result.table()
    assert row["patch_limit"] == 400
    assert row["limit"] == result.points[0].outcome.observed.mu
