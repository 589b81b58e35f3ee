"""How long a stream pauses when a process behind it is killed: `sluice up` with storyteller, SIGKILL to one process after the
other, in turns. A pause is the longest gap between two chunks of the stream, from the kill on where that came within it.
Every text is held against the undisturbed one.

Usage: pauses.py BIN_DIR PROTO_PYTHON_DIR [--kills N] [--kinds sampler,embedding,shard-0-0,tokenizer] [--log FILE] [up's flags]
"""

import argparse
import os
import signal
import sys
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("bin")
parser.add_argument("protos")
parser.add_argument("--kills", type=int, default=20, help="of each kind of process")
parser.add_argument("--kinds", default="sampler,embedding,shard-0-0,tokenizer")
parser.add_argument("--every", type=float, default=3, help="seconds between two kills")
parser.add_argument("--log", default=os.devnull)
OPTIONS, UP_FLAGS = parser.parse_known_args()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from processes import Client, Up, listeners_of, request, text_of  # noqa: E402

TOKENS = 400  # of a stream
KILLED_AT = 40  # chunks


def longest_gap(times, killed):
    """Between two arrivals of which the second is after the kill."""
    gaps = [after - max(before, killed) for before, after in zip(times, times[1:]) if after > killed]
    return max(gaps, default=0)


def disturbed(client, pid):
    """The text of a stream behind which `pid` is killed, and its pause in seconds."""
    times, killed = [], 0

    def on_chunk():
        nonlocal killed
        times.append(time.monotonic())
        if len(times) == KILLED_AT:
            killed = times[-1]
            os.kill(pid, signal.SIGKILL)

    text = text_of(client.generate(request(TOKENS, seed=5)), on_chunk)
    return text, longest_gap(times, killed)


def measure(parent, client):
    """{kind: pauses in seconds}."""
    expected = text_of(client.generate(request(TOKENS, seed=5)))
    kinds = OPTIONS.kinds.split(",")
    pauses = {kind: [] for kind in kinds}
    for _ in range(OPTIONS.kills):
        for kind in kinds:
            time.sleep(OPTIONS.every)  # `up` waits longer before it starts again what ends again and again
            text, pause = disturbed(client, listeners_of(parent)[kind])
            if text != expected:
                raise SystemExit(f"{kind}: another text than the undisturbed one")
            pauses[kind].append(pause)
    return pauses


def quantile(values, part):
    return sorted(values)[round(part * (len(values) - 1))]


def main():
    with open(OPTIONS.log, "w", encoding="utf-8") as log, Up(*UP_FLAGS, stderr=log) as up:
        if not up.is_ready:
            raise SystemExit("the pipeline did not come up")
        pauses = measure(up.process.pid, Client(up.endpoint))
    print("| killed | times | pause p50 (ms) | p95 (ms) | longest (ms) |\n|---|---:|---:|---:|---:|")
    for kind, values in pauses.items():
        p50, p95, most = (1e3 * quantile(values, part) for part in (0.5, 0.95, 1))
        print(f"| {kind} | {len(values)} | {p50:.0f} | {p95:.0f} | {most:.0f} |")


if __name__ == "__main__":
    main()
