"""A process that runs the query of `shed_query` to its end: ``python -m tests.spark.backfill.shed_once
FOLDER``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headgate.demo.session import quiet_session
from tests.spark.backfill.shed_query import shed_query


def main(folder: Path) -> None:
    with quiet_session(folder / "scratch", "1g") as spark:
        found = shed_query(spark, folder)
    (folder / "kept.json").write_text(json.dumps(found.kept))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
