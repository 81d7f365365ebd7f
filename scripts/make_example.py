"""Write nsmath/data/example.json: the workspace that nsmath ships, made up but built like a real search.

Two signal regions (a high-mass one in bins of a discriminant, a low-mass one), a ttbar and a Z control region, and one
for fakes. All seven modifier types, experimental uncertainties shared by normsys and histosys, MC statistics, two
measurements. Deterministic: the same file every time.

    python scripts/make_example.py [FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[1] / "nsmath" / "data" / "example.json"
POI = "mu_sig"
SEED = 20261205

# Channel -> sample -> expected yields.
YIELDS = {
    "SR_high": {
        "signal": [1.4, 3.1, 5.2, 6.4, 4.8],
        "ttbar": [61.0, 38.0, 20.5, 9.6, 3.9],
        "zjets": [33.0, 21.0, 11.8, 6.1, 2.9],
        "diboson": [12.5, 9.4, 6.3, 3.8, 2.1],
        "fakes": [10.0, 7.5, 4.5, 2.6, 1.5],
    },
    "SR_low": {
        "signal": [4.2, 6.6, 3.5],
        "ttbar": [152.0, 96.0, 41.0],
        "zjets": [88.0, 51.0, 24.0],
        "diboson": [30.0, 19.0, 9.5],
        "fakes": [24.0, 14.0, 7.0],
    },
    "CR_ttbar": {
        "ttbar": [820.0, 610.0, 390.0, 210.0],
        "zjets": [52.0, 41.0, 26.0, 15.0],
        "fakes": [38.0, 29.0, 17.0, 9.0],
    },
    "CR_zjets": {
        "ttbar": [44.0, 27.0, 14.0],
        "zjets": [640.0, 402.0, 188.0],
        "diboson": [58.0, 37.0, 19.0],
    },
    "CR_fakes": {
        "ttbar": [60.0, 45.0, 28.0, 13.0, 6.0],
        "fakes": [300.0, 220.0, 130.0, 70.0, 36.0],
    },
}
# Shape uncertainties: relative tilt across the bins, and a relative offset of both sides (asymmetry).
SHAPES = {"JES": (0.06, 0.012), "JER": (0.03, -0.008), "ttbar_shower": (0.08, 0.0), "zjets_scale": (0.05, 0.015)}
NORMS = {
    "JES": {"signal": (0.965, 1.03), "ttbar": (0.95, 1.055), "zjets": (0.94, 1.06), "diboson": (0.96, 1.045)},
    "b_tag": {"signal": (0.97, 1.03), "ttbar": (0.96, 1.04), "zjets": (1.05, 0.955), "diboson": (1.03, 0.97)},
    "lepton_eff": dict.fromkeys(("signal", "ttbar", "zjets", "diboson"), (0.985, 1.015)),
    "pileup": {"signal": (0.992, 1.011), "ttbar": (0.99, 1.012), "zjets": (0.985, 1.02)},
    "diboson_xsec": {"diboson": (0.88, 1.13)},
    "signal_pdf": {"signal": (0.93, 1.08)},
}


def shape(nominal: list[float], tilt: float, asymmetry: float) -> dict[str, list[float]]:
    """Return a tilted pair of templates."""
    position = np.linspace(-1.0, 1.0, len(nominal))
    values = np.array(nominal)
    return {
        "hi_data": [round(float(v), 4) for v in values * (1.0 + tilt * position + asymmetry)],
        "lo_data": [round(float(v), 4) for v in values * (1.0 - tilt * position + 0.5 * asymmetry)],
    }


def modifiers(channel: str, sample: str, nominal: list[float]) -> list[dict[str, object]]:
    """Return what changes one sample of one channel."""
    found: list[dict[str, object]] = []
    if sample == "fakes":
        if channel in ("CR_fakes", "SR_high"):
            # The shape of fakes is taken from data: free in every bin, shared by these two regions.
            found.append({"name": "fakes_shape", "type": "shapefactor", "data": None})
        else:
            error = [round(0.25 * v, 4) for v in nominal]
            found.append({"name": f"fakes_{channel}", "type": "shapesys", "data": error})
        return found
    if sample == "signal":
        found.append({"name": POI, "type": "normfactor", "data": None})
    if sample == "ttbar":
        found.append({"name": "norm_ttbar", "type": "normfactor", "data": None})
    if sample == "zjets":
        found.append({"name": "norm_zjets", "type": "normfactor", "data": None})
    if sample in ("signal", "diboson"):
        found.append({"name": "lumi", "type": "lumi", "data": None})
    for name, samples in NORMS.items():
        if sample in samples:
            lo, hi = samples[sample]
            found.append({"name": name, "type": "normsys", "data": {"hi": hi, "lo": lo}})
    for name, (tilt, asymmetry) in SHAPES.items():
        owner = name.split("_")[0]
        if owner in ("JES", "JER") or owner == sample:
            found.append({"name": name, "type": "histosys", "data": shape(nominal, tilt, asymmetry)})
    relative = {"signal": 0.03, "ttbar": 0.04, "zjets": 0.06, "diboson": 0.05}[sample]
    error = [round(float(relative * v * np.sqrt(nominal[0] / v)), 4) for v in nominal]
    found.append({"name": f"stat_{channel}", "type": "staterror", "data": error})
    return found


def workspace() -> dict[str, object]:
    """Return the example as a pyhf document."""
    rng = np.random.default_rng(SEED)
    channels, observations = [], []
    for channel, samples in YIELDS.items():
        total = sum(np.array(v) * (0.2 if sample == "signal" else 1.0) for sample, v in samples.items())
        observations.append({"name": channel, "data": [float(n) for n in rng.poisson(total)]})
        channels.append(
            {
                "name": channel,
                "samples": [
                    {"name": sample, "data": nominal, "modifiers": modifiers(channel, sample, nominal)}
                    for sample, nominal in samples.items()
                ],
            }
        )
    lumi = {"name": "lumi", "auxdata": [1.0], "sigmas": [0.017], "inits": [1.0], "bounds": [[0.9, 1.1]]}
    wide = {"name": POI, "inits": [1.0], "bounds": [[0.0, 10.0]]}
    return {
        "channels": channels,
        "observations": observations,
        "measurements": [
            {"name": "search", "config": {"poi": POI, "parameters": [lumi, wide]}},
            {
                "name": "search_fixed_theory",
                "config": {"poi": POI, "parameters": [lumi, wide, {"name": "signal_pdf", "fixed": True}]},
            },
        ],
        "version": "1.0.0",
    }


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(workspace(), indent=1) + "\n", encoding="utf-8")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
