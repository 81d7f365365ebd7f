"""The tables: the distribution they hold, the guide, and the budget."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nsmath.formulas import poisson_tables as pt
from nsmath.formulas import random

RATES = [0.0, 1e-300, 1e-9, 0.3, 1.0, 3.0, 49.99, 1000.0, 1e4]


@pytest.mark.parametrize("rate", RATES)
def test_table_is_the_poisson_distribution(rate):
    tables = pt.poisson_tables(np.array([rate]))
    first = int(tables.first_count[0])
    counts = first + np.arange(tables.cdf.size)
    np.testing.assert_allclose(tables.cdf, stats.poisson.cdf(counts, rate), rtol=0.0, atol=1e-15)
    assert np.all(np.diff(tables.cdf) >= 0.0)
    assert tables.cdf[-1] == 1.0
    # What is cut off on either side is less than the smallest uniform, but for rounding.
    assert stats.poisson.cdf(first - 1, rate) <= 1.01 * pt.SMALLEST_UNIFORM
    assert stats.poisson.sf(int(counts[-1]), rate) <= 3.0 * pt.SMALLEST_UNIFORM


@pytest.mark.parametrize("rate", RATES)
def test_guided_search_finds_what_binary_search_finds(rate):
    tables = pt.poisson_tables(np.array([rate]))
    rng = np.random.default_rng(3)
    edges = np.arange(1, tables.guide.size) / tables.guide.size
    extremes = [pt.SMALLEST_UNIFORM, 1.0 - pt.SMALLEST_UNIFORM]
    u = np.concatenate([rng.random(1000) + 2.0**-54, edges, tables.cdf[:-1], extremes])
    u = u[(u > 0.0) & (u < 1.0)]
    guided = [random.table_count(float(x), tables.cdf, tables.guide) for x in u]
    np.testing.assert_array_equal(guided, np.searchsorted(tables.cdf, u, side="right"))


def test_a_rate_has_the_same_table_in_every_model():
    rates = np.geomspace(0.01, 9000.0, 200)
    together = pt.poisson_tables(rates)
    for i in (0, 17, 99, 199):
        alone = pt.poisson_tables(rates[i : i + 1])
        np.testing.assert_array_equal(together.cdf[together.cdf_start[i] : together.cdf_start[i + 1]], alone.cdf)
        assert together.first_count[i] == alone.first_count[0]


def test_five_thousand_bins_at_the_limit_stay_near_a_hundred_megabytes():
    tables = pt.poisson_tables(np.full(500, pt.TABLE_LIMIT))
    assert 10 * tables.n_bytes < 1.1 * pt.TABLE_BYTES


def test_over_budget_the_largest_rates_are_drawn_by_rejection():
    rates = np.array([2000.0, 5.0, 9000.0, 500.0, 2e4])
    tables = pt.poisson_tables(rates, max_bytes=30_000)
    np.testing.assert_array_equal(tables.uses_table, [True, True, False, True, False])
    # Rejection does not hold for small rates, so they keep their tables whatever the budget.
    tables = pt.poisson_tables(rates, max_bytes=0)
    np.testing.assert_array_equal(tables.uses_table, [False, True, False, True, False])


def test_no_rates_give_empty_tables():
    tables = pt.poisson_tables(np.empty(0))
    assert tables.rates.size == tables.cdf.size == 0
