"""The layout `single`: a pod is a whole pipeline, a gateway is before it."""

import json
import signal
import threading
import time

from clients import HttpClient
from cluster import all_ready, get, inside, kubectl, pods, restarts_of, secret, staying, until
from faults import (
    FullDisk, change, fill_memory, messages, other_model, restart_daemon, secret_of_others, strike, with_flag, with_folder)
from scenario import Scenario


class Single(Scenario):
    release = "whole"
    what = "layout single"
    num_pods = 2
    steps = ["token", "rollout", "gateway", "replicas", "eviction", "kill", "hang", "daemons", "memory", "failing_upgrade", "rotation",
             "misfits"]

    def pod(self):
        """The one that serves."""
        return next(iter(staying(self.component("all"))))

    def token(self):
        refused = self.client.sluice("generate", "--prompt", "x", token=False)
        self.told("UNAUTHENTICATED" in refused.stderr, "a call without a token is refused", refused.stderr.strip()[-120:])

    def rollout(self):
        self.under_load("rolling update of the Deployment under load", lambda: self.roll_out(f"deployment/{self.name}"))

    def gateway(self):
        http = HttpClient(self.name)
        answer = http.text()
        self.told(answer.stdout == self.expected, "the same text through the gateway, over HTTPS", repr((answer.stdout or answer.stderr)[:50]))
        self.under_load("rolling update of the gateway under load", lambda: self.roll_out(f"deployment/{self.name}-gateway"), client=http)

    def replicas(self):
        def scale(count):
            self.helm("upgrade", self.release, values=[*self.values, f"replicas={count}"])
            until(lambda: all_ready(self.release, count + 1), 240)
        self.under_load("replicas from 1 to 2 and back", lambda: (scale(2), scale(1)))

    def eviction(self):
        name = self.pod()["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        answer = kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/eviction", "-f", "-", stdin=json.dumps(eviction),
                         check=False)
        self.told("disruption budget" in answer.stderr, "an eviction is refused by the budget", answer.stderr.strip()[-100:])

    def kill(self):
        self.strike_each(signal.SIGKILL, "kill -9 of")

    def hang(self):
        self.strike_each(signal.SIGSTOP, "SIGSTOP to")

    def strike_each(self, number, name):
        pod = self.pod()
        for program in ("sluice-tokenizer", "sluice-embedding", "sluice-shard", "sluice-sampler"):
            self.under_load(f"{name} {program} in the pod", lambda program=program: strike(pod, program, number))

    def daemons(self):
        """Clients speak HTTP with the gateway's pod: a command in a pod ends with its kubelet, and a kubelet that begins takes every
        pod for unready until it has asked again, so that Services have none meanwhile."""
        until(lambda: len(pods("app.kubernetes.io/instance=whole")) == self.num_pods)
        gateway = staying(self.component("gateway"))[0]["status"]["podIP"]
        http = HttpClient(self.name, address=gateway)
        restarts = {pod["metadata"]["uid"]: restarts_of(pod) for pod in pods("app.kubernetes.io/instance=whole")}
        for daemon in ("kubelet", "containerd"):
            self.under_load(f"{daemon} restarted", lambda daemon=daemon: self.restart(daemon), client=http)
        after = {pod["metadata"]["uid"]: restarts_of(pod) for pod in pods("app.kubernetes.io/instance=whole")}
        self.told(after == restarts, "no pod restarted with them")

    def restart(self, daemon):
        """Says how long the Service was without a pod."""
        if not restart_daemon(self.cluster_folder, daemon):
            return False
        without = 0
        for _ in range(12):
            without += not any(subset.get("addresses") for subset in get("endpoints", self.name).get("subsets", []))
            time.sleep(1)
        until(lambda: all_ready(self.release, self.num_pods))
        return f"its Service had no ready pod for {without} s"

    def memory(self):
        pod = self.pod()
        self.under_load("the pod over its memory limit", lambda: fill_memory(pod), client=HttpClient(self.name))
        self.told(restarts_of(self.pod()) == restarts_of(pod), "its processes came back within the pod")
        said = self.failed_upgrade(["resources.all.limits.memory=96Mi", "resources.all.requests.memory=64Mi"])
        self.told("does not fit" in said, "a model that the pod's memory limit can't hold is refused before it is loaded", said)
        self.same_text("such a pod does not replace one that serves")

    def failing_upgrade(self):
        self.failed_upgrade(["image.tag=missing"])
        self.same_text("an upgrade that fails rolls back, and clients notice nothing")

    def failed_upgrade(self, values):
        """Rolled back by helm. What the pods that did not become ready said at their ends."""
        failed = []
        upgrade = threading.Thread(target=lambda: failed.append(
            self.helm("upgrade", self.release, "--atomic", "--timeout", "25s", values=[*self.values, *values], check=False)))
        upgrade.start()
        said = set()
        while upgrade.is_alive():
            said.update(message.strip() for message in messages(self.component("all")))
            upgrade.join(0.5)
        self.told(failed[0].returncode != 0, f"helm upgrade with {values[0]} fails", failed[0].stderr.strip()[-100:])
        until(lambda: all_ready(self.release, self.num_pods))
        return "; ".join(said - {""})

    def rotation(self):
        old = secret(f"{self.name}-tls-public", "tls.crt")
        uids = {pod["metadata"]["uid"] for pod in staying("app.kubernetes.io/instance=whole")}
        before = self.presented()

        def rotate():
            self.helm("upgrade", self.release, values=[*self.values, "certificates.renew=1"])
            return until(lambda: self.presented() not in ("", before), 150)
        self.under_load("certificates rotated by their Secret: new connections see the new one", rotate)
        same_pods = {pod["metadata"]["uid"] for pod in staying("app.kubernetes.io/instance=whole")} == uids
        self.told(secret(f"{self.name}-tls-public", "tls.crt") != old and same_pods, "no pod was replaced for that")

    def presented(self):
        """Serial number of the certificate that the Service presents."""
        address = get("service", self.name)["spec"]["clusterIP"]
        shown = inside("sh", "-c", f"openssl s_client -connect {address}:8700 -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout -serial",
                       check=False)
        return shown.stdout.strip()

    def misfits(self):
        """New pods that can't do their work say why, and do not replace the one that does."""
        secret_of_others("whole-strange")

        def strange_certificate(pod):
            next(volume for volume in pod["volumes"] if volume["name"] == "public")["secret"]["secretName"] = "whole-strange"
        self.misfit(strange_certificate, "tls", "a certificate that its key does not belong to")
        self.misfit(with_flag("--model=/models/gone"), "/models/gone", "a missing volume")
        broken = other_model(hidden_size=96)

        def broken_model(pod):
            with_folder("/models", broken)(pod)
            with_flag("--model=/models")(pod)
        self.misfit(broken_model, "accepted: [4096, 96]", "a model whose weights are of another")
        with FullDisk() as full:
            self.misfit(with_folder("/tmp", full), "No space left on device", "a full disk")
        self.misfit(with_flag("--orchestrator_tls_ca=/gone"), "/gone", "a gateway's missing authority", component="gateway",
                    deployment=f"{self.name}-gateway")
        self.same_text("and the pod that served goes on with the same text")

    def misfit(self, edit, words, what, component="all", deployment=None):
        deployment = deployment or self.name
        change(deployment, edit)
        self.ends_saying(component, words, what)
        kubectl("rollout", "undo", f"deployment/{deployment}")
        kubectl("rollout", "status", f"deployment/{deployment}", "--timeout=240s", check=False)
        until(lambda: all_ready(self.release, self.num_pods))
