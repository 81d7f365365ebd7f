"""Toys of one hypothesis: main and auxiliary data, each toy a pure function of (seed, hypothesis, index)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsmath._typing import Array, IntArray
from nsmath.backends.ops import BackendModel
from nsmath.errors import ModelError
from nsmath.fitting.information import expected_auxdata
from nsmath.formulas.poisson_tables import RATE_MAXIMUM, SamplingTables, poisson_tables
from nsmath.model.model import Model

HYPOTHESES = {"b": 0, "sb": 1, "b_nominal": 2, "sb_nominal": 3}
"""Stream of each ensemble: background only, and the tested signal with background; at the conditional fits to the
observed data, and at the nominal parameters."""
BEST_FIT_STREAM = 4
"""Stream of the toys at the best fit, which tell how good it is."""


@dataclass(frozen=True, slots=True)
class ToySampler:
    """What one ensemble is drawn from.

    Draw indices: main bins first, then normal auxiliary measurements, then Poisson ones; so the toys do not
    depend on which of them are profiled.

    Attributes
    ----------
    hypothesis : stream number. theta : (P,) the truth. rates : (B,) expected counts.
    aux : (A,) expected auxiliary data; normal, poisson : their positions.
    fluctuates : auxiliary data are drawn; else they stay as observed.
    """

    hypothesis: int
    theta: Array
    rates: Array
    aux: Array
    observed_aux: Array
    sigma: Array
    normal: IntArray
    poisson: IntArray
    main_tables: SamplingTables
    aux_tables: SamplingTables
    fluctuates: bool

    @classmethod
    def at(cls, model: Model, theta: Array, rates: Array, *, hypothesis: int, fluctuates: bool) -> ToySampler:
        """Return the sampler of toys at ``theta`` (P,) with ``rates`` (B,).

        Raises
        ------
        ModelError
            A rate that no Poisson count can be drawn from.
        """
        t = model.tensors
        # The fit keeps rates >= 0; what is left below is rounding of a sum that cancels.
        rates = np.where((rates < 0.0) & (rates > -1e-9), 0.0, rates)
        aux = expected_auxdata(t, theta)
        is_poisson = t.aux_is_poisson != 0
        normal, poisson = np.flatnonzero(~is_poisson), np.flatnonzero(is_poisson)
        for what, means in (("bin", rates), ("auxiliary measurement", aux[poisson])):
            bad = ~((means >= 0.0) & (means <= RATE_MAXIMUM))
            if bad.any():
                raise ModelError(
                    f"{what} {int(np.argmax(bad))} expects {means[np.argmax(bad)]:g} events at the toys' parameters; "
                    f"counts can be drawn from 0 to {RATE_MAXIMUM:g}. Look at the templates there."
                )
        return cls(
            hypothesis=hypothesis, theta=theta, rates=rates, aux=aux, observed_aux=t.aux_observed,
            sigma=t.aux_scale, normal=normal, poisson=poisson, main_tables=poisson_tables(rates),
            aux_tables=poisson_tables(aux[poisson]), fluctuates=fluctuates,
        )  # fmt: skip

    def draw(self, backend: BackendModel, toys: IntArray, seed: int) -> tuple[Any, Any]:
        """Return main data (B, N) and auxiliary data (A, N) of the toys with these indices, where the backend samples.

        On the host these are NumPy arrays, on a device the backend's own columns.
        """
        n, n_bins = len(toys), len(self.rates)
        stream = {"seed": seed, "hypothesis": self.hypothesis}
        data = backend.empty_columns(n_bins, n)
        backend.sample_poisson(data, self.main_tables, toys, first_draw=0, **stream)
        aux = backend.empty_columns(len(self.aux), n)
        if not self.fluctuates:
            backend.put_rows(aux, np.arange(len(self.aux)), self.observed_aux[:, None])
            return data, aux
        part = backend.empty_columns(len(self.normal), n)
        backend.sample_normal(part, self.aux[self.normal], self.sigma[self.normal], toys, first_draw=n_bins, **stream)
        backend.put_rows(aux, self.normal, part)
        part = backend.empty_columns(len(self.poisson), n)
        backend.sample_poisson(part, self.aux_tables, toys, first_draw=n_bins + len(self.normal), **stream)
        backend.put_rows(aux, self.poisson, part)
        return data, aux
