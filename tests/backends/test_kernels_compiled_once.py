"""What the first run compiles is what every later run calls: another array type would compile a kernel again."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import sys
import numpy as np
from nsmath import Model
from nsmath.backends import cpu_warm
from workspaces import BACKEND_NAMES, FIXTURES, columns, evaluated, points

def signatures():
    modules = [module for name, module in sys.modules.items() if name.startswith("nsmath.backends.cpu_")]
    found = {}
    for module in modules:
        for name, value in vars(module).items():
            if hasattr(value, "nopython_signatures"):
                found[value.py_func.__qualname__] = {str(s) for s in value.nopython_signatures}
    return found

for group in cpu_warm._GROUPS:
    cpu_warm.compile_group(group)
warm = signatures()
assert sum(map(len, warm.values())) > 10, "the groups compile nothing"
for name, spec in FIXTURES.items():
    model = Model.from_workspace(spec)
    evaluated(model, "cpu", points(model, 1, 5), *columns(model, 2, 5), hessian=True)
for name, now in signatures().items():
    if now - warm.get(name, set()):
        print(name, len(now))
"""


def test_no_model_compiles_a_kernel_that_the_first_run_has_not():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, env=_environment()
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
