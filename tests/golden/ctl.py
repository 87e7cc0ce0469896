"""Records what a real RabbitMQ 4.3 answers to the commands of golden/ctl/scene.txt, as JSON on standard output.

    ctl.py PROGRAM AMQP_PORT

PROGRAM runs a tool inside its node: `PROGRAM list_queues` is rabbitmqctl, `PROGRAM diagnostics ping` another one.
Beside the scene it writes golden/ctl/commands.txt, the names of all commands of these tools.
"""

import datetime
import json
import pathlib
import re
import shlex
import socket
import struct
import subprocess
import sys

# What these say is of the machine; only their exit code is kept, and the keys of their JSON.
OF_MACHINE = ["no_such_command", "status", "memory_breakdown", "environment", "listeners", "export_definitions",
              "hash_password", "list_feature_flags", "plugins list", "directories", "log_location", "pretty_table",
              "check_port_connectivity", "erlang_version", "formatter nonsense", " help", "cipher_suites", "tls_versions",
              "os_env", "command_line_arguments", "resolve_hostname localhost", "resolver_info", "message_size_stats",
              "runtime_thread_stats", "report", "list_global_parameters"]

HERE = pathlib.Path(__file__).parent / "ctl"


def short(text):
    return bytes([len(text)]) + text.encode()


def long(data):
    return struct.pack(">I", len(data)) + data


class Client:
    """A connection of ctl-ann with one consumer, over AMQP 0-9-1."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.until(10, 10)
        product = short("product") + b"S" + long(b"ctl-client")
        self.send(0, 10, 11, long(product) + short("PLAIN") + long(b"\0ctl-ann\0second") + short("en_US"))
        self.until(10, 30)
        self.send(0, 10, 31, struct.pack(">HIH", 20, 131072, 30))
        self.send(0, 10, 40, short("ctl-scene") + short("") + b"\0")
        self.until(10, 41)
        self.send(1, 20, 10, short(""))
        self.until(20, 11)
        self.send(1, 60, 10, struct.pack(">IHB", 0, 7, 0))
        self.until(60, 11)
        self.send(1, 60, 20, b"\0\0" + short("ctl-first") + short("ctl-consumer") + b"\0" + long(b""))
        self.until(60, 21)

    def send(self, channel, of, method, arguments):
        payload = struct.pack(">HH", of, method) + arguments
        self.socket.sendall(b"\x01" + struct.pack(">HI", channel, len(payload)) + payload + b"\xce")

    def read(self, count):
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data)) or sys.exit("the node has closed the connection")
        return data

    def until(self, of, method):
        while True:
            kind, _, size = struct.unpack(">BHI", self.read(7))
            payload = self.read(size + 1)
            if kind == 1 and struct.unpack(">HH", payload[:4]) == (of, method):
                return


def is_foreign(row):
    """Whether a row of a list is about something that isn't of the scene."""
    text = json.dumps(row)
    return "ctl-" not in text and ('"name"' in text or '"user"' in text)


def kept(line, status, lines):
    """An answer without what is of that machine, or of others who use that node. A command that has ended with a stack
    trace of Elixir has answered nothing."""
    command = line.split()
    if (status == 70 and "csv" in command) or (any(name in line for name in OF_MACHINE) and "json" not in command):
        return {"command": line, "exit": status}
    if "list_users" in command or "list_vhosts" in command:
        if "json" in command:
            rows = [row for row in json.loads("\n".join(lines)) if not is_foreign(row)]
            lines = [json.dumps(row) for row in rows]
            lines = ["["] + [("," if at else "") + text for at, text in enumerate(lines)] + ["]"]
        else:
            lines = [text for text in lines if "ctl-" in text or text.startswith(("Listing", "user", "name", '"'))]
    if "json" in command and lines and lines[0].startswith("{") and "limits" not in line:
        kinds = {key: type(value).__name__ for key, value in json.loads(lines[0]).items()}
        return {"command": line, "exit": status, "kinds": kinds}
    return {"command": line, "exit": status, "stdout": lines}


def commands(program):
    """The names of all commands, each behind its tool."""
    for name in ["rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins", "rabbitmq-upgrade", "rabbitmq-queues", "rabbitmq-streams"]:
        tool = [] if name == "rabbitmqctl" else [name.removeprefix("rabbitmq-")]
        said = subprocess.run(program + tool + ["help"], capture_output=True, text=True).stdout
        for command in sorted(set(re.findall("^   ([a-z_0-9]+) ", said, re.MULTILINE))):
            yield f"{name} {command}\n"


def main():
    program, port = shlex.split(sys.argv[1]), int(sys.argv[2])
    (HERE / "commands.txt").write_text("".join(commands(program)))
    answers, client = [], None
    for line in (HERE / "scene.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line == "@open":
            client = Client(port)
        elif line == "@close":
            client.socket.close()
        else:
            command, _, file = line.partition(" <")
            tool, *arguments = shlex.split(command.replace("{amqp}", str(port)))
            tool = [] if tool == "rabbitmqctl" else [tool.removeprefix("rabbitmq-")]
            text = (HERE / file).read_text() if file else ""
            done = subprocess.run(program + tool + arguments, input=text, capture_output=True, text=True)
            answers.append(kept(line, done.returncode, done.stdout.splitlines()))
            print(line, done.returncode, file=sys.stderr)
    print('{\n "date": "%s",\n "broker": "RabbitMQ 4.3.6",\n "answers": [' % datetime.date.today())
    print(",\n".join("  " + json.dumps(answer, ensure_ascii=False) for answer in answers))
    print(" ]\n}")


main()
