"""What is MLX's own: an accurate exp in float64, matmuls in full precision, copies on record, compiled functions."""

from __future__ import annotations

import math
import os
import shutil

import numpy as np
import pytest
from workspaces import BACKEND_NAMES, FIXTURES, columns, points

from nsmath.backends.transfers import TO_DEVICE, TO_HOST, Ledger
from nsmath.errors import BackendError, OptionError
from nsmath.model.model import Model
from nsmath.plan.plan import Plan, backend_model

pytestmark = pytest.mark.skipif("mlx" not in BACKEND_NAMES, reason="no MLX for this system")


def loaded(name: str, dtype: str = "float64", ledger: Ledger | None = None, **options):
    model = Model.from_workspace(FIXTURES[name])
    t = model.tensors
    made = backend_model("mlx", model, dtype=dtype, ledger=ledger)
    if options:
        made = type(made)(t, dtype=dtype, ledger=ledger, **options)
    tile = made.tile(8, memory=6)
    theta, (data, aux) = points(model, 1, 8), columns(model, 2, 8)
    tile.load(theta[:, t.parameter].T, data.T, aux.T, np.zeros(t.n_minimised, dtype=bool))
    tile.start()
    return tile


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exponential_is_accurate_in_its_precision(dtype):
    from nsmath.backends.mlx_arrays import NAMESPACE, mx

    x = np.linspace(-80.0, 80.0, 1001)
    with mx.stream(mx.cpu):
        values = np.array(NAMESPACE.exp(mx.array(x, dtype=getattr(mx, dtype)))).astype(float)
    exact = np.exp(x.astype(dtype).astype(float))
    assert np.abs(values / exact - 1.0).max() < {"float64": 1e-13, "float32": 1e-5}[dtype]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_log_gap_loses_no_digits_near_zero(dtype):
    from nsmath.backends.array_formulas import log_gap
    from nsmath.backends.mlx_arrays import mx

    d = np.concatenate([np.geomspace(1e-9, 1e9, 400), -np.geomspace(1e-9, 0.999, 400)]).astype(dtype).astype(float)
    # The series is the oracle where the difference cancels.
    series = sum((-d) ** k / k for k in range(2, 12))
    exact = np.where(np.abs(d) < 1e-2, series, d - np.log1p(d))
    with mx.stream(mx.cpu):
        values = np.array(log_gap(mx.array(d, dtype=getattr(mx, dtype)))).astype(float)
    assert np.abs(values / exact - 1.0).max() < {"float64": 1e-12, "float32": 2e-6}[dtype]


def test_matmuls_in_reduced_precision_are_refused(monkeypatch):
    from nsmath.backends import mlx_arrays

    class TenBits:
        """MLX as it multiplies by default on an M5: operands cut to ten bits."""

        def __getattr__(self, name):
            return getattr(core, name)

        @staticmethod
        def array(values, *args, **kwargs):
            cut = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
            return core.array(cut, *args, **kwargs)

    core = mlx_arrays.mx
    mlx_arrays.check_matmul(core.cpu)
    monkeypatch.setattr(mlx_arrays, "mx", TenBits())
    with pytest.raises(BackendError, match="MLX_ENABLE_TF32=0"):
        mlx_arrays.check_matmul(core.cpu)


def test_mlx_is_loaded_with_full_matmuls():
    import nsmath.backends.mlx_arrays  # noqa: F401

    assert os.environ["MLX_ENABLE_TF32"] == "0"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["F4", "three_gammas", "negative_slot"])
def test_every_function_can_be_traced_by_the_compiler(name, dtype):
    # Tracing finds whatever is not pure. What comes out is not looked at, so no C++ compiler is called.
    from nsmath.backends import mlx_arrays

    plain = loaded(name, dtype)
    traced = []

    def compiled(function):
        compiler = mlx_arrays.mx.compile(function)

        def both(*arrays):
            shapes = [array.shape for array in leaves(compiler(*arrays))]
            found = function(*arrays)
            assert shapes == [array.shape for array in leaves(found)]
            traced.append(function.__name__)
            return found

        return both

    model = type(plain.model)(plain.model.tensors, dtype=dtype, compiler=compiled)
    tile = model.tile(8, memory=6)
    given = plain._given
    tile.load(given.x, given.data, given.aux, given.fixed)
    tile.start()
    tile.descend()
    tile.accept()
    robust = model.tile(8, curvature=True)
    robust.load(given.x, given.data, given.aux, given.fixed)
    robust.start()
    robust.curvature()
    robust.newton_descend()
    robust.newton_accept()
    several = {"front", "start", "steps", "back"} if name != "F4" else {"whole"}
    assert set(traced) == {"_quasi_newton", "_armijo", "_gain_ratio", "_hessian", *several}


def leaves(found):
    """Return the arrays of nested tuples."""
    return [leaf for item in found for leaf in leaves(item)] if isinstance(found, tuple | list) else [found]


@pytest.mark.skipif(shutil.which("g++") is None, reason="MLX compiles for the CPU with g++")
def test_compiled_likelihood_gives_what_the_plain_one_gives():
    from nsmath.backends import mlx_arrays

    plain, compiled = loaded("F1"), loaded("F1", compiler=mlx_arrays.mx.compile)
    for field in ("nll", "gradient"):
        a, b = (tile.to_host(getattr(tile, field)) for tile in (plain, compiled))
        np.testing.assert_allclose(b, a, rtol=1e-13)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
def test_every_copy_is_in_the_ledger(dtype, size):
    ledger = Ledger()
    tile = loaded("F3", dtype, ledger)
    t = tile.model.tensors
    event = [row for row in ledger.rows() if row.event_data]
    assert sum(row.n_bytes for row in event) == size * 8 * (t.n_bins + t.n_aux)
    assert {row.direction for row in ledger.rows()} == {TO_DEVICE}
    tile.ended_cheap((1e-9, 1e-3))
    assert sum(row.n_bytes for row in ledger.rows() if row.direction == TO_HOST) == 2 * 8


def test_columns_shrink_by_rungs_and_keep_their_values():
    tile = loaded("three_gammas")
    before = tile.to_host(tile.nll)
    kept = np.array([1, 4, 6])
    tile.keep(kept)
    np.testing.assert_array_equal(tile.to_host(tile.nll)[: tile.n], before[kept])
    assert tile.x.shape[1] < 8


def test_hessians_that_are_not_positive_definite_are_damped_until_they_are():
    from nsmath.backends.array_steps import Bounds, Point, newton
    from nsmath.backends.mlx_arrays import CpuSolver, Door, mx
    from nsmath.backends.transfers import Ledger

    # Column 0 is definite; column 1 has eigenvalues 3 and -1, and needs a damping above 1/1 of its metric.
    hessian = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])
    gradient = np.array([[0.3, 0.3], [-0.2, 0.1]])
    with mx.stream(mx.cpu):
        f64 = {"dtype": mx.float64}
        at = Point(mx.zeros((2, 2), **f64), mx.zeros((2,), **f64), mx.array(gradient, **f64))
        bounds = Bounds(mx.full((2, 1), -10.0, **f64), mx.full((2, 1), 10.0, **f64))
        found = newton(
            at, mx.array(hessian, **f64), mx.zeros((2, 2), **f64), mx.zeros((2, 2), dtype=mx.bool_),
            mx.zeros((2,), **f64), bounds, CpuSolver(Door(Ledger(), "float64")),
        )  # fmt: skip
        trial, damping, predicted, decrement = (np.array(array) for array in found[:4])
    np.testing.assert_allclose(trial[:, 0], -np.linalg.solve(hessian[0], gradient[:, 0]), rtol=1e-12)
    assert damping[0] == 0.0
    assert damping[1] > 1.0
    metric = np.abs(np.diag(hessian[1])) + 1e-8
    damped = hessian[1] + damping[1] * np.diag(metric)
    np.testing.assert_allclose(trial[:, 1], -np.linalg.solve(damped, gradient[:, 1]), rtol=1e-10)
    assert (predicted > 0.0).all()
    assert math.isinf(decrement[1])


def test_float32_fits_put_fixed_parameters_and_bounds_back_exactly():
    model = Model.from_workspace(FIXTURES["clipped"]).with_fixed({"mu": 0.1})
    from nsmath.fitting.fit import fit

    result = fit(model, backend="mlx", dtype="float32")
    assert result["mu"] == 0.1
    bounds = {*model.tensors.lower, *model.tensors.upper}
    assert result.at_bound
    assert all(result[name] in bounds for name in result.at_bound)


def test_a_backend_for_one_thread_refuses_more():
    model = Model.from_workspace(FIXTURES["F1"])
    with pytest.raises(OptionError, match=r"threads is 3.*'mlx' is driven from 1"):
        Plan(model, backend="mlx", threads=3, tune=False)
    with Plan(model, backend="mlx", tune=False) as plan:
        assert plan.threads == 1
