"""What the machine is, and what it can do at best."""

import glob
import os
import sys

from run import CutShort, Failed, Limit, json_lines, run


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
