"""Test programs on the device: what they say case by case, and what compute-sanitizer says of them."""

import concurrent.futures
import glob
import os
import re
import shutil
from dataclasses import dataclass, field

from run import CutShort, Failed, Limit, Skipped, conclude, last_words, run


SKIPPED = 77  # of tests/testing/test_main.cc: every case was skipped


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


def run_test(context, path):
    """(its cases, why it was cut short or None) of one test program on the device."""
    log = []
    cut = None
    try:
        code, out, err = run([path], context.limit, env=context.device_environment(), accept=tuple(range(-64, 256)),
                             seen=log.append)
    except CutShort as why:
        code, cut = 0, str(why)
    cases = read_cases("".join(log))
    if code not in (0, SKIPPED) and (cases.running or not cases.failed):
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


# ---- compute-sanitizer ----

SANITIZED = ["kernels_backend_norm_test", "kernels_backend_sum_to_residual_test", "kernels_backend_gemm_test",
             "kernels_backend_attention_test", "kernels_backend_qk_norm_rope_store_kv_test", "kernels_backend_sample_test",
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
    # Calls that fail and are told are no finding: tests ask for more memory than there is.
    command = [tool, "--tool", kind, "--error-exitcode", "86", "--report-api-errors", "no",
               os.path.join(context.flags.tests, name)]
    try:
        code, out, err = run(command, limit, env=environment, accept=tuple(range(-64, 256)), seen=log.append)
    except CutShort:
        cut_sanitizer(context, f"{kind} {name}", "".join(log))
    if code not in (0, SKIPPED):
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
