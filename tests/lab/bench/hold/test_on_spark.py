"""The process that runs queries, on a real Spark: rows come as files, so that no broker is needed."""

from __future__ import annotations

import pytest

from headgate_lab.bench.hold.arrivals import Schedule
from headgate_lab.bench.hold.orders import Query, Shedding, TruthOrder
from headgate_lab.bench.hold.peer_figures import backlog, errors, read_said
from headgate_lab.bench.hold.setting import TARGET_S, settings_of

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(600)]


def test_what_is_said_of_a_run_is_true_of_its_rows() -> None:
    schedule = Schedule((6_000.0,) * 50)
    with settings_of("files") as here:
        (process,) = here.processes
        said = {}
        runs = {}
        for how in (Shedding("filter", rate=0.5), Shedding("gate", hold_s=TARGET_S)):
            control = str(here.fresh("control"))
            results = str(here.fresh("answers"))
            shedding = Shedding(how.how, how.rate, how.hold_s, control if how.how == "gate" else "")
            ran = here.run(process, schedule, shedding, query=Query(roads=5, results=results), rows=10)
            runs[how.how], said[how.how] = ran, read_said(results)
            if how.how == "gate":
                assert here.balanced(control)
        truth = str(here.fresh("truth"))
        assert ran.topic is not None
        assert process.truth(TruthOrder(ran.topic, Query(roads=5, results=truth))) > 5
        true = read_said(truth)
    for name, ran in runs.items():
        ended = ran.answered.ended
        arrived, kept = sum(b.arrived for b in ended), sum(b.kept for b in ended)
        assert arrived > 0.5 * schedule.rows, name
        assert all(b.kept <= b.arrived for b in ended)
        assert ran.late_s < 10.0
        left = backlog(ended, schedule, ran.began, ran.began + schedule.seconds)
        assert arrived + left >= schedule.rows - 10
        found = errors(said[name], true, last_begin=5.0)
        assert found.answered == 1.0, name
        assert found.mean is not None
        assert found.median is not None
        assert found.mean < 0.05
        assert found.median < 0.1
        if name == "filter":
            assert kept / arrived == pytest.approx(0.5, abs=0.02)
