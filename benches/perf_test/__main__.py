"""Runs rows of the table by PerfTest against a node and a peer, in turns. benches/perf-test starts it."""

import argparse
import os
import signal
import sys

import load
from broker import Broker
from results import Results
from rows import CONSUME_ONLY, PUBLISH_ONLY, ROWS, picked


def main():
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given = arguments()
    brokers = [Broker("node", given.uri, given.pid, given.metrics_port)]
    if given.vs:
        brokers.append(Broker("peer", given.vs, given.vs_pid))
    rows = picked(given.rows)
    results = Results()
    # A row that fills a queue and the one that empties it take turns within a round.
    groups = [[row] for row in rows if row not in (PUBLISH_ONLY, CONSUME_ONLY)]
    if halves := [row for row in rows if row in (PUBLISH_ONLY, CONSUME_ONLY)]:
        before = sum(ROWS.index(row) < ROWS.index(PUBLISH_ONLY) for row in rows)
        groups.insert(before, halves)
    for group in groups:
        measure(given, brokers, group, {}, results)
        rates = {row: given.fixed_rate or results.median(row.name, True, "peer", "messages_per_second")
                 for row in group}
        if all(rates.values()):
            measure(given, brokers, group, rates, results)
    print()
    print(results.table())
    print()
    results.write(given.out)
    return 1 if results.any_void() else 0


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("--class-path", "--rows", "--out", "--logs", "--uri"):
        parser.add_argument(name, required=True)
    for name in ("--seconds", "--rounds", "--pid", "--metrics-port"):
        parser.add_argument(name, required=True, type=int)
    parser.add_argument("--fixed-rate", type=float)
    parser.add_argument("--vs")
    parser.add_argument("--vs-pid", type=int)
    given = parser.parse_args()
    if given.seconds < 2 or given.rounds < 1:
        parser.error("BENCH_SECONDS must be 2 or more, since the first second isn't measured; BENCH_ROUNDS 1 or more")
    return given


def measure(given, brokers, group, rates, results):
    """All rounds of rows that belong together, at these rates, or without any at their maximum."""
    for number in range(1, given.rounds + 1):
        for broker in brokers:
            courses = [(row, rates.get(row), True) for row in group]
            # Whoever fills needs one who empties, and the other way round; a consumer takes the queue with it.
            if group == [PUBLISH_ONLY]:
                courses.append((CONSUME_ONLY, None, False))
            elif group == [CONSUME_ONLY]:
                courses.insert(0, (PUBLISH_ONLY, None, False))
            # Of this process, so that a second one does no harm at the same peer; and of this group, so that none that
            # failed leaves anything to the next.
            queue = f"perf-test-{os.getpid()}-{group[0].name}-{number}{'-fixed' if rates else ''}"
            for row, rate, counts in courses:
                one(given, broker, row, queue, rate, number, results if counts else None)


def one(given, broker, row, queue, rate, number, results):
    """One run; a void one is told of, and the rest goes on."""
    what = f"{row.name} at {f'{rate:,.0f}/s' if rate else 'its maximum'}, {broker.name}, round {number}"
    log = os.path.join(given.logs, "perf-test.log")
    words = load.command(given.class_path, broker, row, queue, given.seconds, rate)
    try:
        figures = load.run(words, broker, row, given.seconds, log)
    except (load.Void, OSError) as error:
        print(f"void: {what}: {error}", *getattr(error, "tail", []), sep="\n  ", flush=True)
        if results:
            results.add(row, rate, broker, number, void=str(error))
        return
    if results:
        results.add(row, rate, broker, number, figures)
        cpu = figures["broker_cpu_seconds_per_million"]
        cost = "" if cpu is None else f", {cpu:.2f} s of CPU per million"
        print(f"{what}: {figures['messages_per_second']:,.0f}/s{cost}", flush=True)


sys.exit(main())
