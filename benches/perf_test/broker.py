"""A broker under load: its process's CPU and memory, and the system calls that it makes."""

import os
import select
import signal
import subprocess
import urllib.request

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Leveret's own counters, of sockets only.
SOCKET_CALLS = {"leveret_socket_reads_total": "reads", "leveret_socket_writes_total": "writes"}
# What perf counts of others: of sockets, pipes and files alike, which the kernel's counters don't tell apart.
KERNEL_CALLS = {
    "read": "reads", "readv": "reads", "recvfrom": "reads", "recvmsg": "reads",
    "write": "writes", "writev": "writes", "sendto": "writes", "sendmsg": "writes",
}
EVENT = "syscalls:sys_enter_"
# perf answers at once, but for the time that it takes to find all threads.
PATIENCE_S = 10


class Broker:
    """Where it is, its process, and, of our own node, the port of its metrics. What isn't known is None."""

    def __init__(self, name, uri, pid=None, metrics_port=None):
        self.name, self.uri, self.pid, self.metrics_port = name, uri, pid, metrics_port

    def cpu_seconds(self):
        """CPU time of all its threads since it was started, as exact as the clock's ticks."""
        if self.pid is None:
            return None
        with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
            # The name stands in parentheses and may hold any text; user and system time are fields 14 and 15.
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def reset_peak(self):
        """Makes the kernel count the peak anew, if it lets us: else it is that of the process's whole life."""
        try:
            with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:
            pass

    def memory(self):
        """Resident memory and its peak, in bytes."""
        if self.pid is None:
            return None, None
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file)
        # A process that has ended has none; that its load fails says more.
        sizes = (fields.get(name) for name in ("VmRSS", "VmHWM"))
        return tuple(size and int(size.split()[0]) * 1024 for size in sizes)

    def counting(self):
        """What counts its system calls, from now until it is asked; None if nothing can."""
        if self.metrics_port is not None:
            return Scrapes(self.metrics_port)
        return None if self.pid is None else Perf.start(self.pid)


class Scrapes:
    """Counts by the node's own metrics."""

    def __init__(self, port):
        self.port = port
        self.before = None

    def begin(self):
        self.before = self.scrape()

    def end(self):
        after = self.scrape()
        return {name: after[name] - self.before[name] for name in after}

    def close(self):
        pass

    def scrape(self):
        calls = {"reads": 0.0, "writes": 0.0}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE_S) as answer:
            for line in answer.read().decode().splitlines():
                name = SOCKET_CALLS.get(line.split("{")[0].split(" ")[0])
                if name:
                    calls[name] += float(line.rsplit(" ", 1)[1])
        return calls


class Perf:
    """Counts by `perf stat`, which is told when to begin and to end: finding all threads isn't the round's time."""

    def __init__(self, process):
        self.process = process

    @classmethod
    def start(cls, pid):
        events = ",".join(EVENT + name for name in KERNEL_CALLS)
        command = ["perf", "stat", "--field-separator", ",", "--delay=-1", "--control", "fd:0,1", "--event", events,
                   "--pid", str(pid)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env={**os.environ, "LC_ALL": "C"})
        except OSError:
            return None
        perf = cls(process)
        # Where it may not look at that process, it ends at once.
        if perf.tell("ping"):
            return perf
        perf.close()
        return None

    def begin(self):
        self.tell("enable")

    def end(self):
        """None if it can't tell all of them."""
        if not self.tell("disable"):
            return None
        # None of its commands makes it end: it goes on for as long as the process lives.
        self.process.send_signal(signal.SIGINT)
        try:
            said = self.process.communicate(timeout=PATIENCE_S)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            return None
        calls = {"reads": 0, "writes": 0}
        counts = [line.split(",") for line in said.splitlines() if EVENT in line]
        if len(counts) != len(KERNEL_CALLS) or not all(count[0].isdigit() for count in counts):
            return None
        for count in counts:
            calls[KERNEL_CALLS[count[2].removeprefix(EVENT)]] += int(count[0])
        return calls

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tell(self, command):
        """Gives a command, and waits until it was followed."""
        try:
            # In one write: of half a command perf takes what it has got for the whole.
            os.write(self.process.stdin.fileno(), f"{command}\n".encode())
            if not select.select([self.process.stdout], [], [], PATIENCE_S)[0]:
                return False
            return b"ack" in os.read(self.process.stdout.fileno(), 64)
        except OSError:
            return False
