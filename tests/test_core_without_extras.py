"""The core works where no extra is installed, and what needs one says which."""

from __future__ import annotations

import subprocess
import sys
import textwrap

BLOCK = """
import sys

class Block:
    names = {"pyspark", "pyarrow", "numpy", "pandas", "matplotlib", "confluent_kafka"}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])

sys.meta_path.insert(0, Block())
"""


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_core_imports_and_holds_a_target_without_extras() -> None:
    out = _python(
        """
        import headgate
        from headgate.whatif.microbatch import Cost, MicroBatches, Workload
        from headgate.testing.contracts import check_policy
        import headgate.run.gate_run, headgate.store.ledger.audit
        check_policy(headgate.Uniform())
        load = Workload(lambda t: 20_000.0, Cost(0.25, 0.75e-4))
        batches = MicroBatches(load, headgate.HoldDuration("1 second")).run(50)
        print(max(b.duration for b in batches[10:]) < 1.0)
        """
    )
    assert out == "True"


def test_the_gate_says_which_extra_it_needs() -> None:
    out = _python(
        """
        import headgate
        try:
            headgate.gate
        except headgate.MissingExtra as error:
            print(isinstance(error, ImportError), error)
        """
    )
    assert out.startswith("True this needs the package")
    assert "pip install 'headgate[spark]'" in out
