"""Write plans/study-grid-patches.json: a patch set of signal points for the bundled example, made up like a real grid.

Each patch puts the signal of one pair of masses in the place of the example's own: the yield falls with the mass of
the parent, the spectrum hardens with it, and a small mass difference moves events from SR_high to SR_low.
Deterministic; to be run again after a change of the example (a test compares).

    python scripts/make_study_grid.py [FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from make_example import TARGET as EXAMPLE
from make_example import YIELDS, modifiers

from nsmath.cli.output import json_text
from nsmath.spec.patchset import digest

TARGET = Path(__file__).resolve().parents[1] / "plans" / "study-grid-patches.json"
GRID = [(parent, child) for parent in (500, 700, 900) for child in (100, 300)]
REGIONS = ("SR_high", "SR_low")


def yields(parent: int, child: int) -> dict[str, list[float]]:
    """Return the expected signal events of each signal region, by bin."""
    total = 50.0 * np.exp(-(parent - 500) / 220.0)
    share = (parent - child) / (parent - child + 250.0)
    found = {}
    for region, part in zip(REGIONS, (share, 1.0 - share), strict=True):
        shape = np.array(YIELDS[region]["signal"])
        # A tilt of the example's own spectrum: harder for heavier parents.
        shape = shape * np.exp((parent - 700) / 600.0 * np.linspace(-1.0, 1.0, len(shape)))
        found[region] = [round(float(v), 4) for v in total * part * shape / shape.sum()]
    return found


def patch(parent: int, child: int, channels: list[str]) -> dict[str, object]:
    """Return one entry of the patch set."""
    operations = []
    for region, nominal in yields(parent, child).items():
        sample = {"name": "signal", "data": nominal, "modifiers": modifiers(region, "signal", nominal)}
        operations.append({"op": "replace", "path": f"/channels/{channels.index(region)}/samples/0", "value": sample})
    return {"metadata": {"name": f"signal_{parent}_{child}", "values": [parent, child]}, "patch": operations}


def patch_set(pairs: list[tuple[int, int]] | None = None) -> dict[str, object]:
    """Return the patch set of the example, for these pairs of masses."""
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    channels = [channel["name"] for channel in example["channels"]]
    return {
        "metadata": {
            "references": {"hepdata": "ins0000000"},
            "description": "signal points of the nsmath example, made up",
            "digests": {"sha256": digest(example)},
            "labels": ["m_parent", "m_child"],
        },
        "patches": [patch(parent, child, channels) for parent, child in pairs or GRID],
        "version": "1.0.0",
    }


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.write_text(json_text(patch_set()) + "\n", encoding="utf-8")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
