"""``nsmath completion``, and what shells are offered for options that take files."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from nsmath.errors import OptionError
from nsmath.paths import EXAMPLE_WORD

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NSMATH_COMPLETE"
FILES, FOLDERS = ("FILE", "STUDY"), ("DIR",)
"""How the metavar of an option begins that takes a file, or a folder."""


class PathText(click.types.StringParamType):
    """Text that names a file or a folder, for completion; it is taken as it stands."""

    def __init__(self, kind: str, words: tuple[str, ...] = ()) -> None:
        self._kind, self._words = kind, words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return words that begin so, and the wish for the shell's own completion of paths."""
        words = [CompletionItem(word) for word in self._words if incomplete and word.startswith(incomplete)]
        return words or [CompletionItem(incomplete, type=self._kind)]


def complete_paths(command: click.Command) -> None:
    """Let the options and arguments of a command complete paths where their metavar says that they take one."""
    if isinstance(command, click.Group):
        for child in command.commands.values():
            complete_paths(child)
    for parameter in command.params:
        metavar = parameter.metavar or ""
        if metavar.startswith(FILES):
            words = (EXAMPLE_WORD,) if parameter.name == "input_" else ()
            parameter.type = PathText("file", words)
        elif metavar.startswith(FOLDERS):
            parameter.type = PathText("dir")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print the script that makes a shell complete nsmath's commands, options and file names."""
    from nsmath.cli.main import cli

    made = get_completion_class(shell)
    if made is None:
        raise OptionError(f"this version of click has no completion for {shell}; expected one of {', '.join(SHELLS)}.")
    click.echo(made(cli, {}, "nsmath", VARIABLE).source())
