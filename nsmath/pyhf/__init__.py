"""pyhf's inference functions by their own names, computed by nsmath: ``from nsmath.pyhf import infer``.

They take a ``pyhf.Model`` (0.7) and return what pyhf returns: the same order of parameters, the same shapes, NumPy
arrays. pyhf itself is not imported. What cannot be done as pyhf does it raises an `NsmathError`; docs/migration.md has
the list of differences.
"""

from nsmath.pyhf import infer as infer

__all__ = ["infer"]
