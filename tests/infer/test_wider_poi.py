"""A wider bound of the parameter of interest is what a workspace with that bound means, and takes limits further."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pyhf
import pytest
from test_commands import run
from workspaces import modifier, mu, one_channel, sample

from nsmath import Model, Plan, hypotest, run_study, signal_grid, toy_upper_limit, upper_limit
from nsmath.errors import ModelError, OptionError, StoreError
from nsmath.infer.limit_curve import CurvePoint, found
from nsmath.infer.stored import stored_results
from nsmath.plan.tuned import Tuned
from nsmath.store.toystore import ToyStore

# Case C93: the signal is so small that no mu up to 10 is excluded.
NORM = modifier("n", "normsys", {"lo": 0.9, "hi": 1.1})
SMALL = one_channel(sample("s", [0.5], mu()), sample("b", [30.0], NORM), observed=[33.0])
WIDE = copy.deepcopy(SMALL)
WIDE["measurements"][0]["config"]["parameters"] = [{"name": "mu", "bounds": [[0.0, 80.0]], "inits": [1.0]}]
TUNED = Tuned(256, 16, 8.0)


def toys(model: Model, **options: Any) -> Any:
    with Plan(model, threads=2, tuned=TUNED) as plan:
        return toy_upper_limit(model, n_toys=200, plan=plan, **options)


def test_a_wider_bound_is_that_of_a_workspace_which_has_it() -> None:
    given, configured = Model.from_workspace(SMALL, poi_max=80.0), Model.from_workspace(WIDE)
    assert given.digest == configured.digest
    assert (given.poi_max, configured.poi_max) == (80.0, None)
    for limit in (upper_limit, toys):
        ours, theirs = limit(given).to_dict(), limit(configured).to_dict()
        assert (ours.pop("poi_max"), theirs.pop("poi_max")) == (80.0, None)
        assert ours["mu_max"] == 80.0
        assert ours == theirs


def test_the_limit_beyond_the_old_bound_is_that_of_pyhf() -> None:
    assert upper_limit(Model.from_workspace(SMALL)).observed.beyond == 10.0
    result = upper_limit(Model.from_workspace(SMALL, poi_max=80.0))
    assert result.observed.mu is not None
    assert result.observed.mu > 10.0
    codes = {"normsys": {"interpcode": "code4"}, "histosys": {"interpcode": "code4p"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pyhf.Workspace(WIDE).model(modifier_settings=codes)
        data = pyhf.Workspace(WIDE).data(model)
        at_limit = pyhf.infer.hypotest(result.observed.mu, data, model, test_stat="qtilde")
    assert float(at_limit) == pytest.approx(0.05, abs=2e-4)


@pytest.mark.parametrize("bound", [1e3, 1e9])
def test_a_limit_does_not_depend_on_how_wide_the_bound_is(bound: float) -> None:
    near, far = (upper_limit(Model.from_workspace(SMALL, poi_max=b)) for b in (80.0, bound))
    assert far.observed.mu == pytest.approx(near.observed.mu, rel=1e-6)
    for one, other in zip(near.expected, far.expected, strict=True):
        assert other.mu == pytest.approx(one.mu, rel=1e-6)
    near, far = (toys(Model.from_workspace(SMALL, poi_max=b)) for b in (80.0, bound))
    assert far.observed.mu == pytest.approx(near.observed.mu, rel=0.02)


@pytest.mark.parametrize("bound", [9.0, float("inf"), float("nan"), -1.0])
def test_a_bound_that_widens_nothing_is_refused(bound: float) -> None:
    with pytest.raises(ModelError, match=r"poi_max is .*; expected a finite number from 10 on.*'mu'.*'main'"):
        Model.from_workspace(SMALL, poi_max=bound)


def test_without_a_parameter_of_interest_there_is_nothing_to_widen() -> None:
    with pytest.raises(ModelError, match="no parameter of interest to widen"):
        Model.from_workspace(SMALL, poi="", poi_max=20.0)


def test_a_value_above_the_bound_names_the_option() -> None:
    with pytest.raises(OptionError, match=r"mu = 20 is outside the bounds \[0, 10\].*--poi-max"):
        hypotest(Model.from_workspace(SMALL), 20.0)
    assert hypotest(Model.from_workspace(SMALL, poi_max=20.0), 20.0).poi_max == 20.0
    with pytest.raises(OptionError, match="in its configuration"):
        hypotest(Model.from_workspace(SMALL), -1.0)


def test_a_store_remembers_the_bound_and_belongs_to_it(tmp_path: Path) -> None:
    toys(Model.from_workspace(SMALL, poi_max=80.0), store=tmp_path / "wide")
    with ToyStore.read(tmp_path / "wide") as store:
        assert {result.poi_max for result in stored_results(store)} == {80.0}
    with pytest.raises(StoreError, match=r"poi_max: 80\.0 there, None here"):
        toys(Model.from_workspace(SMALL), store=tmp_path / "wide")


def test_a_store_from_before_the_option_is_read(tmp_path: Path) -> None:
    toys(Model.from_workspace(SMALL), store=tmp_path / "old")
    described = json.loads((tmp_path / "old" / "_store.json").read_text())
    assert described.pop("poi_max") is None
    (tmp_path / "old" / "_store.json").write_text(json.dumps(described))
    again = toys(Model.from_workspace(SMALL), store=tmp_path / "old")
    assert all(work["fits"] == 0 for point in again.points for work in point.fits.values())


def test_studies_and_grids_take_the_bound(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    study = {"workspace": "small.json", "task": "upper-limit", "n_toys": 100, "threads": 1}
    for bound, limited in ((None, True), (80.0, False)):
        row = run_study({**study, **({} if bound is None else {"poi_max": bound})}, folder=tmp_path).rows[0]
        found_here = row.outcome.to_dict()
        assert (found_here["observed"] is None) == limited
        assert (found_here["poi_max"], found_here["mu_max"]) == (bound, bound or 10.0)
    narrow = run_study({**study, "poi_max": 5.0}, folder=tmp_path).rows[0]
    assert (narrow.status, "expected a finite number from 10 on" in narrow.error) == ("failed", True)
    background = copy.deepcopy(SMALL)
    signal = background["channels"][0]["samples"].pop(0)
    patch = {"metadata": {"name": "p", "values": [1]},
             "patch": [{"op": "add", "path": "/channels/0/samples/-", "value": signal}]}  # fmt: skip
    (tmp_path / "set.json").write_text(json.dumps({
        "metadata": {"references": {}, "digests": {"sha256": pyhf.utils.digest(background)}, "labels": ["m"],
                     "description": ""},
        "patches": [patch], "version": "1.0.0",
    }))  # fmt: skip
    grid = signal_grid(background, tmp_path / "set.json", poi_max=80.0)
    alone = upper_limit(Model.from_workspace(SMALL, poi_max=80.0))
    assert grid.points[0].outcome.observed.mu == pytest.approx(alone.observed.mu, rel=1e-7)


def test_the_command_line_names_the_option_and_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "small.json", tmp_path / "out.json"
    file.write_text(json.dumps(SMALL))
    for calculator in ("asymptotic", "toys"):
        command = ["upper-limit", "-i", str(file), "-o", str(out), "--calculator", calculator, "--n-toys", "100"]
        code, printed, _ = run(command, capsys)
        assert code == 0
        assert "observed           > 10" in printed
        assert ">: not excluded anywhere up to 10, the upper bound of mu; --poi-max X goes further" in printed
        written = json.loads(out.read_text())
        assert (written["observed"], written["observed_beyond"], written["mu_max"]) == (None, 10.0, 10.0)
        band = written["expected"]
        assert band["beyond"] == [10.0 if limit is None else None for limit in band["limit"]]
        assert band["beyond"][-1] == 10.0
        code, printed, _ = run([*command, "--poi-max", "80"], capsys)
        assert code == 0
        assert "observed           >" not in printed
        written = json.loads(out.read_text())
        assert written["observed"] > 10.0
        assert (written["observed_beyond"], written["mu_max"], written["poi_max"]) == (None, 80.0, 80.0)


def test_an_error_that_no_slope_stands_behind_is_none() -> None:
    # A staircase, between two steps: CLs is the same but for rounding.
    flat = [CurvePoint(m, 0.05 + d, 0.01) for m, d in ((1.0, 1e-15), (1.02, -1e-15), (1.04, -2e-15))]
    limit = found(flat, 0.05)
    assert limit.mu == pytest.approx(1.0, abs=0.05)
    assert limit.error is None
