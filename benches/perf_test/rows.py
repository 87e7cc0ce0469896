"""The rows, by the names that they have in crates/bench/src/rows.rs, and PerfTest's options for each."""

from fnmatch import fnmatchcase

DURABLE = ["--flag", "persistent"]
# As it was published, but for the count: its time is limited instead.
CLASSIC = ["--predeclared", "--exchange", "amq.default", "--flag", "mandatory", "--size", "12"] + DURABLE
WINDOWS = ["--confirm", "192", "--qos", "200", "--multi-ack-every", "200"]
WIDE_IN = ["--predeclared", "--exchange", "amq.default", "--size", "12", "--confirm", "3000"] + DURABLE
WIDE_OUT = ["--qos", "5000", "--multi-ack-every", "3000"]


class Row:
    """A load. `publishers` divide a rate among themselves; each of several `queues` gets a copy of all messages."""

    def __init__(self, name, options, publishers=1, consumers=1, queues=1, fills=False, empties=False):
        self.name, self.options = name, options
        self.publishers, self.consumers, self.queues = publishers, consumers, queues
        # Whether its queue stays full for the next row, and whether it empties the one that the row before filled.
        self.fills, self.empties = fills, empties

    def called(self, pattern):
        """Whether the pattern means this row: by its whole name, without the protocol, or by its scenario."""
        short = self.name.replace("-amqp091", "")
        scenario = short if short == "classic-3000" else short.rstrip("0123456789").rstrip("-")
        return any(fnmatchcase(name, pattern) for name in (self.name, short, scenario))


def two_pairs(size):
    options = ["--size", str(size), "--confirm", "3000", "--qos", "3000", "--multi-ack-every", "3000"]
    return Row(f"two-pairs-amqp091-{size}", options + DURABLE, publishers=2, consumers=2)


def exchange(name, kind, queues=1):
    """Windows as in the classic row; the exchange stays behind, and the next round finds it."""
    options = ["--exchange", f"perf-test-{kind}", "--type", kind, "--size", "12"] + DURABLE + WINDOWS
    return Row(name, options, consumers=queues, queues=queues)


CONSUME_ONLY = Row("consume-only-amqp091", WIDE_OUT + DURABLE, publishers=0, empties=True)
PUBLISH_ONLY = Row("publish-only-amqp091", WIDE_IN, consumers=0, fills=True)

ROWS = [
    Row("classic-amqp091-200", CLASSIC + WINDOWS),
    Row("classic-amqp091-3000", WIDE_IN + WIDE_OUT),
    PUBLISH_ONLY,
    CONSUME_ONLY,
    two_pairs(10),
    two_pairs(100),
    two_pairs(1000),
    two_pairs(5000),
    Row("transient-amqp091", ["--autoack", "--size", "1000", "--queue-args", "x-max-length=10000"]),
    exchange("direct-amqp091", "direct"),
    exchange("fanout-amqp091-10", "fanout", queues=10),
    exchange("topic-amqp091-1", "topic"),
]


def picked(patterns):
    """The rows that any of the patterns, divided by commas, means; in the table's order."""
    patterns = [pattern for pattern in patterns.replace(" ", ",").split(",") if pattern]
    for pattern in patterns:
        if not any(row.called(pattern) for row in ROWS):
            names = ", ".join(row.name for row in ROWS)
            raise SystemExit(f"no row is called '{pattern}': there are {names}")
    return [row for row in ROWS if any(row.called(pattern) for pattern in patterns)]
