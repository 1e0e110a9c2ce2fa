"""A gate's rescue in a job file: the table `[rescue]`, which may be empty.

What the query writes to is said by `[sink]` already, so `sink` need not be given; where it is, it must
be the same. A sink for which a rescue is not safe is refused here, before any Spark is started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headgate.core.rescue import Rescue
from headgate.errors import BadArgument
from headgate.job.job import Sink
from headgate.job.schema import FILES, RESCUE
from headgate.job.tables import Table

__all__ = ["rescue_of"]

#: What a rescue calls the sinks of a job file, where it has another word for them.
_CALLED = dict.fromkeys(FILES, "files")


def rescue_of(table: Table, sink: Sink | None, gate: Mapping[str, Any]) -> Rescue | None:
    """The rescue of the gate in front of this sink; None where something is wrong with it."""
    found = table.read(RESCUE)
    if gate and "control" not in gate:
        table.wrong("", "[rescue] needs control in [gate]: the attempts at a batch are counted there")
    policy = gate.get("policy")
    if policy is not None and policy.drawing is not None:
        table.wrong(
            "",
            "[rescue] lowers the rates of a plan, and this policy draws rows by the groups of their own "
            "batch, which are counted only as it runs: take another policy, or leave [rescue] out",
        )
    said = found.pop("sink", None)
    if sink is None:  # what is wrong with it is said elsewhere
        return None
    here = _CALLED.get(sink.format, sink.format)
    try:
        built = Rescue(here, **found)
    except BadArgument as error:
        # As a file has it: `keep=2` and not `Rescue(keep=2)`, and no argument to leave out.
        message = re.sub(r"^Rescue\((\w+=[^)]*)\)", r"\1", str(error))
        key = message.partition("=")[0]
        message = message.replace("leave rescue= out", "leave [rescue] out")
        table.wrong(key if key in table else "", message)
        return None
    if said is not None and said != here:
        table.wrong(
            "sink",
            f"sink={said!r}: [sink] writes {sink.format!r}, which is {here!r} here: leave this key out, "
            "or give that",
        )
        return None
    return built
