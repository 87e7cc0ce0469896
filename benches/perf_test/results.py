"""What was measured, as a table of medians, and as files with each round."""

import csv
import json
import os
from statistics import median

FIELDS = [
    "row", "rate_wanted", "broker", "round", "seconds", "messages", "messages_per_second",
    "broker_cpu_seconds_per_million", "messages_per_broker_cpu_second", "resident_bytes", "resident_bytes_max",
    "reads_per_message", "writes_per_message", "consumer_p50_us", "consumer_p99_us", "confirm_p50_us", "confirm_p99_us",
    "void",
]
COLUMNS = [
    ("row", 23), ("rate", 9), ("broker", 7), ("per second", 12), ("CPU s/million", 14), ("per CPU s", 11),
    ("ratio", 7), ("RSS MiB", 8), ("peak", 6), ("reads/msg", 10), ("writes/msg", 11),
    ("p50/p99 ms", 18), ("confirm p50/p99", 18),
]


class Results:
    """All rounds; those that are void have a reason and no figures."""

    def __init__(self):
        self.rounds = []

    def add(self, row, rate, broker, number, figures=None, void=None):
        self.rounds.append({"row": row.name, "rate_wanted": rate and round(rate), "broker": broker.name,
                            "round": number, **(figures or {}), "void": void})

    def median(self, row, at_maximum, broker, field):
        """Of the rounds that aren't void; None if it isn't known."""
        values = [each.get(field) for each in self.rounds
                  if each["row"] == row and (each["rate_wanted"] is None) == at_maximum and each["broker"] == broker]
        values = [value for value in values if value is not None]
        return median(values) if values else None

    def any_void(self):
        return any(each["void"] for each in self.rounds)

    def table(self):
        lines = [aligned([name for name, _ in COLUMNS])]
        seen = []
        for each in self.rounds:
            key = (each["row"], each["rate_wanted"] is None, each["broker"])
            if key not in seen:
                seen.append(key)
                lines.append(self.line(*key, each["rate_wanted"]))
        return "\n".join(lines)

    def line(self, row, at_maximum, broker, rate):
        def figure(field, scale=1, digits=0):
            value = self.median(row, at_maximum, broker, field)
            return "" if value is None else f"{value / scale:,.{digits}f}"

        def latency(name):
            values = [figure(f"{name}_{percentile}_us", 1000, 2) for percentile in ("p50", "p99")]
            return " / ".join(values) if all(values) else ""

        per_cpu_second = "messages_per_broker_cpu_second"
        ours, theirs = (self.median(row, at_maximum, name, per_cpu_second) for name in ("node", "peer"))
        # How many times as many messages our node moves for the same CPU time.
        ratio = f"{ours / theirs:.1f}" if broker == "node" and ours and theirs else ""
        texts = [row, "max" if at_maximum else f"{rate:,}", broker, figure("messages_per_second"),
                 figure("broker_cpu_seconds_per_million", digits=2), figure(per_cpu_second), ratio,
                 figure("resident_bytes", 1 << 20), figure("resident_bytes_max", 1 << 20),
                 figure("reads_per_message", digits=4), figure("writes_per_message", digits=4), latency("consumer"),
                 latency("confirm")]
        return aligned(texts)

    def write(self, folder):
        """results.json and results.csv."""
        def in_csv(file):
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rounds)

        for name, put in (("results.json", in_json({"rounds": self.rounds})), ("results.csv", in_csv)):
            path = os.path.join(folder, name)
            replace(path, put)
            print(os.path.realpath(path))


def in_json(value):
    """What writes it to a file."""
    def put(file):
        json.dump(value, file, indent=1)
        file.write("\n")
    return put


def replace(path, put):
    """Writes a file that is complete or as it was."""
    with open(f"{path}.new", "w", encoding="utf-8", newline="") as file:
        put(file)
    os.replace(f"{path}.new", path)


def aligned(texts):
    """A line of the table: names to the left, figures to the right."""
    cells = [f"{text:<{width}}" if at < 3 else f"{text:>{width}}" for at, (text, (_, width)) in
             enumerate(zip(texts, COLUMNS))]
    return "".join(cells).rstrip()
