"""Amounts instead of rates: bursts, whole seconds, pauses and outages at a site, in virtual time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from headgate.control.duration import FIRST_ROWS
from headgate_lab.sim.themis.site_kinds import KINDS, bursty
from headgate_lab.sim.themis.virtual_site import Stream, VirtualSite


def _site(kind: str, known: bool) -> VirtualSite:
    what = KINDS[kind]
    site = VirtualSite(what.streams(), what.cores, sizes_known=known, **what.settings)
    site.run(what.seconds)
    return site


def _inside(site: VirtualSite, since: float = 40.0) -> float:
    return sum(site.inside(stream, since) for stream in site.streams) / len(site.streams)


def _longest(site: VirtualSite, since: float = 40.0, until: float = math.inf) -> float:
    """The longest batch as a share of its target."""
    return max(
        taken / (stream.hold_s or site.allocator.settings.hold_s)
        for stream in site.streams
        for at, taken in stream.durations
        if since <= at < until
    )


def _least(site: VirtualSite, since: float = 40.0) -> float:
    return min(site.mean_sic(since).values())


def _conserved(site: VirtualSite) -> None:
    """What the site has booked as accepted is what was kept, row by row."""
    for stream in site.streams:
        booked = site.allocator.state.gates[stream.gate].accepted
        amounts = [amount for _, amount in booked._batches]
        assert sum(amounts) == pytest.approx(sum(stream.accepted[-len(amounts) :]))


@pytest.mark.parametrize("shedding", ["mirror", "balance-sic", "random"])
def test_no_batch_keeps_more_than_was_granted_however_many_rows_burst(shedding: str) -> None:
    site = VirtualSite([Stream(q, bursty(20_000, i)) for i, q in enumerate("abc")], shedding=shedding)
    site.run(60)
    stream = site.streams[0]
    fits = stream.budget.fits
    assert fits is not None
    kept = [fits.rows(rows, covers_s=1.0) for rows in (20_000, 200_000, 2_000_000)]
    assert kept[0] == pytest.approx(kept[2]), "the same amount of a hundred times the rows"
    assert 0 < kept[2] < 20_000
    _conserved(site)


def test_bursts() -> None:
    before, after = _site("bursts", known=False), _site("bursts", known=True)
    assert _inside(after) > _inside(before)
    assert _longest(after) < 1.6 < 2.2 < _longest(before)
    assert _least(after) > 1.05 * _least(before)
    _conserved(after)


def test_whole_seconds() -> None:
    before, after = _site("whole seconds", known=False), _site("whole seconds", known=True)
    assert _inside(after) > _inside(before)
    assert _longest(after) <= _longest(before)
    assert _least(after) > 0.97 * _least(before)


def test_whole_seconds_below_capacity() -> None:
    """Every second batch of `a` brings a third more than the mean, and fits."""
    streams = [
        Stream("a", lambda t: 6000, trigger_s=1.5, hold_s=1.5, whole_seconds=True),
        Stream("b", lambda t: 4000, trigger_s=2.5, hold_s=2.5, whole_seconds=True),
    ]
    site = VirtualSite(streams)
    site.run(120)
    assert all(site.kept_share(stream, since=20) > 0.97 for stream in streams)
    assert _inside(site) == 1.0


def _paused(known: bool) -> VirtualSite:
    """A source that is silent for 30 s comes back with four times its rows, beside one that stays."""

    def rate(t: float) -> float:
        return 0.0 if 70 <= t < 100 else 80_000 if 100 <= t < 104 else 20_000

    site = VirtualSite([Stream("pauses", rate), Stream("stays", lambda t: 20_000)], sizes_known=known)
    site.run(130)
    return site


def test_a_pause_of_thirty_seconds() -> None:
    before, after = _paused(False), _paused(True)
    assert _longest(before, 100, 110) > 2.0
    assert _longest(after, 100, 110) < 1.5
    assert _longest(after, 100) < _longest(before, 100)
    assert _least(after) > 0.97 * _least(before)
    first = next(kept for at, _, kept in after.streams[0].history if at > 100)
    assert first > 2000, "its usual share, and not what was left of its mean by then"


def _down(known: bool, load: float, seconds: float) -> VirtualSite:
    streams = [
        Stream("down", lambda t: load * 10_000, down=(80.0, 80.0 + seconds)),
        Stream("other", lambda t: load * 10_000),
    ]
    site = VirtualSite(streams, sizes_known=known)
    site.run(200 + seconds)
    return site


@pytest.mark.parametrize("load", [0.7, 2.0])
def test_the_first_batch_after_an_outage_of_a_minute_takes_its_part_and_no_more(load: float) -> None:
    before, after = _down(False, load, 60.0), _down(True, load, 60.0)
    assert _longest(before, since=140) > 5.0
    assert _longest(after, since=140) <= 1.45
    stream = after.streams[0]
    first = next(i for i, (at, _, _) in enumerate(stream.history) if at > 140)
    assert stream.durations[first][1] <= 1.3
    _, arrived, kept = stream.history[first]
    assert arrived > 55 * load * 10_000
    assert kept < 2.5 * 10_000, "what the site can process in a batch"
    assert kept > 2000
    _conserved(after)


@pytest.mark.parametrize("load", [0.7, 2.0])
def test_after_a_restart_of_the_whole_site_every_backlog_is_begun_in_its_part(load: float) -> None:
    """Another process: all that is left is the site's snapshot, and a minute of every source."""

    def streams() -> list[Stream]:
        rates: list[Callable[[float], float]] = [lambda t: load * 8000, lambda t: load * 4000]
        return [Stream(f"q{i}", rate, gate=f"g{i}") for i, rate in enumerate(rates)]

    site = VirtualSite(streams())
    site.run(90)
    learned = json.loads(json.dumps(site.allocator.snapshot()))
    again = VirtualSite([])
    again.allocator.restore(learned)
    for stream in streams():
        stream.waiting = 60.0 * stream.rate(0.0)
        again.join(stream)
    again.run(40)
    assert _longest(again, since=0.0) <= 1.35
    assert all(stream.history[0][2] > 1000 for stream in again.streams)
    assert all(stream.accepted[0] > 0.0 for stream in again.streams), "what a row is worth is known"
    shares = [kept / arrived for s in again.streams for _, arrived, kept in s.history[:1]]
    assert shares[0] == pytest.approx(shares[1], rel=0.2), "all get the same share of their usual rows"


def test_the_very_first_batch_is_bounded() -> None:
    site = VirtualSite([Stream("a", lambda t: 100.0)], hold_s=2.0)
    site.streams[0].waiting = 5_000_000.0
    site.run(3)
    fits = site.streams[0].history or [(0.0, 0.0, site.streams[0].kept)]
    assert fits[0][2] == pytest.approx(2.0 * FIRST_ROWS, rel=0.01)
    asked = VirtualSite([Stream("a", lambda t: 100.0, start=0.5)])
    budget = asked.streams[0].budget.at(5_000_000)
    assert budget.keep == 0.5, "a person said how much"


def test_derived_rows_that_waited_are_bounded_by_what_ends_in_time_alone() -> None:
    streams = [
        Stream("a", lambda t: 8000),
        Stream("b", lambda t: 50.0, brings=1e-4, down=(60.0, 120.0)),
    ]
    site = VirtualSite(streams)
    site.run(150)
    first = next(i for i, (at, _, _) in enumerate(streams[1].history) if at > 120)
    _, arrived, kept = streams[1].history[first]
    assert arrived > 2900
    assert kept > 1500, "thirty times its usual rows; no row is known to cost less than its batch"
