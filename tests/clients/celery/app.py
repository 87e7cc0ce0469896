"""The tasks that the worker runs and the client asks for."""

import os

from celery import Celery

app = Celery("cell", broker=os.environ["CELL_URI"], backend="rpc://")
app.conf.update(
    task_default_queue=os.environ["CELL_QUEUE"],
    result_expires=60,
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=2,
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    broker_transport_options={"confirm_publish": True},
)


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
