"""`Site`: the queries of one application share its cores, and each degrades as much as the others."""

from __future__ import annotations

import atexit
import logging
import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument, WrongKindOfFrame
from headgate.policies import Policy, Uniform, ValueClasses
from headgate.settings import RETENTION_S, GateSettings
from headgate.sites.agreed import Agreed
from headgate.sites.allocator import SiteAllocator
from headgate.sites.controller import SiteShare
from headgate.sites.service.exchange import Exchange
from headgate.sites.service.ticker import Ticker
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite
from headgate.sites.wire.client import CoordinatorClient
from headgate.sites.wire.protocol import check_name
from headgate.spark.calls import ForTransform, explained
from headgate.spark.session import (  # first: it says which extra is missing
    check_session,
    is_connect,
)

# isort: split
from pyspark.sql import DataFrame, SparkSession

from headgate.control.fixed import check_rate
from headgate.spark.checkpoint import check_checkpoint
from headgate.spark.gate.frame import Gate
from headgate.spark.gate.identity import identity_of, seed_of
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.sic.column import require_sic
from headgate.spark.sites.arguments import check_token, number, strings, whole
from headgate.spark.sites.results import ResultSpec, metered
from headgate.store.folder import check_gate_name, open_control_folder
from headgate.store.places.place import Place
from headgate.store.places.process_claim import ProcessClaim, claim_for_process

__all__ = ["Site"]

log = logging.getLogger("headgate")


class Site:
    """One Spark application among sites that share queries, or one that many queries share.

    Every query behind this site's gates is kept at the same SIC: the share of its source information
    that reaches its result. `gate` stands in front of a source (or, without ``source=``, of rows that
    another site sent), `result` measures what comes out.

    name: the site's; one in a federation.
    control: a folder that the driver and all executors share, and no other site's driver needs.
    coordinator: the address of a ``headgate coordinator``; None for a site by itself.
    token: what ``headgate coordinator token NAME`` prints; by default the environment's
        ``HEADGATE_TOKEN``.
    hold: the longest a batch of any of its streams may take; a gate may have its own.
    cores: how many cores the site's streams may use; by default what Spark has.
    rows_per_s: the capacity in rows a second instead, whatever they cost: for a site whose limit is not
        its own cores (a store behind it, a contract).
    stw: the source time window over which SIC is counted; ten times the delay from source to result
        or more. By default ten times `hold`, 10 seconds at least.
    delay: how long it takes until what is accepted here shows in what coordinators say, roughly: a batch
        and an exchange. Half or twice the truth does no harm.
    headroom: the share of the cores that is planned for; the rest is for what nobody foresees.
    seed: of the published sheddings' draws.
    shedding: ``"mirror"``, or ``"balance-sic"`` and ``"random"`` as published, to compare.
    """

    #: Sites that are open: a site's threads run until it is stopped, so it is not to be forgotten.
    _open: ClassVar[dict[tuple[str, str], Site]] = {}

    @explained('hg.Site(spark, "rome", control="/shared/headgate")')
    def __init__(
        self,
        spark: SparkSession,
        name: str,
        *,
        control: str | os.PathLike[str],
        coordinator: str | None = None,
        token: str | None = None,
        hold: Duration = "2 seconds",
        cores: float | None = None,
        stw: Duration | None = None,
        delay: Duration | None = None,
        headroom: float = 0.85,
        rows_per_s: float | None = None,
        shedding: str = "mirror",
        seed: int = 0,
    ) -> None:
        if not hasattr(spark, "streams") or not hasattr(spark, "version"):
            raise BadArgument(f"hg.Site(spark, name, ...): spark is {spark!r}; give a SparkSession")
        if not isinstance(name, str):
            raise BadArgument(f"hg.Site(spark, name, ...): the name is {name!r}; give a string")
        check_name("site", name)
        check_token(coordinator, token)
        whole("seed", seed)
        if rows_per_s is not None and cores is not None:
            raise BadArgument(
                f"cores={cores!r} and rows_per_s={rows_per_s!r}: the capacity is in one or the other"
            )
        check_session(spark)
        hold_s = seconds(hold, "hold")
        self.name = name
        self._spark = spark
        self._control = open_control_folder(control)
        self._folder = self._control / "sites" / name
        self.settings = SiteSettings.for_hold(
            name,
            float(_cores(spark)) if cores is None else number("cores", cores, "above 0"),
            hold_s,
            None if stw is None else seconds(stw, "stw"),
            None if delay is None else seconds(delay, "delay"),
            headroom=headroom,
            rows_per_s=rows_per_s,
            shedding=shedding,
            seed=seed,
        )
        self._shared = SharedSite(SiteAllocator(self.settings))
        claim = self._claim()
        exchanges = []
        try:
            if coordinator is not None:
                secret = os.environ.get("HEADGATE_TOKEN") if token is None else token
                client = CoordinatorClient(coordinator, name, secret, folder=self._folder)
                exchanges.append(Exchange(self._shared, client, self.settings.interval_s))
        except Exception:
            claim.close()
            raise
        self._claimed = claim
        self._ticker = Ticker(
            self._shared,
            self._folder,
            exchanges,
            at_work=partial(_at_work, spark),
            still_ours=claim.beat,
        )
        self._open[(str(self._control), name)] = self
        self._ticker.start()
        atexit.register(self._at_exit, weakref.ref(self))

    def _claim(self) -> ProcessClaim:
        """Take the site's name for this process alone: two processes would write one status file."""
        other = self._open.get((str(self._control), self.name))
        if other is not None and not other.stopped:
            raise BadArgument(
                f"site {self.name!r} is open in this process with this control folder: use that one, "
                "call its stop() first, or give this site another name"
            )
        return claim_for_process(
            self._folder / "running.lock",
            f"site {self.name!r} is running in another process with control={str(self._control)!r}: "
            "stop that one, or give this site another name",
        )

    @explained('site.query("rides", weight=2)')
    def query(
        self,
        name: str,
        *,
        sources: Sequence[str] | None = None,
        weight: float | None = None,
        priority: int | None = None,
    ) -> None:
        """Say more of a query than its gates do: all its sources, wherever they are; what it may claim.

        With `sources` any other name is refused. A query of weight 2 gets twice the SIC of one of weight
        1; a higher priority is served whole before a lower one gets anything. May be called while the
        query runs.
        """
        check_name("query", name)
        if isinstance(sources, str):
            raise BadArgument(f"sources={sources!r}: give a list of names")
        of = None if sources is None else tuple(check_name("source", s) for s in sources)
        if of is not None and not of:
            raise BadArgument(f"query {name!r}: sources=[] leaves it nothing; give at least one name")
        if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
            raise BadArgument(f"priority={priority!r}: a whole number; 0 is usual")
        if weight is not None:
            weight = number("weight", weight, "above 0; 1 is usual")
        with self._shared as allocator:
            allocator.state.declare(name, weight=weight, priority=priority, of=of)

    @explained('frame.transform(site.gate("rides", query="rides", source="taxis"))')
    def gate(
        self,
        name: str,
        *,
        query: str,
        source: str | None = None,
        hold: Duration | None = None,
        agreed: float | None = None,
        keep: str | Sequence[str] | None = None,
        policy: Policy | None = None,
        identity: str | Sequence[str] | None = None,
        mode: str = "shed",
        on_failure: str = "open",
        min_keep: float = 0.001,
        start: float | None = None,
        retention: Duration = RETENTION_S,
        checkpoint: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> Callable[[DataFrame], DataFrame]:
        """A gate for ``DataFrame.transform``, which keeps this query's fair share.

        query: the query that the rows are for; its fragments at other sites bear the same name.
        source: which of the query's sources the rows come from. Rows get a column ``_sic``, each row's
            source information. Without it the rows are *derived*: they come from another fragment and
            bring their ``_sic`` along; they are shed only when nothing else is left to shed.
        hold: the longest a batch of this stream may take; by default the site's.
        agreed: rows a second of this source that count. One that sends more earns no more by it, so
            the others do not pay. By default a quarter more than it usually sends; ``math.inf`` counts
            all, as published.
        checkpoint: the query's checkpoint, where it is not found by itself (over Connect, unless it is
            in the session's default place): how many rows a batch has stands there before it runs.
        start: keep rate of the very first batch. By default what the others keep while the site is
            overloaded; else all, up to 100,000 rows for each second of `hold`. Its rows have SIC 0:
            nobody knows yet how many come.

        The rest is as with ``hg.gate``: how much is the site's answer, which rows is the policy's.
        """
        check_gate_name(name)
        if name.endswith(".result"):
            raise BadArgument(f"gate name {name!r}: names that end in '.result' are for results' meters")
        check_name("query", query)
        if source is not None:
            check_name("source", source)
        hold_s = None if hold is None else seconds(hold, "hold")
        if start is not None:
            check_rate(start, "start")
        if agreed is not None:
            if source is None:
                raise BadArgument(f"agreed={agreed!r} is for a source; these rows are derived")
            agreed = number("agreed", agreed, "of rows a second, above 0; math.inf counts all")
            Agreed(agreed)  # refuses what is no rate
        if keep is not None and policy is not None:
            raise BadArgument("give keep= or policy=, not both: keep= is a policy (ValueClasses)")
        if keep is not None:
            policy = ValueClasses(strings("keep", keep) or ())
        if policy is not None and not isinstance(policy, Policy):
            raise BadArgument(f"policy={policy!r}: give hg.Uniform(), hg.ValueClasses(...) or the like")
        if policy is not None and (policy.drawing is not None or policy.counts_groups):
            raise BadArgument(
                f"policy={type(policy).__name__}(...) draws rows by itself and knows no SIC: put "
                "hg.gate with it behind this gate"
            )
        # A hold that nobody shortens by `headgate set`: the site decides, and the settings say so.
        settings = GateSettings(
            hold=self.settings.hold_s if hold_s is None else hold_s,
            mode=mode, min_keep=min_keep, on_failure=on_failure, retention=retention,
        )  # fmt: skip
        build = Gate(
            name=name,
            settings=settings,
            control=self._control,
            policy=policy or Uniform(),
            controller=SiteShare(name, self._shared, min_keep),
            arrival=None,
            identity=identity_of(identity),
            start=1.0 if start is None else start,
            seed=seed_of(name, seed),
            checkpoint=None if checkpoint is None else check_checkpoint(checkpoint),
            sic="derived" if source is None else "source",
        )

        def apply(frame: DataFrame) -> DataFrame:
            if not frame.isStreaming:
                raise WrongKindOfFrame(
                    f"gate {name!r} of site {self.name!r} shares capacity among streams, and this "
                    "DataFrame is a batch: use hg.gate(rate=...) to keep a fixed share of it"
                )
            self._require_open()
            build.check_sic(frame)
            self._require_free(name, query, source)
            with self._shared as allocator:
                state = allocator.state
                is_new, knew = name not in state.gates, query in state.queries
                state.enter(name, query=query, source=source, hold_s=hold_s, agreed=agreed, start=start)
                opening = max(min_keep, allocator.rate(name, time.monotonic()))
            try:
                return replace(build, start=opening).apply(frame)
            except Exception:
                if is_new:  # a source that never sends would count in |S| for good
                    with self._shared as allocator:
                        allocator.state.withdraw(name)
                        if not knew:
                            allocator.state.end(query)
                raise

        return ForTransform(apply, f"site.gate({name!r}, ...)")

    def _require_free(self, gate: str, query: str, source: str | None) -> None:
        """One gate, one source: of two under one name the first would be taken for the second."""
        with self._shared as allocator:
            known = allocator.state.gates.get(gate)
        if known is None or (known.query, known.source) == (query, source):
            return
        ended = known.batches > 0 and known.stream not in {str(q.id) for q in self._spark.streams.active}
        if not ended:
            of = f"source {known.source!r}" if known.source is not None else "derived rows"
            raise BadArgument(
                f"gate {gate!r} is for {of} of query {known.query!r} already: give this one another "
                f"name, or call leave({known.query!r}) if that one is not to be"
            )

    @explained('frame.transform(site.result("rides"))')
    def result(self, query: str) -> Callable[[DataFrame], DataFrame]:
        """A meter for ``DataFrame.transform`` where the query's results come out: this is its root.

        The rows need ``_sic`` (see ``hg.sic``). What is measured here is the query's SIC; the
        coordinator tells the other sites.
        """
        check_name("query", query)

        def apply(frame: DataFrame) -> DataFrame:
            self._require_open()
            require_sic(frame)
            if not frame.isStreaming:
                raise WrongKindOfFrame(
                    f"the results of query {query!r} are a batch DataFrame: measure those of a stream"
                )
            with self._shared as allocator:
                known = sorted({gate.query for gate in allocator.state.gates.values()})
                allocator.state.will_measure(query)
            if query not in known:
                others = ", ".join(known) or "no query yet"
                log.warning(
                    "site %r measures the result of query %r, and none of its gates is for that (they "
                    "are for %s): is the name right?", self.name, query, others,
                )  # fmt: skip
            spec = ControlLoop.of(self._spark).register(
                ResultSpec.named(query, self._control, self._shared)
            )
            return metered(frame, query, spec.number)

        return ForTransform(apply, f"site.result({query!r})")

    def leave(self, query: str) -> None:
        """End a query at this site: its gates and its results no longer count."""
        check_name("query", query)
        with self._shared as allocator:
            known = allocator.state.queries
            allocator.state.end(query)
        if query not in known:
            log.warning("query %r is not at site %r, which has %s", query, self.name, ", ".join(known))

    def status(self) -> dict[str, Any]:
        """SIC of every query, keep rates, capacity and durations, as of now."""
        return self._ticker.status()

    @property
    def sic(self) -> dict[str, float]:
        """The SIC of every query at this site, as far as it is known."""
        with self._shared as allocator:
            views = allocator.state.views(time.monotonic())
        return {query: view.sic for query, view in views.items() if not math.isnan(view.sic)}

    @property
    def folder(self) -> Place:
        """Where the site keeps its status and the SIC of its queries over time."""
        return self._folder

    stopped = False

    def __repr__(self) -> str:
        with self._shared as allocator:
            queries = len(allocator.state.queries)
        state = "stopped" if self.stopped else f"{queries} queries"
        return f"Site({self.name!r}, control={str(self._control)!r}, {state})"

    def _require_open(self) -> None:
        if self.stopped:
            raise BadArgument(f"site {self.name!r} has been stopped: open it again with hg.Site(...)")

    def stop(self) -> None:
        """End the site; its gates keep their last plans. Stop the streams first."""
        if not self.stopped:
            self.stopped = True
            self._open.pop((str(self._control), self.name), None)
            self._ticker.stop()
            self._claimed.close()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @staticmethod
    def _at_exit(site: weakref.ref[Site]) -> None:
        alive = site()
        if alive is not None:
            alive.stop()


def _cores(spark: SparkSession) -> int:
    """Task slots of the application."""
    if is_connect(spark):
        return int(spark.conf.get("spark.default.parallelism", None) or os.cpu_count() or 1)
    return int(spark.sparkContext.defaultParallelism)


def _at_work(spark: SparkSession) -> list[str]:
    """Streams that are processing a batch; one that looks for data and finds none is not."""
    found = []
    for query in spark.streams.active:
        status = query.status
        if status["isTriggerActive"] and status["isDataAvailable"]:
            found.append(str(query.id))
    return found
