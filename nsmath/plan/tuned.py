"""What tuning decides, and what a tuned record must match to be used again."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, fields
from typing import Any

from nsmath.errors import PlanError

WIDTHS = (64, 128, 192, 256, 384, 512, 1024, 2048, 4096)
"""Tile widths that tuning tries; multiples of 64 columns keep the compaction ladder in steps of eight."""
ROBUST_WIDTHS = (16, 32, 64)


@dataclass(frozen=True, slots=True)
class Tuned:
    """Choices that change how fast a study runs, and its results by rounding only.

    Attributes
    ----------
    width : columns of a tile in the cheap tier; toys belong to tiles by index, so it is part of a run's bits.
    robust_width : columns of a tile in the robust tier.
    newton_cost : cost of a robust iteration in cheap ones, for the decision when to hand a column over.
    """

    width: int
    robust_width: int
    newton_cost: float

    def __post_init__(self) -> None:
        in_range = 8 <= self.width <= 65536 and 1 <= self.robust_width <= 4096 and 0.01 <= self.newton_cost <= 1e4
        if not in_range or self.width % 8:
            raise PlanError(
                f"tuned values are out of range: width {self.width} (8 to 65536, a multiple of 8), robust_width "
                f"{self.robust_width} (1 to 4096), newton_cost {self.newton_cost} (0.01 to 10000). Tune anew: "
                "delete the plan file or leave --plan away."
            )


@dataclass(frozen=True, slots=True)
class PlanKey:
    """Everything that a tuned record must match: the model, the machine, the libraries."""

    model: str
    backend: str
    dtype: str
    machine: str
    cores: int
    nsmath: str
    numpy: str
    numba: str
    nvmath: str
    blas: str

    def mismatch(self, other: PlanKey) -> str | None:
        """Return the first field in which ``other`` differs, as ``name: ours, theirs``; None when all agree."""
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs:
                return f"{field.name}: {theirs!r} there, {ours!r} here"
        return None


def available_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_name() -> str:
    """Return the processor's name, as the system tells it."""
    if platform.system() == "Linux":
        with open("/proc/cpuinfo") as cpuinfo:
            for line in cpuinfo:
                if line.lower().startswith("model name"):
                    return f"{line.split(':', 1)[1].strip()} ({platform.machine()})"
    return f"{platform.processor() or 'unknown'} ({platform.machine()})"


def record(key: PlanKey, tuned: Tuned, measured: dict[str, Any]) -> dict[str, Any]:
    """Return the plan file's content."""
    return {"format": "nsmath-plan-1", "key": asdict(key), "tuned": asdict(tuned), "measured": measured}


def parse_record(content: Any) -> tuple[PlanKey, Tuned]:
    """Return key and tuned values of a plan file's content.

    Raises
    ------
    PlanError
        Not a plan record, or values out of range.
    """
    if not isinstance(content, dict) or content.get("format") != "nsmath-plan-1":
        got = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise PlanError(f"not a plan file: expected format 'nsmath-plan-1', got {got!r}.")
    try:
        types = {"width": int, "robust_width": int, "newton_cost": float}
        values = content["tuned"]
        if set(values) != set(types) or any(isinstance(v, (bool, str)) or v is None for v in values.values()):
            raise TypeError(f"tuned holds {values}")
        tuned = Tuned(**{name: kind(values[name]) for name, kind in types.items()})
        key = PlanKey(**content["key"])
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(f"damaged plan file: {type(error).__name__}: {error}.") from error
    return key, tuned
