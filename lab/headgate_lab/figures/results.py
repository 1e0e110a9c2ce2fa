"""``python -m headgate_lab.figures.results``: what the papers claim and whether we see it, as a page.

The page (docs/results.md) is written by this command and by nobody else: every verdict in it was
computed in the run that wrote it. Figures in virtual time are drawn with few points and few runs, which
takes about five minutes; those that are measured on a real query are named with their commands.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import headgate
from headgate_lab.figures import SWEEPS, Claim, Drawn, build
from headgate_lab.figures.meaning import PAPERS, in_order, meaning

__all__ = ["page", "write"]

_HEAD = """# Results: what the papers claim, and what we see

Each of the four papers behind Headgate makes claims about its figures. The laboratory draws the figures
again, and the drawn numbers decide each claim. `make results` wrote this page, with Headgate {version}:
figures in virtual time, {how}. Streams, costs and clocks come from seeds, so a second run
says the same; CoD's figures take real data where it is there ([lab/README.md](../lab/README.md)).

A **no** is a finding. Either the effect needs more runs than this page takes, or the published text does
not say enough to repeat the number, or the claim does not hold under any reading of the paper that we
tried. [The benchmarks](../benchmarks/README.md) discuss whole runs, and
[join-figures.md](../benchmarks/join-figures.md) and [themis-figures.md](../benchmarks/themis-figures.md)
have two papers in full. Without `--quick` a figure's command takes all its points and runs.
"""


def page(drawn: Iterable[tuple[str, Drawn]], how: str) -> str:
    """The page of some figures, by paper."""
    found = dict(drawn)
    parts = [_HEAD.format(version=headgate.__version__, how=how), _summary(found)]
    for paper, title in PAPERS.items():
        parts.append(f"## {title}\n")
        names = [name for name in in_order(paper) if name in found]
        parts += [_figure(name, found[name]) for name in names]
        others = [name for name in in_order(paper) if name not in found]
        if others:
            parts.append("Not drawn for this page (those on a real query take some minutes each):\n")
            parts.append("\n".join(f"- `{_command(n)}`: {meaning(n)}" for n in others) + "\n")
    return "\n".join(parts)


def _summary(found: dict[str, Drawn]) -> str:
    lines = ["| paper | figures | claims | seen | not seen |", "|---|---|---|---|---|"]
    for paper, title in PAPERS.items():
        mine = [found[name] for name in in_order(paper) if name in found]
        claims = [claim for drawn in mine for claim in drawn.claims]
        seen = sum(claim.holds for claim in claims)
        lines.append(f"| {title} | {len(mine)} | {len(claims)} | {seen} | {len(claims) - seen} |")
    return "\n".join(lines) + "\n"


def _figure(name: str, drawn: Drawn) -> str:
    lines = [
        f"### {meaning(name)}\n",
        f"`{_command(name)} --quick`\n",
        "| claim | seen | number |",
        "|---|---|---|",
    ]
    return "\n".join(lines + [_line(claim) for claim in drawn.claims]) + "\n"


def _line(claim: Claim) -> str:
    said = claim.claim.replace("|", "\\|")
    return f"| {said} | {'yes' if claim.holds else '**no**'} | {claim.number:.3g} |"


def _command(name: str) -> str:
    return f"headgate figures {name.replace('_', '-')}"


def write(
    path: Path, names: Iterable[str] = tuple(SWEEPS), tell: Callable[[str], None] = lambda _: None
) -> Path:
    """Draw the figures quickly, and write the page."""
    drawn = []
    for name in names:
        tell(name)
        drawn.append((name, build(name, quick=True)))
    path.write_text(page(drawn, "few points and few runs"))
    return path


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/results.md"))
    given = parser.parse_args()
    write(given.output, tell=lambda name: print(name, file=sys.stderr, flush=True))
    print(f"wrote {given.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
