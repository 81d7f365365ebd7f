"""Which device computes: asked for by name, or predicted from what autotune has measured; with faked devices."""

from __future__ import annotations

import pytest
from workspaces import FIXTURES

from nsmath.errors import BackendError, OptionError
from nsmath.model.model import Model
from nsmath.plan import choice
from nsmath.plan.choice import Choice, asked_for, fastest, predicted_seconds

MODEL = Model.from_workspace(FIXTURES["three_gammas"])
CPU = {"microseconds_per_column": {64: 2.0, 128: 2.0, 256: 1.8}, "width": 256}
# A launch-bound device: 300 us whatever the width, at first.
GPU = {"microseconds_per_column": {64: 5.0, 128: 2.6, 1024: 0.4}, "width": 1024}


def measure(model, chosen):
    return CPU if chosen.device == "cpu" else GPU


def test_a_device_asked_for_brings_its_backend_and_precision(present):
    present("cuda", "metal")
    assert asked_for("cuda") == Choice("cuda", "float64", "cuda")
    assert asked_for("cuda", "float32") == Choice("cuda", "float32", "cuda")
    assert asked_for("metal") == Choice("mlx", "float32", "metal")
    assert asked_for() == Choice("cpu", "float64", "cpu")
    assert asked_for(backend="reference") == Choice("reference", "float64", "cpu")


def test_what_cannot_be_is_an_error_and_no_other_device(present):
    present("metal")
    with pytest.raises(BackendError, match="gpu 'cuda' cannot be used: not here"):
        asked_for("cuda")
    with pytest.raises(BackendError, match="gpu 'metal' does not compute in float64; expected float32"):
        asked_for("metal", "float64")
    with pytest.raises(OptionError, match=r"float16.*float64, float32"):
        asked_for("metal", "float16")
    with pytest.raises(OptionError, match="both backend 'reference' and gpu 'metal'"):
        asked_for("metal", backend="reference")


def test_without_a_device_auto_takes_the_cpu_and_says_so(present):
    present()
    assert fastest(MODEL, 4000, measure=measure) == Choice("cpu", "float64", "cpu", "no GPU found: CPU")


def test_auto_takes_the_cpu_for_little_work_and_the_device_for_much(present):
    present("cuda")
    few = fastest(MODEL, 1, threads=4, what="1 fit", measure=measure)
    many = fastest(MODEL, 400_000, threads=1, what="100000 toys", measure=measure)
    assert few.device == "cpu"
    assert many.device == "cuda"
    n = len(MODEL.names)
    assert few.reason.startswith(f"{n} parameters, 1 fit: CPU, ")
    assert few.reason.endswith(" predicted on cuda")
    assert many.reason.startswith(f"{n} parameters, 100000 toys: cuda, ")
    assert many.reason.endswith(" predicted on the CPU")


def test_auto_never_gives_up_float64_unasked(present):
    present("metal")
    assert fastest(MODEL, 400_000, threads=1, measure=measure) == Choice(
        "cpu", "float64", "cpu", "metal does not compute in float64: CPU"
    )
    assert fastest(MODEL, 400_000, dtype="float32", threads=1, measure=measure).device == "metal"
    # The CPU competes in the only precision that it has.
    assert fastest(MODEL, 1, dtype="float32", threads=1, measure=measure).dtype == "float64"


def test_a_prediction_is_the_work_over_the_threads():
    # 1024 fits of 15 evaluations in tiles of 256 columns at 1.8 us.
    assert predicted_seconds(CPU, 1024, threads=1) == pytest.approx(15 * 1024 * 1.8e-6)
    assert predicted_seconds(CPU, 1024, threads=2) == pytest.approx(15 * 512 * 1.8e-6)
    # No more threads than tiles.
    assert predicted_seconds(CPU, 256, threads=8) == pytest.approx(15 * 256 * 1.8e-6)
    # One fit: nothing fixed on this CPU; on the device 307.2 us an evaluation at any width up to 128.
    assert predicted_seconds(CPU, 1, threads=1) == pytest.approx(15 * 2e-6)
    assert predicted_seconds(GPU, 1, threads=1) == pytest.approx(15 * 307.2e-6, rel=0.01)


def test_measurements_come_from_the_tuned_plan_and_are_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NSMATH_CACHE_DIR", str(tmp_path))
    model = Model.from_workspace(FIXTURES["F1"])
    first = choice.measured(model, Choice("cpu", "float64", "cpu"))
    assert len(first["microseconds_per_column"]) >= 2
    assert first["width"] in first["microseconds_per_column"]
    # A second time they are read: timings measured anew would differ.
    assert choice.measured(model, Choice("cpu", "float64", "cpu")) == first
