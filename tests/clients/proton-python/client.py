"""The AMQP 1.0 scenarios of the client table, with python-qpid-proton. See tests/clients/AMQP10.md."""

from session import container, scenario

import content
import connecting
import conversion
import errors
import management
import receiving
import replies
import sending
import transactions

AREAS = (connecting, sending, content, receiving, replies, transactions, conversion, management, errors)

try:
    next(getattr(area, scenario) for area in AREAS if hasattr(area, scenario))()
except Exception as failure:
    print(f"fail {scenario}: {type(failure).__name__}: {failure}".replace("\n", " "), flush=True)
    raise SystemExit(1) from failure
print(f"ok {scenario}", flush=True)
