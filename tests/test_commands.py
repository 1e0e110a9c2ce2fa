"""Every `headgate` command that a page names is there, with its options; none is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from headgate.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *(ROOT / room / "README.md" for room in ("lab", "examples")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
#: Words that stand for a name of the reader's own.
_ANY = re.compile(r"^(NAME|GATE|CONTROL|CHECKPOINT|URL|[A-Z_]+|\.\.\.|…|<.*>)$")


def _walk(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _walk(command, (*words, name))
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join((*words, name)), command


def with_option(option: str) -> list[str]:
    """The commands that have this option."""
    return [name for name, command in _walk(main) if option in _options(command)]


def _options(command: click.Command) -> dict[str, click.Parameter]:
    context = click.Context(command)
    found = {o: p for p in command.get_params(context) for o in (*p.opts, *p.secondary_opts)}
    return {name: parameter for name, parameter in found.items() if name.startswith("-")}


def named_commands(text: str) -> list[str]:
    """What stands behind `headgate` in blocks of commands, and in code between backquotes."""
    blocks = "\n".join(re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = [line.split("  #")[0].split(" # ")[0] for line in blocks.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    found = [re.match(r"^\s*(?:\$ )?(?:\S*/bin/)?headgate ([a-z].*)$", line) for line in lines]
    return [match[1].strip() for match in found if match]


def wrong(text: str) -> str | None:
    """Why this command cannot be given so; None if it can."""
    words = shlex.split(re.sub(r"[|;>&].*$", "", text))
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words[0]
        if _ANY.match(name):
            return None
        found = command.get_command(click.Context(command), name)
        if found is None:
            if command.invoke_without_command:
                break
            return f"there is no {name!r} in headgate {text!r}"
        command, words = found, words[1:]
    options = _options(command)
    context = click.Context(command)
    arguments = [p for p in command.get_params(context) if isinstance(p, click.Argument)]
    given: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or re.match(r"^-\d", word):
            given.append(word)
            continue
        name, _, value = word.partition("=")
        if name not in options and name not in ("-h", "--help", "--version"):
            return f"headgate {text!r} has no option {name}"
        option = options.get(name)
        takes = isinstance(option, click.Option) and not option.is_flag and not option.count
        if takes and not value and words:
            value = words.pop(0)
        if takes and value and isinstance(option.type, click.Choice) and not _ANY.match(value):
            assert isinstance(option, click.Option)
            if value not in option.type.choices:
                return f"headgate {text!r}: {name} is one of {option.type.choices}"
    if len(given) > len(arguments) and not any(a.nargs < 0 for a in arguments):
        return f"headgate {text!r}: {given[len(arguments) :]} is too much"
    for argument, word in zip(arguments, given, strict=False):
        choice = type(argument.type).__name__ == "_Figure" or isinstance(argument.type, click.Choice)
        if choice and not _ANY.match(word):
            try:
                argument.type.convert(word, argument, context)
            except click.ClickException as error:
                return f"headgate {text!r}: {error.format_message()}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_the_commands_of_a_page_are_there(page: Path) -> None:
    faults = [fault for text in named_commands(page.read_text()) if (fault := wrong(text))]
    assert not faults


def test_many_are_checked() -> None:
    assert len(named_commands((ROOT / "benchmarks" / "README.md").read_text())) >= 20
    assert sum(len(named_commands(page.read_text())) for page in PAGES) >= 60


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bench gates", "no 'gates'"),
        ("bench gate --fast", "no option --fast"),
        ("figures las-fig3", "las-fig3"),
        ("set /c rides --mode shedding", "is one of"),
        ("ledger show /c rides", "too much"),
        ("ledgers show", "no 'ledgers'"),
    ],
)
def test_a_command_that_is_not_there_is_found(text: str, says: str) -> None:
    assert says in (wrong(text) or "")


@pytest.mark.parametrize(
    "text", ["bench NAME --json", "bench gate --quick --json", "ledger verify /c --first 1 --last 5"]
)
def test_a_command_that_is_there_passes(text: str) -> None:
    assert wrong(text) is None


def test_examples_in_the_help_are_there() -> None:
    for name, command in _walk(main):
        for line in re.findall(r"^\s*headgate (.*?)(?:\s{2,}.*)?$", command.help or "", re.MULTILINE):
            assert wrong(line) is None, f"headgate {name} --help"
