"""Workspaces, points and columns that the numerical tests share: random ones, and the fixtures of shared/cases.

`workspaces` is a hypothesis strategy over all seven modifier types; `FIXTURES` holds small models, most of them with
fits known in closed form; `reference` and `real_model` read the real ones of ``../shared`` where that folder exists.
"""

from __future__ import annotations

import copy
import json
import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyhf
from hypothesis import Phase, settings
from hypothesis import strategies as st
from tolerances import TOLERANCES

from nsmath.backends import devices
from nsmath.backends.ops import BACKENDS
from nsmath.fitting.information import inverse_information
from nsmath.fitting.minimiser import Columns, Problem, Tolerances, minimise
from nsmath.model.model import Model
from nsmath.plan.plan import backend_model

EXAMPLES = settings(
    derandomize=True, deadline=None, max_examples=32, database=None, phases=[Phase.explicit, Phase.generate]
)
FEW_EXAMPLES = settings(EXAMPLES, max_examples=12)
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
BACKEND_NAMES = sorted(name for name in BACKENDS if devices.missing(name) is None)
"""Those that can run here; tests/backends/test_devices.py says which must."""

COMPUTED = [(backend, dtype) for backend, dtype in TOLERANCES if backend in BACKEND_NAMES]
"""Every backend but the reference, in every precision, as far as it can run here."""

ALPHAS = (-2.3, -1.0, -0.4, 0.0, 0.6, 1.0, 1.7)
"""Beyond, on and inside |alpha| = 1."""


# -- documents -------------------------------------------------------------------------------------------------


def modifier(name: str, kind: str, data: Any = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "data": data}


def sample(name: str, data: list[float], *modifiers: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "data": data, "modifiers": list(modifiers)}


def mu(name: str = "mu") -> dict[str, Any]:
    return modifier(name, "normfactor")


def document(
    channels: dict[str, list[dict[str, Any]]], observed: dict[str, list[float]], poi: str = "mu", **parameters: Any
) -> dict[str, Any]:
    """Return a pyhf document; ``parameters`` are the measurement's configurations by name."""
    return {
        "channels": [{"name": name, "samples": samples} for name, samples in channels.items()],
        "observations": [{"name": name, "data": data} for name, data in observed.items()],
        "measurements": [
            {
                "name": "main",
                "config": {"poi": poi, "parameters": [{"name": k, **v} for k, v in parameters.items()]},
            }
        ],
        "version": "1.0.0",
    }


def one_channel(*samples: dict[str, Any], observed: list[float], **parameters: Any) -> dict[str, Any]:
    return document({"SR": list(samples)}, {"SR": observed}, **parameters)


LUMI = {"auxdata": [1.0], "sigmas": [0.02], "bounds": [[0.5, 1.5]], "inits": [1.0]}

FIXTURES: dict[str, dict[str, Any]] = {
    "F1": one_channel(sample("s", [5.0], mu()), sample("b", [3.0]), observed=[4.0]),
    "F2": one_channel(
        sample("s", [5.0], mu()), sample("b", [10.0], modifier("u", "shapesys", [2.5])), observed=[9.0]
    ),
    "F3": one_channel(
        sample("s", [12.0, 11.0], mu()), sample("b", [50.0, 52.0], modifier("u", "shapesys", [3.0, 7.0])),
        observed=[51.0, 48.0],
    ),
    "F4": one_channel(
        sample("s", [10.0], mu()), sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1})),
        observed=[65.0],
    ),
    "F5": one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0]),
    "F6": document(
        {"SR": [sample("s", [5.0], mu()), sample("b", [10.0], mu("nu"))], "CR": [sample("b", [100.0], mu("nu"))]},
        {"SR": [33.0], "CR": [300.0]},
    ),
    # Two staterrors on one sample (C17), a sample with a gamma of its own beside it: several gammas in one bin.
    "three_gammas": one_channel(
        sample("s", [5.0, 2.0], mu()),
        sample("b", [50.0, 8.0], modifier("e1", "staterror", [4.0, 2.0])),
        sample("f", [9.0, 3.0], modifier("u", "shapesys", [3.0, 2.9])),
        sample("g", [4.0, 6.0], modifier("v", "shapesys", [6.0, 4.0])),
        observed=[61.0, 14.0],
    ),
    # An interfering sample (C05) that has a gamma: slots below 0.
    "negative_slot": one_channel(
        sample("s", [5.0, 4.0], mu()), sample("b", [50.0, 6.0]),
        sample("i", [-4.0, -2.0], modifier("k", "normsys", {"lo": 0.8, "hi": 1.3})),
        sample("f", [9.0, 3.0], modifier("u", "shapesys", [3.0, 2.0])),
        sample("t", [7.0, -1.0], modifier("e", "staterror", [2.0, 0.5])),
        observed=[61.0, 8.0],
    ),
    # tau < 1: auxiliary counts of 0 are common in toys.
    "small_tau": one_channel(
        sample("s", [5.0, 3.0], mu()), sample("b", [6.0, 4.0], modifier("u", "shapesys", [8.0, 9.0])),
        sample("c", [3.0, 2.0], modifier("w", "shapesys", [4.0, 3.0])), observed=[7.0, 0.0],
    ),
    # Narrow bounds: gammas end on them.
    "clipped": one_channel(
        sample("s", [5.0, 3.0], mu()), sample("b", [60.0, 40.0], modifier("e", "staterror", [12.0, 14.0])),
        sample("c", [30.0, 20.0], modifier("w", "shapesys", [9.0, 12.0])), observed=[150.0, 20.0],
        e={"bounds": [[0.9, 1.1]] * 2}, w={"bounds": [[0.8, 1.05]] * 2},
    ),
}  # fmt: skip


# -- random workspaces -----------------------------------------------------------------------------------------

_YIELDS = st.sampled_from([0.0, 0.7, 3.0, 12.5, 47.0, 160.0, 2000.0])
_SURE_YIELDS = st.sampled_from([6.0, 12.5, 47.0, 160.0, 2000.0])
_SMALL_YIELDS = st.sampled_from([-1.0, 0.0, 0.7, 3.0, 12.5])
_RATIOS = st.sampled_from([0.8, 0.95, 1.0, 1.07, 1.3])
_ERRORS = st.sampled_from([0.0, 0.02, 0.1, 0.4, 1.3])


def _list(draw: Any, numbers: st.SearchStrategy[float], size: int) -> list[float]:
    return [float(x) for x in draw(st.lists(numbers, min_size=size, max_size=size))]


def _scaled(draw: Any, data: list[float], numbers: st.SearchStrategy[float]) -> list[float]:
    return [abs(d) * x for d, x in zip(data, _list(draw, numbers, len(data)), strict=True)]


def _variation(draw: Any, name: str, data: list[float]) -> dict[str, Any]:
    lo, hi = ([d * x for d, x in zip(data, _list(draw, _RATIOS, len(data)), strict=True)] for _ in range(2))
    return modifier(name, "histosys", {"lo_data": lo, "hi_data": hi})


def _norm(draw: Any, name: str) -> dict[str, Any]:
    return modifier(name, "normsys", {"lo": draw(_RATIOS), "hi": draw(_RATIOS)})


@st.composite
def workspaces(draw: Any) -> dict[str, Any]:
    """Return a pyhf document with up to three channels and any mix of the seven modifier types.

    Names are shared where HistFactory allows it: ``jes`` between normsys and histosys, samples and channels;
    ``mc`` over all channels; ``free`` over channels of equal length. What pyhf 0.7.6 itself cannot build is avoided.
    """
    flag = st.booleans()
    names = draw(st.sampled_from([["SR"], ["Z", "A"], ["b", "c", "a"]]))
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    has_lumi, one_stat, same_size = draw(flag), draw(flag), len(set(sizes.values())) == 1
    channels, observed = {}, {}
    for name, size in sizes.items():
        signal = sample("signal", _list(draw, _YIELDS, size), mu())
        background = sample("background", _list(draw, _SURE_YIELDS, size))
        fakes = sample("fakes", _list(draw, _SMALL_YIELDS, size))
        optional = [
            (signal, lambda d: _norm(draw, "xsec")),
            (signal, lambda d: _variation(draw, "jes", d)),
            (background, lambda d: _norm(draw, "jes")),
            (background, lambda d: _variation(draw, "jes", d)),
            (background, lambda d: _variation(draw, "shape", d)),
            (background, lambda d: mu("k")),
            (fakes, lambda d: _norm(draw, "jes")),
            (fakes, lambda d, name=name: modifier(f"fake_{name}", "shapesys", _scaled(draw, d, _ERRORS))),
            (background, lambda d, name=name: modifier(f"cr_{name}", "shapesys", _scaled(draw, d, _ERRORS))),
        ]
        for target, make in optional:
            if draw(flag):
                target["modifiers"].append(make(target["data"]))
        if same_size and draw(flag):
            background["modifiers"].append(modifier("free", "shapefactor"))
        if one_stat or draw(flag):
            stat = "mc" if one_stat else f"mc_{name}"
            for target in (background, fakes):
                target["modifiers"].append(modifier(stat, "staterror", _scaled(draw, target["data"], _ERRORS)))
        if has_lumi:
            signal["modifiers"].append(modifier("lumi", "lumi"))
        channels[name] = [signal, background, fakes]
        observed[name] = _list(draw, st.sampled_from([0.0, 1.0, 7.0, 55.0, 170.0]), size)
    return document(channels, observed, **({"lumi": LUMI} if has_lumi else {}))


def points(model: Model, seed: int, n: int = 4, *, smooth: bool = False) -> np.ndarray:
    """Return ``n`` parameter points (n, P); ``smooth`` keeps clear of the kinks at alpha = -1, 0 and 1."""
    rng = np.random.default_rng(seed)
    theta = np.empty((n, len(model.names)))
    for p, parameter in enumerate(model.parameters):
        if parameter.lower < 0.0:
            theta[:, p] = rng.choice(ALPHAS, n)
            theta[:, p] += rng.uniform(0.02, 0.1, n) if smooth else 0.0
        else:
            theta[:, p] = rng.uniform(0.6, 1.4, n)
    return np.clip(theta, model.tensors.lower, model.tensors.upper)


def columns(model: Model, seed: int, n: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` main (n, B) and auxiliary data (n, A) that fluctuate about the nominal ones; some bins empty."""
    t, rng = model.tensors, np.random.default_rng(seed)
    data = rng.poisson(np.maximum(t.observed, 1.5), (n, t.n_bins)).astype(float)
    data[rng.uniform(size=data.shape) < 0.1] = 0.0
    normal = rng.normal(t.aux_observed, t.aux_scale, (n, t.n_aux))
    counts = rng.poisson(np.where(t.aux_is_poisson, t.aux_observed, 1.0), (n, t.n_aux))
    return data, np.where(t.aux_is_poisson, counts, normal).astype(float)


# -- the same by pyhf ------------------------------------------------------------------------------------------

PYHF_CODES = {
    "root": {"normsys": {"interpcode": "code4"}, "histosys": {"interpcode": "code4p"}},
    "pyhf": {"normsys": {"interpcode": "code1"}, "histosys": {"interpcode": "code0"}},
}


class PyhfModel:
    """The oracle: a pyhf model that takes this package's parameter and auxiliary vectors."""

    def __init__(self, spec: dict[str, Any], model: Model, interp: str) -> None:
        with warnings.catch_warnings():
            # pyhf 0.7.6 uses a deprecated class of jsonschema.
            warnings.simplefilter("ignore", DeprecationWarning)
            workspace = pyhf.Workspace(copy.deepcopy(spec), validate=False)
            self.model = workspace.model(modifier_settings=PYHF_CODES[interp], validate=False)
        config = self.model.config
        self.order = [model.names.index(name) for name in config.par_names]
        constrained = [name for name in model.names if model.parameters[model.names.index(name)].constraint != "none"]
        aux_names = [n for name in config.auxdata_order for n in config.par_names[config.par_slice(name)]]
        self.aux_order = [constrained.index(name) for name in aux_names]

    def rates(self, theta: np.ndarray) -> np.ndarray:
        return np.array([self.model.expected_data(x[self.order], include_auxdata=False) for x in theta])

    def nll(self, theta: np.ndarray, data: np.ndarray, aux: np.ndarray) -> np.ndarray:
        return np.array([
            -self.model.logpdf(x[self.order], np.concatenate([n, a[self.aux_order]]))[0]
            for x, n, a in zip(theta, data, aux, strict=True)
        ])  # fmt: skip


def five_point(function: Any, x: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Return d function / d x_p along a new last axis, to O(step^4); ``function`` takes (N, P)."""
    slopes = []
    for p in range(x.shape[1]):
        e = np.zeros_like(x)
        e[:, p] = step
        differences = 8.0 * (function(x + e) - function(x - e)) - (function(x + 2.0 * e) - function(x - 2.0 * e))
        slopes.append(differences / (12.0 * step))
    return np.stack(slopes, axis=-1)


# -- tiles and fits --------------------------------------------------------------------------------------------


def evaluated(
    model: Model, backend: str, theta: np.ndarray, data: np.ndarray, aux: np.ndarray, *, profile: bool = True,
    hessian: bool = False, dtype: str = "float64",
) -> Any:  # fmt: skip
    """Return NLL, gradient, gammas, rates, Hessian at ``theta`` (N, P), gammas profiled or as ``theta`` says."""
    t = model.tensors
    tile = backend_model(backend, model, dtype=dtype).tile(len(theta), curvature=True)
    tile.load(
        np.ascontiguousarray(theta[:, t.parameter].T), np.ascontiguousarray(data.T), np.ascontiguousarray(aux.T),
        np.zeros(t.n_minimised, dtype=bool),
    )  # fmt: skip
    tile.start()
    if hessian:
        tile.curvature()
    if not profile:
        tile.gammas[:, : tile.n] = theta[:, t.gamma_parameter].T
        tile.evaluate(tile.x, tile.nll, tile.gradient, profile=False)
    # A backend's buffers may be wider than what is asked for.
    n = tile.n
    got = SimpleNamespace(
        nll=tile.to_host(tile.nll[:n]).copy(), gradient=tile.to_host(tile.gradient[:, :n]).copy(),
        gammas=tile.to_host(tile.gammas[:, :n]).copy(), rate=tile.to_host(tile.rate[:, :n]).copy(),
        hessian=tile.to_host(tile.hessian[:n]).copy(),
    )  # fmt: skip
    tile.free()
    return got


def symmetric(upper: np.ndarray) -> np.ndarray:
    """Return full matrices from their upper triangles, (N, Z, Z)."""
    return np.triu(upper) + np.triu(upper, 1).transpose(0, 2, 1)


def fitted(
    model: Model, data: np.ndarray, aux: np.ndarray, *, poi: float | None = None, backend: str = "cpu",
    width: int | None = None, tolerances: Tolerances | None = None, dtype: str = "float64",
) -> Columns:  # fmt: skip
    """Return the fits of ``data`` (N, B), ``aux`` (N, A), in batches of ``width`` columns; ``poi`` holds the POI."""
    if poi is not None:
        model = model.with_fixed({model.poi: poi})
    t = model.tensors
    start, fixed = t.init[t.parameter].copy(), t.is_fixed[t.parameter].astype(bool)
    width = width or len(data)
    made = backend_model(backend, model, dtype=dtype)
    cheap, robust = made.tile(width, memory=6), made.tile(min(width, 16), curvature=True)
    matrix = inverse_information(robust, t, start, t.observed, t.aux_observed, fixed)
    z = np.flatnonzero(t.parameter == model.poi_index) if model.poi else []
    where = int(z[0]) if len(z) and not fixed[z[0]] else -1
    parts = []
    for i in range(0, len(data), width):
        chunk = [np.ascontiguousarray(array[i : i + width].T) for array in (data, aux)]
        problem = Problem(*chunk, [start], fixed, matrix, where, tolerances or Tolerances())
        parts.append(minimise(cheap, robust, problem))
    cheap.free()
    robust.free()
    return Columns.joined(parts)


def theta_of(model: Model, fits: Columns) -> np.ndarray:
    """Return full parameter vectors (N, P) of fits."""
    t = model.tensors
    theta = np.tile(t.init, (fits.z.shape[1], 1))
    theta[:, t.parameter], theta[:, t.gamma_parameter] = fits.z.T, fits.gammas.T
    return theta


# -- the real ones ---------------------------------------------------------------------------------------------


@cache
def reference() -> dict[str, Any]:
    """Return ``reference.json`` by workspace; empty where ../shared is absent."""
    path = SHARED / "reference.json"
    return json.loads(path.read_text())["workspaces"] if path.exists() else {}


@cache
def real_model(name: str, interp: str = "root") -> Model:
    return Model.from_workspace(json.loads((SHARED / f"{name}.json").read_text()), interp=interp)
