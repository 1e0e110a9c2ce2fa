"""A gate's settings in the control folder: what its code says, and what people changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.store.folder import check_gate_name, read_json, write_json
from headgate.store.ledger import gates_in

__all__ = ["SettingsFile"]


class SettingsFile:
    """``gate.json`` is written by the gate's call; ``overrides.json`` by people, and lies on top."""

    def __init__(self, control: Path, gate: str) -> None:
        self.gate = check_gate_name(gate)
        self._control = control
        self._folder = control / "gates" / gate

    def declare(self, settings: GateSettings) -> None:
        """What the code asks for."""
        write_json(self._folder / "gate.json", settings.to_json())

    def overrides(self) -> dict[str, Any]:
        """What people changed."""
        value = read_json(self._folder / "overrides.json")
        return {} if value is None else dict(value)

    def effective(self) -> GateSettings:
        """What holds: the code's settings with people's changes on top."""
        declared = read_json(self._folder / "gate.json")
        if declared is None:
            known = ", ".join(gates_in(self._control)) or "none yet"
            raise BadArgument(
                f"no gate {self.gate!r} has used the control folder {str(self._control)!r}; "
                f"gates there: {known}"
            )
        return GateSettings.from_json(declared).changed(self.overrides())

    def change(self, **changes: Any) -> GateSettings:
        """Change settings for the batches to come; refuses, and changes nothing, if illegal."""
        merged = {**self.overrides(), **changes}
        given = [n for n in ("hold", "delay", "rate") if n in changes]
        for name in ("hold", "delay", "rate"):
            if given and name not in given:
                merged.pop(name, None)
        self.effective()  # says so if there is no such gate
        declared = GateSettings.from_json(read_json(self._folder / "gate.json"))
        result = declared.changed(merged)
        write_json(self._folder / "overrides.json", merged)
        return result

    def reset(self) -> None:
        """Forget people's changes."""
        (self._folder / "overrides.json").unlink(missing_ok=True)
