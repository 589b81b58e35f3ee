"""Runs conformance cases with clients/python and asyncio; see the README of tests/conformance for what comes and goes."""

import asyncio
import json
import sys

import sluice
from answers import OPERATIONS, Collected, fault, say, settings, timeout_of
from sluice import aio


async def generate(client, case):
    collected = Collected(case)
    async with client.send(collected.request, timeout=timeout_of(case)) as stream:
        async for chunk in stream:
            if collected.add(chunk):
                return {"cancelled": True}
    return collected.result(stream.finished)


async def answer(client, case):
    op = case.get("op", "generate")
    if op == "generate":
        return await generate(client, case)
    arguments, shown = OPERATIONS[op]
    return shown(await getattr(client, op)(**arguments(case["request"]), timeout=timeout_of(case)))


async def run(client, case):
    try:
        say(id=case["id"], result=await answer(client, case))
    except sluice.Error as error:
        say(**fault(case, error))


async def main():
    client = aio.Client(**settings())
    tasks = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        tasks.append(asyncio.create_task(run(client, json.loads(line))))
    await asyncio.gather(*tasks)
    await client.close()


asyncio.run(main())
