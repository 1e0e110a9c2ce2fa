"""The control store of a command: its first argument, or `--control`; both mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["ControlCommand", "control_argument"]

_OPTION = "--control"


class ControlCommand(click.Command):
    """A command whose first argument may be given as `--control` instead, wherever that stands.

    Scripts have both forms, and nobody should have to look up which command takes which.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        (first,) = [p for p in self.params if isinstance(p, click.Argument)][:1]
        shown = first.make_metavar(click.Context(self)).strip("[]")
        self.params.append(
            click.Option(
                [_OPTION],
                expose_value=False,
                metavar="PLACE",
                help=f"The same as {shown}: a folder, or an address in an object store.",
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


#: The first argument of every command that looks at a control store.
control_argument: Callable[[Any], Any] = click.argument("control")
