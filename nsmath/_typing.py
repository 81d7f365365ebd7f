"""Array alias and the axis letters that every docstring uses.

N columns (independent fits) | P parameters | Z minimised parameters (P without profiled and inert ones) |
B bins | C channels | Q cells (channel x sample) | R rows (existing sample x bin) | H histosys parameters |
E normsys entries (parameter x cell) | L slots (bin x profiled gamma) | G profiled gammas | A auxiliary data.
Arrays are parameter-major inside backends, ``(P, N)``, C order, columns contiguous; batch-first ``(N, P)`` in
the public API.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
