"""Print the lines of every layer, and the files that have grown beyond 400."""

from __future__ import annotations

from pathlib import Path

LAYERS = (
    "errors.py",
    "formulas",
    "spec",
    "model",
    "backends",
    "plan",
    "fitting",
    "store",
    "infer",
    "study",
    "viz",
    "cli",
)
ROOT = Path(__file__).resolve().parents[1]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def main() -> None:
    for name in LAYERS:
        path = ROOT / "nsmath" / name
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        print(f"{name:12} {len(files):3} files {sum(map(lines, files)):6} lines")
    for path in sorted((ROOT / "nsmath").rglob("*.py")):
        if lines(path) > 400:
            print(f"over 400 lines: {path.relative_to(ROOT)} ({lines(path)})")


if __name__ == "__main__":
    main()
