"""Where things lie: the example that nsmath ships, folders that it writes to outside the user's working folder."""

from __future__ import annotations

import os
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent / "data" / "example.json"
"""The workspace that nsmath ships."""
EXAMPLE_WORD = "example"
"""What stands for it in the place of a file."""


def cache_folder() -> Path:
    """Return the cache folder: ``$NSMATH_CACHE_DIR``, else the platform's user cache folder for nsmath.

    It holds compiled kernels (``kernels/``) and tuned plans (``plans/``); deleting it costs time only.
    """
    override = os.environ.get("NSMATH_CACHE_DIR")
    if override:
        return Path(override).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("nsmath", appauthor=False))
