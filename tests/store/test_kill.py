"""kill -9 in the middle of a study: the fault script in small; docs/benchmarks.md has its figures at full size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "faults.py"


def test_a_killed_study_resumes_and_ends_with_the_bits_of_an_uninterrupted_one() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "2", "--n-toys", "4000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed 2 times" in done.stdout
    assert done.stdout.strip().endswith("identical to the uninterrupted run")
