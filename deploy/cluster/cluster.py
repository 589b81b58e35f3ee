"""What the scenarios of run.py are told with: commands in the cluster, its clients, load, and lines about what was seen."""

import base64
import json
import os
import subprocess
import sys
import threading
import time

CLUSTER, IMAGE, HELM = (os.path.abspath(path) for path in sys.argv[1:4])
HOME = os.environ.get("CLUSTER_HOME", os.path.join(os.environ.get("TMPDIR", "/tmp"), "k8s"))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
CHART = os.path.join(ROOT, "deploy", "helm", "sluice")
PROMPT = "Once upon a time there was a king who"
failures = []


def run(*command, check=True, stdin=None, timeout=300, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=timeout,
                          env={**os.environ, **(environment or {})})
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:6])}...: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def kubectl(*arguments, **options):
    return run(os.path.join(HOME, "kc"), *arguments, **options)


def helm(*arguments, **options):
    return run(os.path.join(HOME, "kc"), *arguments, environment={"CMD": HELM}, **options)


def inside(*command, **options):
    """A command in the cluster's namespaces."""
    with open(os.path.join(HOME, "state/run/ns.pid")) as file:
        namespace = file.read().strip()
    return run("nsenter", "-t", namespace, "-m", "-n", "--", *command, **options)


def told(ok, what, detail=""):
    print(f"{'ok  ' if ok else 'FAIL'} {what}{': ' + detail if detail else ''}", flush=True)
    if not ok:
        failures.append(what)
    return ok


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.5)
    return False


def pods(selector):
    return json.loads(kubectl("get", "pods", "-l", selector, "-o", "json").stdout)["items"]


def restarts_of(pod):
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", []))


def ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def all_ready(release, count):
    found = [p for p in pods(f"app.kubernetes.io/instance={release}") if "deletionTimestamp" not in p["metadata"]]
    return len(found) == count and all(ready(p) for p in found)


def secret(name, key):
    data = json.loads(kubectl("get", "secret", name, "-o", "json").stdout)["data"]
    return base64.b64decode(data[key]).decode()


CLIENT = """
apiVersion: v1
kind: Pod
metadata: {name: client-RELEASE, labels: {app: client-RELEASE}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: client
    image: IMAGE
    imagePullPolicy: Never
    args: [up, --port, "8900"]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 1Gi}}
    volumeMounts: [{name: tmp, mountPath: /tmp}, {name: ca, mountPath: /ca}, {name: token, mountPath: /token}]
  volumes:
  - {name: tmp, emptyDir: {}}
  - {name: ca, secret: {secretName: RELEASE-tls-public, items: [{key: ca.crt, path: ca.crt}]}}
  - {name: token, secret: {secretName: RELEASE-tokens, items: [{key: token, path: token}]}}
"""


class Client:
    """A pod of its own, which any image of Sluice can be: its `sluice up` is what keeps it running."""

    def __init__(self, release, image):
        self.pod = f"client-{release}"
        kubectl("delete", "pod", self.pod, "--ignore-not-found", "--now")
        kubectl("apply", "-f", "-", stdin=CLIENT.replace("RELEASE", release).replace("IMAGE", image))
        self.endpoint = f"{release}.default.svc:8700"
        if not until(lambda: any(ready(p) for p in pods(f"app={self.pod}"))):
            raise RuntimeError("the client's pod does not start")

    def sluice(self, *arguments, check=False, timeout=200):
        return kubectl("exec", self.pod, "--", "/usr/bin/sluice", arguments[0], "--endpoint", self.endpoint,
                       "--tls_ca", "/ca/ca.crt", "--token_file", "/token/token", *arguments[1:], check=check, timeout=timeout)

    def text(self, seed=3, tokens=60):
        return self.sluice("generate", "--prompt", PROMPT, "--seed", str(seed), "--max_tokens", str(tokens), "--ignore_eos",
                           "--connect_timeout", "60")


class HttpClient:
    """The same text through the gateway, as clients of OpenAI's API ask for it."""

    def __init__(self, release):
        service = json.loads(kubectl("get", "service", f"{release}-gateway", "-o", "json").stdout)
        port = service["spec"]["ports"][0]["port"]
        name = f"{release}-gateway.default.svc"
        self.url = f"https://{name}:{port}/v1/completions"
        self.resolve = f"{name}:{port}:{service['spec']['clusterIP']}"
        self.token = secret(f"{release}-tokens", "token")
        # curl runs in the cluster's namespaces, which see this folder.
        self.authority = os.path.join(HOME, "state", "ca.crt")
        with open(self.authority, "w") as file:
            file.write(secret(f"{release}-tls-public", "ca.crt"))

    def text(self, seed=3, tokens=60):
        body = {"prompt": PROMPT, "seed": seed, "max_tokens": tokens, "ignore_eos": True}
        done = inside("curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "120", "--cacert", self.authority,
                      "--resolve", self.resolve, "-H", f"Authorization: Bearer {self.token}",
                      "-H", "Content-Type: application/json", "-d", json.dumps(body), self.url, check=False)
        if done.returncode == 0:
            done.stdout = json.loads(done.stdout)["choices"][0]["text"]
        return done


class Load:
    """Streams one after the other from a few threads, each compared with what it must be."""

    def __init__(self, client, expected, threads=2):
        self.client, self.expected = client, expected
        self.done, self.wrong, self.ended = 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.stream) for _ in range(threads)]

    def stream(self):
        while not self.ended.is_set():
            try:
                result = self.client.text()
            except subprocess.TimeoutExpired as error:
                self.wrong.append(f"no end within {error.timeout:.0f} s")
                continue
            if result.returncode == 0 and result.stdout == self.expected:
                self.done += 1
            else:
                self.wrong.append(result.stderr.strip()[-300:] or "other text")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def under_load(client, expected, what, act):
    began = time.monotonic()
    with Load(client, expected) as load:
        until(lambda: load.done >= 2, 60)
        act()
        target = load.done + 2
        until(lambda: load.done >= target or load.wrong, 120)
    told(not load.wrong, what, f"{load.done} streams, {len(load.wrong)} failed, {time.monotonic() - began:.0f} s"
         + (f"; {load.wrong[0]}" if load.wrong else ""))


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


def command_of(name):
    """How a daemon of the cluster was started, to start it again."""
    with open(os.path.join(HOME, "state/run", f"{name}.pid")) as file:
        pid = int(file.read())
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return [word.decode() for word in file.read().split(b"\0")[:-1]]


def restart_daemon(name):
    run("bash", os.path.join(CLUSTER, "rs.sh"), name, *command_of(name))
    until(lambda: kubectl("get", "nodes", check=False).stdout.count(" Ready ") == 1, 120)


def install(release, image, *values):
    repository, tag = image.rsplit(":", 1)
    settings = ["image.pullPolicy=Never", f"image.repository={repository}", f"image.tag={tag}", "resources.all.requests.cpu=100m",
                "resources.orchestrator.requests.cpu=20m", "resources.shard.requests.cpu=50m",
                "resources.sampler.requests.cpu=20m", *values]
    return [part for value in settings for part in ("--set", value)]
