#!/usr/bin/env python3
"""Policies over the HTTP API: the same requests to RabbitMQ and to Leveret.

    policies.py record PORT      prints the requests with RabbitMQ's answers, for policies.json

The requests are in order: later ones see what earlier ones did. A response's body is compared as a whole, so requests for
queues and exchanges ask for the columns that policies change. The test is crates/management/tests/http/policies.rs.
"""

import base64
import json
import sys
import time
import urllib.error
import urllib.request

VHOST = "golden-policies"
COLUMNS = "?columns=name,policy,operator_policy,effective_policy_definition"


def policy(definition, pattern="", **more):
    return {"pattern": pattern, "definition": definition, **more}


def requests():
    def put(path, body):
        return ("PUT", f"{path}", body)

    def get(path):
        return ("GET", path, None)

    def delete(path):
        return ("DELETE", path, None)

    v = VHOST
    yield put(f"vhosts/{v}", {})
    yield put(f"queues/{v}/c-1", {"durable": True, "arguments": {"x-max-length": 10}})
    yield put(f"queues/{v}/q-1", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    yield put(f"queues/{v}/s-1", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    yield put(f"exchanges/{v}/x-1", {"type": "direct"})
    yield get(f"policies/{v}")
    yield get(f"policies/{v}/none")
    yield put(f"policies/{v}/first", policy({"max-length": 5}, "^c"))
    yield put(f"policies/{v}/first", policy({"max-length": 6}, "^c", priority=2))
    yield get(f"policies/{v}/first")
    yield get(f"policies/{v}")
    yield get(f"queues/{v}/c-1{COLUMNS}")
    yield get(f"queues/{v}/q-1{COLUMNS}")
    # The highest priority applies. Among several of one priority RabbitMQ picks one by the order of a hash table.
    for name, priority in [("b", 5), ("a", 3), ("c", 4)]:
        yield put(f"policies/{v}/{name}", policy({"max-length": priority}, "^[cq]", priority=priority))
    yield get(f"queues/{v}/c-1{COLUMNS}")
    yield get(f"queues/{v}/q-1{COLUMNS}")
    yield get(f"policies/{v}?columns=name,priority")
    for name in ["a", "b", "c"]:
        yield delete(f"policies/{v}/{name}")
    yield delete(f"policies/{v}/a")
    yield get(f"queues/{v}/c-1{COLUMNS}")
    # A key that a type of queues doesn't have.
    yield put(f"policies/{v}/partly", policy({"delivery-limit": 3, "max-length": 9}, "", priority=9, **{"apply-to": "queues"}))
    for name in ["c-1", "q-1", "s-1"]:
        yield get(f"queues/{v}/{name}{COLUMNS}")
    yield delete(f"policies/{v}/partly")
    # Operator policies.
    yield put(f"operator-policies/{v}/op", policy({"max-length": 4, "message-ttl": 1000}, "^[cq]"))
    yield get(f"operator-policies/{v}")
    yield get(f"operator-policies/{v}/op")
    for name in ["c-1", "q-1", "s-1"]:
        yield get(f"queues/{v}/{name}{COLUMNS}")
    yield get(f"parameters/operator_policy/{v}")
    yield get(f"parameters/operator_policy/{v}/op")
    yield get(f"parameters/policy/{v}")
    yield put(f"parameters/policy/{v}/p", {"value": policy({"max-length": 4})})
    yield put(f"parameters/operator_policy/{v}/p", {"value": policy({"max-length": 4}, priority=0)})
    yield delete(f"parameters/operator_policy/{v}/p")
    yield delete(f"parameters/policy/{v}/first")
    # Exchanges.
    yield put(f"policies/{v}/x", policy({"alternate-exchange": "amq.fanout"}, "^x"))
    yield get(f"exchanges/{v}/x-1?columns=name,policy,arguments")
    yield get(f"exchanges/{v}/amq.direct?columns=name,policy,arguments")
    yield delete(f"policies/{v}/x")
    yield get(f"exchanges/{v}/x-1?columns=name,policy,arguments")
    # Wrong values.
    for name, body in [
        ("empty", policy({})),
        ("list", policy([])),
        ("number", policy({"max-length": -1})),
        ("text", policy({"max-length": "five"})),
        ("float", policy({"max-length": 1.5})),
        ("expires", policy({"expires": 0})),
        ("limit", policy({"delivery-limit": "none"})),
        ("overflow", policy({"overflow": "none"})),
        ("strategy", policy({"dead-letter-strategy": "none"})),
        ("age", policy({"max-age": "1x"})),
        ("segment", policy({"stream-max-segment-size-bytes": 3000000001})),
        ("filter", policy({"stream-filter-size-bytes": 15})),
        ("locator", policy({"queue-leader-locator": "min-masters"})),
        ("mode", policy({"queue-mode": "eager"})),
        ("version", policy({"queue-version": 3})),
        ("exchange", policy({"dead-letter-exchange": 5})),
        ("timeout", policy({"consumer-timeout": -1})),
        ("delays", policy({"delayed-retry-min": 0})),
        ("delay-type", policy({"delayed-retry-type": "some"})),
        ("group", policy({"target-group-size": 0})),
        ("unknown", policy({"nonsense": 1})),
        ("unknowns", policy({"nonsense": "a", "ha-mode": True, "max-length": 5})),
        ("federation", policy({"federation-upstream": "u"})),
        ("apply", policy({"max-length": 1}, **{"apply-to": "topics"})),
        ("priority", policy({"max-length": 1}, priority="high")),
        ("pattern-number", policy({"max-length": 1}, 5)),
        ("several", policy({"max-length": -1}, 5, priority="high", **{"apply-to": "topics"})),
        ("no-pattern", {"definition": {"max-length": 1}}),
        ("no-definition", {"pattern": ""}),
        ("neither", {}),
    ]:
        yield put(f"policies/{v}/wrong-{name}", body)
    for name, body in [
        ("exchange", policy({"dead-letter-exchange": "x"})),
        ("mode", policy({"queue-mode": "lazy"})),
        ("number", policy({"max-length": -1})),
    ]:
        yield put(f"operator-policies/{v}/wrong-{name}", body)
    yield put("policies/golden-none/p", policy({"max-length": 1}))
    yield delete(f"operator-policies/{v}/op")
    yield delete(f"operator-policies/{v}/op")
    yield get(f"policies/{v}")
    yield delete(f"vhosts/{v}")


def call(port, method, path, body):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{path}", data=data, method=method)
    request.add_header("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    return status, json.loads(text) if text else None


def record(port):
    call(port, "DELETE", f"vhosts/{VHOST}", None)
    rows = []
    for method, path, body in requests():
        if path.startswith("queues/") and method == "GET":
            # RabbitMQ shows what it sampled some seconds ago.
            time.sleep(6)
        status, answer = call(port, method, path, body)
        rows.append({"method": method, "path": path, "body": body, "status": status, "answer": answer})
    lines = ",\n".join("  " + json.dumps(row, sort_keys=True) for row in rows)
    print('{"rabbitmq": "4.3.6", "rows": [\n' + lines + "\n]}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "record":
        sys.exit(__doc__)
    record(int(sys.argv[2]))
