"""The AMQP 1.0 scenarios of the client table, with RabbitMQ's Python client. See tests/clients/AMQP10.md."""

from session import scenario

import errors
import messages
import streams
import topology

try:
    next(getattr(area, scenario) for area in (messages, topology, errors, streams) if hasattr(area, scenario))()
except BaseException as failure:  # the harness needs one line; some of the library's errors aren't an Exception
    print(f"fail {scenario}: {type(failure).__name__}: {failure}".replace("\n", " "), flush=True)
    raise SystemExit(1) from failure
print(f"ok {scenario}", flush=True)
