"""Imports point one way, heavy packages stay in their place, files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "nsmath"
# Each layer may import from itself and from those before it.
LAYERS = (
    "foundation",
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
    "report",
    "cli",
    "pyhf",
)
FOUNDATION = {"errors", "_typing", "paths", "summary", "__init__", "__main__"}
# Package -> the files that may import it; everything else must do without.
CONFINED = {
    "numba": ("backends/jit.py", "backends/cpu_functions.py", "backends/cpu_strips.py"),
    "llvmlite": ("backends/cpu_functions.py",),
    "nvmath": ("backends/matmul.py",),
    "yaml": ("plan/cache.py", "study/document.py"),
    "pyarrow": ("store/parts.py",),
    "threadpoolctl": ("fitting/linalg.py",),
    "filelock": ("store/toystore.py",),
    "distributed": ("cli/studies.py",),
    "jsonpatch": ("spec/patch.py", "spec/operations.py", "spec/patchset.py"),
    "matplotlib": ("viz/",),
    "mplhep": (),
    "jinja2": ("report/",),
    "click": ("cli/",),
    "rich": ("cli/",),
    "cupy": (),
    "mlx": ("backends/mlx_arrays.py",),
    "torch": (),
    "pyhf": (),
    "scipy": (),
}
FILES = sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module


def layer(parts: tuple[str, ...]) -> str:
    name = parts[0].removesuffix(".py")
    return "foundation" if name in FOUNDATION else name


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_to_the_same_layer_or_an_earlier_one(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    if parts[0] in ("__init__.py", "__main__.py"):
        return  # the public names and the entry point stand above all layers
    own = LAYERS.index(layer(parts))
    for name in imports(path):
        if name.startswith("nsmath."):
            assert LAYERS.index(layer(tuple(name.split(".")[1:]))) <= own, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_are_imported_only_where_they_belong(path: Path) -> None:
    where = path.relative_to(ROOT).as_posix()
    for name in imports(path):
        top = name.split(".")[0]
        if top in CONFINED:
            assert any(where.startswith(place) for place in CONFINED[top]), f"{where} imports {name}"


@pytest.mark.parametrize("layer_name", ["spec", "cli"])
def test_spec_and_cli_do_not_import_array_libraries_at_the_top(layer_name: str) -> None:
    for path in (ROOT / layer_name).glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not any(name.split(".")[0] in ("numpy", "numba", "nvmath") for name in names), path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_have_one_idea_and_no_more_than_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in ("utils", "util", "misc", "helpers", "common")
