"""AMQP 1.0 in so few lines that scripts see the type of every value, which clients hide.

A value is [type, value], as it comes out of JSON.
"""
import socket, struct

# --- values: [type, value] ----------------------------------------------------------------------------------------

NULL = ["null", None]
def S(text): return ["string", text]
def Y(text): return ["symbol", text]
def B(flag): return ["boolean", flag]
def M(*pairs, **named): return ["map", [*pairs, *([S(key), value] for key, value in named.items())]]
def args(**named): return M(*([S(key.replace("_", "-")), value] for key, value in named.items()))

FIXED = {"boolean": (0x56, "?"), "ubyte": (0x50, "B"), "ushort": (0x60, ">H"), "uint": (0x70, ">I"), "ulong": (0x80, ">Q"),
    "byte": (0x51, "b"), "short": (0x61, ">h"), "int": (0x71, ">i"), "long": (0x81, ">q"), "float": (0x72, ">f"),
    "double": (0x82, ">d"), "char": (0x73, ">I"), "timestamp": (0x83, ">q")}
VARIABLE = {"binary": 0xa0, "string": 0xa1, "symbol": 0xa3}

def encode(typed):
    kind, value = typed
    if kind == "null": return b"\x40"
    if kind in FIXED: return bytes([FIXED[kind][0]]) + struct.pack(FIXED[kind][1], value)
    if kind in VARIABLE:
        data = value if isinstance(value, bytes) else value.encode()
        return bytes([VARIABLE[kind] + 0x10]) + struct.pack(">I", len(data)) + data
    if kind == "uuid": return b"\x98" + bytes.fromhex(value)
    if kind == "described": return b"\0" + encode(value[0]) + encode(value[1])
    if kind == "array":
        bodies = b"".join(encode(item)[1:] for item in value)
        code = encode(value[0])[:1] if value else b"\xb1"
        return b"\xf0" + struct.pack(">II", len(bodies) + 5, len(value)) + code + bodies
    items = value if kind == "list" else [item for pair in value for item in pair]
    data = b"".join(map(encode, items))
    return bytes([0xd0 if kind == "list" else 0xd1]) + struct.pack(">II", len(data) + 4, len(items)) + data

class Reader:
    def __init__(self, data): self.data, self.at = data, 0
    def take(self, count):
        part = self.data[self.at:self.at + count]; self.at += count
        assert len(part) == count, "truncated value"
        return part
    def number(self, form): return struct.unpack(form, self.take(struct.calcsize(form)))[0]
    def value(self, code=None):
        code = self.take(1)[0] if code is None else code
        if code == 0:
            return ["described", [self.value(), self.value()]]
        short = {0x40: NULL, 0x41: B(True), 0x42: B(False), 0x43: ["uint", 0], 0x44: ["ulong", 0], 0x45: ["list", []]}
        if code in short: return short[code]
        small = {0x52: ("uint", "B"), 0x53: ("ulong", "B"), 0x54: ("int", "b"), 0x55: ("long", "b")}
        if code in small: return [small[code][0], self.number(small[code][1])]
        for kind, (fixed, form) in FIXED.items():
            if code == fixed: return [kind, self.number(form)]
        for kind, base in VARIABLE.items():
            if code in (base, base + 0x10):
                data = self.take(self.number("B" if code == base else ">I"))
                return [kind, data.hex() if kind == "binary" else data.decode()]
        if code == 0x98: return ["uuid", self.take(16).hex()]
        wide = code >= 0xd0 and code != 0xe0
        size = self.number(">I" if wide else "B"); end = self.at + size
        count = self.number(">I" if wide else "B")
        if code in (0xc0, 0xd0): out = ["list", [self.value() for _ in range(count)]]
        elif code in (0xc1, 0xd1): out = ["map", [[self.value(), self.value()] for _ in range(count // 2)]]
        elif code in (0xe0, 0xf0):
            item = self.take(1)[0]; out = ["array", [self.value(item) for _ in range(count)]]
        else: raise ValueError(f"type {code:#x}")
        assert self.at == end, "compound size"
        return out

def described(code, *fields): return ["described", [["ulong", code], ["list", list(fields)]]]
def U(number): return ["uint", number]

# --- a connection with one session --------------------------------------------------------------------------------

NAMES = {0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer", 0x15: "disposition", 0x16: "detach",
    0x17: "end", 0x18: "close"}

class Ended(Exception): pass

class Client:
    def __init__(self, port, user="guest", password="guest", window=2048, frame=None):
        # RabbitMQ lets one open of about thirty wait for 5 seconds.
        self.socket = socket.create_connection(("127.0.0.1", port)); self.socket.settimeout(20)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\x03\1\0\0"); assert self.file.read(8) == b"AMQP\x03\1\0\0"
        self.read()
        self.write(described(0x41, Y("PLAIN"), ["binary", f"\0{user}\0{password}".encode()]), kind=1); self.read()
        self.socket.sendall(b"AMQP\0\1\0\0"); assert self.file.read(8) == b"AMQP\0\1\0\0"
        self.write(described(0x10, S("management-script"), NULL, U(frame) if frame else NULL)); self.expect("open")
        self.write(described(0x11, NULL, U(0), U(window), U(2048), U(255))); self.expect("begin")
        self.socket.settimeout(3)
        self.ids, self.sent = 0, 0
        self.partial = b""
    def write(self, performative, payload=b"", kind=0):
        data = encode(performative) + payload
        self.socket.sendall(struct.pack(">IBBH", len(data) + 8, 2, kind, 0) + data)
    def read(self):
        while True:
            head = self.file.read(8)
            if len(head) < 8: raise Ended(["socket"])
            size, offset = struct.unpack(">IB", head[:5])
            body = self.file.read(size - 8)
            if body: break
        reader = Reader(body)
        code, fields = reader.value()[1]
        return NAMES.get(code[1], code[1]), fields[1], body[reader.at:]
    def expect(self, name):
        while True:
            what, fields, payload = self.read()
            if what == name: return fields, payload
            if what in ("end", "detach", "close"):
                error = fields[-1] if fields else NULL
                condition, text = [error[1][1][1][at][1] for at in (0, 1)] if error[0] == "described" else (None, None)
                raise Ended([what, condition, text])
    def flow(self, handle, count, credit, drain=False):
        self.write(described(0x13, U(0), U(2048), U(self.sent), U(2048), U(handle), U(count), U(credit), NULL, B(drain)))
    def send(self, payload, settled=True, handle=0):
        self.write(described(0x14, U(handle), U(self.ids), ["binary", b"%d" % self.ids], U(0), B(settled)), payload)
        self.ids += 1; self.sent += 1
    def response(self):
        payload = b""
        while True:
            fields, part = self.expect("transfer")
            payload += part
            if len(fields) < 6 or fields[5] != B(True): return payload
    def close(self): self.socket.close()
