"""Write docs/study.schema.json, the JSON schema of study files, from the table of their keys (a test compares).

python scripts/make_study_schema.py
"""

from __future__ import annotations

from pathlib import Path

from nsmath.cli.output import json_text
from nsmath.study.keys import json_schema

TARGET = Path(__file__).resolve().parents[1] / "docs" / "study.schema.json"

if __name__ == "__main__":
    TARGET.write_text(json_text(json_schema()) + "\n", encoding="utf-8")
    print(f"written: {TARGET}")
