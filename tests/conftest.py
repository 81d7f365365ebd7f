"""Settings of all tests. This folder also puts `workspaces` (shared models and points) on the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
