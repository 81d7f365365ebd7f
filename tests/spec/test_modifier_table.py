"""The table of modifier types, and what importing the spec layer costs."""

import subprocess
import sys

import pytest

from nsmath.spec import MODIFIERS, ModifierType


@pytest.mark.parametrize("row", MODIFIERS.values(), ids=MODIFIERS)
def test_a_row_does_not_contradict_itself(row: ModifierType) -> None:
    assert MODIFIERS[row.name] is row
    assert row.bounds[0] <= row.init <= row.bounds[1]
    assert row.per_bin or row.shared == "everywhere"
    if row.constraint == "none":
        assert row.auxdata is None
        assert row.requires == ()
    for other in row.shares_with:
        partner = MODIFIERS[other]
        assert row.name in partner.shares_with
        mine = (row.per_bin, row.constraint, row.init, row.bounds, row.auxdata)
        assert mine == (partner.per_bin, partner.constraint, partner.init, partner.bounds, partner.auxdata)


def test_lumi_starts_at_its_configured_value() -> None:
    assert MODIFIERS["lumi"].start(140.0) == (140.0, (0.0, 1400.0))
    assert MODIFIERS["normsys"].start(0.3) == (0.0, (-5.0, 5.0))


def test_the_spec_layer_imports_no_array_library_and_no_patch_library() -> None:
    heavy = "numpy", "scipy", "jsonpatch", "jsonschema", "numba", "nvmath", "pyhf"
    code = f"import sys, nsmath.spec; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
