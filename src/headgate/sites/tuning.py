"""The tuned numbers of a site: what each means, in which unit, and why it has this value.

Nobody has to set them; what a person decides about a site is in `SiteSettings`. Each number was varied
from half to twice its value on sites of several kinds (``headgate bench site-numbers``, in virtual
time). Where a comment does not say "not flat", neither the lowest SIC of a site's queries nor the share
of batches that end in time depends on the exact value. Some are only bounds, which no such site reaches.

A *trim* is the factor by which planned capacity is corrected to what really happens; a batch's *target*
is how long it may take (`hold`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "AgreementTuning",
    "CapacityTuning",
    "ExchangeTuning",
    "PriceTuning",
    "RateTuning",
    "SiteTuning",
    "StreamTuning",
]


@dataclass(frozen=True)
class CapacityTuning:
    """How planned capacity follows what happens (`SiteCapacity`)."""

    #: Share of the target. A batch that takes more makes the trim fall: a little below 1, so that the
    #: correction comes before the target is missed.
    late: float = 0.95
    #: Share of the target. The trim grows only while all batches take less. The gap below `late` keeps
    #: the trim from going up and down with every batch.
    early: float = 0.75
    #: Share of the target at which a correction aims: between `early` and `late`, where it may rest. It
    #: is the choice between more rows and more batches in time (0.7 instead of 0.85: 3 % less SIC, 2 %
    #: more batches in time; 0.925: 4 % more, and 2 % fewer).
    aim: float = 0.85
    #: Factor. The trim falls by no more than this for one batch, which is no trend.
    most_cut: float = 0.7
    #: Share of planned task time. The trim falls when streams use more than `over` of it, and may grow
    #: above 1 when they use less than `under` although there is more to do: prices were wrong then.
    over: float = 1.05
    under: float = 0.92
    #: The trim of a new site, as prices are not known yet; and the least and the greatest one. The
    #: greatest is reached where rows turn out to cost a quarter of what batches seem to say.
    first_trim: float = 0.8
    least_trim: float = 0.05
    most_trim: float = 4.0
    #: Factor a second by which the trim grows. It falls in one batch and grows in half a minute, since
    #: too much is paid for by all queries at once, and too little only by some rows. Not flat, as above:
    #: twice as fast is 7 % more SIC and 3 % fewer batches in time.
    growth: float = 1.04
    #: Seconds that one batch lets it grow at most: a stream with a long trigger speaks for the time
    #: since its last batch, but not for minutes.
    longest_growth_s: float = 4.0
    #: Share of the planned task time that rows get, however much batches cost without any: below it
    #: shedding would save next to nothing, and every query would stop. Not flat where batches cost more
    #: than there is: there it is what rows get, and twice of it makes small streams late.
    for_rows: float = 0.25
    #: Share of the cores. Where all other streams use less than this, they are not why one is late;
    #: beside a stream with derived rows, which cannot give way, they have to use less to be left alone.
    alone: float = 0.2
    beside_derived: float = 0.05
    #: Share of the cores. Where all streams together use less, nobody is late because of another. Not
    #: flat upwards: above 1 every site is taken for idle, and streams limit themselves one by one.
    idle: float = 0.6


@dataclass(frozen=True)
class StreamTuning:
    """When a stream's own batches say something (`StreamCost`)."""

    #: Share of a batch that its rows must have taken before its lateness is a reason to shed: a batch
    #: that is late for other reasons is not helped by fewer rows.
    on_rows: float = 0.2
    #: Seconds, and batches, without a report after which a stream has stopped and costs nothing. Longer
    #: than a garbage collection or a slow commit, and shorter than people wait. At twice of it a source
    #: that pauses for half a minute has its share kept free all the time, and others get 7 % less.
    silent_s: float = 15.0
    silent_batches: float = 5.0
    #: Share of the target. A stream whose batches take more without any row is late whatever is kept.
    most_fixed: float = 0.75
    #: Factors a batch by which a stream's own limit is raised again: `step`, or `leap` while batches
    #: take less than `easy` of their target.
    step: float = 1.06
    leap: float = 1.25
    easy: float = 0.5
    #: Share of the own limit that a batch must have come near before the limit is raised.
    near: float = 0.7
    #: Batches at the start of a run that pay for compiling and for starting workers. Not flat: with one,
    #: a site that starts cold takes what the second costs for its rows'; with four, long triggers learn
    #: their price minutes later.
    cold: int = 2


@dataclass(frozen=True)
class PriceTuning:
    """How the price of a row is learned (`RowCost`)."""

    #: Batches that are remembered: enough for pairs that differ in rows, few enough to follow a change.
    batches: int = 16
    #: Factor. Two batches tell a slope if one has so many times the rows of the other; below it the
    #: difference in time is noise.
    apart: float = 1.3
    #: So many pairs make an answer: a median of fewer is one batch's word.
    pairs: int = 3
    #: Factor. A batch that took so many times as long as one with as many rows says that the other's
    #: report lacks time.
    odd: float = 3.0
    #: Share of the way that the price moves towards an answer with each batch.
    step: float = 0.5
    #: Factor a batch by which the upper bound of the price grows, as costs may: doubled in 18 batches.
    growth: float = 1.04
    #: Shares of the upper bound: the least price, and the price while batches tell no slope.
    least: float = 0.02
    first: float = 0.5


@dataclass(frozen=True)
class RateTuning:
    """What is a pause, and what is only slow (`WindowedRate`)."""

    #: Source time windows. Two batches that lie further apart are a clock that jumped, or a query that
    #: was down.
    longest_gap: float = 10.0
    #: Spacings of batches whose median is what is usual for a stream.
    spacings: int = 9
    #: Usual intervals of silence after which a stream is taken to be quiet: more than one batch that is
    #: late, less than the pauses of a source that comes and goes.
    quiet: float = 2.5


@dataclass(frozen=True)
class AgreementTuning:
    """How the usual amount of a source is learned where none was agreed (`Agreed`)."""

    #: Factor. So many times the usual counts: room for what varies by itself.
    times: float = 1.25
    #: Source time windows over which the usual is learned. A burst that is shorter earns nothing.
    patience: float = 60.0
    #: Share of the patience, and batches, in which a new source is taken at its word: a first batch is
    #: often small, and with a long trigger the second comes as late as the patience ends.
    young: float = 0.05
    young_batches: int = 5


@dataclass(frozen=True)
class ExchangeTuning:
    """When to ask a coordinator again that does not answer."""

    #: Seconds. The longest pause: shorter than a lease, so that the coordinator does not take the site
    #: for gone when it is back itself.
    longest_pause_s: float = 10.0
    #: Seconds. The longest pause that a coordinator may ask for: it can come back with other settings.
    longest_wait_s: float = 60.0


@dataclass(frozen=True)
class SiteTuning:
    """All of them, and those of the decision itself."""

    #: Decisions that a late one stands for at most: a process that slept for an hour has not accepted an
    #: hour's rows.
    caught_up: int = 20
    #: Source time windows after which a query's results are compared with what was accepted, since
    #: windows and hops delay the first; and windows over which that share is learned.
    settled: float = 3.0
    patience: float = 5.0
    #: Seconds, and source time windows, without rows after which a query is no longer served.
    gone_s: float = 30.0
    gone_windows: float = 3.0
    #: Factor. A batch may bring so many times its gate's usual rows where these are all granted, or
    #: cover so many times its usual time where rows did not make it late: sources hand out whole
    #: seconds, and what comes in lumps fits in the mean. A choice: at 2 the longest batch of sources
    #: that burst takes 1.9 targets instead of 1.45, and where neighbours on the cores make batches late
    #: a tenth more rows are kept.
    lumps: float = 1.5
    #: Share. A keep rate, or a row's SIC, that moved by less gets no new plan: a plan costs a file.
    same: float = 0.02
    capacity: CapacityTuning = field(default_factory=CapacityTuning)
    stream: StreamTuning = field(default_factory=StreamTuning)
    price: PriceTuning = field(default_factory=PriceTuning)
    rate: RateTuning = field(default_factory=RateTuning)
    agreement: AgreementTuning = field(default_factory=AgreementTuning)
    exchange: ExchangeTuning = field(default_factory=ExchangeTuning)
