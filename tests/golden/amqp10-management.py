#!/usr/bin/env python3
"""Requests of management over AMQP 1.0 and what a broker answers to them, with the type of every value.

    amqp10-management.py record AMQP_PORT > amqp10-management.json
        plays all against a RabbitMQ, in the vhost /, with guest/guest
    amqp10-management.py play AMQP_PORT
        plays the same against any broker
    amqp10-management.py own AMQP_PORT
        asserts what RabbitMQ does not do, or does by ending the session, and Leveret answers
    amqp10-management.py permissions AMQP_PORT
        asserts which permission each request takes, as in RabbitMQ, where guest may configure and write `mgmt-ok`,
        and read that and `mgmt-read`

Speaks AMQP 1.0 by itself, since clients hide the types of values. A scenario ends where the broker ends its session.
"""
import json, sys
import wire
from wire import NULL, S, Y, B, M, U, Ended, Reader, args, described, encode

PORT = int(sys.argv[2])

# --- a connection with one session and the links of management ----------------------------------------------------

class Client(wire.Client):
    def __init__(self, **options): super().__init__(PORT, **options)
    def half(self, handle, receives, name="pair", paired=B(True), settled=1, client=S("/management"), credit=100, most=0):
        ours = described(0x29 if receives else 0x28, client)
        theirs = described(0x28 if receives else 0x29, S("/management"))
        source, target = (theirs, ours) if receives else (ours, theirs)
        properties = ["map", [[Y("paired"), paired]]] if paired else NULL
        self.write(described(0x12, S(name), U(handle), B(receives), ["ubyte", settled], ["ubyte", 0], source, target, NULL,
            NULL, NULL if receives else U(0), ["ulong", most], NULL, NULL, properties))
        fields, _ = self.expect("attach")
        if receives and credit is not None: self.flow(handle, 0, credit)
        return fields
    def requester(self, handle):
        source = described(0x28, NULL, U(0), Y("link-detach"), U(0), B(True), NULL, NULL, NULL, NULL, NULL, Y("rabbitmq:volatile-queue"))
        self.write(described(0x12, S("answers"), U(handle), B(True), ["ubyte", 1], ["ubyte", 0], source, described(0x29)))
        fields, _ = self.expect("attach")
        return fields[5][1][1][1][0][1]
    def pair(self): self.half(0, False); self.half(1, True); return self

def request(method, to, body, id=S("1"), reply=S("$me"), extra=b""):
    as_string = lambda value: NULL if value is None else S(value) if isinstance(value, str) else value
    properties = described(0x73, as_string(id), NULL, as_string(to), as_string(method), as_string(reply))
    return encode(properties) + extra + (b"" if body is None else encode(["described", [["ulong", 0x77], body]]))

def sections(payload):
    reader, out = Reader(payload), {}
    while reader.at < len(payload):
        code, value = reader.value()[1]
        out[{0x73: "properties", 0x74: "application-properties", 0x77: "value"}.get(code[1], str(code[1]))] = value
    return out

# --- scenarios ----------------------------------------------------------------------------------------------------

SCENARIOS = []
def scenario(name, *requests): SCENARIOS.append((name, requests))
def get(to, body=NULL): return ("GET", to, body)
def put(to, body=M()): return ("PUT", to, body)
def delete(to, body=NULL): return ("DELETE", to, body)
def post(to, body): return ("POST", to, body)
Q, X = "/queues/mgmt-q", "/exchanges/mgmt-x"

scenario("queue declare, look, delete", put(Q), get(Q), put(Q), delete(Q), get(Q), delete(Q))
scenario("queue declare with all fields", put(Q, M(durable=B(True), exclusive=B(False), auto_delete=B(True), arguments=M())), get(Q))
scenario("queue exclusive", put(Q, M(exclusive=B(True))), get(Q), put(Q, M(exclusive=B(True))), put(Q), delete(Q))
scenario("queue redeclare auto_delete", put(Q), put(Q, M(auto_delete=B(True))))
scenario("queue redeclare not durable", put(Q), put(Q, M(durable=B(False))))
scenario("queue redeclare exclusive", put(Q), put(Q, M(exclusive=B(True))))
scenario("queue redeclare argument", put(Q), put(Q, M(arguments=args(x_max_length=["ulong", 5]))))
scenario("queue transient", put(Q, M(durable=B(False))))
for kind, value in (("ulong", 7), ("uint", 7), ("ushort", 7), ("ubyte", 7), ("long", 7), ("int", 7), ("short", 7), ("byte", 7)):
    scenario(f"queue length limit of type {kind}", put(Q, M(arguments=args(x_max_length=[kind, value]))), get(Q))
for typed in (["boolean", True], ["float", 1.5], ["double", 1.5], ["string", "ü"], ["symbol", "s"], ["binary", b"\1\xff"],
        ["timestamp", 1234567], ["uuid", "00" * 16], ["char", 65], NULL, ["list", [S("a"), U(1)]], ["array", [S("a"), S("b")]],
        ["map", [[S("a"), S("b")]]], ["map", [[Y("a"), S("b")]]], ["map", []], ["list", []], ["long", -5], ["ulong", 2**63]):
    scenario(f"queue unknown argument {typed[0]} {typed[1]}", put(Q, M(arguments=args(x_other=typed))), get(Q))
scenario("queue argument with symbol key", put(Q, M(arguments=M([Y("x-max-length"), U(5)]))), get(Q))
scenario("queue argument with other key", put(Q, M(arguments=M([U(1), U(5)]))))
scenario("queue arguments not a map", put(Q, M(arguments=S("x"))))
scenario("queue arguments come in the order of keys", put(Q, M(arguments=args(x_b=S("b"), x_max_length=U(5), x_a=S("a")))))
scenario("queue argument wrong type", put(Q, M(arguments=args(x_max_length=S("a")))))
scenario("queue argument negative", put(Q, M(arguments=args(x_max_length=["int", -1]))))
scenario("queue argument of another type", put(Q, M(arguments=args(x_max_age=S("1D")))))
def stream(*pairs, **properties): return M(**properties, arguments=M([S("x-queue-type"), S("stream")], *([S(key), value] for key, value in pairs)))
scenario("stream declare, look, purge, delete", put(Q, stream(("x-max-age", S("1h")))), get(Q), put(Q, stream(("x-max-age", S("60m")))), delete(Q + "/messages"), delete(Q))
scenario("stream redeclare argument", put(Q, stream(("x-max-age", S("1h")))), put(Q, stream(("x-max-age", S("2h")))), put(Q, stream()), put(Q))
for key, value in (("x-max-age", S("1W")), ("x-max-length", U(5)), ("x-stream-filter-size-bytes", U(15)), ("x-stream-max-segment-size-bytes", ["ulong", 3 * 10**9 + 1])):
    scenario(f"stream argument {key} {value[1]}", put(Q, stream((key, value))))
for properties in (dict(durable=B(False)), dict(exclusive=B(True)), dict(auto_delete=B(True))):
    scenario(f"stream {list(properties)[0]}", put(Q, stream(**properties)))
scenario("queue unknown type", put(Q, M(arguments=args(x_queue_type=S("other")))))
scenario("queue unknown field", put(Q, M(color=S("blue"))))
scenario("queue field of wrong type", put(Q, M(durable=S("true"))))
scenario("queue field with symbol key", put(Q, M([Y("durable"), B(True)])))
scenario("queue reserved name", put("/queues/amq.mgmt"))
scenario("queue reserved name is deleted", delete("/queues/amq.mgmt"))
scenario("queue empty name", put("/queues/"))
scenario("queue empty name is got", get("/queues/"))
scenario("queue name with line feed", put("/queues/mgmt%0A"))
scenario("queue name escaped", put("/queues/mgmt%2Fq%20%C3%BC%3F"), get("/queues/mgmt%2Fq%20%C3%BC%3F"), delete("/queues/mgmt%2Fq%20%C3%BC%3F"))
scenario("queue name escaped in lower case", put("/queues/mgmt%2fq"), delete("/queues/mgmt%2Fq"))
scenario("queue name with plus", put("/queues/mgmt+q"), delete("/queues/mgmt+q"))
scenario("queue name with bad escape", put("/queues/mgmt%zz"))
scenario("queue name too long", put("/queues/" + "m" * 256))
scenario("queue with a query", get(Q + "?a=b"))
scenario("queue purge", put(Q), delete(Q + "/messages"), delete(Q))
scenario("queue purge missing", delete(Q + "/messages"))
scenario("exchange declare and delete", put(X), put(X), delete(X), delete(X))
for kind in ("direct", "fanout", "topic", "headers"):
    scenario(f"exchange {kind}", put(X, M(type=S(kind), durable=B(True), auto_delete=B(True), internal=B(True), arguments=M())))
scenario("exchange unknown type", put(X, M(type=S("other"))))
scenario("exchange redeclare type", put(X), put(X, M(type=S("fanout"))))
scenario("exchange redeclare auto_delete", put(X), put(X, M(auto_delete=B(True))))
scenario("exchange redeclare alternate", put(X), put(X, M(arguments=args(alternate_exchange=S("a")))))
scenario("exchange alternate of wrong type", put(X, M(arguments=args(alternate_exchange=U(1)))))
scenario("exchange unknown field", put(X, M(color=S("blue"))))
scenario("exchange field of wrong type", put(X, M(type=Y("direct"))))
scenario("exchange reserved name", put("/exchanges/amq.mgmt"))
scenario("exchange predeclared", put("/exchanges/amq.direct"), put("/exchanges/amq.direct", M(type=S("topic"))))
scenario("exchange predeclared is deleted", delete("/exchanges/amq.direct"))
scenario("exchange default", put("/exchanges/"))
scenario("exchange default is deleted", delete("/exchanges/"))
scenario("exchange name with line feed", put("/exchanges/mgmt%0D"))
def bound(source="mgmt-x", key="k ü", arguments=M(), **destination):
    return M(source=S(source), binding_key=S(key), arguments=arguments, **{name: S(value) for name, value in destination.items()})
K = "k%20%C3%BC"
scenario("binding of a queue", put(X), put(Q), post("/bindings", bound(destination_queue="mgmt-q")),
    post("/bindings", bound(destination_queue="mgmt-q")), get(f"/bindings?src=mgmt-x&dstq=mgmt-q&key={K}"),
    delete(f"/bindings/src=mgmt-x;dstq=mgmt-q;key={K};args="), get(f"/bindings?src=mgmt-x&dstq=mgmt-q&key={K}"),
    delete(f"/bindings/src=mgmt-x;dstq=mgmt-q;key={K};args="))
scenario("binding of an exchange", put(X), put("/exchanges/mgmt-y"), post("/bindings", bound(destination_exchange="mgmt-y")),
    get(f"/bindings?src=mgmt-x&dste=mgmt-y&key={K}"), delete(f"/bindings/src=mgmt-x;dste=mgmt-y;key={K};args="),
    get(f"/bindings?src=mgmt-x&dste=mgmt-y&key={K}"))
scenario("binding with an empty key", put(X, M(type=S("fanout"))), put(Q), post("/bindings", bound(key="", destination_queue="mgmt-q")),
    get("/bindings?src=mgmt-x&dstq=mgmt-q&key="), delete("/bindings/src=mgmt-x;dstq=mgmt-q;key=;args="),
    get("/bindings?src=mgmt-x&dstq=mgmt-q&key="))
scenario("binding with arguments", put(X, M(type=S("headers"))), put(Q),
    post("/bindings", bound(arguments=args(x_match=S("all"), b=["int", 2]), destination_queue="mgmt-q")),
    delete(f"/bindings/src=mgmt-x;dstq=mgmt-q;key={K};args="), get(f"/bindings?src=mgmt-x&dstq=mgmt-q&key={K}"),
    ("LOCATION", None, NULL), get(f"/bindings?src=mgmt-x&dstq=mgmt-q&key={K}"))
scenario("binding escaped", put("/exchanges/mgmt%2Fx"), put("/queues/mgmt%3Bq"),
    post("/bindings", bound(source="mgmt/x", key="a;=+&", destination_queue="mgmt;q")),
    get("/bindings?src=mgmt%2Fx&dstq=mgmt%3Bq&key=a%3B%3D%2B%26"), ("LOCATION", None, NULL),
    get("/bindings?src=mgmt%2Fx&dstq=mgmt%3Bq&key=a%3B%3D%2B%26"))
scenario("binding key with plus in the query", put(X), put(Q), post("/bindings", bound(key="a b", destination_queue="mgmt-q")),
    get("/bindings?src=mgmt-x&dstq=mgmt-q&key=a+b"))
scenario("binding without queue", put(X), post("/bindings", bound(destination_queue="mgmt-none")))
scenario("binding without exchange", put(Q), post("/bindings", bound(destination_queue="mgmt-q")))
scenario("binding of the default exchange", put(Q), post("/bindings", bound(source="", destination_queue="mgmt-q")))
scenario("binding to the default exchange", put(X), post("/bindings", bound(destination_exchange="")))
scenario("binding name with line feed", post("/bindings", bound(source="mgmt\n", destination_queue="mgmt-q")))
scenario("binding unknown field", post("/bindings", M(color=S("blue"))))
scenario("binding field of wrong type", post("/bindings", M(source=Y("mgmt-x"))))
scenario("binding bad headers arguments", put(X, M(type=S("headers"))), put(Q),
    post("/bindings", bound(arguments=args(x_match=S("none")), destination_queue="mgmt-q")))
scenario("unbind what isn't there", delete("/bindings/src=mgmt-x;dstq=mgmt-q;key=k;args="))
scenario("unbind with a bad segment", delete("/bindings/src=mgmt-x;key=k;args="))
scenario("unbind with an empty source", delete("/bindings/src=;dstq=mgmt-q;key=k;args="))
scenario("unbind an unknown hash", put(X), put(Q), delete("/bindings/src=mgmt-x;dstq=mgmt-q;key=k;args=abc123"))
scenario("bindings without destination", get("/bindings?src=mgmt-x&key=k"))
scenario("bindings of nothing", get("/bindings?src=mgmt-x&dstq=mgmt-q&key=k"))
scenario("bindings without key", get("/bindings?src=mgmt-x&dstq=mgmt-q"))
scenario("bindings of the default exchange", put(Q), get("/bindings?src=&dstq=mgmt-q&key=mgmt-q"))
for method, to in (("GET", "/nonsense"), ("PATCH", Q), ("POST", Q), ("GET", X), ("GET", "/queues"), ("PUT", "/bindings"), ("get", Q),
        ("GET", ""), ("GET", "queues/mgmt-q"), ("DELETE", Q + "/other"), ("PUT", "/auth/tokens")):
    scenario(f"route {method} '{to}'", (method, to, NULL))
scenario("get with a body", get(Q, M()))
scenario("get without a body", put(Q), get(Q, None))
scenario("put without a body", put(Q, None))
scenario("put with null", put(Q, NULL))
scenario("put with a string", put(Q, S("x")))

def answer(payload):
    parts = sections(payload)
    properties = parts.get("properties", ["list", []])[1]
    at = lambda index: properties[index] if index < len(properties) else NULL
    others = [[index, field] for index, field in enumerate(properties) if index not in (3, 5) and field != NULL]
    assert not others, others
    return {"status": at(3), "correlation": at(5), "application-properties": parts.get("application-properties"), "value": parts.get("value")}

def clean(client):
    for name in ("mgmt-q", "mgmt%2Fq", "mgmt%3Bq", "mgmt+q", "mgmt%2Fq%20%C3%BC%3F", "m" * 256):
        client.send(request("DELETE", "/queues/" + name, NULL)); client.response()
    for name in ("mgmt-x", "mgmt-y", "mgmt%2Fx"):
        client.send(request("DELETE", "/exchanges/" + name, NULL)); client.response()
    client.close()

def location(result):
    for key, value in result["value"][1][0][1]:
        if key == S("location"): return value[1]

def play(requests):
    client = Client().pair()
    results = []
    try:
        for method, to, body in requests:
            if method == "LOCATION": method, to = "DELETE", location(results[-1])
            client.send(request(method, to, body))
            results.append(answer(client.response()))
    except Ended as ended: results.append({"ended": ended.args[0]})
    client.close()
    clean(Client().pair())
    return results

# --- link pairs ---------------------------------------------------------------------------------------------------

LINKS = []
def links(call): LINKS.append(call); return call

def ending(call):
    client = Client()
    try: return {"result": call(client)}
    except Ended as ended: return {"ended": ended.args[0]}
    except TimeoutError: return "silence"
    finally: client.close()

def plain(fields):
    """Fields in their shortest form: rcv-settle-mode first is the default, and nulls at the end may be left out."""
    if fields[0] == "described": return ["described", [fields[1][0], ["list", plain(fields[1][1][1])]]]
    fields = [plain(field) if field[0] == "described" else NULL if at == 4 and field == ["ubyte", 0] else field
        for at, field in enumerate(fields)]
    while fields[-1:] == [NULL]: fields.pop()
    return fields

@links
def request_half_not_paired(client): client.half(0, False, paired=None); client.expect("nothing")
@links
def request_half_paired_false(client): client.half(0, False, paired=B(False)); client.expect("nothing")
@links
def request_half_unsettled(client): client.half(0, False, settled=0); client.expect("nothing")
@links
def response_half_not_paired(client): client.half(1, True, paired=None); client.expect("nothing")
@links
def response_half_unsettled(client): client.half(1, True, settled=0); client.expect("nothing")
@links
def request_half_twice(client): client.half(0, False); client.half(2, False); client.expect("nothing")
@links
def response_half_twice(client): client.half(1, True); client.half(2, True, credit=None); client.expect("nothing")
@links
def halves_with_other_addresses(client): client.half(0, False); client.half(1, True, client=S("other")); client.expect("nothing")
@links
def halves_with_other_names(client):
    client.half(0, False); client.half(1, True, name="other"); client.send(request("GET", Q, NULL)); return answer(client.response())
@links
def half_open(client): client.half(0, False); client.send(request("GET", Q, NULL)); return answer(client.response())
@links
def response_half_first(client):
    client.half(1, True); client.half(0, False); client.send(request("GET", Q, NULL)); return answer(client.response())["status"]
@links
def attach_of_the_request_half(client): return plain(client.half(0, False))
@links
def attach_of_the_response_half(client): return plain(client.half(1, True))
@links
def credit_of_the_request_half(client):
    client.half(0, False); fields, _ = client.expect("flow"); return [fields[5], fields[6]]
@links
def credit_is_topped_up(client):
    client.half(0, False); client.expect("flow"); client.half(1, True)
    for _ in range(4): client.send(request("GET", Q, NULL))
    fields, _ = client.expect("flow"); return [fields[5], fields[6]]
@links
def no_response_credit(client):
    client.half(0, False); client.half(1, True, credit=None); client.send(request("GET", Q, NULL)); client.flow(1, 0, 1)
    return answer(client.response())["status"]
@links
def transfer_unsettled(client): client.pair(); client.send(request("GET", Q, NULL), settled=False); return answer(client.response())
@links
def request_in_two_frames(client):
    client.pair(); whole = request("GET", Q, NULL)
    for more, part in ((True, whole[:20]), (False, whole[20:])):
        client.write(described(0x14, U(0), U(0), ["binary", b"t"], U(0), B(True), B(more)), part)
    return answer(client.response())["status"]
@links
def message_id_ulong(client): client.pair(); client.send(request("GET", Q, NULL, id=["ulong", 5])); return answer(client.response())["correlation"]
@links
def message_id_uuid(client): client.pair(); client.send(request("GET", Q, NULL, id=["uuid", "01" * 16])); return answer(client.response())["correlation"]
@links
def message_id_binary(client): client.pair(); client.send(request("GET", Q, NULL, id=["binary", b"ab"])); return answer(client.response())["correlation"]
@links
def no_message_id(client): client.pair(); client.send(request("GET", Q, NULL, id=None)); return answer(client.response())["correlation"]
@links
def no_to(client): client.pair(); client.send(request("GET", None, NULL)); return answer(client.response())
@links
def no_method(client): client.pair(); client.send(request(None, Q, NULL)); return answer(client.response())
@links
def no_reply_to(client): client.pair(); client.send(request("GET", Q, NULL, reply=None)); return answer(client.response())
@links
def other_reply_to(client): client.pair(); client.send(request("GET", Q, NULL, reply=S("/queues/x"))); return answer(client.response())
@links
def no_properties(client): client.pair(); client.send(encode(["described", [["ulong", 0x77], NULL]])); return answer(client.response())
@links
def application_properties_are_ignored(client):
    client.pair(); extra = encode(["described", [["ulong", 0x74], M(a=S("b"))]])
    client.send(request("GET", Q, NULL, extra=extra)); return answer(client.response())["status"]
@links
def body_before_properties(client):
    client.pair(); client.send(encode(["described", [["ulong", 0x77], NULL]]) + request("GET", Q, None)); return answer(client.response())["status"]
@links
def data_body(client):
    client.pair(); client.send(request("GET", Q, None) + encode(["described", [["ulong", 0x75], ["binary", b""]]])); return answer(client.response())
@links
def malformed(client): client.pair(); client.send(b"\0\x53\x73\xc0"); return answer(client.response())
@links
def drain_of_the_response_half(client):
    client.pair(); client.flow(1, 0, 100, drain=True)
    while True:
        fields, _ = client.expect("flow")
        if len(fields) > 8 and fields[4] == U(1) and fields[8] == B(True): return [fields[5], fields[6], fields[7]]

def known(text):
    """What only one node or process has is left out."""
    if isinstance(text, dict): return {key: known(value) for key, value in text.items()}
    if isinstance(text, list):
        if len(text) == 2 and text[0] == S("leader"): return [S("leader"), S("node")]
        if len(text) == 2 and text[0] == S("replicas"): return [S("replicas"), ["array", [S("node")] if len(text[1][1]) == 1 else text[1]]]
        if len(text) == 2 and text[0] == S("location"): return [S("location"), S(text[1][1].split(";args=")[0] + ";args=" + ("hash" if text[1][1].split(";args=")[1] else ""))]
        out = [known(item) for item in text]
        if out and out[0] == "map": out[1] = sorted(out[1], key=lambda pair: str(pair[0]))
        return out
    if isinstance(text, str) and len(text) > 400: return text[:60] + " ..."
    return text

# --- what is Leveret's own ----------------------------------------------------------------------------------------

def own():
    clean(Client().pair())
    client = Client(frame=512, window=2048).pair()
    def ask(*given, **more):
        client.send(request(*given, **more)); return answer(client.response())
    def told(status, *given, **more):
        got = ask(*given, **more)
        assert got["status"] == S(status), (given, got)
        assert got["correlation"] == S("1") and (status < "400" or got["value"][0] == "string"), (given, got)
        return got["value"]
    # Without a body, as from clients that leave out null.
    told("201", "PUT", Q, None); told("200", "GET", Q, None); told("200", "PUT", Q, NULL); told("200", "DELETE", Q, None)
    # Somebody who waits for answers without a queue: known while that is so, as in RabbitMQ 4.3.6.
    waits = client.requester(5)
    shown = {key[1]: value[1] for key, value in told("200", "GET", waits, NULL)[1]}
    assert (shown["type"], shown["consumer_count"], shown["auto_delete"]) == ("rabbit_volatile_queue", 1, True), shown
    assert told("200", "DELETE", waits + "/messages", NULL) == M(message_count=["ulong", 0])
    told("404", "GET", waits + "x", NULL)
    # Nothing of this ends the session.
    for status, *given in (("404", "GET", "/nonsense", NULL), ("405", "PATCH", Q, NULL), ("405", "get", Q, NULL),
            ("405", "PUT", "/bindings", NULL), ("404", "GET", "/", NULL), ("400", "GET", "", NULL), ("400", "GET", "queues/q", NULL),
            ("404", "DELETE", Q + "/other", NULL), ("204", "PUT", "/auth/tokens", ["binary", b"t"]), ("400", "PUT", "/auth/tokens", S("t")), ("400", "GET", Q, M()),
            ("400", "PUT", Q, S("x")), ("400", "PUT", Q, M(arguments=S("x"))), ("400", "GET", "/bindings?src=x&dstq=q", NULL),
            ("400", "GET", "/bindings?dstq=q&key=", NULL), ("400", "POST", "/bindings", None), ("400", "GET", None, NULL),
            ("400", None, Q, NULL), ("400", "PUT", "/queues/" + "m" * 256, M()), ("400", "GET", "/queues/" + "m" * 9000, NULL),
            ("400", "PUT", Q, M(arguments=args(x_other=["uuid", "00" * 16]))), ("400", "PUT", "/queues/%ff", M()),
            ("400", "POST", "/bindings", M(source=S("x"), destination_queue=S("q"), destination_exchange=S("e")))):
        told(status, *given)
    told("400", "GET", Q, NULL, reply=None); told("400", "GET", Q, NULL, reply=S("/queues/x"))
    # A request in many frames, a response in many frames.
    long = "l" * 200_000
    whole = request("PUT", Q, M(arguments=args(x_long=S(long))))
    parts = [whole[at:at + 60_000] for at in range(0, len(whole), 60_000)]
    for at, part in enumerate(parts):
        client.write(described(0x14, U(0), U(client.ids), ["binary", b"t"], U(0), B(True), B(at + 1 < len(parts))), part)
    client.ids += 1; client.sent += len(parts)
    arguments = dict((key[1], value) for key, value in dict((key[1], value) for key, value in answer(client.response())["value"][1])["arguments"][1])
    assert arguments["x-long"] == S(long)
    told("200", "DELETE", Q, NULL)
    # Requests ahead of their responses come back in order, those that wait for the disk too.
    for at in range(4):
        client.send(request("PUT", f"{Q}{at}", M(), id=["ulong", 2 * at]))
        client.send(request("GET", f"{Q}{at}", NULL, id=["ulong", 2 * at + 1]))
    answers = [answer(client.response()) for _ in range(8)]
    assert [got["correlation"][1] for got in answers] == list(range(8)), answers
    assert [got["status"][1] for got in answers] == ["201", "200"] * 4, answers
    for at in range(4): told("200", "DELETE", f"{Q}{at}", NULL)
    client.close()

    # The window holds a response back, in the middle.
    client = Client(frame=512, window=2)
    client.half(0, False); client.half(1, True, credit=None)
    big = M(arguments=args(x_long=S("l" * 2000)))
    client.write(described(0x13, U(0), U(2), U(0), U(2048), U(1), U(0), U(9)))
    client.send(request("PUT", Q, big))
    parts = [client.expect("transfer")[1] for _ in range(2)]
    client.send(request("GET", Q, NULL))
    client.write(described(0x13, U(2), U(0), U(client.sent), U(2048), NULL, NULL, NULL, NULL, NULL, B(True)))
    what = client.read()[0]
    while what != "flow": assert what != "transfer", "a transfer beyond the window"; what = client.read()[0]
    client.write(described(0x13, U(2), U(2048), U(client.sent), U(2048)))
    assert answer(b"".join(parts) + client.response())["status"] == S("201")
    assert answer(client.response())["status"] == S("200")
    client.close()

    # Responses wait for the client's credit, and credit for requests with them.
    client = Client(); client.half(0, False); client.expect("flow"); client.half(1, True, credit=None)
    for at in range(8): client.send(request("GET", Q, NULL, id=["ulong", at]))
    flows = []
    for at in range(8):
        client.flow(1, at, 1)
        what, fields, payload = client.read()
        while what != "transfer": flows.append(fields[4:7]); what, fields, payload = client.read()
        assert answer(payload)["correlation"] == ["ulong", at]
    assert [U(0), U(8), U(5)] in flows, flows
    # A new request half while more than one half's worth waits is refused.
    for at in range(8): client.send(request("GET", Q, NULL))
    client.write(described(0x16, U(0), B(True))); client.expect("detach")
    client.half(2, False)
    try: client.expect("nothing"); raise AssertionError("attached")
    except Ended as ended: assert ended.args[0][:2] == ["detach", "amqp:precondition-failed"], ended
    client.flow(1, 8, 100)
    for at in range(8): assert answer(client.response())["status"] == S("200")
    client.half(3, False); client.send(request("DELETE", Q, NULL), handle=3)
    assert answer(client.response())["status"] == S("200")
    client.close()

    # An error detaches the half that it came on.
    def detached(condition, call):
        client = Client()
        try: call(client); client.expect("nothing")
        except Ended as ended: assert ended.args[0][:2] == ["detach", condition], (ended, condition)
        client.half(5, False, name="after"); client.half(6, True, name="after"); client.send(request("GET", Q, NULL), handle=5)
        assert answer(client.response())["status"] == S("404")
        client.close()
    detached("amqp:precondition-failed", lambda client: (client.half(0, False), client.send(request("GET", Q, NULL))))
    detached("amqp:invalid-field", lambda client: (client.pair(), client.send(request("GET", Q, NULL), settled=False)))
    detached("amqp:invalid-field", lambda client: (client.pair(), client.send(encode(["described", [["ulong", 0x77], NULL]]))))
    detached("amqp:decode-error", lambda client: (client.pair(), client.send(b"\0\x53\x73\xc0")))
    detached("amqp:link:message-size-exceeded", lambda client: (client.half(0, False), client.half(1, True, most=10), client.send(request("GET", Q, NULL))))

def permissions():
    ok, no, read = ("/queues/mgmt-" + name for name in ("ok", "no", "read"))
    x = "/exchanges/mgmt-ok"
    client = Client().pair()
    for asked, status in ((put(ok), "201"), (get(ok), "200"), (get(read), "404"), (put(x), "204"),
            (post("/bindings", bound(source="mgmt-ok", destination_queue="mgmt-ok")), "204"), (delete(x), "204"), (delete(ok), "200")):
        client.send(request(*asked)); got = answer(client.response())
        assert got["status"] == S(status), (asked, got)
    client.close()
    for asked, refused in ((get(no), "configure access to queue 'mgmt-no'"), (put(no), "configure access to queue 'mgmt-no'"),
            (delete(read), "configure access to queue 'mgmt-read'"), (delete(no + "/messages"), "read access to queue 'mgmt-no'"),
            (put(ok, M(arguments=args(x_dead_letter_exchange=S("mgmt-no")))), "write access to exchange 'mgmt-no'"),
            (put("/exchanges/mgmt-no"), "configure access to exchange 'mgmt-no'"), (delete("/exchanges/mgmt-no"), "configure access to exchange 'mgmt-no'"),
            (put(x, M(arguments=args(alternate_exchange=S("mgmt-no")))), "write access to exchange 'mgmt-no'"),
            (post("/bindings", bound(source="mgmt-ok", destination_queue="mgmt-read")), "write access to queue 'mgmt-read'"),
            (post("/bindings", bound(source="mgmt-no", destination_queue="mgmt-ok")), "read access to exchange 'mgmt-no'"),
            (get("/bindings?src=mgmt-no&dstq=mgmt-ok&key=k"), "read access to exchange 'mgmt-no'"),
            (delete("/bindings/src=mgmt-ok;dste=mgmt-no;key=k;args="), "write access to exchange 'mgmt-no'")):
        client = Client().pair()
        # The response before it still comes.
        client.send(request(*get(ok))); client.send(request(*asked))
        assert answer(client.response())["status"] == S("404")
        try: raise AssertionError((asked, answer(client.response())))
        except Ended as ended:
            assert ended.args[0] == ["end", "amqp:unauthorized-access", refused + " in vhost '/' refused for user 'guest'"], (asked, ended)
        client.close()

if __name__ == "__main__":
    if sys.argv[1] == "own": own(); sys.exit()
    if sys.argv[1] == "permissions": permissions(); sys.exit()
    clean(Client().pair())
    results = [{"name": name, "result": known(play(requests))} for name, requests in SCENARIOS]
    results += [{"name": "link " + call.__name__.replace("_", " "), "result": known(ending(call))} for call in LINKS]
    print("{\"scenarios\": [\n" + ",\n".join(json.dumps(result, ensure_ascii=False) for result in results) + "\n]}")
