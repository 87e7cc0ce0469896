"""Celery with a worker of its own. See tests/src/cell.rs for the lines it speaks."""

import datetime
import os
import subprocess
import sys
import time

uri, http_uri, control, scenario = sys.argv[1:5]
queue = f"cell.{scenario}.{os.getpid()}"
os.environ.update(CELL_URI=uri, CELL_QUEUE=queue)
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


def worker():
    """A worker whose log says that it is ready."""
    arguments = [sys.executable, "-m", "celery", "-A", "app", "worker", "-P", "solo", "-l", "INFO", "-n", f"{queue}@%h"]
    process = subprocess.Popen(
        arguments, cwd=os.path.dirname(os.path.abspath(__file__)), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
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


SCENARIOS = {"tasks": tasks, "retry": retry, "later": later, "control": control_, "recover": reconnect}
process = None
try:
    process = worker()
    SCENARIOS[scenario](process)
    print(f"ok {scenario}", flush=True)
except Exception as error:  # the harness wants every reason
    print(f"fail {scenario}: {type(error).__name__} {error}".replace("\n", " "), flush=True)
    sys.exit(1)
finally:
    if process is not None and process.poll() is None:
        process.terminate()
        process.stderr.close()
        process.wait(10)
