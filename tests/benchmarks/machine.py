"""What the machine is called, and what else is going on on it."""

import os
import platform


def _cpuinfo(field):
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == field:
                    return value.strip()
    except OSError:
        pass
    return ""


def _flags():
    return set(_cpuinfo("flags").split())


_MAKERS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


class Kind:
    """Machines whose figures are no news of those of the others: each has a table of its own."""

    def __init__(self, vendor, flags):
        maker, tiles = _MAKERS.get(vendor), "amx_bf16" in flags
        self.heading = f"On {f'an {maker}' if maker else 'another'} processor{' with AMX' if tiles else ''}"
        self.picture = f"performance-{(maker or 'other').lower()}{'-amx' if tiles else ''}.svg"


def kind():
    return Kind(_cpuinfo("vendor_id"), _flags())


def name():
    """Such as "AMD EPYC (family 25, model 17; avx512_bf16, avx512_vnni), 2 cores, 24 GB, Linux 6.1"."""
    flags = _flags()
    known = ["amx_bf16", "amx_int8", "avx512_bf16", "avx512_vnni", "avx512f", "avx2", "asimd", "bf16"]
    fast = [flag for flag in known if flag in flags][:4]
    family = f"family {_cpuinfo('cpu family')}, model {_cpuinfo('model')}; " if _cpuinfo("cpu family") else ""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{_cpuinfo('model name') or platform.machine()} ({family}{', '.join(fast) or platform.machine()}), "
            f"{cores} cores, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}")


def load():
    """Programs that wanted to run during the last minute, on average."""
    return os.getloadavg()[0]
