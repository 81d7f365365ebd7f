"""Tuned plans: measured once, found again, and never trusted when anything about them is off."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from workspaces import mu, one_channel, sample

from nsmath.errors import OptionError, PlanError
from nsmath.model.model import Model
from nsmath.plan.cache import cached_plan, plan_path, read_plan, write_plan
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import PlanKey, Tuned

MODEL = Model.from_workspace(one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[4.0]))
TUNED = Tuned(width=128, robust_width=32, newton_cost=5.0)


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSMATH_CACHE_DIR", str(tmp_path))


@pytest.fixture
def key(_cache: None) -> PlanKey:
    with Plan(MODEL, threads=1, tune=False) as plan:
        return plan.key


@pytest.mark.usefixtures("_cache")
def test_a_tuned_plan_is_stored_and_found_by_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    with Plan(MODEL, threads=1) as first:
        assert read_plan(plan_path(first.key)) == (first.key, first.tuned)
    caplog.set_level(logging.INFO, "nsmath.plan")
    with Plan(MODEL, threads=1) as second:
        assert second.tuned == first.tuned
    assert "tuned plan found" in caplog.text
    assert "tuned in" not in caplog.text


def test_a_plan_file_is_readable_yaml_without_python_objects(key: PlanKey) -> None:
    write_plan(plan_path(key), key, TUNED, {"seconds": 1.0})
    text = plan_path(key).read_text()
    assert "!!python" not in text
    assert yaml.safe_load(text)["tuned"] == {"width": 128, "robust_width": 32, "newton_cost": 5.0}
    assert list(plan_path(key).parent.glob("*.tmp")) == []


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "not: [valid",
        "format: nsmath-plan-0\n",
        "- 1\n- 2\n",
        "format: nsmath-plan-1\nkey: {}\ntuned: {width: 128, robust_width: 32, newton_cost: 5.0}\n",
        "!!python/object/apply:os.system ['true']\n",
        b"\xff\xfe\x00broken",
    ],
)
def test_a_corrupt_plan_is_skipped_with_one_line(
    key: PlanKey, damage: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = plan_path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    assert cached_plan(key) is None
    assert len([record for record in caplog.records if "skipped" in record.message]) == 1


@pytest.mark.parametrize(
    "tuned",
    [{"width": 7}, {"width": 10**9}, {"robust_width": 0}, {"newton_cost": -1.0}, {"width": "128"}, {"extra": 1}],
)
def test_values_out_of_range_are_skipped(
    key: PlanKey, tuned: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    path = plan_path(key)
    write_plan(path, key, TUNED, {})
    content = yaml.safe_load(path.read_text())
    content["tuned"].update(tuned)
    path.write_text(yaml.safe_dump(content))
    assert cached_plan(key) is None
    assert "skipped" in caplog.text


@pytest.mark.parametrize("field", ["model", "machine", "cores", "nsmath", "numpy", "numba", "nvmath", "blas"])
def test_a_stale_or_foreign_plan_is_skipped_and_names_the_difference(
    key: PlanKey, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = replace(key, **{field: 99 if field == "cores" else "other"})
    write_plan(plan_path(key), other, TUNED, {})
    assert cached_plan(key) is None
    assert f"{field}: " in caplog.text


def test_a_cache_that_cannot_be_written_costs_a_log_line_only(
    key: PlanKey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    write_plan(blocked / "plan.yaml", key, TUNED, {})
    assert "could not be stored" in caplog.text


def test_a_given_plan_file_is_used_and_a_bad_one_is_an_error(key: PlanKey, tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    write_plan(good, key, TUNED, {})
    with Plan(MODEL, threads=1, file=good) as plan:
        assert plan.tuned == TUNED
    foreign = tmp_path / "foreign.yaml"
    write_plan(foreign, replace(key, model="0" * 64), TUNED, {})
    with pytest.raises(PlanError, match="made for model 000000000000"):
        Plan(MODEL, threads=1, file=foreign)
    with pytest.raises(PlanError, match=r"missing\.yaml does not exist"):
        Plan(MODEL, threads=1, file=tmp_path / "missing.yaml")


@pytest.mark.usefixtures("_cache")
@pytest.mark.parametrize(
    ("options", "fragment"),
    [({"backend": "quantum"}, "cpu, mlx, reference"), ({"threads": 0}, "1 or more"), ({"width": 12}, "multiple of 8")],
)
def test_bad_plan_options_are_named(options: dict[str, object], fragment: str) -> None:
    with pytest.raises(OptionError, match=fragment):
        Plan(MODEL, tune=False, **options)  # type: ignore[arg-type]


def test_kernels_that_are_only_declared_do_not_count_as_compiled(tmp_path: Path) -> None:
    # numba makes the cache folder when it sees a kernel; a first run must still compile them all, in several processes.
    code = "import nsmath.backends.cpu, nsmath.backends.jit as jit; print(jit.kernel_cache_folder(), jit.is_compiled())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "NSMATH_CACHE_DIR": str(tmp_path)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    folder, compiled = done.stdout.rsplit(maxsplit=1)
    assert Path(folder).is_relative_to(tmp_path)
    assert compiled == "False"
