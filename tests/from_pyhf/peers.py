"""Workspaces, and the models and data that pyhf makes of them."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pyhf
from workspaces import FIXTURES, LUMI, document, modifier, mu, sample

# All seven modifier types, three channels that are not in the order of their names.
EVERYTHING = document(
    {
        "SR": [
            sample("s", [5.0, 9.0], mu(), modifier("lumi", "lumi"),
                   modifier("jes", "normsys", {"lo": 0.9, "hi": 1.15})),
            sample(
                "b", [50.0, 40.0], modifier("lumi", "lumi"), modifier("mc", "staterror", [3.0, 4.0]),
                modifier("jes", "histosys", {"lo_data": [45.0, 39.0], "hi_data": [56.0, 43.0]}),
            ),
        ],
        "CR": [
            sample("b", [300.0, 200.0], modifier("free", "shapefactor"),
                   modifier("jes", "normsys", {"lo": 0.95, "hi": 1.04})),
        ],
        "A": [
            sample("q", [30.0, 20.0], modifier("mc2", "staterror", [3.0, 0.0]), modifier("u", "shapesys", [5.0, 4.0])),
        ],
    },
    {"SR": [60.0, 52.0], "CR": [280.0, 230.0], "A": [33.0, 18.0]},
    lumi=LUMI,
)  # fmt: skip
SPECS = {name: FIXTURES[name] for name in ("F1", "F2", "F6", "three_gammas", "small_tau", "clipped")}
SPECS["everything"] = EVERYTHING


def peer(name: str, **options: Any) -> tuple[Any, list[float]]:
    """Return pyhf's model and data of a row of SPECS."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        workspace = pyhf.Workspace(copy.deepcopy(SPECS[name]))
        pdf = workspace.model(**options)
    return pdf, list(workspace.data(pdf))
