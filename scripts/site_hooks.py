"""Hooks of the documentation site: pages made from the code, formulas as MathML, links that leave docs/.

Formulas are converted when the site is built, so that pages need no script and no network to show them.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# What stands outside docs/ and is linked from there -> its page on the site.
OUTSIDE = {"../plans/README.md": "plans.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code."""
    pages = {"commands.md": commands_page(), "python.md": python_page(), "plans.md": plans_page()}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert formulas to MathML, and links that leave docs/."""
    for outside, page in OUTSIDE.items():
        markdown = markdown.replace(f"({outside})", f"({page})")
    parts = re.split(r"(^```.*?^```|`[^`\n]+`)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("`") else with_formulas(part) for part in parts)


def with_formulas(text: str) -> str:
    """Return Markdown with $$...$$ and $...$ as MathML; numbers of equations stand at their right."""

    def block(match: re.Match[str]) -> str:
        formula = match.group(1).strip()
        tag = re.search(r"\\tag\{(.*?)\}", formula)
        body = convert(re.sub(r"\\tag\{.*?\}", "", formula), display="block")
        number = f'<span style="float: right">({tag.group(1)})</span>' if tag else ""
        return f'\n\n<div class="formula">{number}{body}</div>\n\n'

    text = re.sub(r"\$\$(.+?)\$\$", block, text, flags=re.DOTALL)
    # In a span: Markdown takes a line that begins with another element for a block of its own.
    return re.sub(
        r"(?<![\\$\w])\$([^$\n]+(?:\n[^$\n]+)?)\$(?!\w)",
        lambda match: f"<span>{convert(' '.join(match.group(1).split()))}</span>",
        text,
    )


def plans_page() -> str:
    """Return plans/README.md for the site."""
    text = (ROOT / "plans" / "README.md").read_text(encoding="utf-8")
    return text.replace("../docs/", "")


def commands_page() -> str:
    """Return a page of all commands: help, options with their defaults, as the code has them."""
    from nsmath.cli.main import COMMANDS, cli

    context = click.Context(cli, info_name="nsmath")
    about = "Made from the code: what `nsmath COMMAND --help` says. [The command line](cli.md) has more.\n"
    parts = ["# Every command\n", about]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += command_section(command, click.Context(command, info_name=name, parent=context), 2)
    return "\n".join(parts)


def command_section(command: click.Command, context: click.Context, level: int) -> list[str]:
    """Return the section of one command, and of its subcommands."""
    name = context.command_path.removeprefix("nsmath ")
    usage = " ".join(["nsmath", name, *command.collect_usage_pieces(context)])
    parts = [f"{'#' * level} {name}\n", f"{cleandoc(command.help or '')}\n", f"```text\n{usage}\n```\n"]
    rows = [row for parameter in command.params if (row := option_row(parameter, context))]
    if rows:
        parts += ["| option | meaning |", "|---|---|", *rows, ""]
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            parts += command_section(found, click.Context(found, info_name=sub, parent=context), level + 1)
    return parts


def option_row(parameter: click.Parameter, context: click.Context) -> str | None:
    """Return an option as a row; None for an argument without a name of its own."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    # A bar would end the cell of a table, also in code.
    names, text = (cell.replace("|", " or ") for cell in record)
    return f"| `{names}` | {text} |"


def python_page() -> str:
    """Return the reference of everything public, from the docstrings."""
    import nsmath

    homes = nsmath._HOMES
    functions = sorted(name for name in nsmath.__all__ if name in homes and name[0].islower())
    classes = sorted(name for name in nsmath.__all__ if name in homes and name[0].isupper())
    about = "Everything that `import nsmath` offers. Plots are in `nsmath.viz`, pyhf's names in `nsmath.pyhf`.\n"
    parts = ["# Python\n", about]
    for title, names in (("Functions", functions), ("Classes", classes)):
        parts.append(f"## {title}\n")
        parts += [f"::: {homes[name]}.{name}\n" for name in names]
    return "\n".join(parts)
