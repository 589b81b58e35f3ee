"""The cluster that scenarios speak to: its commands, its pods, and the report of what was seen."""

import base64
import json
import os
import re
import subprocess
import time

HOME = os.environ.get("CLUSTER_HOME", os.path.join(os.environ.get("TMPDIR", "/tmp"), "k8s"))
# What the API server says it is. It has later forms than 1.20.2 has (policy/v1, autoscaling/v2, gRPC probes, sidecars), and charts
# render them where the version is theirs.
REPORT_VERSION = os.environ.get("REPORT_VERSION", "v1.24.0-forms-on-1.20.2")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
CHART = os.path.join(ROOT, "deploy", "helm", "sluice")


def run(*command, check=True, stdin=None, timeout=300, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=timeout,
                          env={**os.environ, **(environment or {})})
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:6])}...: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.3)
    return False


def inside(*command, **options):
    """A command in the cluster's namespaces."""
    with open(os.path.join(HOME, "state/run/ns.pid")) as file:
        holder = file.read().strip()
    return run("nsenter", "-t", holder, "-m", "-n", "--", *command, **options)


def kubectl(*arguments, **options):
    return run(os.path.join(HOME, "kc"), *arguments, **options)


def get(*arguments):
    return json.loads(kubectl("get", *arguments, "-o", "json").stdout)


def pods(selector):
    return get("pods", "-l", selector)["items"]


def staying(selector):
    """Pods that nobody has told to end."""
    return [pod for pod in pods(selector) if "deletionTimestamp" not in pod["metadata"]]


def restarts_of(pod):
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", []))


def ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def all_ready(release, count):
    found = staying(f"app.kubernetes.io/instance={release}")
    return len(found) == count and all(ready(pod) for pod in found)


def secret(name, key):
    return base64.b64decode(get("secret", name)["data"][key]).decode()


class Helm:
    """Releases of the chart, from an image that is on the node."""

    def __init__(self, program, image):
        self.program = os.path.abspath(program)
        repository, tag = image.rsplit(":", 1)
        # Of a node that everything shares.
        self.values = ["image.pullPolicy=Never", f"image.repository={repository}", f"image.tag={tag}",
                       "resources.all.requests.cpu=100m", "resources.orchestrator.requests.cpu=20m",
                       "resources.shard.requests.cpu=50m", "resources.sampler.requests.cpu=20m"]

    def __call__(self, verb, release, *arguments, values=None, check=True):
        settings = [] if values is None else [CHART, *self._set(self.values), *self._set(values)]
        return run(os.path.join(HOME, "kc"), verb, release, *settings, *arguments, check=check, environment={"CMD": self.program})

    @staticmethod
    def _set(values):
        return [part for value in values for part in ("--set", value)]


class Report:
    """Lines about what was seen, as they are printed and put into a document."""

    def __init__(self, heading):
        self.lines = [heading]
        self.failures = 0
        print(heading, flush=True)

    def told(self, ok, what, detail=""):
        line = f"{'ok  ' if ok else 'FAIL'} {what}{': ' + detail if detail else ''}"
        print(line, flush=True)
        self.lines.append(line)
        self.failures += not ok
        return ok

    def put_into(self, path, name):
        """In place of the block that follows the line <!-- report NAME -->."""
        with open(path) as file:
            text = file.read()
        block = re.compile(rf"(<!-- report {name} -->\n```\n).*?(?=```\n)", re.DOTALL)
        if not block.search(text):
            raise RuntimeError(f"{path} has no block after <!-- report {name} -->")
        with open(path, "w") as file:
            file.write(block.sub(lambda found: found.group(1) + "\n".join(self.lines) + "\n", text))


def start(folder):
    """Builds the cluster of `folder` (../shared/cluster) and starts it, each where that was not done yet."""
    kc = os.path.join(HOME, "kc")
    if not os.path.exists(os.path.join(HOME, "bin", "kubelet")):
        print("building Kubernetes, which takes some minutes", flush=True)
        run("bash", os.path.join(folder, "build.sh"), timeout=3600)
    if not os.path.exists(kc) or kubectl("get", "--raw", "/readyz", check=False).stdout != "ok":
        run("bash", os.path.join(folder, "up.sh"), timeout=600, environment={"REPORT_VERSION": REPORT_VERSION})
    return get_version()


def get_version():
    return json.loads(kubectl("version", "-o", "json").stdout)["serverVersion"]["gitVersion"]


def load_image(archive):
    """Its name on the node, and the digest that it has there."""
    def images(*command):
        return inside(os.path.join(HOME, "dist/usr/bin/ctr"), "-n", "k8s.io", "images", *command).stdout
    listed = images("import", os.path.abspath(archive))
    name = re.search(r"(\S+:\S+) *\(", listed).group(1) if "(" in listed else listed.split()[1]
    return name, re.search(r"sha256:[0-9a-f]{64}", images("ls", f"name=={name}")).group(0)
