"""What is shown, in the order of its value. A part puts what it sees into the context's figures as it goes, so that it is
there however the part ends, and raises Failed, CutShort or Skipped where it does not get through."""

import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Callable

from run import CutShort, Failed, Limit, Skipped, json_lines, kill, last_words, readable, run, wait

PROMPT = "Once upon a time there was a king who"


@dataclass
class Part:
    name: str
    seconds: int  # at most, in a run of all
    what: str
    run: Callable
    least_seconds: int = 10  # with fewer left it is not begun
    needs_large_model: bool = False
    seconds_if_chosen: int = 0  # at most, in a run of some; 0: no more

    def most_seconds(self, is_chosen):
        return max(self.seconds, self.seconds_if_chosen) if is_chosen else self.seconds


# ---- The machine ----

def machine(context):
    context.plan("ceilings")
    if context.on_cpu:
        _, out, _ = context.run([context.program("sluice-kernel-bench"), "--only=ceilings", "--json"])
        return context.done("ceilings", json_lines(out)[0]["ceilings"])
    ask_driver(context)
    index = context.flags.device.partition(":")[2] or "0"
    context.run([context.program("sluice-gpu-ceilings"), index], env=with_cublaslt(),
                seen=lambda out: context.figures.update(ceilings=joined(json_lines(out))))
    context.done("ceilings")


def with_cublaslt():
    """LD_LIBRARY_PATH with the cuBLASLt of Python's packages, where the loader finds none without; they hold what it needs
    beside it."""
    ours = os.environ.get("LD_LIBRARY_PATH", "")
    if is_installed("libcublasLt.so.13", ours.split(":")):
        return {}
    sites = [site for site in sys.path if glob.glob(os.path.join(site, "nvidia", "*", "lib", "libcublasLt.so.*"))]
    folders = sorted(folder for site in sites for folder in glob.glob(os.path.join(site, "nvidia", "*", "lib")))
    return {"LD_LIBRARY_PATH": ":".join(filter(None, [ours, *folders]))} if folders else {}


def is_installed(library, folders):
    if any(os.path.exists(os.path.join(folder, library)) for folder in [*folders, "/usr/local/cuda/lib64"] if folder):
        return True
    try:
        return library in run(["/sbin/ldconfig", "-p"], Limit(10))[1]
    except (Failed, CutShort):
        return False


def ask_driver(context):
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.sm,power.limit,temperature.gpu"
    try:
        _, out, _ = run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], Limit(20, context.limit))
        context.done("nvidia-smi", out.strip().splitlines())
    except (Failed, CutShort) as why:
        context.note(f"nvidia-smi: {why}")


def joined(objects):
    """One object with the fields of all, those of objects within it included."""
    whole = {}
    for one in objects:
        for name, value in one.items():
            whole[name] = {**whole.get(name, {}), **value} if isinstance(value, dict) else value
    return whole


# ---- Tests ----

@dataclass
class Cases:
    """What a test program did, case by case."""
    passed: int = 0
    skipped: int = 0
    failed: dict = field(default_factory=dict)  # what each said
    running: str = ""  # the one that had begun and not ended

    def __len__(self):
        return self.passed + self.skipped + len(self.failed)


def read_cases(out):
    """Of what GoogleTest wrote, whether it came to its end or not."""
    cases, said = Cases(), []
    for line in out.splitlines():
        begun = re.match(r"\[ RUN      \] (\S+)", line)
        ended = re.match(r"\[ +(OK|FAILED|SKIPPED) +\] .*\(\d+ ms\)$", line)
        if begun:
            cases.running, said = begun[1], []
        elif ended and cases.running:
            cases.passed += ended[1] == "OK"
            cases.skipped += ended[1] == "SKIPPED"
            if ended[1] == "FAILED":
                cases.failed[cases.running] = "\n".join(said).strip()
            cases.running = ""
        else:
            said.append(line)
    return cases


def run_test(context, path, limit=None, tool=(), env=None):
    """(its cases, why it was cut short or None) of one test program on the device, with `tool` before it."""
    log = []
    cut = None
    try:
        code, out, err = run([*tool, path], limit or context.limit, env={**context.device_environment(), **(env or {})},
                             accept=tuple(range(-64, 256)), seen=log.append)
    except CutShort as why:
        code, cut = 0, str(why)
    cases = read_cases("".join(log))
    if code != 0 and (cases.running or not cases.failed):
        cases.failed[cases.running or "the program"] = f"ended with {code}: {last_words(err or out)}"
    return cases, cut


def run_tests(context, pattern):
    programs = sorted(path for one in pattern for path in glob.glob(os.path.join(context.flags.tests, one)))
    if not programs:
        raise Skipped(f"no test of {', '.join(pattern)} in {context.flags.tests}")
    context.plan(*map(os.path.basename, programs))
    context.figures.update(programs=len(programs), passed=0, skipped=0)
    failed, cut = {}, {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = {pool.submit(run_test, context, path): os.path.basename(path) for path in programs}
        for done in concurrent.futures.as_completed(waiting):
            name = waiting[done]
            try:
                cases, why = done.result()
            except Failed as why_not:  # it can't even be started
                failed[name] = str(why_not)
                continue
            failed.update({f"{name} {case}": said for case, said in cases.failed.items()})
            context.figures["passed"] += cases.passed
            context.figures["skipped"] += cases.skipped
            if why is None:
                context.done(name)
            else:
                cut[name] = f"after {len(cases)} cases" + (f", in {cases.running}" if cases.running else "")
    for name, said in sorted(failed.items()):
        context.note(f"{name}: {' '.join(said.split())[:300]}")
    conclude([f"{len(failed)} of {context.figures['passed'] + len(failed)}: {', '.join(sorted(failed))}"[:2000]]
             if failed else [], "; ".join(f"{name} was cut off {where}" for name, where in sorted(cut.items())))


def conclude(wrong, cut):
    """Of what went wrong, and of what ended because the time was up: the former counts for more."""
    if wrong:
        raise Failed("; ".join(wrong + ([cut] if cut else [])))
    if cut:
        raise CutShort(cut)


CUDA_TESTS = ["kernels_cuda_cuda_gpu_test"]  # of builds with CUDA alone
KERNEL_TESTS = ["kernels_backend_*_test", "kernels_device_test", *CUDA_TESTS]
MODEL_TESTS = ["services_shard_storyteller_test", "services_shard_shard_model_test", "services_shard_oracle_test",
               "services_shard_quantized_model_test", "services_embedding_embedding_table_test",
               "services_sampler_sampler_test"]
TESTS = KERNEL_TESTS + MODEL_TESTS  # of the bundle


def kernels(context):
    run_tests(context, KERNEL_TESTS)


def models(context):
    run_tests(context, MODEL_TESTS)


# ---- Whole pipelines: bits ----

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


FP8 = ["--weights", "fp8", "--kv_dtype", "fp8"]


def fp8(context):
    """The same of weights, keys and values in FP8."""
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


# ---- Speed, on random weights in the shape of Llama-3.1-8B ----

BF16 = ["--weights", "bf16", "--kv_dtype", "bf16"]


def serving_flags(context, model, types=BF16):
    flags = ["--model", model, *types, "--max_step_tokens", "2048", "--max_step_sequences", "256"]
    return flags + (["--kv_cache_mib", "64"] if context.on_cpu else [])


def load(context, endpoint, prompt, written_tokens, concurrency, requests=None):
    _, out, _ = context.sluice("bench", "--endpoint", endpoint, "--json", "--prompt_tokens", str(prompt), "--max_tokens",
                               str(written_tokens), "--concurrency", str(concurrency), "--requests",
                               str(requests or concurrency))
    return json_lines(out)[0]


def scaled(context, full, small):
    return small if context.on_cpu else full


def decode_alone(context, up):
    context.done("decode 1", load(context, up.endpoint, scaled(context, 1000, 64), scaled(context, 256, 16), 1, 3))


def many_streams(context, up):
    context.done("256 streams", load(context, up.endpoint, scaled(context, 1000, 64), scaled(context, 1000, 16),
                                     scaled(context, 256, 8)))


def speed(context):
    """Through the whole pipeline, a process for each service."""
    context.plan("decode 1", "prefill", "decode 64", "256 streams")
    model = context.large_model()
    context.figures["weight_bytes"] = os.path.getsize(os.path.join(model, "model.safetensors"))
    prompt = scaled(context, 1000, 64)
    begin = time.monotonic()
    with context.up(*serving_flags(context, model)) as up:
        context.figures["ready_seconds"] = up.ready_seconds
        load(context, up.endpoint, 16, 2, 1)
        context.figures["first_token_seconds"] = time.monotonic() - begin
        status = json_lines(context.sluice("status", "--endpoint", up.endpoint, "--json")[1])[0]
        context.figures["arithmetic"] = sorted({one.get("arithmetic", "") for one in status["processes"]} - {""})
        load(context, up.endpoint, prompt, 16, 8)  # kernels are loaded, steps recorded
        decode_alone(context, up)
        context.done("prefill", load(context, up.endpoint, scaled(context, 2048, 256), 2, 1, scaled(context, 8, 2)))
        context.done("decode 64", load(context, up.endpoint, prompt, scaled(context, 256, 16), scaled(context, 64, 4)))
        many_streams(context, up)


def fp8_speed(context):
    """What weights, keys and values in FP8 save: a token alone, and many streams."""
    context.plan("decode 1", "256 streams")
    model = context.large_model()
    with context.up(*serving_flags(context, model, FP8)) as up:
        load(context, up.endpoint, scaled(context, 1000, 64), 16, 8)  # kernels are loaded, steps recorded
        decode_alone(context, up)
        many_streams(context, up)


def in_one_process(context):
    """The same decode with all services in one process, to hold separate processes against."""
    context.plan("one_process", "processes")
    model = context.large_model()
    flags = ["--model", model, "--weights", "bf16", "--kv_dtype", "bf16", *context.device_flags(), "--hang_timeout", "20"]
    flags += ["--kv_cache_mib", "64"] if context.on_cpu else []
    phases = ["--phases", "decode:1", "--rounds", "3", "--max_tokens", str(scaled(context, 256, 32)), "--json"]
    alone = rate_of(context.sluice("bench", *flags, *phases))
    context.done("one_process", alone)
    with context.up(*serving_flags(context, model)) as up:
        apart = rate_of(context.sluice("bench", "--endpoint", up.endpoint, *phases))
    context.figures["ratio"] = apart / alone
    context.done("processes", apart)


def rate_of(bench):
    _, out, _ = bench
    return json_lines(out)[0]["phases"][0]["tokens_per_second"]


def kernel_speed(context):
    context.plan("further kernels")
    context.run([context.program("sluice-gpu-bench"), context.flags.device, scaled(context, "full", "small")],
                env=context.device_environment(), seen=lambda out: context.figures.update(kernels=json_lines(out)))
    context.done("further kernels")


# ---- compute-sanitizer ----

SANITIZED = ["kernels_backend_norm_test", "kernels_backend_sum_to_residual_test", "kernels_backend_gemm_test",
             "kernels_backend_attention_test", "kernels_backend_turn_and_store_test", "kernels_backend_sample_test",
             "kernels_backend_softmax_test"]


# However little is left for it: a program is first read through before it computes anything.
LEAST_SANITIZER_SECONDS = 40


def sanitizer(context):
    if context.on_cpu:
        raise Skipped("it looks at GPUs")
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        raise Skipped("compute-sanitizer is not installed")
    programs = [name for name in SANITIZED if os.path.exists(os.path.join(context.flags.tests, name))]
    runs = [(kind, name) for kind in ("memcheck", "racecheck") for name in programs]
    context.plan(*(f"{kind} {name}" for kind, name in runs))
    wrong, cut = [], []
    for number, (kind, name) in enumerate(runs):
        # A share each, so that one that takes long leaves some for the others.
        share = max(LEAST_SANITIZER_SECONDS, context.limit.left() / (len(runs) - number))
        try:
            sanitize(context, tool, kind, name, Limit(share, context.limit))
        except Failed as why:
            wrong.append(f"{kind} of {name}: {why}"[:1000])
        except CutShort as why:
            cut.append(f"{kind} of {name}: {why}")
    conclude(wrong, "; ".join(cut))


def sanitize(context, tool, kind, name, limit):
    """One program, and how far it was clean."""
    log = []
    # The tests compare with plain loops; the products of the self-check before them take longer than they do.
    environment = {**context.device_environment(), "SLUICE_TEST_SELF_CHECK": "off"}
    command = [tool, "--tool", kind, "--error-exitcode", "86", os.path.join(context.flags.tests, name)]
    try:
        code, out, err = run(command, limit, env=environment, accept=tuple(range(-64, 256)), seen=log.append)
    except CutShort:
        cut_sanitizer(context, f"{kind} {name}", "".join(log))
    if code != 0:
        raise Failed(complaints(out + err) or last_words(err or out))
    context.done(f"{kind} {name}", "clean")


def cut_sanitizer(context, name, log):
    if found := complaints(log):
        raise Failed(found)
    cases = read_cases(log)
    where = f"{len(cases)} cases" + (f", then cut off in {cases.running}" if cases.running else "")
    if len(cases) > 0:
        context.figures[name] = f"clean so far: {where}"
    raise CutShort(where)


def complaints(text):
    """What compute-sanitizer found, its first lines."""
    said = [line.strip("= ") for line in text.splitlines() if line.startswith("=========")]
    return " ".join([line for line in said if line and not re.match("COMPUTE-SANITIZER|Warning|.* SUMMARY", line)][:6])


PARTS = [
    Part("machine", 60, "what it is, and what it can do at best", machine),
    Part("kernels", 150, "every operation against plain loops, and the promises about bits", kernels),
    Part("models", 90, "whole small models against their goldens", models),
    Part("ranks", 90, "TP 2 and 4 as processes on one device have the bits of TP 1", ranks, seconds_if_chosen=120),
    Part("fp8", 60, "the same of weights, keys and values in FP8", fp8, seconds_if_chosen=120),
    Part("death", 60, "a stream survives kill -9 of a rank and of the sampler", death, seconds_if_chosen=120),
    Part("errors", 20, "what can't be had is said", errors),
    Part("speed", 180, "8B through the whole pipeline", speed, 60, True),
    Part("fp8-speed", 120, "8B in FP8 through the whole pipeline", fp8_speed, 60, True),
    Part("kernel-speed", 90, "kernels on shapes of 8B", kernel_speed, 30),
    Part("one-process", 90, "8B in separate processes against one", in_one_process, 60, True),
    Part("sanitizer", 120, "compute-sanitizer on kernels", sanitizer, 20, seconds_if_chosen=480),
]
