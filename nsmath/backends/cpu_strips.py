"""Strips: the few columns of a buffer's row that a kernel takes at a time."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

STRIP = 32
"""Columns that a kernel takes at a time; buffers are as wide as a multiple of it."""


@intrinsic  # type: ignore[untyped-decorator]
def strip(_: Any, matrix: Any, row: Any, first: Any) -> Any:
    """Return ``matrix[row, first : first + STRIP]`` without the checks, and a third of the compile time, of a slice."""
    view = types.Array(matrix.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(matrix)(context, builder, args[0])
        itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(matrix.dtype)))
        out = context.make_array(view)(context, builder)
        context.populate_array(
            out, data=cgutils.get_item_pointer(context, builder, matrix, array, args[1:]),
            shape=cgutils.pack_array(builder, [context.get_constant(types.intp, STRIP)]),
            strides=cgutils.pack_array(builder, [itemsize]), itemsize=itemsize, meminfo=None, parent=None,
        )  # fmt: skip
        return out._getvalue()

    return view(matrix, types.intp, types.intp), generate
