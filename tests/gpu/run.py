"""Running programs within a time, and what they said. Standard library alone: it also runs where nothing is installed."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

# In a bundle it lies beside this file.
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testing"))

from pipeline import Pipeline  # noqa: E402

STOP_SECONDS = 20  # for `sluice up` to end by itself
KILL_SECONDS = 10  # for the system to end a program that was killed: a driver may hold it


class Failed(Exception):
    """What was to be shown is not so, or a program did not do its work."""


class CutShort(Exception):
    """The time was up before all was shown."""


class Skipped(Exception):
    """What can't be shown here, and why."""


def conclude(wrong, cut):
    """Of what went wrong, and of what ended because the time was up: the former counts for more."""
    if wrong:
        raise Failed("; ".join(wrong + ([cut] if cut else [])))
    if cut:
        raise CutShort(cut)


class Limit:
    """Until when programs may run. Within another it ends with that at the latest. A signal may bring it forward."""

    def __init__(self, seconds, within=None):
        self._end = time.monotonic() + seconds
        self._within = within

    def left(self):
        left = max(0.0, self._end - time.monotonic())
        return left if self._within is None else min(left, self._within.left())

    def end_now(self):
        self._end = float("-inf")

    def check(self, what):
        """CutShort where `what` need not be begun."""
        if self.left() <= 0:
            raise CutShort(f"no time was left for {what}")


LOGS = []  # the folder where keep_logs() has all output kept, if it was called with one


def keep_logs(folder):
    """Has all that programs write kept in files of `folder`, a file for each program that is run."""
    if folder:
        os.makedirs(folder, exist_ok=True)
        LOGS[:] = [folder]


def keep_log(command, said, complained):
    if not LOGS:
        return
    name = f"{time.strftime('%H%M%S')}-{os.path.basename(command[0])}-"
    with tempfile.NamedTemporaryFile("w", prefix=name, suffix=".log", dir=LOGS[0], delete=False) as file:
        file.write(f"{' '.join(command)}\n--- stdout\n{said}\n--- stderr\n{complained}\n")


def last_words(text, most=12):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-most:])


def run(command, limit, env=None, accept=(0,), seen=None):
    """(exit code, stdout, stderr) of a program. Failed with its last words where the code is none of `accept`, CutShort
    where it was killed at the limit, with the programs it had started. However it ends, `seen` gets what it wrote."""
    program = os.path.basename(command[0])
    limit.check(program)
    begin = time.monotonic()
    # Files, for they keep what was written, and end where a pipe is held open by whoever is left behind.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env={**os.environ, **(env or {})}, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None
        is_done = wait(process, limit)
        kill(process)
        said, complained = read(out), read(err)
    keep_log(command, said, complained)
    if seen is not None:
        seen(said)
    if not is_done:
        words = last_words(complained, 1)
        raise CutShort(f"{program} was cut off after {time.monotonic() - begin:.0f} s" + (f": {words}" if words else ""))
    if process.returncode not in accept:
        raise Failed(f"{program} ended with {process.returncode}: {last_words(complained or said)}")
    return process.returncode, said, complained


def wait(process, limit):
    """Whether it ended within the limit."""
    while process.poll() is None and limit.left() > 0:
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
    return process.poll() is not None


def kill(process):
    """A program that leads a session, if it still runs, and what it had started there."""
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(KILL_SECONDS)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


def read(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def json_lines(text):
    """The objects among the lines of a text. One that its writer did not end is left out."""
    return [json.loads(line) for line in text.split("\n")[:-1] if line.startswith("{")]


def readable(file, limit):
    """Whether there is something to read, or the end, within the limit."""
    while limit.left() > 0:
        if select.select([file], [], [], 0.1)[0]:
            return True
    return False


class Up(Pipeline):
    """`sluice up` from its start to its end."""

    def __init__(self, bin_folder, flags, limit):
        limit.check("sluice up")
        super().__init__(os.path.join(bin_folder, "sluice"), *flags, keep_log=True, new_session=True,
                         await_line=lambda file: readable(file, limit))
        if not self.is_ready:
            self.stop()
            kind = Failed if self.is_in_time else CutShort
            raise kind(f"sluice up {' '.join(flags)} is not ready after {self.ready_seconds:.0f} s: "
                       + last_words(self.log_text()))

    def pids_of(self, process):
        """Of the processes called so that were started, in order; the last one is alive, if any is."""
        return [int(pid) for pid in re.findall(rf"process-started process={re.escape(process)} pid=(\d+)", self.log_text())]

    def stop(self, seconds=STOP_SECONDS):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            wait(self.process, Limit(seconds))
            kill(self.process)
        self.process.stdout.close()
