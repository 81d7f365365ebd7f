"""`--gpu` and `--dtype` as a user meets them, with faked devices: what is absent is one error line and nothing else."""

from __future__ import annotations

import json

import pytest
from test_commands import run
from workspaces import BACKEND_NAMES

TOYS = ["hypotest-toys", "--input", "example", "--mu", "1", "--n-toys", "20", "--threads", "1", "--quiet"]
COMMANDS = {
    "hypotest-toys": TOYS,
    "fit": ["fit", "--input", "example", "--quiet"],
    "hypotest": ["hypotest", "--input", "example", "--quiet"],
    "significance": ["significance", "--input", "example", "--quiet"],
    "upper-limit": ["upper-limit", "--input", "example", "--quiet"],
    "toy": ["toy", "--input", "example", "--mu", "1", "--hypothesis", "b", "--index", "3", "--quiet"],
}
needs_mlx = pytest.mark.skipif("mlx" not in BACKEND_NAMES, reason="no MLX for this system")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_absent_device_is_one_error_line_and_nothing_is_written(command, present, capsys, tmp_path):
    present()
    target = tmp_path / "out.json"
    code, out, err = run([*COMMANDS[command], "--gpu", "cuda", "--output", str(target)], capsys)
    assert (code, out) == (2, "")
    assert err == "error: gpu 'cuda' cannot be used: not here.\n"
    assert not target.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_auto_says_why_it_takes_the_cpu(command, present, capsys, tmp_path):
    present()
    target = tmp_path / "out.json"
    code, _, err = run([*COMMANDS[command], "--gpu", "auto", "--output", str(target)], capsys)
    assert code == 0
    assert "gpu auto: no GPU found: CPU\n" in err
    assert target.exists()


@needs_mlx
@pytest.mark.parametrize("command", ["hypotest-toys", "fit", "upper-limit"])
def test_metal_computes_in_float32_and_the_result_says_so(command, present, capsys, tmp_path):
    present("metal")
    results = []
    for options in (["--gpu", "metal"], []):
        target = tmp_path / "out.json"
        code, _, _ = run([*COMMANDS[command], *options, "--output", str(target)], capsys)
        assert code == 0
        results.append(json.loads(target.read_text()))
    assert [(result["backend"], result["dtype"]) for result in results] == [("mlx", "float32"), ("cpu", "float64")]
    for name in {"q_obs", "cls", "nll", "observed"} & set(results[0]):
        assert results[0][name] == pytest.approx(results[1][name], rel=1e-4)


@needs_mlx
def test_metal_has_no_float64(present, capsys):
    present("metal")
    code, _, err = run([*TOYS, "--gpu", "metal", "--dtype", "float64"], capsys)
    assert code == 2
    assert err.startswith("error: gpu 'metal' does not compute in float64; expected float32.")


def test_float32_on_the_cpu_is_refused(capsys):
    code, _, err = run([*TOYS, "--dtype", "float32"], capsys)
    assert code == 2
    assert "backend 'cpu' does not compute in float32; expected float64" in err


@needs_mlx
def test_a_study_chooses_its_device_and_the_command_goes_before(present, capsys, tmp_path):
    present("metal")
    study = tmp_path / "study.yaml"
    study.write_text("workspace: example\nmu: 1\nn_toys: 20\ngpu: metal\n")
    target = tmp_path / "out.json"
    for options, found in (([], ("mlx", "float32")), (["--gpu", "none"], ("cpu", "float64"))):
        code, _, _ = run(["run", str(study), "--quiet", "--output", str(target), *options], capsys)
        assert code == 0
        (point,) = json.loads(target.read_text())["points"]
        (test,) = point["tests"]
        assert (test["result"]["backend"], test["result"]["dtype"]) == found
    present()
    code, _, err = run(["run", str(study), "--quiet"], capsys)
    assert (code, err) == (2, "error: gpu 'metal' cannot be used: not here.\n")


@needs_mlx
def test_a_store_takes_toys_of_one_precision(present, capsys, tmp_path):
    present("metal")
    store = ["--store", str(tmp_path / "toys")]
    assert run([*TOYS, *store], capsys)[0] == 0
    code, _, err = run([*TOYS, *store, "--gpu", "metal"], capsys)
    assert code == 2
    assert "holds toys computed in float64, this run in float32" in err


def test_info_says_why_a_device_is_not_ready(present, capsys):
    present("metal")
    code, out, _ = run(["info", "--json"], capsys)
    facts = json.loads(out)
    assert code == 0
    assert facts["devices"] == {"cpu": "float64", "cuda": "not here", "metal": "ready: float32"}
    assert facts["backends"]["cpu"] == "ready"
