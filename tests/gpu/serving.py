"""Whole pipelines: which bits they write, what they survive, what they say of what can't be had."""

import concurrent.futures
import os
import re
import signal
import subprocess
import time

from context import FP8
from run import CutShort, Failed, conclude, json_lines, kill, last_words, readable, wait

PROMPT = "Once upon a time there was a king who"


# ---- Bits ----

def written(context, *arguments):
    """Tokens and their log-probabilities: as many digits as tell floats apart."""
    _, out, _ = context.sluice(*arguments, "--json", "--logprobs", "3")
    tokens, probabilities = [], []
    for event in json_lines(out):
        tokens += event.get("token_ids", [])
        probabilities += event.get("logprobs", [])
    if not tokens:
        raise Failed(f"sluice {arguments[0]} wrote nothing")
    return tokens, probabilities


def prompts():
    """Of several lengths, so that blocks, chunks and buckets differ."""
    ids = [(37 * i + 11) % 4000 + 5 for i in range(300)]
    return [",".join(map(str, ids[:count])) for count in (1, 7, 64, 300)]


def ask(context, target, prompt, *further):
    return written(context, target[0], "--token_ids", prompt, "--max_tokens", "40", "--ignore_eos", "--seed", "3",
                   "--temperature", "0.9", *target[1:], *further)


def expect_same(what, expected, actual):
    if expected[0] != actual[0]:
        at = next((i for i, (a, b) in enumerate(zip(expected[0], actual[0])) if a != b), "its end")
        raise Failed(f"{what}: other tokens from number {at} on")
    if expected[1] != actual[1]:
        raise Failed(f"{what}: the tokens are the same, their log-probabilities are not")


def same_bits(context, types, arrangements):
    """What processes in any arrangement write, beside each other, against one process by itself."""
    context.plan(*(" ".join(arrangement) for arrangement in arrangements))
    model = ["--model", context.flags.model, "--kv_cache_mib", "64", *types]
    alone = [ask(context, ["run", *model, *context.device_flags()], prompt) for prompt in prompts()]
    context.figures.update(prompts=len(alone), arrangements=[], rings={})
    wrong, cut = [], ""
    for arrangement in arrangements:
        name = " ".join(arrangement)
        try:
            compare(context, alone, name, [*model, *arrangement])
        except Failed as why:
            wrong.append(f"{name}: {why}")
        except CutShort as why:
            cut = f"{name}: {why}"
            break
    conclude(wrong, cut)


def compare(context, alone, name, flags):
    with context.up(*flags) as up:
        target = ["generate", "--endpoint", up.endpoint]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # beside each other: batches differ
            beside = list(pool.map(lambda prompt: ask(context, target, prompt), prompts()))
        context.figures["rings"][name] = rings_of(up)
    for prompt, expected, actual in zip(prompts(), alone, beside):
        expect_same(f"{name}, a prompt of {prompt.count(',') + 1}", expected, actual)
    context.figures["arrangements"].append(name)
    context.done(name)


def rings_of(up):
    """How many stages read their rows out of the memory of the one before, and why others do not. On CPUs none does."""
    said = up.said()
    return {"opened": said.count(" ring-opened "), "unused": sorted(set(re.findall(r" ring-unused status=(.*)", said)))}


def ranks(context):
    """TP 2 and 4 as processes on one GPU, stages, and all in one process: the same bits."""
    same_bits(context, [], (["--tp", "1"], ["--tp", "2"], ["--tp", "4"], ["--tp", "2", "--pp", "2"]))


def fp8(context):
    """The same of weights, activations, keys and values in FP8."""
    same_bits(context, FP8, (["--tp", "1"], ["--tp", "4"]))


def death(context):
    """kill -9 of each kind of process while a stream is open: the stream goes on with the same text."""
    victims = ("shard-0-1", "shard-0-0", "sampler")
    context.plan(*victims)
    flags = ["--model", context.flags.model, "--tp", "2", "--kv_cache_mib", "64"]
    with context.up(*flags) as up:
        command = ["generate", "--endpoint", up.endpoint, PROMPT, "--max_tokens", "300", "--ignore_eos", "--seed", "5",
                   "--temperature", "1"]
        _, expected, _ = context.sluice(*command)
        for victim in victims:
            context.done(victim, kill_during(context, up, victim, command, expected))


def kill_during(context, up, victim, command, expected):
    """Seconds for which the stream stood still."""
    with subprocess.Popen([context.program("sluice"), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as stream:
        try:
            text, pause = read_while_killing(context, up, victim, stream)
            wait(stream, context.limit)
        finally:
            kill(stream)
        said = stream.stderr.read().decode(errors="replace")
    if stream.returncode != 0:
        raise Failed(f"the stream did not survive the death of {victim}: {last_words(said)}")
    if text.decode() != expected:
        raise Failed(f"the stream went on otherwise after the death of {victim}")
    return round(pause, 3)


def read_while_killing(context, up, victim, stream):
    """(all of the stream, the longest pause in it after `victim` was killed)."""
    text, last, pause = b"", time.monotonic(), 0.0
    killed = False
    while readable(stream.stdout, context.limit):
        piece = os.read(stream.stdout.fileno(), 65536)
        if not piece:
            return text, pause
        now = time.monotonic()
        pause, last = max(pause, now - last) if killed else 0.0, now
        text += piece
        if not killed and len(text) > 40:
            os.kill(up.pids(victim)[-1], signal.SIGKILL)
            killed = True
    raise CutShort(f"the stream was cut off {'after' if killed else 'before'} the death of {victim}")


# ---- Errors ----

def errors(context):
    """Each says what is wrong and what would help, at once, and harms nothing."""
    model = ["--model", context.flags.model]
    cases = {"no such GPU": (["run", "hello", *model, "--device", "cuda:97"],
                             ("no cuda:97", "no GPU", "needs a build with CUDA"))}
    if not context.on_cpu:
        cases["out of memory"] = (["run", "hello", *model, *context.device_flags(), "--kv_cache_mib", str(1 << 20)],
                                  ("blocks would fit",))
    context.plan(*cases)
    for name, (command, words) in cases.items():
        begin = time.monotonic()
        code, _, said = context.sluice(*command, accept=tuple(range(1, 128)))
        if not any(word in said for word in words):
            raise Failed(f"{name}: says \"{last_words(said)}\"")
        context.done(name, {"says": last_words(said, 1), "code": code, "seconds": round(time.monotonic() - begin, 2)})
