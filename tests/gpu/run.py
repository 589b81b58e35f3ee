"""Running programs within a time, and what they said last. Standard library alone: it also runs where nothing is installed."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time


class Failed(Exception):
    """What was to be shown is not so, or a program did not do its work."""


class Skipped(Exception):
    """What can't be shown here, and why."""


def last_words(text, most=12):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-most:])


def run(command, timeout, env=None, accept=(0,)):
    """(exit code, stdout, stderr) of a program; Failed with its last words where the code is none of `accept`."""
    program = os.path.basename(command[0])
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=max(1, timeout),
                              env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        raise Failed(f"{program} took more than {timeout:.0f} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    if done.returncode not in accept:
        words = last_words(done.stderr or done.stdout)
        raise Failed(f"{program} ended with {done.returncode}: {words}")
    return done.returncode, done.stdout, done.stderr


def json_lines(text):
    """The objects among the lines of a text."""
    objects = []
    for line in text.splitlines():
        if line.startswith("{"):
            objects.append(json.loads(line))
    return objects


class Up:
    """`sluice up` from its start to its end."""

    def __init__(self, bin_folder, flags, timeout):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="sluice-up-", suffix=".log")
        begin = time.monotonic()
        self.process = subprocess.Popen([os.path.join(bin_folder, "sluice"), "up", "--port", "0", *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        # A line, the end of the program, or the end of the time.
        timer = threading.Timer(timeout, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        self.ready_seconds = time.monotonic() - begin
        if not line.startswith("ready "):
            self.stop()
            raise Failed(f"sluice up {' '.join(flags)} is not ready after {self.ready_seconds:.0f} s: "
                         + last_words(self.said()))
        self.endpoint = line.split()[1]

    def said(self):
        with open(self.log.name, errors="replace") as file:
            return file.read()

    def pids(self, process):
        """Of the processes called so that were started, in order; the last one is alive, if any is."""
        return [int(pid) for pid in re.findall(rf"process-started process={re.escape(process)} pid=(\d+)", self.said())]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
