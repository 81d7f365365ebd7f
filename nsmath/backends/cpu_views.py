"""Views of contiguous stretches of arrays, for kernels: what slices do, at a fraction of the code.

A slice in numba handles steps, negative indices and ends beyond the array, and counts references; a kernel of
short loops over rows then consists mostly of that, compiles for half a minute, and its loops seldom vectorise. A
view is an address and a length. Nothing is checked, and nothing keeps the array alive: views must not leave the
kernel that makes them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nsmath.backends.cpu_tensors import STRIP


def _view(context: Any, builder: Any, array_type: Any, array: Any, index: Any, size: Any) -> Any:
    """Return the 1-D view of ``size`` elements that begins at ``index``, one integer per axis."""
    source = context.make_array(array_type)(context, builder, array)
    item = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    offset = ir.Constant(ir.IntType(64), 0)
    for axis, place in enumerate(index):
        # Rows of a C-contiguous array: only the strides before the last axis are not known.
        stride = (
            ir.Constant(ir.IntType(64), item)
            if axis == array_type.ndim - 1
            else builder.extract_value(source.strides, axis)
        )
        offset = builder.add(offset, builder.mul(place, stride))
    data = builder.bitcast(source.data, ir.IntType(8).as_pointer())
    data = builder.bitcast(builder.gep(data, [offset]), source.data.type)
    view_type = types.Array(array_type.dtype, 1, "C")
    view = context.make_array(view_type)(context, builder)
    step = ir.Constant(ir.IntType(64), item)
    context.populate_array(view, data=data, shape=[size], strides=[step], itemsize=step, meminfo=None)
    return view._getvalue()


@intrinsic  # type: ignore[untyped-decorator]
def strip(_: Any, array: Any, row: Any, start: Any) -> Any:
    """Return the STRIP elements of a (rows, columns) array from (row, start) on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _view(context, builder, array, args[0], args[1:], ir.Constant(ir.IntType(64), STRIP))

    return types.Array(array.dtype, 1, "C")(array, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def strip_of_pair(_: Any, array: Any, pair: Any, row: Any, start: Any) -> Any:
    """Return the STRIP elements of a (pairs, rows, columns) array from (pair, row, start) on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _view(context, builder, array, args[0], args[1:], ir.Constant(ir.IntType(64), STRIP))

    return types.Array(array.dtype, 1, "C")(array, types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def stretch(_: Any, array: Any, start: Any, size: Any) -> Any:
    """Return ``size`` elements of a one-dimensional array from ``start`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _view(context, builder, array, args[0], args[1:2], args[2])

    return types.Array(array.dtype, 1, "C")(array, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def row_stretch(_: Any, array: Any, row: Any, start: Any, size: Any) -> Any:
    """Return ``size`` elements of a (rows, columns) array from (row, start) on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _view(context, builder, array, args[0], args[1:3], args[3])

    return types.Array(array.dtype, 1, "C")(array, types.int64, types.int64, types.int64), generate
