#!/usr/bin/env python3
"""The image as it is meant to run: unpacked by umoci, its processes in runc containers with a network namespace each, as user
65532, root read-only, without capabilities, under a seccomp filter; mutual TLS by role between them and a token from the
client. Needs root. Prints what was seen; exit status 0 where all was.

Usage: containers.py IMAGES_FOLDER
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

IMAGES = os.path.abspath(sys.argv[1])
NET = "10.97.0"
HOSTS = ["orchestrator", "tokenizer", "embedding", "stage0", "stage1", "sampler", "client"]
PROMPT = "Once upon a time there was a king who"


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


def address(host):
    return f"{NET}.{HOSTS.index(host) + 2}"


def system_calls():
    """What a process of Sluice has any business with is on; all of administration is not."""
    denied = ["acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "delete_module", "finit_module", "init_module",
              "kexec_file_load", "kexec_load", "keyctl", "mount", "move_mount", "open_by_handle_at", "perf_event_open",
              "pivot_root", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "reboot", "request_key", "setns",
              "settimeofday", "swapoff", "swapon", "syslog", "umount2", "unshare", "userfaultfd"]
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [{"names": denied, "action": "SCMP_ACT_ERRNO"}]}


class Authority:
    def __init__(self, folder):
        self.folder = folder
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
            "-subj", "/CN=test", "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.crt")

    def issue(self, name, *names):
        base = f"{self.folder}/{name}"
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{base}.key", "-out", f"{base}.csr")
        with open(f"{base}.ext", "w") as file:
            file.write("subjectAltName=" + ",".join(names))
        run("openssl", "x509", "-req", "-in", f"{base}.csr", "-CA", f"{self.folder}/ca.crt", "-CAkey", f"{self.folder}/ca.key",
            "-CAcreateserial", "-days", "1", "-extfile", f"{base}.ext", "-out", f"{base}.crt")
        os.chmod(f"{base}.key", 0o644)


class Network:
    """A bridge, and a namespace for each container."""

    def __enter__(self):
        self.remove()  # what an earlier run may have left
        run("ip", "link", "add", "sluicebr", "type", "bridge")
        run("ip", "link", "set", "sluicebr", "up")
        for number, host in enumerate(HOSTS):
            run("ip", "netns", "add", f"sluice-{host}")
            run("ip", "link", "add", f"sl{number}", "type", "veth", "peer", "name", "eth0", "netns", f"sluice-{host}")
            run("ip", "link", "set", f"sl{number}", "master", "sluicebr", "up")
            inside = ["ip", "netns", "exec", f"sluice-{host}", "ip"]
            run(*inside, "addr", "add", f"{address(host)}/24", "dev", "eth0")
            run(*inside, "link", "set", "eth0", "up")
            run(*inside, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for number, host in enumerate(HOSTS):
            subprocess.run(["ip", "link", "del", f"sl{number}"], capture_output=True)
            subprocess.run(["ip", "netns", "del", f"sluice-{host}"], capture_output=True)
        subprocess.run(["ip", "link", "del", "sluicebr"], capture_output=True)


class Containers:
    def __init__(self, folder, secrets):
        self.folder, self.secrets, self.running = folder, secrets, []
        run("umoci", "unpack", "--image", f"{IMAGES}/oci:sluice:{tag()}", f"{folder}/bundle")
        with open(f"{folder}/bundle/config.json") as file:
            self.config = json.load(file)

    def spec(self, host, arguments):
        config = json.loads(json.dumps(self.config))
        process = config["process"]
        process.update(terminal=False, args=arguments, noNewPrivileges=True)
        process["capabilities"] = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")}
        process["rlimits"] = []
        config["root"] = {"path": f"{self.folder}/bundle/rootfs", "readonly": True}
        config["mounts"] = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=64m"]},
            {"destination": "/secrets", "type": "bind", "source": self.secrets, "options": ["bind", "ro"]}]
        linux = config["linux"]
        linux["namespaces"] = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        linux["namespaces"].append({"type": "network", "path": f"/run/netns/sluice-{host}"})
        linux["seccomp"] = system_calls()
        linux.pop("resources", None)
        return config

    def start(self, host, *arguments):
        bundle = f"{self.folder}/{host}"
        os.makedirs(bundle, exist_ok=True)
        with open(f"{bundle}/config.json", "w") as file:
            json.dump(self.spec(host, list(arguments)), file)
        log = open(f"{bundle}/log", "w")
        process = subprocess.Popen(["runc", "run", "--bundle", bundle, f"sluice-{host}"], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log)
        self.running.append((host, process))
        return process

    def once(self, *arguments):
        """A command in the client's container, as (exit status, stdout and stderr)."""
        process = self.start("client", *arguments)
        status = process.wait(120)
        self.running.pop()
        with open(f"{self.folder}/client/log") as file:
            return status, file.read()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Before their network goes, which lives as long as they do."""
        for host, _ in self.running if kind else []:
            print(f"--- {host}\n" + open(f"{self.folder}/{host}/log").read()[-1500:], file=sys.stderr)
        for host, process in self.running:
            subprocess.run(["runc", "kill", f"sluice-{host}", "TERM"], capture_output=True)
        for host, process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                subprocess.run(["runc", "delete", "--force", f"sluice-{host}"], capture_output=True)
                process.wait(20)


def tag():
    index = json.load(open(f"{IMAGES}/oci/index.json"))
    return index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"].rpartition(":")[2]


def start_pipeline(containers):
    model = "/usr/share/sluice/models/storyteller"

    def part(host, program, role, *flags):
        containers.start(host, f"/usr/bin/sluice-{program}", "--model", model, "--listen", f"{address(host)}:8710",
                         "--health_listen", f"{address(host)}:8701", "--tls_cert", f"/secrets/{role}.crt", "--tls_key",
                         f"/secrets/{role}.key", "--tls_ca", "/secrets/ca.crt", *flags)
    part("tokenizer", "tokenizer", "tokenizer")
    part("embedding", "embedding", "embedding", "--threads", "1")
    for stage in (0, 1):
        part(f"stage{stage}", "shard", "shard", "--num_stages", "2", "--stage", str(stage), "--threads", "1", "--kv_cache_mib", "64")
    part("sampler", "sampler", "sampler", "--threads", "1")
    part("orchestrator", "orchestrator", "orchestrator", "--tokenizer", f"{address('tokenizer')}:8710", "--embedding",
         f"{address('embedding')}:8710", "--shards", f"{address('stage0')}:8710;{address('stage1')}:8710", "--sampler",
         f"{address('sampler')}:8710", "--public_tls_cert", "/secrets/public.crt", "--public_tls_key", "/secrets/public.key",
         "--tokens", "/secrets/tokens")


def what_the_kernel_says(host):
    """User, capabilities, seccomp and network of a container's process, from /proc."""
    pid = json.loads(run("runc", "state", f"sluice-{host}").stdout)["pid"]
    with open(f"/proc/{pid}/status") as file:
        fields = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    options = next(line.split()[3] for line in open(f"/proc/{pid}/mounts") if line.split()[1] == "/")
    return {"uid": fields["Uid"].split()[0], "capabilities": int(fields["CapBnd"], 16) | int(fields["CapEff"], 16),
            "seccomp": fields["Seccomp"], "no_new_privileges": fields["NoNewPrivs"], "root": options.split(",")[0],
            "network": os.readlink(f"/proc/{pid}/ns/net")}


def main():
    folder = tempfile.mkdtemp(prefix="sluice-containers-")
    os.chmod(folder, 0o755)
    secrets = f"{folder}/secrets"
    os.mkdir(secrets)
    authority = Authority(secrets)
    for role in ("orchestrator", "tokenizer", "embedding", "shard", "sampler"):
        authority.issue(role, f"DNS:{role}.sluice.internal")
    authority.issue("public", f"IP:{address('orchestrator')}")
    for name, token in (("token", "correct horse"), ("wrong", "battery staple")):
        with open(f"{secrets}/{name}", "w") as file:
            file.write(token)
    with open(f"{secrets}/tokens", "w") as file:
        file.write(hashlib.sha256(b"correct horse").hexdigest() + " test\n")

    failed = []

    def told(ok, what):
        print("ok  " if ok else "FAIL", what, flush=True)
        if not ok:
            failed.append(what)

    endpoint = f"{address('orchestrator')}:8710"
    client = ["/usr/bin/sluice", "generate", "--endpoint", endpoint, "--prompt", PROMPT, "--max_tokens", "30", "--seed", "3",
              "--connect_timeout", "30"]
    containers = Containers(folder, secrets)
    try:
        with Network(), containers:
            start_pipeline(containers)
            began = time.monotonic()
            while containers.once("/usr/bin/sluice", "health", "--endpoint", f"{address('orchestrator')}:8701", "--insecure", "--timeout",
                                  "5")[0]:
                if time.monotonic() - began > 90:
                    raise RuntimeError("the pipeline does not serve")
            seen = [what_the_kernel_says(host) for host in HOSTS[:-1]]
            told(all(s["uid"] == "65532" for s in seen), "every process runs as user 65532")
            told(all(s["capabilities"] == 0 for s in seen), "none has a capability, or could get one")
            told(all(s["seccomp"] == "2" and s["no_new_privileges"] == "1" for s in seen), "each is under a seccomp filter")
            told(all(s["root"] == "ro" for s in seen), "each has a read-only root")
            told(len({s["network"] for s in seen}) == len(seen), "each has a network namespace of its own")
            status, text = containers.once(*client, "--tls_ca", "/secrets/ca.crt", "--token_file", "/secrets/token")
            told(status == 0, f"text over TLS with a token: {text.strip()[:60]!r}")
            status, text = containers.once(*client, "--tls_ca", "/secrets/ca.crt", "--token_file", "/secrets/wrong")
            told(status == 1 and "UNAUTHENTICATED" in text, f"a wrong token is refused: {text.strip()[-90:]}")
            status, text = containers.once(*client, "--insecure")
            told(status == 1, f"plaintext is refused: {text.strip()[-90:]}")
            status, text = containers.once("/bin/sh", "-c", "true")
            told(status != 0, "there is no shell in the image")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
