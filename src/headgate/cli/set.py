"""``headgate set``: change a gate while its query runs."""

from __future__ import annotations

from typing import Any

import click

from headgate.cli.arguments.control_store import ControlCommand, control_argument, gates_there
from headgate.cli.plumbing import DURATION, json_option, print_json
from headgate.errors import BadArgument
from headgate.settings import MODES, GateSettings
from headgate.store.folder import used_control_folder
from headgate.store.settings_file import SettingsFile
from headgate.view.wording import retention_text, target_text

__all__ = ["set_"]


@click.command("set", cls=ControlCommand, short_help="Change a gate while its query runs.")
@control_argument
@click.argument("gate", shell_complete=gates_there)
@click.option("--mode", type=click.Choice(MODES), help="off and monitor keep every row.")
@click.option("--hold", type=DURATION, help="The longest a batch may take.")
@click.option("--delay", type=DURATION, help="The longest from a row's arrival to its result.")
@click.option("--rate", type=float, help="A fixed share of rows to keep, in (0, 1].")
@click.option("--min-keep", type=float, help="The least share that is ever kept, in (0, 1].")
@click.option("--floor", type=float, hidden=True)  # as it was called in 0.1.0
@click.option("--inside", type=float, help="The share of batches that should end within the target.")
@click.option("--retention", metavar="DURATION", help="How long records are kept, or 'forever'.")
@click.option("--reset", is_flag=True, help="Forget earlier changes: back to what the code says.")
@json_option
def set_(control: str, gate: str, reset: bool, as_json: bool, **options: str | float | None) -> None:
    """Change the settings of GATE in the folder CONTROL, from the next batch on.

    Give one of --hold, --delay and --rate: the new one replaces whichever held before. A change
    outlives restarts of the query until --reset.

    \b
    Examples:
      headgate set /shared/control rides --mode monitor
      headgate set /shared/control rides --hold "1500 ms" --min-keep 0.05
      headgate set /shared/control rides --retention "30 days"
      headgate set /shared/control rides --reset
    """
    file = SettingsFile(used_control_folder(control), gate)
    former = options.pop("floor")
    if options["min_keep"] is None:
        options["min_keep"] = former
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes and not reset:
        raise BadArgument(
            "nothing to change: give --mode, --hold, --delay, --rate, --min-keep, --inside, --retention "
            "or --reset"
        )
    before = file.effective()
    after = file.change(afresh=reset, **changes)
    if as_json:
        print_json({"control": control, "gate": gate, **_as_json(after, file)})
        return
    kept = retention_text(after.retention_s)
    click.echo(f"gate {gate}: {after.mode}, {target_text(after)}, min keep {after.min_keep:g}, {kept}")
    if after == before:
        click.echo("(as it was before)")
    in_code = file.declared()
    if _without_plan(after) != _without_plan(in_code):
        click.echo(
            f"(a worker that cannot read this folder keeps {_without_plan(in_code)}, as the code says)"
        )


def _without_plan(settings: GateSettings) -> str:
    return f"{settings.min_keep:g}" if settings.fails == "closed" else "everything"


def _as_json(settings: GateSettings, file: SettingsFile) -> dict[str, Any]:
    return {"settings": settings.to_json(), "changed": file.overrides()}
