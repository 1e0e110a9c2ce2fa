"""Which options of a source may stand in the control store: those on a list, and no others.

A list of what is harmless cannot miss a name under which somebody keeps a password. What is not on it is
noted by name alone, and asked for when the rows are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

__all__ = ["FILES", "FORMATS", "STREAM_ONLY", "keepable", "only_known"]

#: Files that Spark reads, by the name of their format.
FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
#: All sources that can be read again without a function of the user's own.
FORMATS = (*FILES, "delta", "iceberg", "kafka", "rate", "rate-micro-batch")

#: What says where a stream begins, how fast it reads and what it does with files; batches have their own
#: range, so that these are neither noted nor missed.
STREAM_ONLY = frozenset((
    "allowduplicatedconsumergroupid", "cleansource", "discardcachedinputratio", "endingoffsets",
    "endingoffsetsbytimestamp", "failondataloss", "fetchoffset.numretries",
    "fetchoffset.retryintervalms", "filenameonly", "groupidprefix", "ignoremissingfiles",
    "kafka.group.id", "latestfirst", "maxbytespertrigger", "maxcachedfiles", "maxfileage",
    "maxfilespertrigger", "maxoffsetspertrigger", "maxtriggerdelay", "minoffsetspertrigger",
    "sourcearchivedir", "startingoffsets", "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy", "startingtimestamp",
    "streaming-max-files-per-micro-batch", "streaming-max-rows-per-micro-batch",
))  # fmt: skip
_OF_FILES = frozenset((
    "allowbackslashescapinganycharacter", "allowcomments", "allownonnumericnumbers",
    "allownumericleadingzeros", "allowsinglequotes", "allowunquotedcontrolchars",
    "allowunquotedfieldnames", "attributeprefix", "charset", "chartoescapequoteescaping",
    "columnnameofcorruptrecord", "comment", "dateformat", "datetimerebasemode", "delimiter",
    "dropfieldifallnull", "emptyvalue", "enabledatetimeparsingfallback", "encoding",
    "enforceschema", "escape", "excludeattribute", "header", "ignorecorruptfiles",
    "ignoreleadingwhitespace", "ignorenamespace", "ignoresurroundingspaces",
    "ignoretrailingwhitespace", "inferschema", "int96rebasemode", "linesep", "locale",
    "maxcharspercolumn", "maxcolumns", "mergeschema", "mode", "multiline", "nanvalue",
    "negativeinf", "nullvalue", "path", "pathglobfilter", "positiveinf", "prefersdate",
    "prefersdecimal", "primitivesasstring", "quote", "quoteall", "recursivefilelookup", "rowtag",
    "samplingratio", "sep", "timestampformat", "timestampntzformat", "timezone",
    "treatemptyvaluesasnulls", "unescapedquotehandling", "valuetag", "wholetext",
))  # fmt: skip
_OF_KAFKA = frozenset((
    "assign", "includeheaders", "kafka.bootstrap.servers", "kafka.client.id",
    "kafka.default.api.timeout.ms", "kafka.fetch.max.bytes", "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes", "kafka.max.poll.records", "kafka.receive.buffer.bytes",
    "kafka.request.timeout.ms", "kafka.sasl.mechanism", "kafka.security.protocol",
    "kafka.session.timeout.ms", "kafkaconsumer.polltimeoutms", "maxrecordsperpartition",
    "minpartitions", "subscribe", "subscribepattern",
))  # fmt: skip
_OF_TABLES = frozenset((
    "ignorechanges", "ignoredeletes", "path", "readchangefeed", "skipchangecommits",
    "startingversion", "stream-from-timestamp", "streaming-skip-delete-snapshots",
    "streaming-skip-overwrite-snapshots",
))  # fmt: skip
_OF_RATE = frozenset((
    "advancemillisperbatch", "numpartitions", "rampuptime", "rowsperbatch", "rowspersecond",
    "starttimestamp",
))  # fmt: skip


def _list_of(source: str) -> frozenset[str]:
    if source in FILES:
        return _OF_FILES
    lists = {"kafka": _OF_KAFKA, "rate": _OF_RATE, "rate-micro-batch": _OF_RATE}
    return lists.get(source, _OF_TABLES)


def keepable(source: str, options: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options that may be noted, and the names of those that may not.

    >>> kept, asked = keepable("kafka", {"subscribe": "rides", "kafka.sasl.jaas.config": "secret"})
    >>> kept, asked
    ({'subscribe': 'rides'}, ['kafka.sasl.jaas.config'])
    """
    legal, kept, asked = _list_of(source), {}, []
    for given, value in options.items():
        name = given.lower()
        if name in STREAM_ONLY and name not in legal:
            continue
        if name in legal and not _has_credentials(value):
            kept[name] = value
        else:
            asked.append(name)
    return kept, sorted(asked)


def _has_credentials(value: str) -> bool:
    """Whether an address has a password in it: ``s3a://key:secret@bucket/path``."""
    if "://" not in value:
        return False
    try:
        return any(":" in urlsplit(part.strip()).netloc.rpartition("@")[0] for part in value.split(","))
    except ValueError:
        return True


def only_known(source: str, names: Iterable[str]) -> list[str]:
    """Those of these names that have no place in a recipe: somebody else wrote it."""
    legal = _list_of(source)
    return sorted(name for name in names if name not in legal)
