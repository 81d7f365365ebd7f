"""Which backend computes: the one that is asked for, or the one that tuned plans predict to be the fastest.

A prediction is arithmetic on what autotune has measured: microseconds of an evaluation per column, at several tile
widths. Its two narrowest widths also give what an evaluation costs whatever its width, which is what a device loses on
small studies. The robust tier is left out, so predictions of hard models are too short on every device alike.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nsmath.backends.devices import DEVICES, required_device
from nsmath.backends.ops import BACKENDS
from nsmath.errors import BackendError, OptionError
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import available_cores

logger = logging.getLogger("nsmath.plan")

GPU_CHOICES = ("none", *DEVICES, "auto")
DTYPE_CHOICES = ("float64", "float32")
EVALUATIONS = 15.0
"""Evaluations' worth of work in a typical fit: ten iterations, each with half an evaluation of recursion."""
FITS_PER_TOY = 4
"""A free and a conditional fit, in each of two ensembles."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What computes, and why.

    Attributes
    ----------
    backend : a row of `BACKENDS`. dtype : its precision. device : ``cpu``, or a row of `DEVICES`.
    reason : one line for people; empty where nothing was chosen.
    """

    backend: str
    dtype: str
    device: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds that one choice is predicted to take."""

    choice: Choice
    seconds: float


TIMES = "microseconds_per_column"
"""Where a plan file has the times of an evaluation, by tile width."""

Measure = Callable[[Model, Choice], Mapping[str, Any]]
"""Returns what autotune measured for a choice, and the ``width`` of its tiles."""


def asked_for(gpu: str = "none", dtype: str | None = None, backend: str = "cpu") -> Choice:
    """Return the choice that is asked for by name; never another one in its place.

    Parameters
    ----------
    gpu : ``none`` or a row of `DEVICES`. dtype : the device's own when None, float64 where it has that.
    backend : a row of `BACKENDS`, where ``gpu`` is ``none``.

    Raises
    ------
    OptionError
        Unknown names, or both a backend and a device.
    BackendError
        The device is not here, or does not compute in ``dtype``.
    """
    if dtype is not None and dtype not in DTYPE_CHOICES:
        raise OptionError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPE_CHOICES)}.")
    if gpu == "none":
        return Choice(backend, dtype or "float64", "cpu")
    if backend != "cpu":
        raise OptionError(f"both backend {backend!r} and gpu {gpu!r} are given; a device has a backend of its own.")
    device = required_device(gpu)
    if dtype not in (None, *device.dtypes):
        raise BackendError(
            f"gpu '{gpu}' does not compute in {dtype}; expected {' or '.join(device.dtypes)}. Leave the dtype away, or "
            "compute on the CPU (gpu none)."
        )
    return Choice(device.backend, dtype or device.dtypes[0], gpu)


def measured(model: Model, choice: Choice) -> Mapping[str, Any]:
    """Return what autotune measured for a choice: from its plan file, or measured and stored now."""
    with Plan(model, backend=choice.backend, dtype=choice.dtype, threads=1) as plan:
        if len(plan.measured.get(TIMES, ())) < 2:
            plan.autotune()
        return {**plan.measured, "width": plan.tuned.width}


def predicted_seconds(measurement: Mapping[str, Any], n_fits: int, threads: int) -> float:
    """Return the seconds that ``n_fits`` fits take on so many threads.

    measurement : `TIMES` by tile width, as in plan files, and the ``width`` of tiles.
    """
    width = int(measurement["width"])
    table = {int(w): 1e-6 * float(t) for w, t in measurement[TIMES].items()}
    narrow, wide = sorted(table)[:2]
    slope = (wide * table[wide] - narrow * table[narrow]) / (wide - narrow)
    fixed = max(narrow * table[narrow] - slope * narrow, 0.0)
    n_tiles = math.ceil(n_fits / width)
    columns = math.ceil(n_fits / n_tiles)
    per_tile = columns * table[width] if columns >= narrow and width in table else fixed + max(slope, 0.0) * columns
    return EVALUATIONS * per_tile * n_tiles / min(threads, n_tiles)


def fastest(
    model: Model, n_fits: int, *, dtype: str | None = None, threads: int | None = None, what: str = "",
    measure: Measure = measured,
) -> Choice:  # fmt: skip
    """Return the choice that is predicted to be the fastest for ``n_fits`` fits, with its reason.

    Devices compete if they are here and compute in ``dtype`` (float64 when None: precision is never given up unasked).

    Parameters
    ----------
    what : the study in words, such as ``1000 toys``. measure : returns what autotune measured.

    Raises
    ------
    OptionError
        Unknown dtype.
    """
    cpu = asked_for(dtype=None if dtype == "float32" else dtype)
    wanted, size = dtype or cpu.dtype, f"{len(model.names)} parameters, {what or f'{n_fits} fits'}"
    here = [device for device in DEVICES.values() if device.backend in BACKENDS and device.missing() is None]
    if not here:
        return Choice(cpu.backend, cpu.dtype, cpu.device, "no GPU found: CPU")
    able = [device for device in here if wanted in device.dtypes]
    if not able:
        names = " and ".join(device.name for device in here)
        return Choice(cpu.backend, cpu.dtype, cpu.device, f"{names} does not compute in {wanted}: CPU")
    choices = [cpu, *(Choice(device.backend, wanted, device.name) for device in able)]
    found = [_prediction(model, choice, n_fits, threads, measure) for choice in choices]
    best, second = sorted(found, key=lambda prediction: prediction.seconds)[:2]
    name = {"cpu": "CPU"}.get(best.choice.device, best.choice.device)
    other = {"cpu": "the CPU"}.get(second.choice.device, second.choice.device)
    chosen = best.choice
    reason = f"{size}: {name}, {best.seconds:.2g} s against {second.seconds:.2g} s predicted on {other}"
    return Choice(chosen.backend, chosen.dtype, chosen.device, reason)


def _prediction(model: Model, choice: Choice, n_fits: int, threads: int | None, measure: Measure) -> Prediction:
    measurement = measure(model, choice)
    # A device is driven from one thread.
    workers = (threads or available_cores()) if choice.device == "cpu" else 1
    seconds = predicted_seconds(measurement, n_fits, workers)
    logger.info("predicted on %s in %s: %.3g s", choice.device, choice.dtype, seconds)
    return Prediction(choice, seconds)


def chosen(
    model: Model, n_fits: int, *, gpu: str = "none", dtype: str | None = None, backend: str = "cpu",
    threads: int | None = None, what: str = "",
) -> Choice:  # fmt: skip
    """Return the choice of the options ``gpu``, ``dtype`` and ``backend``; see `asked_for` and `fastest`."""
    if gpu != "auto":
        return asked_for(gpu, dtype, backend)
    if backend != "cpu":
        raise OptionError(f"both backend {backend!r} and gpu 'auto' are given; leave one of them away.")
    return fastest(model, n_fits, dtype=dtype, threads=threads, what=what)
