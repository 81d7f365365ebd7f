"""README and docs say what the code does: the example runs, and no option or field is missing or left over."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from nsmath import (
    Model,
    Plan,
    Workspace,
    fit,
    goodness_of_fit,
    hypotest,
    hypotest_toys,
    intervals,
    ranking,
    scan,
    significance,
    toy_upper_limit,
    upper_limit,
)
from nsmath.cli.asymptotics import significance_dict
from nsmath.cli.correlations import correlations_dict
from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.main import COMMANDS, cli
from nsmath.infer.single_toy import single_toy
from nsmath.infer.teststats import test_statistic
from nsmath.plan.cache import read_plan

ROOT = Path(__file__).resolve().parents[1]


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def documented_fields(text: str) -> set[str]:
    """Return the names in the first column of a table, without those of nested objects."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell) if "." not in name}


def test_the_python_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = fenced((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "mu_sig = " in printed
    assert "CONVERGED" in printed
    assert printed.count("ToyTestResult: mu_sig") == 3


def test_the_readme_has_two_shell_blocks_and_the_second_runs_the_tests() -> None:
    install, tests = fenced((ROOT / "README.md").read_text(encoding="utf-8"), "sh")
    assert "nsmath hypotest-toys --input example" in install
    assert "[test]" in tests
    assert tests.strip().endswith("pytest")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_description_of_the_command_line(name: str) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    shared = ("Options that choose a model", "Options that choose how it is computed")
    about = section(text, name) + "".join(section(text, heading) for heading in shared)
    for parameter in command.params:
        for option in parameter.opts:
            assert f"`{option}" in about or f"`, `{option}" in about or f"{option} " in about, option


def test_every_field_of_the_results_is_described_and_no_other() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    model = Model.from_workspace(Workspace.from_file(EXAMPLE))
    with Plan(model, threads=1, tune=False) as plan:
        toy = single_toy(plan, test_statistic("qtilde"), 1.0, hypothesis="b", index=3, seed=0)
        results = {
            "fit": [fit(model, plan=plan).to_dict()],
            "hypotest-toys": [hypotest_toys(model, n_toys=10, plan=plan).to_dict()],
            "toy": [toy.to_dict()],
            "hypotest": [hypotest(model, plan=plan).to_dict()],
            "scan": [scan(model, "mu_sig", points=2, plan=plan).to_dict()],
            "intervals": [intervals(model, "mu_sig", plan=plan).to_dict()],
            "ranking": [ranking(model, ["lumi"], plan=plan).to_dict()],
            "gof": [goodness_of_fit(model, plan=plan).to_dict()],
            "correlations": [correlations_dict(fit(model, plan=plan))],
            "significance": [significance_dict(significance(model, plan=plan))],
            "upper-limit": [
                toy_upper_limit(model, n_toys=100, plan=plan).to_dict(), upper_limit(model, plan=plan).to_dict(),
            ],
        }  # fmt: skip
    for name, found in results.items():
        assert documented_fields(section(text, name)) == {field for result in found for field in result}, name


def test_the_shipped_plan_belongs_to_the_shipped_example() -> None:
    key, _ = read_plan(ROOT / "plans" / "example.yaml")
    model = Model.from_workspace(Workspace.from_file(EXAMPLE))
    # Made again as plans/README.md says, when the example or the tensors of models have changed.
    assert key.model == model.digest
