"""``headgate completion``: what a shell needs to complete `headgate` lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Let your shell complete headgate's commands, options and gates.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, options, and the gates of a control store.

    \b
    Examples:
      headgate completion bash > ~/.local/share/bash-completion/completions/headgate
      headgate completion zsh > ~/.zfunc/_headgate          with ~/.zfunc in fpath
      headgate completion fish > ~/.config/fish/completions/headgate.fish
    """
    made = get_completion_class(shell)
    assert made is not None  # click knows these three
    click.echo(made(ctx.find_root().command, {}, "headgate", "_HEADGATE_COMPLETE").source())
