"""Judges a history that chaos.py wrote: whether every call ended with what it would have come to undisturbed, nothing leaked,
and pauses were short.

Usage: check.py HISTORY
Exit status 0 where all holds; 1, with what does not, otherwise.
"""

import collections
import json
import sys

# From a fault to the next token, p95 in seconds; a hang must be noticed first.
PAUSE_AFTER_A_KILL = 3.0
# A gap between two tokens of a stream that is shorter has nothing to do with a fault.
GAP = 0.1
# Tokens that were on their way when a fault happened come so long after it.
ON_THE_WAY = 0.2


class Call:
    def __init__(self, request):
        self.request = request
        self.tokens = collections.defaultdict(list)
        self.text = collections.defaultdict(str)
        self.logprobs = collections.defaultdict(list)
        self.reasons = None
        self.status = None
        self.times = []
        self.num_losses = 0

    def outcome(self):
        return {"tokens": dict(self.tokens), "text": dict(self.text), "logprobs": dict(self.logprobs),
                "reasons": self.reasons}


def read(path):
    """(run, calls before the faults, calls under them, faults, last status)."""
    run, status, faults, phase = {}, None, [], None
    phases = {"undisturbed": {}, "disturbed": {}}
    calls = {}
    with open(path, encoding="utf-8") as file:
        for event in map(json.loads, file):
            kind = event["event"]
            if kind == "run":
                run = event
            elif kind in phases:
                phase = kind
            elif kind == "begin":
                call = calls[event["call"]] = phases[phase][event["call"]] = Call(event["request"])
                call.times.append(event["t"])
            elif kind == "chunk":
                call = calls[event["call"]]
                call.times.append(event["t"])
                sequence = event["sequence"]
                call.tokens[sequence] += event["tokens"]
                call.text[sequence] += event["text"]
                call.logprobs[sequence] += event.get("logprobs", [])
            elif kind == "finished":
                calls[event["call"]].reasons = event["reasons"]
            elif kind == "lost":
                calls[event["call"]].num_losses += 1
            elif kind == "end":
                calls[event["call"]].status = event["status"] + (": " + event["details"] if "details" in event else "")
            elif kind == "fault":
                faults.append(event)
            elif kind == "no-fault":
                faults.pop()
            elif kind == "status":
                status = event
    return run, phases["undisturbed"], phases["disturbed"], faults, status


def difference(got, expected):
    for part in ("tokens", "text", "logprobs", "reasons"):
        if got[part] != expected[part]:
            return f"{part} {got[part]} instead of {expected[part]}"
    return ""


def wrong_calls(undisturbed, disturbed):
    expected = {call.request: call.outcome() for call in undisturbed.values()}
    for number, call in {**undisturbed, **disturbed}.items():
        if call.status is None:
            yield f"call {number} ({call.request}) never ended"
        elif call.status != "OK":
            yield f"call {number} ({call.request}) ended {call.status}"
        elif call.request not in expected:
            yield f"call {number} ({call.request}) has nothing to be compared with"
        else:
            what = difference(call.outcome(), expected[call.request])
            if what:
                yield f"call {number} ({call.request}) got {what}"


def pauses(calls, faults):
    """Seconds from the first fault within a gap of a stream to its end: (after kills and the like, after hangs)."""
    after_kills, after_hangs = [], []
    for call in calls.values():
        for begin, end in zip(call.times, call.times[1:]):
            if end - begin < GAP:
                continue
            within = [fault for fault in faults if begin - ON_THE_WAY <= fault["t"] < end]
            if within:
                hangs = any(fault["kind"] == "SIGSTOP" for fault in within)
                (after_hangs if hangs else after_kills).append(end - within[0]["t"])
    return sorted(after_kills), sorted(after_hangs)


def at(values, share):
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def main():
    run, undisturbed, disturbed, faults, status = read(sys.argv[1])
    complaints = list(wrong_calls(undisturbed, disturbed))
    if status is None or not status["serving"]:
        complaints.append(f"the pipeline does not serve in the end: {status}")
    elif status["used_blocks"] or status["running"] or status["waiting"]:
        complaints.append(f"something is left over: {status}")
    if len(disturbed) < 10 or len(faults) < 10 * run["minutes"]:
        complaints.append(f"too little happened: {len(disturbed)} calls, {len(faults)} faults")
    kinds = collections.Counter(f"{fault['kind']}" for fault in faults)
    victims = collections.Counter(fault["process"] for fault in faults)
    print(f"{len(disturbed)} calls ({sum(c.num_losses for c in disturbed.values())} times resumed), {len(faults)} faults:",
          ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())), "| on",
          ", ".join(f"{name} {count}" for name, count in sorted(victims.items())))
    for name, values, bound in zip(("kills, cuts, slow processes", "hangs"), pauses(disturbed, faults),
                                   (PAUSE_AFTER_A_KILL, run["hang_timeout"] + PAUSE_AFTER_A_KILL)):
        print(f"pauses after {name}: {len(values)}, p50 {at(values, 0.5):.2f} s, p95 {at(values, 0.95):.2f} s,",
              f"longest {at(values, 1):.2f} s; bound of p95 {bound:g} s")
        if at(values, 0.95) > bound:
            complaints.append(f"pauses after {name} are too long")
    for complaint in complaints:
        print("WRONG:", complaint[:600])
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
