"""One run of PerfTest, and the figures of the time that is measured of it."""

import re
import subprocess
import threading

# How much longer than its time a run may take: starting Java, connecting, and its own patience with confirms.
PATIENCE_S = 60
TAIL_LINES = 15

SAMPLE = re.compile(r"time ([0-9.]+) s,(.*)")
RATE = re.compile(r"(confirmed|received): (\d+) msg/s")
LATENCY = re.compile(r"(consumer|confirm) latency min/median/75th/95th/99th \d+/(\d+)/\d+/\d+/(\d+) µs")
STARTED = re.compile(r"starting consumer #(\d+), channel #0")


class Void(Exception):
    """A run that doesn't count: why, and the end of its log."""

    def __init__(self, why, lines):
        super().__init__(why)
        self.tail = lines[-TAIL_LINES:]


class Sample:
    """What is known when PerfTest prints a line: its own clock, messages per second since the line before."""

    def __init__(self, broker, clock, rate):
        self.clock, self.rate = clock, rate
        self.cpu = broker.cpu_seconds()
        self.rss, self.peak = broker.memory()


def perf_test(class_path, uri):
    """PerfTest's command line, without a load."""
    with open(class_path, encoding="utf-8") as file:
        return ["java", "-cp", file.read().strip(), "com.rabbitmq.perf.PerfTest", "--uri", uri]


def command(class_path, broker, row, queue, seconds, rate):
    """PerfTest's command line; a rate of None is the highest that it reaches."""
    words = perf_test(class_path, broker.uri) + ["--id", "run"]
    if row.queues > 1:
        words += ["--queue-pattern", f"{queue}-%d", "--queue-pattern-from", "1", "--queue-pattern-to", str(row.queues)]
    else:
        words += ["--queue", queue, "--routing-key", queue]
    words += ["--time", str(seconds)]
    words += ["--producers", str(row.publishers), "--consumers", str(row.consumers)] + row.options
    if row.empties:
        words += ["--exit-when", "empty"]
    if rate is not None:
        # A rate is of what comes out.
        each = rate / row.publishers / row.queues if row.publishers else rate
        words += ["--consumer-rate" if row.empties else "--rate", str(round(each))]
    return words


def run(words, broker, row, seconds, log):
    """Runs it, and gives the figures of the time from the first line to the last: the first second is for Java to warm
    up. What empties a queue may take a few seconds only, and is measured from its start."""
    broker.reset_peak()
    watch = Watch(broker, row, seconds)
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace")
    # One that hangs says nothing, so nobody here would look at the clock.
    late = threading.Timer(seconds + PATIENCE_S, process.kill)
    late.start()
    try:
        for line in process.stdout:
            watch.see(line.rstrip())
        code = process.wait()
    except OSError as error:
        raise Void(f"the broker's process or its metrics can't be read: {error}", watch.lines) from error
    finally:
        late.cancel()
        watch.close()
        if process.poll() is None:
            process.kill()
            process.wait()
        with open(log, "w", encoding="utf-8") as file:
            file.write("\n".join(watch.lines) + "\n")
    if code != 0:
        raise Void(f"PerfTest ended with {code}", watch.lines)
    return watch.figures()


class Watch:
    """What PerfTest prints, with what the broker takes meanwhile."""

    def __init__(self, broker, row, seconds):
        self.broker, self.row, self.seconds = broker, row, seconds
        # Messages that came out, where any do.
        self.counted = "received" if row.consumers else "confirmed"
        self.lines, self.samples, self.latencies = [], [], {}
        self.counting, self.calls = broker.counting(), None

    def see(self, line):
        self.lines.append(line)
        started, sampled, latency = STARTED.search(line), SAMPLE.search(line), LATENCY.search(line)
        if self.row.empties and started and int(started[1]) == self.row.consumers - 1:
            self.sample(0.0, 0)
        elif sampled:
            rates = dict(RATE.findall(sampled[2]))
            if self.counted in rates:
                self.sample(float(sampled[1]), int(rates[self.counted]))
        elif latency:
            # Of those with the time in front, each stands in one line, which is taken above.
            self.latencies[latency[1]] = {"p50_us": int(latency[2]), "p99_us": int(latency[3])}
        elif line.startswith("test stopped"):
            self.end_counting()

    def sample(self, clock, rate):
        self.samples.append(Sample(self.broker, clock, rate))
        if self.counting and len(self.samples) == 1:
            self.counting.begin()
        if clock >= self.seconds:
            self.end_counting()

    def end_counting(self):
        if self.counting and self.samples and self.calls is None:
            self.calls = self.counting.end()
            self.close()

    def close(self):
        if self.counting:
            self.counting.close()
        self.counting = None

    def figures(self):
        """One round's, by name. What isn't known is None."""
        if len(self.samples) < 2:
            raise Void(f"{len(self.samples)} samples, where 2 are needed: more of BENCH_SECONDS might help", self.lines)
        steps = [(now.clock - before.clock, now) for before, now in zip(self.samples, self.samples[1:])]
        messages = sum(took * now.rate for took, now in steps)
        if messages == 0:
            raise Void(f"nothing was {self.counted}", self.lines)
        first, last = self.samples[0], self.samples[-1]
        cpu = last.cpu - first.cpu if first.cpu is not None else None
        # What was empty before the second was over says nothing of the rate.
        if self.row.empties:
            highest = max(now.rate for _, now in steps)
            steps = [(took, now) for took, now in steps if now.rate >= highest / 2]
        figures = {
            "seconds": last.clock - first.clock,
            "messages": round(messages),
            "messages_per_second": sum(took * now.rate for took, now in steps) / sum(took for took, _ in steps),
            "broker_cpu_seconds_per_million": cpu * 1e6 / messages if cpu is not None else None,
            "messages_per_broker_cpu_second": messages / cpu if cpu else None,
            "resident_bytes": last.rss,
            "resident_bytes_max": last.peak,
        }
        for name in ("reads", "writes"):
            figures[f"{name}_per_message"] = self.calls[name] / messages if self.calls else None
        for name in ("consumer", "confirm"):
            for percentile in ("p50_us", "p99_us"):
                # Messages that lay in a queue have no latency: PerfTest prints zeros.
                known = {} if self.row.empties else self.latencies.get(name, {})
                figures[f"{name}_{percentile}"] = known.get(percentile)
        return figures
