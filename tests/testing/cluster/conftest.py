"""One cluster for the room: a master, two workers and an S3 server; where jars cannot be had, a skip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headgate.testing.artifacts import ArtifactsUnavailable
from tests.testing.cluster.bench import Machines, Trial, machines_in, trials_on


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with ExitStack() as block:
        try:
            made = block.enter_context(machines_in(tmp_path_factory.mktemp("cluster")))
        except ArtifactsUnavailable as error:
            pytest.skip(f"no cluster: {error.reason}")
        yield made


@pytest.fixture
def trial(machines: Machines) -> Iterator[Callable[[], Trial]]:
    """Makes a trial with a bucket of its own; this process finds the server, too."""
    with trials_on(machines) as make:
        yield make
