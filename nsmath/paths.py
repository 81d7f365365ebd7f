"""Folders that nsmath writes to outside the user's working folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ``$NSMATH_CACHE_DIR``, else the platform's user cache folder for nsmath.

    It holds compiled kernels (``kernels/``) and tuned plans (``plans/``); deleting it costs time only.
    """
    override = os.environ.get("NSMATH_CACHE_DIR")
    if override:
        return Path(override).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("nsmath", appauthor=False))
