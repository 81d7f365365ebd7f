"""How often limits cover: throw data at a true mu, set the limit with toys, count how often it lies above.

    python scripts/limit_coverage.py [--experiments 400] [--n-toys 2000]

CLs limits must cover at least as often as their confidence level says, and more often where the signal is weak. Whether
a limit lies above the true mu needs the test of that mu alone: CLs(mu_true) >= 0.05.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from nsmath import Model, Plan, hypotest_toys


def sample(name: str, data: list[float], *modifiers: dict[str, object]) -> dict[str, object]:
    return {"name": name, "data": data, "modifiers": list(modifiers)}


def modifier(name: str, kind: str, data: object = None) -> dict[str, object]:
    return {"name": name, "type": kind, "data": data}


def workspace(samples: list[dict[str, object]], observed: list[float]) -> dict[str, object]:
    return {
        "version": "1.0.0",
        "channels": [{"name": "SR", "samples": samples}],
        "observations": [{"name": "SR", "data": observed}],
        "measurements": [{"name": "m", "config": {"poi": "mu", "parameters": []}}],
    }


def one_bin(observed: list[float]) -> dict[str, object]:
    """One bin with a background known to a quarter from its own auxiliary count: F2 of the trouble cases."""
    background = sample("b", [10.0], modifier("u", "shapesys", [2.5]))
    return workspace([sample("s", [5.0], modifier("mu", "normfactor")), background], observed)


def twenty_parameters(observed: list[float]) -> dict[str, object]:
    """Six bins, two backgrounds, 20 parameters of five types."""
    signal, b1, b2 = (
        np.array([1.0, 2.0, 4.0, 4.0, 2.0, 1.0]),
        np.array([60.0, 45.0, 34.0, 25.0, 19.0, 14.0]),
        np.full(6, 9.0),
    )
    waves = [0.04 * np.cos(k + np.arange(6)) for k in range(4)]
    shapes = [
        modifier(f"shape{k}", "histosys", {"hi_data": list(b1 * (1 + wave)), "lo_data": list(b1 * (1 - wave))})
        for k, wave in enumerate(waves)
    ]
    norms = [modifier(f"norm{k}", "normsys", {"hi": 1.02 + 0.02 * k, "lo": 0.97 - 0.02 * k}) for k in range(3)]
    return workspace(
        [
            sample("s", list(signal), modifier("mu", "normfactor"), norms[0]),
            sample("b1", list(b1), *shapes, *norms, modifier("stat", "staterror", list(0.05 * b1))),
            sample("b2", list(b2), norms[1], modifier("fake", "shapesys", list(0.3 * b2))),
        ],
        observed,
    )


MODELS = {"one bin (F2)": (one_bin, 1, (0.5, 1.0, 2.0)), "20 parameters": (twenty_parameters, 6, (1.0, 3.0))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=400)
    parser.add_argument("--n-toys", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| model | parameters | true mu | experiments | limit above true mu | CLs+b >= 0.05 | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, (make, n_bins, truths) in MODELS.items():
        nominal = Model.from_workspace(make([10.0] * n_bins))
        for truth in truths:
            started = time.perf_counter()
            cls_covers, clsb_covers = 0, 0
            rng = np.random.default_rng(options.seed)
            for k in range(options.experiments):
                model = experiment(make, nominal, truth, rng)
                with Plan(model, tune=False, width=512) as plan:
                    result = hypotest_toys(model, truth, n_toys=options.n_toys, seed=k, plan=plan)
                cls_covers += (result.cls or 0.0) >= 0.05
                clsb_covers += (result.clsb or 0.0) >= 0.05
            n = options.experiments
            shares = " | ".join(
                f"{x / n:.3f} +- {math.sqrt(x / n * (1 - x / n) / n):.3f}" for x in (cls_covers, clsb_covers)
            )
            seconds = time.perf_counter() - started
            print(f"| {name} | {len(nominal.names)} | {truth:g} | {n} | {shares} | {seconds:.0f} |", flush=True)


def experiment(make: object, nominal: Model, truth: float, rng: np.random.Generator) -> Model:
    """Return the model with data, main and auxiliary, drawn at the nominal parameters and the true mu."""
    from dataclasses import replace

    from nsmath.model.rates import rates

    whole = nominal.unprofiled.tensors
    theta = nominal.init.copy()
    theta[nominal.require_poi()] = truth
    observed = rng.poisson(rates(whole, theta)[0]).astype(float)
    model = Model.from_workspace(make(list(observed)))  # type: ignore[operator]
    t = model.tensors
    centre, scale = theta[t.aux_parameter], t.aux_scale
    poisson = t.aux_is_poisson != 0
    aux = np.where(
        poisson, rng.poisson(np.where(poisson, centre * scale, 1.0)), rng.normal(centre, np.where(poisson, 1.0, scale))
    )
    return replace(model, tensors=replace(t, aux_observed=aux))


if __name__ == "__main__":
    main()
