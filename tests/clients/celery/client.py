"""Celery with a worker of its own. See tests/src/cell.rs for the lines it speaks."""

import ctypes
import datetime
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

uri, http_uri, control, scenario = sys.argv[1:5]
queue = f"cell.{scenario}.{os.getpid()}"
os.environ.update(CELL_URI=uri, CELL_QUEUE=queue, CELL_QUEUE_TYPE="quorum" if "quorum" in scenario else "classic")
if "priorities" in scenario:
    os.environ["CELL_PRIORITIES"] = "1"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import app  # noqa: E402  (it reads the environment)

PATIENCE = 60


class Failure(Exception):
    """A scenario that saw something else than it should."""


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


def ask(line):
    print(line, flush=True)
    return sys.stdin.readline().strip()


def die_with_parent():
    """The harness kills this program when it has its verdict, or none in time."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def worker():
    """A worker whose log says that it is ready."""
    arguments = [sys.executable, "-m", "celery", "-A", "app", "worker", "-P", "solo", "-l", "INFO", "-n", f"{queue}@%h"]
    process = subprocess.Popen(
        arguments, cwd=os.path.dirname(os.path.abspath(__file__)), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
    )
    wait_for(process, " ready.")
    return process


def wait_for(process, words):
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return
    raise Failure("the worker ended: " + "".join(seen))


def http(method, path):
    base, _, rest = http_uri.partition("://")
    request = urllib.request.Request(f"{base}://{rest.rsplit('@', 1)[-1]}{path}", method=method)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")  # guest:guest
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer) if method == "GET" else None


def queue_type():
    return http("GET", f"/api/queues/%2F/{queue}")["type"]


def tasks(_):
    results = [app.add.delay(n, 1) for n in range(20)]
    equal([result.get(timeout=PATIENCE) for result in results], list(range(1, 21)), "sums")


def retry(_):
    equal(app.flaky.delay(2).get(timeout=PATIENCE), 2, "retries")


def later(_):
    eta = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1.5)
    ran = app.now.apply_async(eta=eta).get(timeout=PATIENCE)
    if ran < eta.timestamp():
        raise Failure(f"ran {eta.timestamp() - ran} s before its time")
    # What came before its time goes on at once, though another one waits.
    late = app.now.apply_async(countdown=2)
    equal(app.add.delay(1, 1).get(timeout=PATIENCE), 2, "a task beside one that waits")
    late.get(timeout=PATIENCE)


# The worker starts when all tasks are there: it gets the urgent ones first.
def priorities(_):
    sent = [(priority, app.now.apply_async(priority=priority)) for priority in (1, 1, 9, 5, 9, 1)]
    process = worker()
    try:
        ran = sorted((result.get(timeout=PATIENCE), priority) for priority, result in sent)
    finally:
        stop(process)
    equal([priority for _, priority in ran], [9, 9, 5, 1, 1, 1], "order")
    equal(queue_type(), os.environ["CELL_QUEUE_TYPE"], "type of the queue")


def quorum(process):
    equal(queue_type(), "quorum", "type of the queue")
    tasks(process)
    equal(app.flaky.delay(1).get(timeout=PATIENCE), 1, "retries")
    # Queues of 2^n seconds pass a message on when its time is over.
    sent = time.time()
    later, sooner = app.now.apply_async(countdown=3), app.now.apply_async(countdown=1)
    waits = [http("GET", f"/api/queues/%2F/celery_delayed_{level}") for level in (0, 1)]
    equal([each["arguments"]["x-dead-letter-strategy"] for each in waits], ["at-least-once"] * 2, "strategy")
    for result, delay in ((sooner, 1), (later, 3)):
        ran = result.get(timeout=PATIENCE) - sent
        if not delay <= ran < delay + PATIENCE:
            raise Failure(f"ran after {ran} s instead of {delay}")
    control_(process)


# A worker whose queue is deleted declares it again.
def topology(process):
    equal(app.add.delay(1, 1).get(timeout=PATIENCE), 2, "before")
    http("DELETE", f"/api/queues/%2F/{queue}")
    wait_for(process, "Connected to")
    # It answers once it has its queues.
    inspect = app.app.control.inspect(timeout=1, limit=1)
    for attempt in range(PATIENCE):
        if inspect.ping():
            break
    equal(app.add.delay(2, 2).get(timeout=PATIENCE), 4, "after")


def control_(process):
    inspect = app.app.control.inspect(timeout=10, limit=1)
    name = next(iter(inspect.ping() or {}), None)
    if name is None:
        raise Failure("nobody answers a ping")
    if "cell.add" not in inspect.registered()[name]:
        raise Failure("the worker doesn't know its tasks")
    equal([each["name"] for each in inspect.active_queues()[name]], [queue], "queues")
    answer = app.app.control.rate_limit("cell.add", "100/s", reply=True, timeout=10, limit=1)
    equal([list(each) for each in answer], [[name]], "who took the rate limit")
    app.app.control.shutdown()
    process.wait(PATIENCE)


def reconnect(process):
    equal(app.add.delay(1, 1).get(timeout=PATIENCE), 2, "before")
    equal(ask("ready kill"), "go", "the harness")
    # The worker's connection is gone; the task waits in its durable queue until the worker is back.
    for attempt in range(PATIENCE):
        try:
            result = app.add.apply_async((2, 2), retry=True)
            break
        except OSError:
            time.sleep(0.2)
    # The queue for results went with the old connection, so the worker's log tells.
    wait_for(process, f"{result.id}] succeeded")


def stop(process):
    if process.poll() is None:
        process.terminate()
        process.stderr.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


SCENARIOS = {
    "tasks": tasks, "retry": retry, "later": later, "priorities": priorities, "priorities_of_quorum_queues": priorities,
    "quorum": quorum, "control": control_, "topology": topology, "recover": reconnect,
}
process = None
try:
    if SCENARIOS[scenario] is not priorities:
        process = worker()
    SCENARIOS[scenario](process)
    verdict = f"ok {scenario}"
except Exception as error:  # the harness wants every reason
    verdict = f"fail {scenario}: {type(error).__name__} {error}".replace("\n", " ")
finally:
    if process is not None:
        stop(process)
print(verdict, flush=True)
sys.exit(not verdict.startswith("ok"))
