"""What goes wrong in clusters, done on purpose."""

import base64
import json
import os
import shutil
import subprocess
import sys

from cluster import HOME, ROOT, get, inside, kubectl, run, until

PROGRAMS = ("sluice-tokenizer", "sluice-embedding", "sluice-shard", "sluice-sampler", "sluice-orchestrator")


def process_ids(pod, program):
    """Host ids of a program's processes in a pod."""
    uid = pod["metadata"]["uid"]
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cgroup") as file:
                mine = uid in file.read()
            if mine and os.path.basename(os.readlink(f"/proc/{entry}/exe")) == program:
                found.append(int(entry))
        except OSError:
            continue
    return found


def strike(pod, program, number):
    for victim in process_ids(pod, program)[:1]:
        os.kill(victim, number)


# --- daemons of the node

def command_of(name):
    """How a daemon of the cluster was started, to start it again."""
    with open(os.path.join(HOME, "state/run", f"{name}.pid")) as file:
        pid = int(file.read())
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return [word.decode() for word in file.read().split(b"\0")[:-1]]


def restart_daemon(folder, name):
    """Ends and starts it, and waits until it works: a node counts as ready for a while without either."""
    run("bash", os.path.join(folder, "rs.sh"), name, *command_of(name))
    works = {"kubelet": lambda: kubectl("get", "--raw", "/api/v1/nodes/node1/proxy/healthz", check=False).stdout == "ok",
             "containerd": lambda: inside(os.path.join(HOME, "dist/usr/bin/ctr"), "version", check=False).returncode == 0}
    return until(works[name], 120)


# --- memory

# Takes more and more memory within the group whose folder it is given, until the kernel ends somebody there.
BALLAST = """
import os, sys
group = sys.argv[1]
def kills():
    with open(group + "/memory.oom_control") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
before = kills()
with open(group + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
held = []
while kills() == before and len(held) < 1000:
    held.append(bytearray(8 << 20))
    memory = held[-1]
    memory[::4096] = b"x" * len(memory[::4096])
"""


def fill_memory(pod):
    """Brings the pod over its limit. Says whom the kernel has ended for that; False where nobody of the pod."""
    for victim in process_ids(pod, "sluice-shard"):
        # As kubelets do for pods that may take more than they ask for, where they are let: this cluster's is not.
        with open(f"/proc/{victim}/oom_score_adj", "w") as file:
            file.write("1000")
    before = {program: set(process_ids(pod, program)) for program in PROGRAMS}
    with open(f"/proc/{next(iter(before['sluice-shard']))}/cgroup") as file:
        group = next(line.split(":", 2)[2].strip() for line in file if line.split(":")[1] == "memory")
    subprocess.run([sys.executable, "-c", BALLAST, "/sys/fs/cgroup/memory" + group], check=False, timeout=60)
    ended = [program for program in PROGRAMS if not all(os.path.exists(f"/proc/{pid}") for pid in before[program])]
    return f"the kernel ended {' and '.join(ended)}" if ended else False


# --- what pods are given

def strange_authority():
    """The certificate of an authority that nobody here knows, as a Secret has it."""
    with open(make_authority()[0], "rb") as file:
        return base64.b64encode(file.read()).decode()


def make_authority():
    """Files of a certificate and its key."""
    files = [os.path.join(HOME, "state", f"strange.{kind}") for kind in ("crt", "key")]
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
        "/CN=strange", "-keyout", files[1], "-out", files[0])
    return files


def secret_of_others(name):
    """A Secret with a certificate and the key of another."""
    certificate, _ = make_authority()
    key = os.path.join(HOME, "state", "other.key")
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    kubectl("delete", "secret", name, "--ignore-not-found")
    kubectl("create", "secret", "generic", name, f"--from-file=tls.crt={certificate}", f"--from-file=tls.key={key}",
            f"--from-file=ca.crt={certificate}")


def other_model(**changes):
    """A folder of the node like the embedded model's, but for these fields of its configuration."""
    folder = os.path.join(HOME, "state", "other-model")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "models", "storyteller"), folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = {**json.load(file), **changes}
    with open(path, "w") as file:
        json.dump(config, file)
    run("chmod", "-R", "a+rX", folder)
    return folder


class FullDisk:
    """A folder of the node on which nothing can be made any more."""

    def __init__(self):
        self.folder = os.path.join(HOME, "state", "full")

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        inside("mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1,mode=1777", "tmpfs", self.folder)
        return self.folder

    def __exit__(self, *_):
        inside("umount", "-l", self.folder, check=False)


def change(deployment, edit):
    """Has `edit` change the pod that a Deployment is about."""
    found = get("deployment", deployment)
    edit(found["spec"]["template"]["spec"])
    kubectl("replace", "-f", "-", stdin=json.dumps(found))


def with_flag(flag):
    """An edit: this flag instead of the one of its name."""
    name = flag.split("=")[0] + "="

    def edit(pod):
        container = pod["containers"][0]
        container["args"] = [flag if argument.startswith(name) else argument for argument in container["args"]]
    return edit


def with_folder(path, folder):
    """An edit: at `path`, a folder of the node."""
    def edit(pod):
        container = pod["containers"][0]
        pod["volumes"].append({"name": "other", "hostPath": {"path": folder, "type": "Directory"}})
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["mountPath"] != path]
        container["volumeMounts"].append({"name": "other", "mountPath": path})
    return edit


def messages(selector):
    """What ended containers said why."""
    for pod in get("pods", "-l", selector)["items"]:
        for status in pod["status"].get("containerStatuses", []):
            for state in (status.get("state", {}), status.get("lastState", {})):
                yield state.get("terminated", {}).get("message", "")
