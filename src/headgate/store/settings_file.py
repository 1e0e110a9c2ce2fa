"""A gate's settings in the control folder: what its code says, and what people changed since."""

from __future__ import annotations

from typing import Any

from headgate.errors import BadArgument, DamagedFile
from headgate.settings import GateSettings
from headgate.store.change_mark import mark_change
from headgate.store.folder import check_gate_name, read_json, unclaim, write_json
from headgate.store.guards import guard_in
from headgate.store.ledger.records import gates_in
from headgate.store.places.place import Place

__all__ = ["SettingsFile"]


class SettingsFile:
    """``gate.json`` is written by the gate's call; ``overrides.json`` by people, and lies on top."""

    def __init__(self, control: Place, gate: str) -> None:
        self.gate = check_gate_name(gate)
        self._control = control
        self._folder = control / "gates" / gate

    def declare(
        self, settings: GateSettings, *, arrival: bool = False, own_controller: bool = False
    ) -> None:
        """What the code asks for, and what decides which changes the gate can follow.

        `arrival`: it has a column that says when a row arrived. `own_controller`: a person's own
        controller, and none that the settings make, says how much to keep.
        """
        if guard_in(self._control, self.gate) is not None:
            raise BadArgument(
                f"{self.gate!r} is a guard in the control folder {str(self._control)!r}: give the gate "
                "another name"
            )
        fixed = {"arrival": arrival, "own_controller": own_controller}
        write_json(self._folder / "gate.json", {**settings.to_json(), **fixed})

    def _declared(self) -> dict[str, Any]:
        value = self._read("gate.json")
        if value is None and guard_in(self._control, self.gate) is not None:
            raise BadArgument(
                f"{self.gate!r} is a guard, and follows its code: change the call of guard() and start "
                "the query again"
            )
        if value is None:
            known = ", ".join(gates_in(self._control)) or "none yet"
            raise BadArgument(
                f"no gate {self.gate!r} has used the control folder {str(self._control)!r}; "
                f"gates there: {known}"
            )
        return dict(value)

    def declared(self) -> GateSettings:
        """The code's settings, without people's changes."""
        return GateSettings.from_json(self._declared())

    def overrides(self) -> dict[str, Any]:
        """The settings that people changed since, by name."""
        value = self._read("overrides.json")
        return {} if value is None else dict(value)

    def _read(self, name: str) -> Any:
        """What a file holds, None where there is none; refuses one that is damaged."""
        try:
            value = read_json(self._folder / name)
        except ValueError as error:
            raise self._damaged(name, str(error)) from error
        if not isinstance(value, dict | None):
            raise self._damaged(name, f"a {type(value).__name__} and no object")
        return value

    def _damaged(self, name: str, reason: str) -> DamagedFile:
        return DamagedFile(
            f"{str(self._folder / name)!r} is damaged ({reason}): remove it, and start the query of "
            f"gate {self.gate!r} again, which writes what its code says"
        )

    def effective(self) -> GateSettings:
        """What holds: the code's settings with people's changes on top."""
        return self.declared().changed(self.overrides())

    def change(self, *, afresh: bool = False, **changes: Any) -> GateSettings:
        """Change settings for the batches to come; refuses, and changes nothing, if illegal.

        `afresh` forgets what people changed before.
        """
        self._refuse_what_has_no_effect(changes)
        merged = {**({} if afresh else self.overrides()), **changes}
        given = [n for n in ("hold", "delay", "rate") if n in changes]
        for name in ("hold", "delay", "rate"):
            if given and name not in given:
                merged.pop(name, None)
        result = self.declared().changed(merged)
        write_json(self._folder / "overrides.json", merged)
        mark_change(self._control)
        return result

    def _refuse_what_has_no_effect(self, changes: dict[str, Any]) -> None:
        """A gate declared by an older Headgate does not say what it has, and is believed."""
        declared = self._declared()
        steering = [n for n in ("hold", "delay", "rate", "min_keep", "inside") if n in changes]
        if steering and declared.get("own_controller", False):
            raise BadArgument(
                f"{steering[0]}={changes[steering[0]]!r} would change nothing: gate {self.gate!r} was "
                "made with controller=, and that alone says how much to keep; change it in the code "
                "and restart the query. mode can be changed here"
            )
        if "delay" in changes and not declared.get("arrival", True):
            raise BadArgument(
                f"delay={changes['delay']!r} cannot be measured: gate {self.gate!r} was made without "
                "arrival=, the timestamp column that says when a row arrived; give it in the code "
                "and restart the query, or set hold"
            )

    def reset(self) -> None:
        """Forget what people changed: the code's settings hold again."""
        unclaim(self._folder / "overrides.json")
        mark_change(self._control)
