"""What every command shares: errors as one line, JSON alone on standard output, late imports."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from headgate.durations import seconds
from headgate.errors import HeadgateError, MissingExtra
from headgate.view.wording import plain

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "DURATION",
    "CommandsOfOthers",
    "LazyGroup",
    "TeachingGroup",
    "import_or_explain",
    "json_option",
    "print_json",
]


class _Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A duration as `headgate.durations` reads it, or a bare number of seconds; in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; refuses what is no positive duration."""
        with contextlib.suppress(TypeError, ValueError):
            value = float(value)
        given = "duration" if param is None or param.name is None else param.opts[0].lstrip("-")
        return seconds(value, given)


#: For every option that is a time: ``2s``, ``"500 ms"``, ``1.5``.
DURATION = _Duration()

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output, nothing else."
)


def print_json(value: Any) -> None:
    """The one JSON object."""
    click.echo(json.dumps(value, indent=2))


class _OneLine(click.ClickException):
    """A mistake of the caller's: its message, and exit code 2, as for a wrong option."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the message on standard error."""
        click.echo(f"headgate: {plain(self.format_message())}", err=True)


class TeachingGroup(click.Group):
    """Turns every `HeadgateError` into one line on standard error; its message already teaches.

    So it does with what the system refuses: a file that may not be written, a port that is taken.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, and turn Headgate's errors and the system's into one line."""
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            raise _OneLine(" ".join(str(error).split())) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # whoever read standard output has gone: click ends quietly
            raise _OneLine(_of_the_system(error)) from error


def _of_the_system(error: OSError) -> str:
    """What a file, a folder, a store or a port said, in one line, with a next step."""
    said = " ".join(str(error.strerror or error).split())
    where = f" ({error.filename})" if error.filename else ""
    return f"{said}{where}: check that it is there, and that this user may read and write it"


#: Entry points that add commands: ``bench`` to `headgate`, ``federation.demo`` to `headgate federation`.
_COMMANDS = "headgate.commands"
#: What the laboratory has, for whoever asks for it and has not installed it.
_IN_THE_LABORATORY = ("bench", "figures", "federation.demo")


class CommandsOfOthers(TeachingGroup):
    """A group to which other distributions add commands; each is imported when someone asks for it."""

    #: The group that others add to as ``group.command``; the command itself has none.
    _TOP = "main"

    def _full_name(self, command: str) -> str:
        return command if self.name in (None, self._TOP) else f"{self.name}.{command}"

    @cached_property
    def _found(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # late: most commands are Headgate's own

        points = {point.name: point for point in entry_points(group=_COMMANDS)}
        short = {name.rpartition(".")[2] for name in points}
        mine = {name: self._full_name(name) for name in short}
        return {name: points[full] for name, full in mine.items() if full in points}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Its own, and those of others."""
        return sorted({*super().list_commands(ctx), *self._found})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Its own, or one of others'; says what to install for one that is known and not here.

        A shell that completes a line has no use for an error (`resilient_parsing`): it gets None.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        try:
            return self._of_others(cmd_name)
        except HeadgateError:
            if ctx.resilient_parsing:
                return None
            raise

    def _of_others(self, cmd_name: str) -> click.Command | None:
        if cmd_name in self._found:
            try:
                command: click.Command = self._found[cmd_name].load()
            except ImportError as error:
                words = self._full_name(cmd_name).replace(".", " ")
                raise HeadgateError(
                    f"`headgate {words}` cannot be loaded ({error}): install headgate and headgate-lab "
                    "in the same version"
                ) from error
            return command
        if self._full_name(cmd_name) in _IN_THE_LABORATORY:
            raise HeadgateError(
                f"`headgate {self._full_name(cmd_name).replace('.', ' ')}` is in Headgate's laboratory, "
                "which is not installed: pip install headgate-lab"
            )
        return None


def import_or_explain(where: str, extra: str) -> Any:
    """The object at ``module:name``, imported now; says which extra is missing."""
    module, name = where.split(":")
    try:
        return getattr(importlib.import_module(module), name)
    except MissingExtra:
        raise
    except ImportError as error:
        raise MissingExtra(error.name or module, extra) from error


class LazyGroup(click.Group):
    """A group of commands that is imported when someone asks for it, and not before."""

    def __init__(self, name: str, where: str, *, extra: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._where, self._extra = where, extra

    @property
    def _real(self) -> click.Group:
        group: click.Group = import_or_explain(self._where, self._extra)
        return group

    def _for(self, ctx: click.Context) -> click.Group:
        """The real group; an empty one where it cannot be imported and a shell completes a line."""
        try:
            return self._real
        except MissingExtra:
            if ctx.resilient_parsing:
                return click.Group(self.name)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of the real group, which is imported for it."""
        return self._for(ctx).list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command of the real group; None if it has none of the name."""
        return self._for(ctx).get_command(ctx, cmd_name)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help of the real group, instead of this stand-in's."""
        self._real.format_help(ctx, formatter)
