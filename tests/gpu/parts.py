"""What is shown, in the order of its value. A part returns its figures, or raises Failed or Skipped."""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Callable

from run import Failed, Skipped, Up, json_lines, last_words, run

PROMPT = "Once upon a time there was a king who"
LARGE_BYTES = 17 << 30


class Context:
    """What the parts share: the flags, how long they have, the large model."""

    def __init__(self, flags, end):
        self.flags = flags
        self.end = end
        self.part_end = end
        self.noted = []
        self.on_cpu = flags.device == "cpu"
        self.scratch = None
        self.maker = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.maker is not None and self.maker.poll() is None:
            self.maker.kill()
            self.maker.wait()
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def begin(self, seconds):
        self.part_end = min(self.end, time.monotonic() + seconds)

    def left(self):
        """Seconds of the part; Failed where there are none."""
        left = self.part_end - time.monotonic()
        if left <= 1:
            raise Failed("its time is up")
        return left

    def note(self, text):
        self.noted.append(text)

    def take_notes(self):
        notes, self.noted = self.noted, []
        return notes

    def program(self, name):
        return os.path.join(self.flags.bin, name)

    def device_flags(self):
        """Of programs that compute by themselves or start those that do."""
        instructions = self.flags.gpu_instructions
        return ["--device", self.flags.device, *(["--gpu_instructions", instructions] if instructions != "auto" else [])]

    def device_environment(self):
        """The same for tests and sluice-gpu-bench."""
        return {"SLUICE_TEST_DEVICE": self.flags.device, "SLUICE_TEST_GPU_INSTRUCTIONS": self.flags.gpu_instructions}

    def sluice(self, *arguments, accept=(0,)):
        return run([self.program("sluice"), *arguments], self.left(), accept=accept)

    def up(self, *flags):
        return Up(self.flags.bin, [*self.device_flags(), "--hang_timeout", "20", *flags], self.left())

    # ---- The large model, which is made while the first parts run ----

    def begin_large_model(self):
        shape, needed = ("small", 64 << 20) if self.on_cpu else ("llama3.1-8b", LARGE_BYTES)
        folders = [self.flags.scratch] if self.flags.scratch else ["/dev/shm", tempfile.gettempdir()]
        for folder in folders:
            if os.path.isdir(folder) and shutil.disk_usage(folder).free > needed:
                self.scratch = tempfile.mkdtemp(prefix="sluice-prove-", dir=folder)
                # On its own cores as far as the first parts leave them.
                self.maker = subprocess.Popen(["nice", self.program("sluice-random-model"), shape, self.large_folder()],
                                              stderr=subprocess.PIPE, text=True)
                return

    def large_folder(self):
        return os.path.join(self.scratch, "model")

    def large_model(self):
        if self.maker is None:
            raise Skipped(f"no folder has the {LARGE_BYTES >> 30} GiB for a model of 8B; --scratch names one")
        try:
            _, said = self.maker.communicate(timeout=self.left())
        except subprocess.TimeoutExpired:
            raise Failed("the random model is not there yet") from None
        except ValueError:  # it was waited for before
            said = ""
        if self.maker.returncode != 0:
            raise Failed(f"no random model: {said.strip()}")
        return self.large_folder()


@dataclass
class Part:
    name: str
    seconds: int  # at most
    what: str
    run: Callable
    least_seconds: int = 10  # with fewer left it is not begun
    needs_large_model: bool = False


# ---- The machine ----

def machine(context):
    if context.on_cpu:
        _, out, _ = run([context.program("sluice-kernel-bench"), "--only=ceilings", "--json"], context.left())
        return {"ceilings": json_lines(out)[0]["ceilings"]}
    figures = {}
    try:
        query = "name,driver_version,memory.total,clocks.max.sm,clocks.sm,power.limit,temperature.gpu"
        _, out, _ = run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], 20)
        figures["nvidia-smi"] = out.strip().splitlines()
    except Failed as why:
        context.note(f"nvidia-smi: {why}")
    index = context.flags.device.partition(":")[2] or "0"
    _, out, _ = run([context.program("sluice-gpu-ceilings"), index], context.left())
    figures["ceilings"] = json.loads(out)
    return figures


# ---- Tests ----

def run_test(context, path):
    """{"passed", "skipped", "failed": [names]} of one test program on the device."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        code, out, err = run([path, f"--gtest_output=json:{report}", "--gtest_brief=1"], context.left(),
                             env=context.device_environment(), accept=tuple(range(-64, 256)))
        if not os.path.exists(report):
            raise Failed(f"{os.path.basename(path)} ended with {code}: {last_words(err or out)}")
        with open(report) as file:
            suites = json.load(file)["testsuites"]
    cases = [(f"{suite['name']}.{case['name']}", case) for suite in suites for case in suite["testsuite"]]
    failed = {name: case["failures"][0]["failure"].strip() for name, case in cases if case.get("failures")}
    skipped = [name for name, case in cases if case.get("result") == "SKIPPED"]
    return {"passed": len(cases) - len(failed) - len(skipped), "skipped": skipped, "failed": failed}


def run_tests(context, pattern):
    programs = sorted(path for one in pattern for path in glob.glob(os.path.join(context.flags.tests, one)))
    if not programs:
        raise Skipped(f"no test of {', '.join(pattern)} in {context.flags.tests}")
    results, broken = {}, {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = {pool.submit(run_test, context, path): os.path.basename(path) for path in programs}
        for done in concurrent.futures.as_completed(waiting):
            try:
                results[waiting[done]] = done.result()
            except Failed as why:
                broken[waiting[done]] = str(why)
    for name, result in sorted(results.items()):
        for case, failure in result["failed"].items():
            broken[f"{name} {case}"] = failure
    for name, failure in sorted(broken.items()):
        context.note(f"{name}: {' '.join(failure.split())[:300]}")
    figures = {"programs": len(programs), "passed": sum(result["passed"] for result in results.values()),
               "skipped": sum(len(result["skipped"]) for result in results.values())}
    if broken:
        raise Failed(f"{len(broken)} of {figures['passed'] + len(broken)}: {', '.join(sorted(broken))}"[:2000])
    return figures


CUDA_TESTS = ["kernels_cuda_cuda_gpu_test"]  # of builds with CUDA alone
KERNEL_TESTS = ["kernels_backend_*_test", "kernels_device_test", *CUDA_TESTS]
MODEL_TESTS = ["services_shard_storyteller_test", "services_shard_shard_model_test", "services_shard_oracle_test",
               "services_shard_quantized_model_test", "services_embedding_embedding_table_test",
               "services_sampler_sampler_test"]
TESTS = KERNEL_TESTS + MODEL_TESTS  # of the bundle


def kernels(context):
    return run_tests(context, KERNEL_TESTS)


def models(context):
    return run_tests(context, MODEL_TESTS)


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
    model = ["--model", context.flags.model, "--kv_cache_mib", "64", *types]
    alone = [ask(context, ["run", *model, *context.device_flags()], prompt) for prompt in prompts()]
    figures = {"prompts": len(alone), "arrangements": [], "rings": {}}
    wrong = []
    for arrangement in arrangements:
        try:
            with context.up(*model, *arrangement) as up:
                with concurrent.futures.ThreadPoolExecutor(4) as pool:  # beside each other: batches differ
                    beside = list(pool.map(
                        lambda prompt: ask(context, ["generate", "--endpoint", up.endpoint], prompt), prompts()))
                figures["rings"][" ".join(arrangement)] = rings_of(up)
            for prompt, expected, actual in zip(prompts(), alone, beside):
                expect_same(f"{' '.join(arrangement)}, a prompt of {prompt.count(',') + 1}", expected, actual)
            figures["arrangements"].append(" ".join(arrangement))
        except Failed as why:
            wrong.append(f"{' '.join(arrangement)}: {why}")
    if wrong:
        raise Failed("; ".join(wrong))
    return figures


def rings_of(up):
    """How many stages read their rows out of the memory of the one before, and why others do not. On CPUs none does."""
    said = up.said()
    return {"opened": said.count(" ring-opened "), "unused": sorted(set(re.findall(r" ring-unused status=(.*)", said)))}


def ranks(context):
    """TP 2 and 4 as processes on one GPU, stages, and all in one process: the same bits."""
    return same_bits(context, [], (["--tp", "1"], ["--tp", "2"], ["--tp", "4"], ["--tp", "2", "--pp", "2"]))


FP8 = ["--weights", "fp8", "--kv_dtype", "fp8"]


def fp8(context):
    """The same of weights, keys and values in FP8."""
    return same_bits(context, FP8, (["--tp", "1"], ["--tp", "4"]))


def death(context):
    """kill -9 of each kind of process while a stream is open: the stream goes on with the same text."""
    figures = {}
    flags = ["--model", context.flags.model, "--tp", "2", "--kv_cache_mib", "64"]
    with context.up(*flags) as up:
        command = ["generate", "--endpoint", up.endpoint, PROMPT, "--max_tokens", "300", "--ignore_eos", "--seed", "5",
                   "--temperature", "1"]
        _, expected, _ = context.sluice(*command)
        for victim in ("shard-0-1", "shard-0-0", "sampler"):
            figures[victim] = kill_during(context, up, victim, command, expected)
    return figures


def kill_during(context, up, victim, command, expected):
    """Seconds for which the stream stood still."""
    stream = subprocess.Popen([context.program("sluice"), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    timer = threading.Timer(context.left(), stream.kill)
    timer.start()
    text, last, pause = b"", time.monotonic(), 0.0
    killed = False
    while piece := os.read(stream.stdout.fileno(), 65536):
        now = time.monotonic()
        pause, last = max(pause, now - last) if killed else 0.0, now
        text += piece
        if not killed and len(text) > 40:
            os.kill(up.pids(victim)[-1], signal.SIGKILL)
            killed = True
    timer.cancel()
    said = stream.stderr.read().decode(errors="replace")
    stream.stdout.close()
    stream.stderr.close()
    if stream.wait() != 0:
        raise Failed(f"the stream did not survive the death of {victim}: {last_words(said)}")
    if text.decode() != expected:
        raise Failed(f"the stream went on otherwise after the death of {victim}")
    return round(pause, 3)


# ---- Errors ----

def errors(context):
    """Each says what is wrong and what would help, at once, and harms nothing."""
    model = ["--model", context.flags.model]
    cases = {"no such GPU": (["run", "hello", *model, "--device", "cuda:97"],
                             ("no cuda:97", "no GPU", "needs a build with CUDA"))}
    if not context.on_cpu:
        cases["out of memory"] = (["run", "hello", *model, *context.device_flags(), "--kv_cache_mib", str(1 << 20)],
                                  ("blocks would fit",))
    figures = {}
    for name, (command, words) in cases.items():
        begin = time.monotonic()
        code, _, said = context.sluice(*command, accept=tuple(range(1, 128)))
        if not any(word in said for word in words):
            raise Failed(f"{name}: says \"{last_words(said)}\"")
        figures[name] = {"says": last_words(said, 1), "code": code, "seconds": round(time.monotonic() - begin, 2)}
    return figures


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


def speed(context):
    """Through the whole pipeline, a process for each service."""
    model = context.large_model()
    figures = {"weight_bytes": os.path.getsize(os.path.join(model, "model.safetensors"))}
    prompt = scaled(context, 1000, 64)
    begin = time.monotonic()
    with context.up(*serving_flags(context, model)) as up:
        figures["ready_seconds"] = up.ready_seconds
        load(context, up.endpoint, 16, 2, 1)
        figures["first_token_seconds"] = time.monotonic() - begin
        status = json_lines(context.sluice("status", "--endpoint", up.endpoint, "--json")[1])[0]
        figures["arithmetic"] = sorted({one.get("arithmetic", "") for one in status["processes"]} - {""})
        load(context, up.endpoint, prompt, 16, 8)  # kernels are loaded, steps recorded
        figures["decode 1"] = load(context, up.endpoint, prompt, scaled(context, 256, 16), 1, 3)
        figures["prefill"] = load(context, up.endpoint, scaled(context, 2048, 256), 2, 1, scaled(context, 8, 2))
        figures["decode 64"] = load(context, up.endpoint, prompt, scaled(context, 256, 16), scaled(context, 64, 4))
        figures["256 streams"] = load(context, up.endpoint, prompt, scaled(context, 1000, 16), scaled(context, 256, 8))
    return figures


def fp8_speed(context):
    """What weights, keys and values in FP8 save: a token alone, and many streams."""
    model, prompt = context.large_model(), scaled(context, 1000, 64)
    with context.up(*serving_flags(context, model, FP8)) as up:
        load(context, up.endpoint, prompt, 16, 8)  # kernels are loaded, steps recorded
        return {"decode 1": load(context, up.endpoint, prompt, scaled(context, 256, 16), 1, 3),
                "256 streams": load(context, up.endpoint, prompt, scaled(context, 1000, 16), scaled(context, 256, 8))}


def in_one_process(context):
    """The same decode with all services in one process, to hold separate processes against."""
    model = context.large_model()
    flags = ["--model", model, "--weights", "bf16", "--kv_dtype", "bf16", *context.device_flags(), "--hang_timeout", "20"]
    flags += ["--kv_cache_mib", "64"] if context.on_cpu else []
    phases = ["--phases", "decode:1", "--rounds", "3", "--max_tokens", str(scaled(context, 256, 32)), "--json"]
    _, alone, _ = context.sluice("bench", *flags, *phases)
    with context.up(*serving_flags(context, model)) as up:
        _, apart, _ = context.sluice("bench", "--endpoint", up.endpoint, *phases)
    rates = [json_lines(out)[0]["phases"][0]["tokens_per_second"] for out in (alone, apart)]
    return {"one_process": rates[0], "processes": rates[1], "ratio": rates[1] / rates[0]}


def kernel_speed(context):
    scale = scaled(context, "full", "small")
    _, out, _ = run([context.program("sluice-gpu-bench"), context.flags.device, scale], context.left(),
                    env=context.device_environment())
    return {"kernels": json_lines(out)}


# ---- compute-sanitizer ----

def sanitizer(context):
    if context.on_cpu:
        raise Skipped("it looks at GPUs")
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        raise Skipped("compute-sanitizer is not installed")
    figures = {}
    for kind in ("memcheck", "racecheck"):
        for name in ("kernels_backend_norm_test", "kernels_backend_sum_to_residual_test", "kernels_backend_gemm_test",
                     "kernels_backend_attention_test", "kernels_backend_turn_and_store_test",
                     "kernels_backend_sample_test", "kernels_backend_softmax_test"):
            path = os.path.join(context.flags.tests, name)
            if not os.path.exists(path):
                continue
            code, out, err = run([tool, "--tool", kind, "--error-exitcode", "86", path, "--gtest_brief=1"],
                                 context.left(), env=context.device_environment(),
                                 accept=tuple(range(-64, 256)))
            if code != 0:
                said = [line for line in (out + err).splitlines() if line.startswith("=========")]
                raise Failed(f"{kind} of {name}: {' '.join(said[:6]) or last_words(err or out)}"[:1000])
            figures[f"{kind} {name}"] = "clean"
    return figures


PARTS = [
    Part("machine", 60, "what it is, and what it can do at best", machine),
    Part("kernels", 150, "every operation against plain loops, and the promises about bits", kernels),
    Part("models", 90, "whole small models against their goldens", models),
    Part("ranks", 90, "TP 2 and 4 as processes on one device have the bits of TP 1", ranks),
    Part("fp8", 60, "the same of weights, keys and values in FP8", fp8),
    Part("death", 60, "a stream survives kill -9 of a rank and of the sampler", death),
    Part("errors", 20, "what can't be had is said", errors),
    Part("speed", 180, "8B through the whole pipeline", speed, 60, True),
    Part("fp8-speed", 120, "8B in FP8 through the whole pipeline", fp8_speed, 60, True),
    Part("kernel-speed", 90, "kernels on shapes of 8B", kernel_speed, 30),
    Part("one-process", 90, "8B in separate processes against one", in_one_process, 60, True),
    Part("sanitizer", 120, "compute-sanitizer on kernels", sanitizer, 20),
]
