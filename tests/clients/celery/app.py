"""The tasks that the worker runs and the client asks for."""

import os
import ssl

from celery import Celery

app = Celery("cell", broker=os.environ["CELL_URI"], backend="rpc://")
app.conf.update(
    task_default_queue=os.environ["CELL_QUEUE"],
    result_expires=60,
    # A worker that can't connect at first ends at once.
    broker_connection_retry_on_startup=False,
    broker_connection_timeout=2,
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    broker_transport_options={"confirm_publish": True},
)
if os.environ["CELL_QUEUE_TYPE"] == "quorum":
    # Celery delays messages to quorum queues in the broker, through topic exchanges; to classic queues in the worker.
    app.conf.update(task_default_queue_type="quorum", task_default_exchange_type="topic")
if "CELL_PRIORITIES" in os.environ:
    # One task at a time: the next one is for the broker to choose.
    app.conf.update(worker_prefetch_multiplier=1)
    if os.environ["CELL_QUEUE_TYPE"] == "classic":
        app.conf.update(task_queue_max_priority=10)
if "LEVERET_TEST_CA" in os.environ:
    host = os.environ["CELL_URI"].rsplit("@", 1)[1].split(":")[0]
    app.conf.broker_use_ssl = {
        "ca_certs": os.environ["LEVERET_TEST_CA"], "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host,
    }


@app.task(name="cell.add")
def add(a, b):
    return a + b


@app.task(name="cell.flaky", bind=True, max_retries=5)
def flaky(self, failures):
    if self.request.retries < failures:
        # Whole seconds, if the broker waits.
        raise self.retry(countdown=1 if os.environ["CELL_QUEUE_TYPE"] == "quorum" else 0.2)
    return self.request.retries


@app.task(name="cell.now")
def now():
    import time

    return time.time()
