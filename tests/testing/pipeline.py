"""Starts `sluice up` and finds its processes, for tests in Python. Standard library alone."""

import os
import random
import signal
import socket
import subprocess
import tempfile
import time


def children_of(pid):
    """{pid: name of the program} of the processes that `pid` started and that run."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == pid and (arguments := arguments_of(entry)):
            found[int(entry)] = os.path.basename(arguments[0])
    return found


def arguments_of(pid):
    """The command line of a process; empty once it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def listeners_of(pid):
    """{name: pid} of the services that `pid` started: by their sockets, such as "shard-0-1", or
    "orchestrator", which is on a port."""
    found = {}
    for child in children_of(pid):
        arguments = arguments_of(child)
        if "--listen" in arguments:
            address = arguments[arguments.index("--listen") + 1]
            is_stage = address.startswith("unix:")
            found[os.path.basename(address) if is_stage else "orchestrator"] = child
    return found


def free_ports(count=1):
    """The first of `count` ports in a row that are free at the moment: for --metrics_port, which
    cannot be 0. They are below those that the system gives to connections, and drawn, so that tests
    that run at the same time take others."""
    for _ in range(100):
        first = random.randrange(21000, 32000)
        try:
            taken = [socket.create_server(("127.0.0.1", first + i)) for i in range(count)]
        except OSError:
            continue
        for each in taken:
            each.close()
        return first
    raise RuntimeError(f"no {count} free ports in a row")


class Pipeline:
    """`sluice up` on ports of its own choice, from its first line to stop().

    Where the program does not become ready, `is_ready` is False and `ready` what it printed.
    `stderr` is as for subprocess.Popen; with `keep_log` it is kept for log_text().
    `await_line(file)` says whether a line, or the end of the program, came in time; without it
    there is no limit."""

    def __init__(self, program, *flags, env=None, stderr=None, keep_log=False, await_line=None,
                 new_session=False):
        self.log = None
        if keep_log:
            self.log = tempfile.NamedTemporaryFile("w+", prefix="sluice-up-", suffix=".log")
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [program, "up", "--port", "0", *flags], env=env, text=True,
            start_new_session=new_session, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.log if keep_log else stderr)
        self.is_in_time = await_line is None or await_line(self.process.stdout)
        self.lines = [self.process.stdout.readline().strip() if self.is_in_time else ""]
        self.ready_seconds = time.monotonic() - begin
        self.is_ready = self.ready.startswith("ready ")
        self.endpoint = self.http_address = self.demo_token = None
        if self.is_ready:
            self.read_addresses("--http_port" in flags, "--demo" in flags)

    def read_addresses(self, has_http, has_demo):
        self.lines += [self.process.stdout.readline().strip() for _ in range(has_http + has_demo)]
        addresses = [line.rpartition(" ")[2] for line in self.lines]
        self.endpoint = addresses[0]
        if has_http:
            self.http_address = addresses[1]
        if has_demo:
            self.demo_token = addresses[2].rpartition("#demo=")[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if self.log is not None:
            self.log.close()

    @property
    def ready(self):
        return self.lines[0]

    @property
    def port(self):
        return int(self.endpoint.rpartition(":")[2])

    def log_text(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def pids(self, program):
        """Of its processes of that program."""
        return sorted(pid for pid, name in children_of(self.process.pid).items() if name == program)

    def await_replaced(self, pid):
        """Until the process is gone: a stream may end before a death is seen."""
        deadline = time.monotonic() + 60
        while pid in children_of(self.process.pid):
            if time.monotonic() > deadline:
                raise AssertionError(f"process {pid} is still there")
            time.sleep(0.02)

    def stop(self, seconds=30):
        """Its exit code after SIGTERM, or after SIGKILL where it does not end within `seconds`."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return code
