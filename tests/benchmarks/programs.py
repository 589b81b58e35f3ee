"""Runs programs, Sluice's above all, and reads what they print."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testing"))

from pipeline import Pipeline  # noqa: E402


class Failed(Exception):
    """A program that did not do its work, and its last words."""


def run(command, timeout=900):
    """What the program prints."""
    program = os.path.basename(command[0])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{program} took more than {timeout} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        words = [line for line in done.stderr.strip().splitlines() if line.strip()]
        # A wrong command line is followed by where to find help.
        said = [line for line in words if "explains the flags" not in line]
        raise Failed(said[-1] if said else f"{program} ended with {done.returncode}")
    return done.stdout


def json_lines(command, timeout=900):
    """The objects that the program prints, a line each, among whatever else."""
    objects = [json.loads(line) for line in run(command, timeout).splitlines() if line.startswith("{")]
    if not objects:
        raise Failed(f"{os.path.basename(command[0])} printed no figures")
    return objects


class Programs:
    def __init__(self, bin_folder, threads):
        self.bin = bin_folder
        self.threads = threads

    def _lines(self, program, *arguments):
        return json_lines([os.path.join(self.bin, program), *arguments])

    def ceilings(self):
        """Bytes and operations per second that this machine reaches now."""
        return self._lines("sluice-kernel-bench", f"--threads={self.threads}", "--only=ceilings", "--json")[0]["ceilings"]

    def kernels(self, kinds, formats, models):
        return self._lines("sluice-kernel-bench", f"--threads={self.threads}", f"--only={kinds}", f"--formats={formats}",
                           f"--models={models}", "--json")

    def bench(self, target, phases, max_tokens):
        """`sluice bench` of phases, once each; `target` says by flags what is measured."""
        report = self._lines("sluice", "bench", *target, "--phases", phases, "--rounds", "1", "--max_tokens",
                             str(max_tokens), "--json")[0]
        report["rates"] = {phase["phase"]: phase["tokens_per_second"] for phase in report["phases"]}
        return report

    def load(self, endpoint, prompt_tokens, max_tokens, requests):
        self._lines("sluice", "bench", "--endpoint", endpoint, "--prompt_tokens", str(prompt_tokens), "--max_tokens",
                    str(max_tokens), "--concurrency", "4", "--requests", str(requests), "--json")

    def status(self, endpoint):
        return self._lines("sluice", "status", "--endpoint", endpoint, "--json")[0]

    def up(self, *flags):
        return Up(os.path.join(self.bin, "sluice"), *flags)


class Up(Pipeline):
    """`sluice up` from its start to SIGTERM: one process per service."""

    def __init__(self, program, *flags):
        super().__init__(program, *flags, keep_log=True)
        if not self.is_ready:
            self.stop()
            words = self.log_text().strip().splitlines()
            raise Failed(words[-1] if words else "sluice up ended without a word")

    def shard_peaks(self):
        """{"shard-0-1": the most bytes that were ever resident}, from the moment each started."""
        pids = re.findall(r"process-started process=(shard-\d+-\d+) pid=(\d+)", self.log_text())
        return {name: peak_bytes(pid) for name, pid in pids}


def peak_bytes(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise Failed(f"process {pid} has no VmHWM")
