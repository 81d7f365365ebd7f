"""Where things lie: the example that nsmath ships, folders outside the working folder; how a file is replaced."""

from __future__ import annotations

import os
import shutil
import tempfile
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


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file whole or not at all: to a temporary one in the same folder, which then takes the name.

    What is no regular file (a device such as ``/dev/null``) cannot be replaced and is written to.

    Raises
    ------
    OSError
        It cannot be written; nothing is left behind.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # Temporary files are private; a result has the permissions of the file it replaces, or of a new one.
        if path.exists():
            shutil.copymode(path, temporary)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
