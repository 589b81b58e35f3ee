"""The ways in which a GPU multiplies, each tried in a process and a time of its own: what one that hangs or faults would take
with it is tried without it."""

import time

from run import CutShort, Failed, Limit, Skipped, conclude, last_words, run

WAYS = ["mma", "wgmma", "wgmma_pipeline", "wgmma_fp8"]  # each faster than the one before
SECONDS = 25  # for one: services give theirs 20


def products(context):
    if context.on_cpu:
        raise Skipped("it is about GPUs")
    asked = context.flags.gpu_instructions
    ways = WAYS if asked == "auto" else WAYS[:WAYS.index(asked) + 1]
    context.plan(*ways)
    good, wrong = [], []
    for way in ways:
        context.limit.check(way)
        begin = time.monotonic()
        why = attempt(context, way)
        if why is None:
            good.append(way)
            context.done(way, f"good after {time.monotonic() - begin:.1f} s")
        elif f" has no {way};" in why:
            context.done(way, "not this GPU's")
        else:
            wrong.append(f"{way}: {why}")
            context.done(way, "left out of what follows")
    if wrong and good:
        context.instructions = context.figures["instructions"] = good[-1]
    conclude(wrong, "")


def attempt(context, way):
    """Why the way is not to be used, or None."""
    limit = Limit(SECONDS, context.limit)
    index = context.flags.device.partition(":")[2] or "0"
    try:
        run([context.program("sluice-sampler"), "check-gpu", index, way], limit)
    except CutShort as why:
        context.limit.check(way)  # whose time was it
        return str(why)
    except Failed as why:
        return last_words(str(why), 3)
    return None
