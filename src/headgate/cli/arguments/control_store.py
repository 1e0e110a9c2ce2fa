"""The control store of a command: its first argument, or `--control`; both mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from headgate.store.ledger.records import gates_in
from headgate.store.places.place import control_place

__all__ = ["ControlCommand", "control_argument", "gate_option", "gates_there", "query_option"]

_OPTION = "--control"


class ControlCommand(click.Command):
    """A command whose first argument may be given as `--control` instead, wherever that stands.

    Scripts have both forms, and nobody should have to look up which command takes which.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first = next(p for p in self.params if isinstance(p, click.Argument))
        self.params.append(
            click.Option(
                [_OPTION, "control_given"],
                expose_value=False,
                metavar="PLACE",
                help=f"The same as {first.human_readable_name}: a folder, or an address in an object "
                "store.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put what `--control` names in front of the other arguments."""
        return super().parse_args(ctx, _in_front(args))


def _in_front(args: list[str]) -> list[str]:
    """The line with the control store as its first word.

    >>> _in_front(["rides", "--control", "/shared", "--json"])
    ['/shared', 'rides', '--json']
    """
    for at, word in enumerate(args):
        if word == "--":
            break
        if word == _OPTION and at + 1 < len(args):
            return [args[at + 1], *args[:at], *args[at + 2 :]]
        if word.startswith(f"{_OPTION}="):
            return [word.partition("=")[2], *args[:at], *args[at + 1 :]]
    return args


def gates_there(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For a shell: the gates of the control store that is on the line already."""
    # Behind an option that has no value yet click has not come to the arguments: they are left over.
    rest = [word for word in ctx.args if not word.startswith("-")]
    given = ctx.params.get("control") or ctx.params.get("input_") or next(iter(rest), None)
    try:
        found = gates_in(control_place(str(given))) if given else []
    except Exception:  # a shell that completes a line has no use for an error
        found = []
    return [name for name in found if name.startswith(incomplete)]


#: The first argument of every command that looks at a control store.
control_argument: Callable[[Any], Any] = click.argument("control")
gate_option: Callable[[Any], Any] = click.option(
    "--gate", shell_complete=gates_there, help="Only this gate."
)
query_option: Callable[[Any], Any] = click.option(
    "--query", help="Only this query; the first characters of its id will do."
)
