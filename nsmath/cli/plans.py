"""``nsmath plans``: what the cache holds."""

from __future__ import annotations

import click

from nsmath.errors import PlanError
from nsmath.paths import cache_folder


@click.group("plans")
def plans_group() -> None:
    """Tuned plans in the cache folder; each is a readable YAML file."""


@plans_group.command("list")
def list_plans() -> None:
    """List the tuned plans: model, backend, tile width, and what is wrong with those that cannot be used."""
    from nsmath.plan.cache import read_plan

    folder = cache_folder() / "plans"
    paths = sorted(folder.glob("*.yaml"))
    for path in paths:
        try:
            key, tuned = read_plan(path)
        except PlanError as error:
            click.echo(f"{path.name}: {error}")
            continue
        click.echo(f"{path.name}: {key.backend}, width {tuned.width}, nsmath {key.nsmath}, {key.machine}")
    click.echo(f"{len(paths)} plans in {folder}", err=True)


@plans_group.command("show")
@click.argument("name")
def show_plan(name: str) -> None:
    """Print one plan file, by its name in the list or the beginning of the model's digest."""
    paths = sorted((cache_folder() / "plans").glob(f"{name}*"))
    if len(paths) != 1:
        raise PlanError(f"{len(paths)} plans begin with {name!r} in {cache_folder() / 'plans'}; `nsmath plans list`.")
    click.echo(paths[0].read_text(encoding="utf-8"), nl=False)


@plans_group.command("clear")
def clear_plans() -> None:
    """Delete all tuned plans; they are measured anew when needed."""
    paths = list((cache_folder() / "plans").glob("*.yaml"))
    for path in paths:
        path.unlink()
    click.echo(f"{len(paths)} plans deleted")
