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
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task(name="cell.now")
def now():
    import time

    return time.time()
