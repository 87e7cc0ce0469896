"""RabbitMQ's published line, as it was published: whether what is measured beside this peer, here and now, counts. Its
figure, unlike that of the rows, has the time in it that Java takes to warm up."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from statistics import median

from load import PATIENCE_S, TAIL_LINES, perf_test
from results import in_json, replace
from rows import CLASSIC, WINDOWS

AVERAGE = re.compile(r"receiving rate avg: (\d+) msg/s")
# Of what is expected.
ALLOWED = 0.2


def main():
    # So that PerfTest, which is waited for in a `with`, is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given = arguments()
    rates = []
    for _ in range(given.rounds):
        rate, lines = run(given)
        if rate is None:
            print("void: PerfTest says nothing of the published line's rate", *lines[-TAIL_LINES:], sep="\n  ")
            keep(given, rates, None, False)
            return 1
        rates.append(rate)
    rate = median(rates)
    valid = abs(rate - given.expected) <= given.expected * ALLOWED
    each = ", ".join(f"{rate:,}" for rate in rates)
    print(f"the peer's published line, {given.when}: {rate:,.0f} per second ({each}), {rate / given.expected:.0%} of the"
          f" expected {given.expected:,.0f}: {'within 20 %' if valid else 'void, more than 20 % away'}", flush=True)
    keep(given, rates, rate, valid)
    return 0 if valid else 1


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("--class-path", "--uri", "--when", "--file"):
        parser.add_argument(name, required=True)
    parser.add_argument("--expected", required=True, type=float)
    parser.add_argument("--messages", required=True, type=int)
    parser.add_argument("--rounds", required=True, type=int)
    given = parser.parse_args()
    if given.expected <= 0 or given.messages < 1 or given.rounds < 1:
        parser.error("PEER_EXPECTED, PEER_MESSAGES and BENCH_ROUNDS must be more than 0")
    return given


def run(given):
    """What PerfTest says of one run, and all that it said."""
    queue = f"published-line-{os.getpid()}"
    words = perf_test(given.class_path, given.uri)
    words += ["--queue", queue, "--routing-key", queue, "--pmessages", str(given.messages)] + CLASSIC + WINDOWS
    # A tenth of what is expected is as good as none.
    patience = 10 * given.messages / given.expected + PATIENCE_S
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as process:
        try:
            said = process.communicate(timeout=patience)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0]
        finally:
            process.kill()
    found = AVERAGE.search(said) if process.returncode == 0 else None
    return int(found[1]) if found else None, said.splitlines()


def keep(given, rates, middle, valid):
    """Beside the results, with those that were made before."""
    check = {"when": given.when, "expected": given.expected, "messages_per_second": rates, "median": middle,
             "valid": valid}
    checks = []
    if os.path.exists(given.file):
        with open(given.file, encoding="utf-8") as file:
            checks = json.load(file)
    replace(given.file, in_json(checks + [check]))


sys.exit(main())
