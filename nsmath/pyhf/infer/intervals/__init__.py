"""Upper limits with pyhf's signatures; before 0.7 pyhf called `upper_limits.upper_limit` ``upperlimit``."""

from nsmath.pyhf.infer.intervals import upper_limits as upper_limits
from nsmath.pyhf.infer.intervals.upper_limits import upper_limit as upperlimit

__all__ = ["upper_limits", "upperlimit"]
