"""The shared part of these programs: the lines that the harness reads, and calls."""

import base64
import json
import os
import sys
import time
import urllib.error
import urllib.request

import pika
from pika import exceptions

uri, http_uri, control, scenario = sys.argv[1:5]
# Credentials go into a header.
http_uri = "http://" + http_uri.removeprefix("http://").rpartition("@")[2]
prefix = f"cell.{scenario}.{os.getpid()}"
PATIENCE = 20


class Failure(Exception):
    """A scenario that saw something else than it should."""


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


def ask(line):
    print(line, flush=True)
    return sys.stdin.readline().strip()


def http(method, path, body=None):
    """Status and JSON."""
    request = urllib.request.Request(f"{http_uri}/api/{path}", method=method)
    request.add_header("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("content-type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    try:
        answer = urllib.request.urlopen(request, data)
    except urllib.error.HTTPError as error:
        answer = error
    text = answer.read()
    return answer.status, json.loads(text) if text else None


def connect(vhost=None):
    target = uri if vhost is None else uri.replace("%2F", vhost)
    return pika.BlockingConnection(pika.URLParameters(target))


def confirming(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def eventually(probe, expected, what):
    """Polls, because counts follow a moment after what a client does without an answer."""
    deadline = time.monotonic() + PATIENCE
    while (found := probe()) != expected:
        if time.monotonic() > deadline:
            raise Failure(f"{what}: {found!r}, expected {expected!r}")
        time.sleep(0.02)


def refused(code, text, act):
    """`act(channel)` on a connection of its own ends with this code, and a text with these words."""
    connection = connect()
    try:
        act(connection.channel())
    except (exceptions.ChannelClosed, exceptions.ConnectionClosed) as error:
        equal((error.reply_code, text in error.reply_text), (code, True), f"refusal {error.reply_text!r}")
        return
    raise Failure(f"{code} {text!r} expected, nothing happened")


def check_default_type(channel, vhost, queue_type):
    """Queues that name no type have the vhost's, or are classic if that can't be."""
    declare = {"durable": {"durable": True}, "transient": {"durable": False}, "auto": {"durable": True, "auto_delete": True},
               "exclusive": {"durable": True, "exclusive": True}}
    for name, options in declare.items():
        channel.queue_declare(name, **options)
    found = {one["name"]: (one["type"], one["arguments"]) for one in http("GET", f"queues/{vhost}")[1]}
    of = lambda kind: (kind, {"x-queue-type": kind})
    equal(found, {"durable": of(queue_type), "transient": of("classic"), "auto": of("classic"), "exclusive": of("classic")}, "types")


def run(functions):
    """Runs the scenario among these functions, and says how it went."""
    try:
        functions[scenario]()
    except Exception as failure:  # the harness needs one line whatever happens
        print(f"fail {scenario}: {type(failure).__name__}: {failure}".replace("\n", " "), flush=True)
        raise SystemExit(1) from failure
    print(f"ok {scenario}", flush=True)
