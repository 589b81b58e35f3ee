"""Runs conformance cases with clients/python; see the README of tests/conformance for what comes and goes."""

import json
import sys
import threading

import sluice
from answers import OPERATIONS, Collected, fault, say, settings, timeout_of


def generate(client, case):
    collected = Collected(case)
    with client.send(collected.request, timeout=timeout_of(case)) as stream:
        for chunk in stream:
            if collected.add(chunk):
                return {"cancelled": True}
    return collected.result(stream.finished)


def answer(client, case):
    op = case.get("op", "generate")
    if op == "generate":
        return generate(client, case)
    arguments, shown = OPERATIONS[op]
    return shown(getattr(client, op)(**arguments(case["request"]), timeout=timeout_of(case)))


def run(client, case):
    try:
        say(id=case["id"], result=answer(client, case))
    except sluice.Error as error:
        say(**fault(case, error))


def main():
    threads = []
    with sluice.Client(**settings()) as client:
        for line in sys.stdin:
            threads.append(threading.Thread(target=run, args=(client, json.loads(line))))
            threads[-1].start()
        for thread in threads:
            thread.join()


main()
