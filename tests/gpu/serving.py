"""Whole pipelines: which bits they write, what they survive, what they say of what can't be had."""

import concurrent.futures
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass

from context import FP8
from run import CutShort, Failed, conclude, json_lines, kill, last_words, readable, wait


@dataclass
class Requests:
    """What pipelines are asked."""
    lengths: tuple = (1, 7, 64, 300)  # of prompts, so that blocks, chunks and buckets differ
    tokens: int = 40  # that follow each
    long_tokens: int = 300  # that follow one during which a process is killed
    vocabulary: int = 4000  # token ids are below it

    def prompts(self):
        return [self.prompt(length) for length in self.lengths]

    def prompt(self, length):
        return ",".join(str(5 + (37 * i + 11) % (self.vocabulary - 5)) for i in range(length))


# ---- Bits ----

def flags_of(prompt, tokens):
    return ["--token_ids", prompt, "--max_tokens", str(tokens), "--ignore_eos", "--seed", "3", "--temperature", "0.9",
            "--json", "--logprobs", "3"]


def written(out):
    """Tokens and their log-probabilities: as many digits as tell floats apart."""
    tokens, probabilities = [], []
    for event in json_lines(out):
        tokens += event.get("token_ids", [])
        probabilities += event.get("logprobs", [])
    return tokens, probabilities


def ask(context, target, prompt, tokens):
    _, out, _ = context.sluice(target[0], *flags_of(prompt, tokens), *target[1:])
    answer = written(out)
    if not answer[0]:
        raise Failed(f"sluice {target[0]} wrote nothing")
    return answer


def expect_same(what, expected, actual):
    if expected[0] != actual[0]:
        at = next((i for i, (a, b) in enumerate(zip(expected[0], actual[0])) if a != b), "its end")
        raise Failed(f"{what}: other tokens from number {at} on")
    if expected[1] != actual[1]:
        raise Failed(f"{what}: the tokens are the same, their log-probabilities are not")


def same_bits(context, types, arrangements, requests):
    """What processes in any arrangement write, beside each other, against one process by itself."""
    context.plan(*(" ".join(arrangement) for arrangement in arrangements))
    model = ["--model", context.flags.model, "--kv_cache_mib", "64", *types]
    alone = [ask(context, ["run", *model, *context.device_flags()], prompt, requests.tokens)
             for prompt in requests.prompts()]
    context.figures.update(prompts=len(alone), arrangements=[], rings={})
    wrong, cut = [], ""
    for arrangement in arrangements:
        name = " ".join(arrangement)
        try:
            compare(context, alone, name, [*model, *arrangement], requests)
        except Failed as why:
            wrong.append(f"{name}: {why}")
        except CutShort as why:
            cut = f"{name}: {why}"
            break
    conclude(wrong, cut)


def compare(context, alone, name, flags, requests):
    with context.up(*flags) as up:
        target = ["generate", "--endpoint", up.endpoint]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # beside each other: batches differ
            beside = list(pool.map(lambda prompt: ask(context, target, prompt, requests.tokens), requests.prompts()))
        context.figures["rings"][name] = rings_of(up)
        expect_no_loss(context, name, up)
    for length, expected, actual in zip(requests.lengths, alone, beside):
        expect_same(f"{name}, a prompt of {length}", expected, actual)
    context.figures["arrangements"].append(name)
    context.done(name)


def expect_no_loss(context, name, up):
    """What was computed twice may be right and is a fault all the same. Steps that a device does not record are slower, no more."""
    lost = re.search(r" replica-lost .*status=(.*)", up.log_text())
    if lost:
        raise Failed(f"a step failed and was computed again: {lost[1]}")
    for reason in sorted(set(re.findall(r" steps-unrecorded reason=(.*)", up.log_text()))):
        context.note(f"{name}: steps are not recorded: {reason}")


def rings_of(up):
    """How many stages read their rows out of the memory of the one before, and why others do not. On CPUs none does."""
    said = up.log_text()
    return {"opened": said.count(" ring-opened "), "unused": sorted(set(re.findall(r" ring-unused status=(.*)", said)))}


def ranks(context):
    """TP 2 and 4 as processes on one GPU, stages, and all in one process: the same bits."""
    same_bits(context, [], (["--tp", "1"], ["--tp", "2"], ["--tp", "4"], ["--tp", "2", "--pp", "2"]), Requests())


def fp8(context):
    """The same of weights, activations, keys and values in FP8."""
    same_bits(context, FP8, (["--tp", "1"], ["--tp", "4"]), Requests())


# ---- Deaths ----

def death(context):
    """kill -9 of each kind of process while a stream is open: the stream goes on with the same bits."""
    survive_deaths(context, ("shard-0-1", "shard-0-0", "sampler"), Requests())


def survive_deaths(context, victims, requests):
    context.plan(*victims)
    prompt = requests.prompt(9)
    with context.up("--model", context.flags.model, "--tp", "2", "--kv_cache_mib", "64") as up:
        target = ["generate", "--endpoint", up.endpoint]
        expected = ask(context, target, prompt, requests.long_tokens)
        for victim in victims:
            out, pause = stream_while_killing(context, up, victim, [*target, *flags_of(prompt, requests.long_tokens)])
            expect_same(f"after the death of {victim}", expected, written(out))
            context.done(victim, pause)


def stream_while_killing(context, up, victim, arguments):
    """(what a stream brought, the seconds for which it stood still)."""
    with subprocess.Popen([context.program("sluice"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as stream:
        try:
            text, pause = read_while_killing(context, up, victim, stream)
            wait(stream, context.limit)
        finally:
            kill(stream)
        said = stream.stderr.read().decode(errors="replace")
    if stream.returncode != 0:
        raise Failed(f"the stream did not survive the death of {victim}: {last_words(said)}")
    return text.decode(), round(pause, 3)


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
        if not killed and text.count(b"\n") > 2:
            os.kill(up.pids_of(victim)[-1], signal.SIGKILL)
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
