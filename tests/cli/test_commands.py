"""The command line as a user meets it: results as promised, and one clear error for each bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyhf
import pytest
from workspaces import document, modifier, mu, one_channel, sample

import nsmath
from nsmath import Model, Workspace
from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.main import main

TOYS = ["--n-toys", "60", "--threads", "1"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the real kernel cache, so that no test compiles, with plans written beside it."""
    from nsmath.paths import cache_folder

    return cache_folder()


@pytest.fixture
def simple(tmp_path: Path) -> Path:
    path = tmp_path / "simple.json"
    path.write_text(json.dumps(one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0])))
    return path


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    code = caught.value.code
    return (0 if code is None else int(code)), out, err


def test_help_answers_without_importing_anything_heavy() -> None:
    code = (
        "import sys\n"
        "from nsmath.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'numba', 'nvmath', 'rich.table', 'yaml', 'nsmath.spec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for command in ("fit", "hypotest-toys", "info", "example", "plans"):
        assert command in done.stdout


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["fit"], ["hypotest-toys"], ["info"], ["example"], ["plans"], ["plans", "list"]):
        code, out, _ = run([*command, "--help"], capsys)
        assert code == 0
        assert "Usage" in out


def test_hypotest_writes_the_promised_fields(simple: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.json"
    code, out, _ = run(
        ["hypotest-toys", "-i", str(simple), "--mu", "1", *TOYS, "--expected-set", "-o", str(output)], capsys
    )
    assert code == 0
    assert "CLs" in out
    assert "code4p" in out
    result = json.loads(output.read_text())
    promised = [
        "mu_test", "mu_hat", "q_obs", "clsb", "clb", "cls", "clsb_error", "clb_error", "cls_error", "expected_set",
        "n_toys", "n_nonconverged", "n_error", "seed", "test_stat", "interpolation", "model_digest", "versions",
        "backend", "timing", "poi", "measurement", "cls_bracket",
    ]  # fmt: skip
    assert set(promised) <= set(result)
    assert result["expected_set"]["nsigma_order"] == [2, 1, 0, -1, -2]
    assert len(result["expected_set"]["cls"]) == 5
    assert result["n_toys"] == {"b": 60, "sb": 60}
    assert list(tmp_path.glob(".*.tmp")) == []


def test_output_dash_is_json_alone_and_a_seed_repeats_itself(simple: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for threads in ("1", "2"):
        arguments = ["hypotest-toys", "-i", str(simple), "--mu", "1", "--n-toys", "200", "--threads", threads]
        code, out, err = run([*arguments, "-o", "-"], capsys)
        assert code == 0
        assert "CLs" in err
        result = json.loads(out)
        del result["timing"], result["threads"]
        results.append(result)
    assert results[0] == results[1]


def test_fit_writes_values_uncertainties_and_correlations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "fit.json"
    code, out, _ = run(["fit", "-i", "example", "-o", str(output)], capsys)
    assert code == 0
    result = json.loads(output.read_text())
    names = [parameter["name"] for parameter in result["parameters"]]
    assert len(result["correlation"]) == len(names)
    assert result["status"] == "converged"
    for name in ("mu_sig", "norm_ttbar", "fakes_shape[0]", "lumi"):
        assert name in names
        assert name in out


def test_a_fixed_parameter_stays_and_has_no_uncertainty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "fit.json"
    held = ["--fix", "mu_sig=1", "--fix", "stat_SR_low[0]=1.01"]
    code, _, _ = run(["fit", "-i", "example", *held, "-o", str(output)], capsys)
    assert code == 0
    found = {p["name"]: p for p in json.loads(output.read_text())["parameters"]}
    assert (found["mu_sig"]["value"], found["mu_sig"]["uncertainty"], found["mu_sig"]["fixed"]) == (1.0, 0.0, True)
    assert found["stat_SR_low[0]"]["value"] == 1.01


def test_a_patch_of_a_patch_set_is_chosen_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Case C67: a background-only workspace, and a patch that adds the signal.
    background = document(
        {"SR": [sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))]}, {"SR": [52.0]}, poi="mu_SIG"
    )
    patch = [{"op": "add", "path": "/channels/0/samples/0", "value": sample("s", [5.0], mu("mu_SIG"))}]
    patchset = {
        "metadata": {"references": {"hepdata": "ins0"}, "digests": {"sha256": pyhf.utils.digest(background)},
                     "labels": ["mass"], "description": "a signal"},
        "patches": [{"metadata": {"name": "m100", "values": [100]}, "patch": patch}],
        "version": "1.0.0",
    }  # fmt: skip
    (tmp_path / "bkg.json").write_text(json.dumps(background))
    (tmp_path / "set.json").write_text(json.dumps(patchset))
    base = ["hypotest-toys", "-i", str(tmp_path / "bkg.json"), "--mu", "1", *TOYS, "-o", "-"]
    code, out, _ = run([*base, "--patch", f"{tmp_path / 'set.json'}:m100"], capsys)
    assert code == 0
    assert json.loads(out)["poi"] == "mu_SIG"
    code, _, err = run([*base, "--patch", f"{tmp_path / 'set.json'}:m1000"], capsys)
    assert code == 2
    assert "m1000" in err
    assert "m100" in err.replace("m1000", "")


def test_the_choice_of_interpolation_is_in_every_result(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["fit", "-i", "example", "-q", "-o", "-"]
    for options, codes in (
        ([], {"normsys": "code4", "histosys": "code4p"}),
        (["--interp-defaults", "pyhf"], {"normsys": "code1", "histosys": "code0"}),
        (["--interp", "histosys=code2"], {"normsys": "code4", "histosys": "code2"}),
    ):
        code, out, _ = run([*base, *options], capsys)
        assert code == 0
        assert json.loads(out)["interpolation"] == codes


def test_info_names_what_computes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["info", "--json"], capsys)
    facts = json.loads(out)
    assert code == 0
    assert facts["nsmath"] == nsmath.__version__
    assert any(word in facts["blas"] for word in ("MKL", "NVPL", "NumPy"))
    assert facts["devices"]["cpu"] == "float64"
    assert facts["backends"]["reference"] == "ready"


def test_the_example_is_one_that_pyhf_reads_the_same_way() -> None:
    spec = json.loads(EXAMPLE.read_text())
    kinds = {m["type"] for c in spec["channels"] for s in c["samples"] for m in s["modifiers"]}
    assert kinds == {"histosys", "normsys", "normfactor", "shapefactor", "shapesys", "staterror", "lumi"}
    theirs = pyhf.Workspace(spec).model(
        modifier_settings={"normsys": {"interpcode": "code4"}, "histosys": {"interpcode": "code4p"}}
    )
    ours = Model.from_workspace(Workspace.from_file(EXAMPLE))
    order = [ours.index_of(name.replace("[", "[")) for name in theirs.config.par_names]
    theta = ours.init.copy()
    theta[:] = theta + 0.01
    expected = -float(theirs.logpdf(theta[order], pyhf.Workspace(spec).data(theirs))[0])
    assert nsmath.nll(ours, theta) == pytest.approx(expected, rel=1e-10)
    assert 30 <= len(ours.names) <= 60


def no_poi() -> dict[str, Any]:
    return one_channel(sample("b", [50.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1})), observed=[52.0])


GOOD = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0])
LENGTHS = one_channel(sample("s", [5.0], mu()), sample("b", [50.0, 2.0]), observed=[52.0])
HYPOTEST = ["hypotest-toys", "--mu", "1", "-i", "{ws}", *TOYS]
FIT = ["fit", "-i", "{ws}"]
# document (None: no file), arguments, what the one error must say
BAD = {
    "missing file": (None, HYPOTEST, ["in.json"]),
    "not JSON": ("{ not json", FIT, ["in.json"]),
    "lengths": (LENGTHS, FIT, ["in.json", "channels[0].samples[1]", "1", "2"]),
    "measurement": (GOOD, [*HYPOTEST, "--measurement", "man"], ["'man'", "main"]),
    "poi": (GOOD, [*HYPOTEST, "--poi", "mo"], ["'mo'", "mu"]),
    "no poi": ({**no_poi(), "measurements": [{"name": "m", "config": {"poi": "", "parameters": []}}]}, HYPOTEST,
               ["no parameter of interest"]),
    "mu beyond bounds": (GOOD, [*HYPOTEST[:2], "12", *HYPOTEST[3:]], ["12", "[0, 10]", "'mu'"]),
    "n-toys": (GOOD, [*HYPOTEST, "--n-toys", "0"], ["n_toys", "0"]),
    "n-toys word": (GOOD, [*HYPOTEST, "--n-toys", "many"], ["many"]),
    "seed": (GOOD, [*HYPOTEST, "--seed", "-3"], ["seed", "-3"]),
    "statistic": (GOOD, [*HYPOTEST, "--test-stat", "t"], ["'t'", "qtilde"]),
    "aux": (GOOD, [*HYPOTEST, "--aux", "none"], ["none", "fixed"]),
    "interp set": (GOOD, [*FIT, "--interp-defaults", "cubic"], ["cubic", "root"]),
    "interp form": (GOOD, [*FIT, "--interp", "normsys"], ["TYPE=CODE"]),
    "interp code": (GOOD, [*FIT, "--interp", "normsys=code0"], ["code0", "code1"]),
    "fix form": (GOOD, [*FIT, "--fix", "mu"], ["NAME=VALUE"]),
    "fix name": (GOOD, [*FIT, "--fix", "mi=1"], ["'mi'", "mu"]),
    "fix value": (GOOD, [*FIT, "--fix", "mu=99"], ["99", "[0, 10]"]),
    "plan missing": (GOOD, [*HYPOTEST, "--plan", "nowhere.yaml"], ["nowhere.yaml"]),
    "patch missing": (GOOD, [*HYPOTEST, "--patch", "nowhere.json"], ["nowhere.json"]),
    "output folder": (GOOD, [*HYPOTEST, "-o", "{tmp}/none/out.json"], ["folder", "none"]),
    "output is folder": (GOOD, [*HYPOTEST, "-o", "{tmp}"], ["is a folder"]),
    "option": (GOOD, [*HYPOTEST, "--toyz", "3"], ["--toyz"]),
    "threads": (GOOD, [*HYPOTEST, "--threads", "0"], ["0"]),
    "mu missing": (GOOD, ["hypotest-toys", "-i", "{ws}"], ["--mu"]),
    "command": (GOOD, ["limit"], ["limit"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_one_error_and_writes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, arguments, fragments = BAD[name]
    path = tmp_path / "in.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    before = sorted(tmp_path.iterdir())
    if "-o" not in arguments and arguments[0] in ("fit", "hypotest-toys"):
        arguments = [*arguments, "-o", str(tmp_path / "out.json")]
    code, out, err = run([a.format(ws=path, tmp=tmp_path) for a in arguments], capsys)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert len([line for line in err.lower().splitlines() if line.startswith("error")]) == 1
    for fragment in fragments:
        assert fragment in err
    assert sorted(tmp_path.iterdir()) == before


def test_warnings_of_a_workspace_come_by_name_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = one_channel(sample("s", [5.0], mu()), sample("b", [50.0]), observed=[52.0], unused={"inits": [1.0]})
    (tmp_path / "in.json").write_text(json.dumps(spec))
    code, out, err = run(["fit", "-i", str(tmp_path / "in.json"), "-o", "-", "-q"], capsys)
    assert code == 0
    json.loads(out)
    assert "unused-config" in err
    assert "unused" in err


def test_on_the_host_nothing_is_copied_and_the_log_and_the_json_say_so(tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ["hypotest-toys", "--input", "example", "--mu", "1", "--n-toys", "20", "--output", str(out), "--quiet"]
    code, _, err = run([*arguments, "--log-transfers", "--assert-resident"], capsys)
    assert code == 0
    assert "transfers: none" in err
    transfers = json.loads(out.read_text())["transfers"]
    assert transfers["to_device"] == transfers["to_host"] == {"count": 0, "n_bytes": 0}
    assert transfers["event_data_n_bytes"] == 0
