"""A small workspace that has every modifier type, for the tests to change one thing of."""

import pytest


def _modifier(name: str, kind: str, data: object = None) -> dict[str, object]:
    return {"name": name, "type": kind, "data": data}


@pytest.fixture
def document() -> dict:
    """A fresh valid document: SR with two bins and all seven modifier types, CR with one bin."""
    signal = {
        "name": "signal",
        "data": [5.0, 7.0],
        "modifiers": [_modifier("mu", "normfactor"), _modifier("lumi", "lumi")],
    }
    background = {
        "name": "background",
        "data": [50.0, 60.0],
        "modifiers": [
            _modifier("jes", "normsys", {"lo": 0.9, "hi": 1.1}),
            _modifier("jes", "histosys", {"lo_data": [45.0, 61.0], "hi_data": [54.0, 58.0]}),
            _modifier("mc", "staterror", [2.0, 3.0]),
            _modifier("free", "shapefactor"),
        ],
    }
    fakes = {
        "name": "fakes",
        "data": [4.0, 2.0],
        "modifiers": [_modifier("fake_rate", "shapesys", [1.0, 0.5])],
    }
    control = {
        "name": "background",
        "data": [100.0],
        "modifiers": [_modifier("mu_bkg", "normfactor"), _modifier("jes", "normsys", {"lo": 0.8, "hi": 1.3})],
    }
    return {
        "channels": [
            {"name": "SR", "samples": [signal, background, fakes]},
            {"name": "CR", "samples": [control]},
        ],
        "observations": [{"name": "CR", "data": [110.0]}, {"name": "SR", "data": [60.0, 66.0]}],
        "measurements": [
            {
                "name": "main",
                "config": {
                    "poi": "mu",
                    "parameters": [
                        {
                            "name": "lumi",
                            "auxdata": [1.0],
                            "sigmas": [0.02],
                            "bounds": [[0.5, 1.5]],
                            "inits": [1.0],
                        }
                    ],
                },
            }
        ],
        "version": "1.0.0",
    }
