"""RabbitMQ's stream protocol in few lines: requests as bytes, answers as dictionaries without what changes each time."""
import socket, struct, zlib

# --- requests -----------------------------------------------------------------------------------------------------

NAMES = dict(enumerate("""declare_publisher publish publish_confirm publish_error query_publisher_sequence delete_publisher subscribe
    deliver credit store_offset query_offset unsubscribe create delete metadata metadata_update peer_properties sasl_handshake
    sasl_authenticate tune open close heartbeat route partitions consumer_update exchange_command_versions stream_stats
    create_super_stream delete_super_stream resolve_offset_spec""".split(), 1))
KEYS = {name: key for key, name in NAMES.items()}

def text(value):
    """A string; None is null."""
    if value is None: return b"\xff\xff"
    value = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(value)) + value
def listed(items): return struct.pack(">I", len(items)) + b"".join(items)
def texts(*values): return listed([text(value) for value in values])
def pairs(given): return listed([text(key) + text(value) for key, value in given.items()])
def spec(value):
    """An offset specification: a name, or a number for an offset, or ["timestamp", number], or ["type", number]."""
    if isinstance(value, int): return struct.pack(">HQ", 4, value)
    if isinstance(value, str): return struct.pack(">H", ["none", "first", "last", "next"].index(value))
    return struct.pack(">Hq", 5, value[1]) if value[0] == "timestamp" else struct.pack(">H", value[1])
def frame(key, body, version=1): return struct.pack(">IHH", len(body) + 4, key, version) + body
def message(id, body, filter=False):
    """A published message; a filter of None is null, and False is none, as in version 1."""
    return struct.pack(">Q", id) + (b"" if filter is False else text(filter)) + struct.pack(">I", len(body)) + body
def sub_batch(id, bodies, filter=False):
    data = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    return (struct.pack(">Q", id) + (b"" if filter is False else text(filter)) + struct.pack(">BHII", 0x80, len(bodies), len(data), len(data)) + data)

def body_of(name, a):
    """The content of a request behind its correlation id, from its arguments."""
    number = lambda form, value: struct.pack(">" + form, value)
    if name == "declare_publisher": return number("B", a["id"]) + text(a["reference"]) + text(a["stream"])
    if name in ("query_publisher_sequence", "query_offset"): return text(a["reference"]) + text(a["stream"])
    if name in ("delete_publisher", "unsubscribe"): return number("B", a["id"])
    if name == "subscribe":
        properties = b"" if a.get("properties") is None else pairs(a["properties"])
        return number("B", a["id"]) + text(a["stream"]) + spec(a["start"]) + number("H", a["credit"]) + properties
    if name == "credit": return number("B", a["id"]) + number("H", a["credit"])
    if name == "store_offset": return text(a["reference"]) + text(a["stream"]) + number("Q", a["offset"])
    if name == "create": return text(a["stream"]) + pairs(a["arguments"])
    if name in ("delete", "stream_stats"): return text(a["stream"])
    if name == "metadata": return texts(*a["streams"])
    if name == "peer_properties": return pairs(a["properties"])
    if name in ("sasl_handshake", "heartbeat"): return b""
    if name == "sasl_authenticate":
        response = a["response"]
        return text(a["mechanism"]) + (b"\xff\xff\xff\xff" if response is None else number("I", len(response)) + response.encode())
    if name == "tune": return number("I", a["frame_max"]) + number("I", a["heartbeat"])
    if name == "open": return text(a["vhost"])
    if name == "close": return number("H", a["code"]) + text(a["reason"])
    if name == "closed": return number("H", a["code"])
    if name == "route": return text(a["routing_key"]) + text(a["super_stream"])
    if name == "partitions": return text(a["super_stream"])
    if name == "exchange_command_versions": return listed([struct.pack(">HHH", *version) for version in a["versions"]])
    if name == "create_super_stream": return text(a["name"]) + texts(*a["partitions"]) + texts(*a["binding_keys"]) + pairs(a["arguments"])
    if name == "delete_super_stream": return text(a["name"])
    if name == "resolve_offset_spec": return text(a["stream"]) + spec(a["start"]) + pairs(a.get("properties") or {})
    if name == "consumer_updated": return number("H", a["code"]) + (b"" if a["start"] is None else spec(a["start"]))
    raise ValueError(name)

RESPONSES = {"closed": "close", "consumer_updated": "consumer_update", "tune": "tune"}
WITHOUT_CORRELATION = ("credit", "store_offset", "heartbeat", "tune")

def request(name, correlation, arguments):
    key = KEYS[RESPONSES.get(name, name)] | (0x8000 if name in RESPONSES else 0)
    head = b"" if name in WITHOUT_CORRELATION else struct.pack(">I", correlation)
    return frame(key, head + body_of(name, arguments))

# --- answers ------------------------------------------------------------------------------------------------------

class Reader:
    def __init__(self, data): self.data, self.at = data, 0
    def take(self, count):
        part = self.data[self.at:self.at + count]; self.at += count
        assert len(part) == count, f"truncated: {self.data.hex()}"
        return part
    def number(self, form): return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0]
    def text(self): return self.take(self.number("H")).decode()
    def listed(self, read): return [read() for _ in range(self.number("I"))]
    def more(self): return self.at < len(self.data)

def chunk(data):
    """A chunk without its time and epoch. Its filter and its trailer aren't delivered, but their sizes are."""
    magic, kind, entries, records, _, epoch, first, crc, size, trailer, bloom = struct.unpack(">BBHIqQQIIIB3x", data[:48])
    assert magic == 0x50 and len(data) == 48 + size, (magic, len(data), bloom, size, trailer)
    body = data[48:]
    assert zlib.crc32(body) == crc, "checksum of a chunk"
    return {"kind": kind, "entries": entries, "records": records, "offset": first, "filter_bytes": bloom, "trailer": trailer, "data": body.hex()}

VOLATILE = {"product", "version", "platform", "copyright", "information", "cluster_name", "advertised_host", "advertised_port", "node"}

def answer(data):
    """A frame of the server, without its size, as a dictionary."""
    reader = Reader(data)
    key, version = reader.number("H"), reader.number("H")
    name = NAMES.get(key & 0x7fff, key)
    out = {"receive": name}
    if version != 1: out["version"] = version
    def code(): out["code"] = reader.number("H")
    def correlation(): out["correlation"] = reader.number("I")
    def properties(): return {key: "..." if key in VOLATILE else value for key, value in reader.listed(lambda: (reader.text(), reader.text()))}
    if key < 0x8000:
        if name == "publish_confirm": out["publisher"] = reader.number("B"); out["ids"] = reader.listed(lambda: reader.number("Q"))
        elif name == "publish_error":
            out["publisher"] = reader.number("B"); out["errors"] = reader.listed(lambda: [reader.number("Q"), reader.number("H")])
        elif name == "deliver":
            out["subscription"] = reader.number("B")
            if version == 2: out["committed"] = reader.number("Q")
            out.update(chunk(reader.take(len(data) - reader.at)))
        elif name == "metadata_update": code(); out["stream"] = reader.text()
        elif name == "tune": out["frame_max"] = reader.number("I"); out["heartbeat"] = reader.number("I")
        elif name == "close": correlation(); code(); out["reason"] = reader.text()
        elif name == "consumer_update": correlation(); out["subscription"] = reader.number("B"); out["active"] = reader.number("B")
        else: assert name == "heartbeat", data.hex()
    elif name == "credit": code(); out["subscription"] = reader.number("B")
    elif name == "metadata":
        correlation()
        out["brokers"] = reader.listed(lambda: [reader.number("H"), reader.text() and "host", reader.number("I") and "port"])
        out["streams"] = reader.listed(lambda: [reader.text(), reader.number("H"), reader.number("H"), reader.listed(lambda: reader.number("H"))])
    else:
        correlation(); code()
        if not reader.more(): return out
        if name in ("query_publisher_sequence", "query_offset"): out["value"] = reader.number("Q")
        elif name in ("peer_properties", "open"): out["properties"] = properties()
        elif name == "sasl_authenticate": out["challenge"] = reader.take(len(data) - reader.at).hex()
        elif name == "sasl_handshake": out["mechanisms"] = sorted(reader.listed(reader.text))
        elif name in ("route", "partitions"): out["streams"] = reader.listed(reader.text)
        elif name == "exchange_command_versions": out["versions"] = reader.listed(lambda: [reader.number("H") for _ in range(3)])
        elif name == "stream_stats": out["stats"] = dict(reader.listed(lambda: (reader.text(), reader.number("q"))))
        elif name == "resolve_offset_spec": out["type"] = reader.number("H"); out["offset"] = reader.number("Q")
    if reader.more(): out["rest"] = data[reader.at:].hex()
    return out

# --- a connection -------------------------------------------------------------------------------------------------

PATIENCE = 5

class Connection:
    """A connection that notes what is sent and received, in `steps`; `log` gets every frame as it is."""
    log = []
    def __init__(self, port, steps, number):
        self.socket = socket.create_connection(("127.0.0.1", port)); self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.steps, self.number, self.correlation, self.asked, self.ended, self.data = steps, number, 0, 0, False, b""

    def note(self, step):
        self.steps.append({**({"connection": self.number} if self.number > 1 else {}), **step})
        return step

    def write(self, data, label, well_formed=True):
        if well_formed: Connection.log.append((">", data))
        start = data.rstrip(b"\0"); zeros = len(data) - len(start)
        self.note({"send": label, "bytes": start.hex(), "zeros": zeros} if zeros > 1000 else {"send": label, "bytes": data.hex()})
        try: self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError): pass

    def send(self, name, /, **arguments):
        """Sends a request and doesn't wait."""
        if name not in WITHOUT_CORRELATION + ("publish", "closed", "consumer_updated"): self.correlation += 1
        correlation = arguments.pop("correlation", self.correlation)
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        self.write(request(name, correlation, arguments), f"{name}({shown})")

    def publish(self, publisher, *messages, version=1, count=None):
        data = struct.pack(">BI", publisher, len(messages) if count is None else count) + b"".join(messages)
        self.write(frame(KEYS["publish"], data, version), f"publish(id={publisher}, messages={len(messages)}, version={version})")

    def raw(self, data, label): self.write(data, label, well_formed=False)

    def frame(self):
        """The next frame without its size, or what there is instead: an end or silence."""
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack(">I", self.data[:4])[0]:
            try: more = self.socket.recv(1 << 16)
            except ConnectionResetError: more = b""
            except TimeoutError: return "silence"
            if not more: return "end"
            self.data += more
        size = struct.unpack(">I", self.data[:4])[0]
        taken, self.data = self.data[4:4 + size], self.data[4 + size:]
        Connection.log.append(("<", struct.pack(">I", size) + taken))
        return taken

    def receive(self):
        """The next answer but heartbeats."""
        if self.ended: return None
        got = self.frame()
        if isinstance(got, str):
            self.ended = True
            return self.note({"receive": got})
        got = answer(got)
        if got["receive"] == "consumer_update": self.asked = got["correlation"]
        if got["receive"] == "heartbeat": return self.receive()
        return self.note(got)

    def until(self, *names):
        """Answers until one with each of these names came; what came is put in the order of the names, since the order is chance."""
        first, left = len(self.steps), list(names)
        while left and not self.ended:
            got = self.receive()
            if got["receive"] in left: left.remove(got["receive"])
            if got["receive"] == "close" and "close" not in names:
                self.confirm_close(got); break
        if len(names) > 1:
            self.steps[first:] = sorted(self.steps[first:], key=lambda step: names.index(step["receive"]) if step.get("receive") in names else 99)

    def confirmed(self, count):
        """Confirms of so many messages, noted as one: how many come at once is chance."""
        first = len(self.steps)
        while not self.ended and sum(len(step.get("ids", ())) for step in self.steps[first:]) < count: self.until("publish_confirm")
        if not self.ended: self.steps[first:] = [{**self.steps[first], "ids": sorted(id for step in self.steps[first:] for id in step["ids"])}]

    def delivered(self, count):
        """Chunks with so many messages, noted as one: how messages that wait at the same time are put in chunks is chance."""
        first = len(self.steps)
        while not self.ended and sum(step.get("records", 0) for step in self.steps[first:]) < count: self.until("deliver")
        if self.ended: return
        whole = dict(self.steps[first])
        for step in self.steps[first + 1:]:
            for name in ("entries", "records", "data"): whole[name] += step[name]
        self.steps[first:] = [whole]

    def confirm_close(self, got):
        """How the connection ends after it depends on what the server reads first, so it isn't noted."""
        self.send("closed", correlation=got["correlation"], code=1); self.ended = True

    def call(self, name, /, **arguments):
        """Sends a request and notes everything up to its answer."""
        self.send(name, **arguments); self.until(RESPONSES.get(name, name))

    def barrier(self):
        """Notes what came before the answer to a query that the server answers at once."""
        if not self.ended: self.call("metadata", streams=[])

    def finish(self):
        self.socket.close()
