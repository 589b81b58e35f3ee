"""Who asks for text while things happen, and whether it is the text that it must be."""

import copy
import json
import os
import subprocess
import threading
import time

from cluster import HOME, get, inside, kubectl, pods, ready, secret, until

PROMPT = "Once upon a time there was a king who"
TOKENS = 60

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


class PodClient:
    """`sluice generate` in a pod of its own, which any image of Sluice can be: its `sluice up` is what keeps it running."""

    def __init__(self, name, image):
        self.connect_timeout = 60
        self.pod = f"client-{name}"
        self.endpoint = f"{name}.default.svc:8700"
        kubectl("delete", "pod", self.pod, "--ignore-not-found", "--now")
        kubectl("apply", "-f", "-", stdin=CLIENT.replace("RELEASE", name).replace("IMAGE", image))
        if not until(lambda: any(ready(pod) for pod in pods(f"app={self.pod}"))):
            raise RuntimeError("the client's pod does not start")

    def sluice(self, command, *arguments, token=True):
        shown = ["--token_file", "/token/token"] if token else []
        return kubectl("exec", self.pod, "--", "/usr/bin/sluice", command, "--endpoint", self.endpoint, "--tls_ca", "/ca/ca.crt",
                       *shown, *arguments, check=False, timeout=200)

    def text(self, seed=3):
        return self.sluice("generate", "--prompt", PROMPT, "--seed", str(seed), "--max_tokens", str(TOKENS), "--ignore_eos",
                           "--connect_timeout", str(self.connect_timeout))

    def impatient(self):
        """The same pod's, with the patience that clients have by default."""
        other = copy.copy(self)
        other.connect_timeout = 5
        return other

    def delete(self):
        kubectl("delete", "pod", self.pod, "--ignore-not-found", "--now", check=False)


class HttpClient:
    """The same text through the gateway, as clients of OpenAI's API ask for it. It needs neither kubelet nor API server, as a
    command in a pod does."""

    def __init__(self, name, address=None):
        """By the Service's address, or a pod's."""
        service = get("service", f"{name}-gateway")["spec"]
        port = 8080 if address else service["ports"][0]["port"]
        host = f"{name}-gateway.default.svc"
        self.url = f"https://{host}:{port}/v1/completions"
        self.resolve = f"{host}:{port}:{address or service['clusterIP']}"
        self.token = secret(f"{name}-tokens", "token")
        # curl runs in the cluster's namespaces, which see this folder.
        self.authority = os.path.join(HOME, "state", "ca.crt")
        with open(self.authority, "w") as file:
            file.write(secret(f"{name}-tls-public", "ca.crt"))

    def text(self, seed=3, patience=120):
        body = {"prompt": PROMPT, "seed": seed, "max_tokens": TOKENS, "ignore_eos": True}
        done = inside("curl", "--silent", "--show-error", "--fail-with-body", "--max-time", str(patience), "--cacert", self.authority,
                      "--resolve", self.resolve, "-H", f"Authorization: Bearer {self.token}",
                      "-H", "Content-Type: application/json", "-d", json.dumps(body), self.url, check=False)
        if done.returncode == 0:
            done.stdout = json.loads(done.stdout)["choices"][0]["text"]
        return done


class Load:
    """Streams one after the other from a few threads, each compared with what it must be."""

    def __init__(self, client, expected, threads=2):
        self.client, self.expected = client, expected
        self.done, self.wrong, self.ended, self.longest = 0, [], threading.Event(), 0.0
        self.threads = [threading.Thread(target=self.stream) for _ in range(threads)]

    def stream(self):
        while not self.ended.is_set():
            began = time.monotonic()
            try:
                result = self.client.text()
            except subprocess.TimeoutExpired as error:
                self.wrong.append(f"no end within {error.timeout:.0f} s")
                continue
            self.longest = max(self.longest, time.monotonic() - began)
            if result.returncode == 0 and result.stdout == self.expected:
                self.done += 1
            else:
                self.wrong.append((result.stderr or result.stdout).strip()[-300:] or "no text")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def under_load(report, client, expected, what, act):
    """Streams before, during and after `act`, none of which may fail. What `act` returns is told with them."""
    began = time.monotonic()
    with Load(client, expected) as load:
        until(lambda: load.done >= 2, 60)
        seen = act()
        target = load.done + 2
        until(lambda: load.done >= target or load.wrong, 120)
    detail = f"{load.done} streams, {len(load.wrong)} failed, {time.monotonic() - began:.0f} s, the longest stream {load.longest:.0f} s"
    report.told(not load.wrong and seen is not False, what, "; ".join([detail, *load.wrong[:1], *([seen] if isinstance(seen, str) else [])]))
