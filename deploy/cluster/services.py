"""The layout `services`: a pod for each service, and for the ranks of each stage."""

import json
import os
import signal
import time

from clients import HttpClient
from cluster import ROOT, all_ready, get, kubectl, pods, staying, until
from faults import change, other_model, process_ids, restart_daemon, strange_authority, strike, with_flag, with_folder
from scenario import Scenario


class Services(Scenario):
    release = "parts"
    what = "layout services, 2 stages of 2 ranks"
    values = ["layout=services", "model.tensorParallel=2", "model.pipelineParallel=2", "model.kvCacheMib=128"]
    num_pods = 7
    first_text = "first text over mutual TLS between eight processes in six pods"
    steps = ["upgrade", "rollback", "policies", "pool", "rollout", "kill", "frozen", "frozen_gateway", "misfits", "pipelines"]

    def upgrade(self):
        """Every pod is replaced, with one pipeline."""
        clients = {"gRPC": self.client.impatient(), "HTTP": HttpClient(self.name)}
        for number, (protocol, client) in enumerate(clients.items()):
            self.under_load(f"an upgrade that replaces every pod of the one pipeline, clients by {protocol}",
                            lambda number=number: self.replace_all(f"podAnnotations.upgrade=to-{number}", self.num_pods), client=client)

    def replace_all(self, value, count):
        """Whether all pods are new and ready, and the old ones gone, within some minutes."""
        self.helm("upgrade", self.release, values=[*self.values, value])
        return self.all_are(value.partition("=")[2], count)

    def all_are(self, wanted, count):
        def replaced():
            found = pods(f"app.kubernetes.io/instance={self.release}")
            new = [pod for pod in found if pod["metadata"].get("annotations", {}).get("upgrade") == wanted]
            return len(found) == len(new) == count and all_ready(self.release, count)
        return until(replaced, 300)

    def rollback(self):
        self.helm("upgrade", self.release, values=[*self.values, "podAnnotations.upgrade=kept"])
        self.all_are("kept", self.num_pods)
        self.helm("upgrade", self.release, values=[*self.values, "podAnnotations.upgrade=left"])
        self.all_are("left", self.num_pods)

        def roll_back():
            self.helm("rollback", self.release)
            return self.all_are("kept", self.num_pods)
        self.under_load("helm rollback, clients by HTTP", roll_back, client=HttpClient(self.name))

    def policies(self):
        """A pod that is none of the release's reaches its public port alone. Without policies it reaches others as well."""
        # Health, which is asked in plaintext.
        def reaches(address):
            return kubectl("exec", self.client.pod, "--", "/usr/bin/sluice", "health", "--endpoint",
                           f"{self.name}-0-{address}", "--insecure", "--timeout", "3", check=False).returncode == 0
        self.helm("upgrade", self.release, values=self.values)
        self.all_are(None, self.num_pods)  # from now on no pod is replaced
        parts = ("tokenizer.default.svc:8701", "sampler.default.svc:8701", "stage-0.default.svc:8801")
        self.told(not any(map(reaches, parts)), "policies: a strange pod reaches no stage")
        self.same_text("and is served at the public port")
        self.helm("upgrade", self.release, values=[*self.values, "networkPolicy.enabled=false"])
        self.told(until(lambda: all(map(reaches, parts)), 60), "without policies it reaches them")
        self.helm("upgrade", self.release, values=self.values)

    def pool(self):
        """Streams go on in a pool that is smaller."""
        def shrink():
            self.helm("upgrade", self.release, values=[*self.values, "model.kvCacheMib=32"])
            time.sleep(5)  # the StatefulSets' controller begins
            return until(lambda: all_ready(self.release, self.num_pods), 300)
        self.under_load("a smaller pool of keys and values", shrink)
        self.helm("upgrade", self.release, values=self.values)
        time.sleep(5)
        until(lambda: all_ready(self.release, self.num_pods), 300)

    def frozen(self):
        """A process that is stopped for good is killed by kubelet and comes back, behind a kubelet that was just started, too."""
        for role, program in (("stage-1", "sluice-shard"), ("tokenizer", "sluice-tokenizer"), ("orchestrator", "sluice-orchestrator")):
            self.under_load(f"SIGSTOP to {program} in its pod", lambda role=role, program=program: self.freeze(role, program))
        self.under_load("SIGSTOP to sluice-sampler in its pod, kubelet restarted at the same moment",
                        lambda: self.freeze("sampler", "sluice-sampler", restarting="kubelet"), client=HttpClient(self.name))

    def frozen_gateway(self):
        """Of two. New calls fail until the Service has none but the other; those that it had taken are lost with it."""
        self.helm("upgrade", self.release, values=[*self.values, "gateway.replicas=2"])
        until(lambda: all_ready(self.release, self.num_pods + 1), 120)
        http = HttpClient(self.name)
        strike(staying(self.component("gateway"))[0], "sluice-gateway", signal.SIGSTOP)
        began, last_failure, right = time.monotonic(), 0, 0
        while right < 8 and time.monotonic() < began + 100:
            if http.text(patience=3).stdout == self.expected:
                right += 1
            else:
                right, last_failure = 0, time.monotonic() - began
        self.told(right == 8 and last_failure <= 10, "SIGSTOP to one of two gateways: new calls go to the other",
                  f"the last call that failed ended {last_failure:.0f} s after it")
        self.helm("upgrade", self.release, values=self.values)
        until(lambda: all_ready(self.release, self.num_pods), 120)

    def freeze(self, role, program, restarting=None):
        """Says how long it took until another process was in its place and ready."""
        pod = staying(self.component(role))[0]
        before = process_ids(pod, program)
        strike(pod, program, signal.SIGSTOP)
        began = time.monotonic()
        if restarting:
            restart_daemon(self.cluster_folder, restarting)
        killed = until(lambda: process_ids(pod, program)[:1] != before[:1], 180)
        gone = time.monotonic() - began
        back = until(lambda: all_ready(self.release, self.num_pods), 120)
        return killed and back and f"killed after {gone:.0f} s, all ready after {time.monotonic() - began:.0f} s"

    def rollout(self):
        for role in ("tokenizer", "embedding", "sampler"):
            self.under_load(f"rolling update of the Deployment of the {role} under load",
                            lambda role=role: self.roll_out(f"deployment/{self.name}-0-{role}"))
        for stage in (0, 1):
            self.under_load(f"rolling update of the StatefulSet of stage {stage} under load",
                            lambda stage=stage: self.roll_out(f"statefulset/{self.name}-0-stage-{stage}"))

    def kill(self):
        for role, program in (("stage-0", "sluice-shard"), ("sampler", "sluice-sampler")):
            pod = pods(self.component(role))[0]
            self.under_load(f"kill -9 of {program} in its pod", lambda pod=pod, program=program: strike(pod, program, signal.SIGKILL))

    def misfits(self):
        """What a part says that can't do its work; each is put right again."""
        name = f"{self.name}-tls-sampler"
        right = get("secret", name)["data"]["ca.crt"]

        def trust(authority):
            kubectl("patch", "secret", name, "-p", json.dumps({"data": {"ca.crt": authority}}))
            kubectl("delete", "pod", "-l", self.component("sampler"), "--now")
        trust(strange_authority())
        self.ends_saying("sampler", "no authority in", "a wrong authority")
        trust(right)
        until(lambda: all_ready(self.release, self.num_pods), 240)

        other = other_model(rms_norm_eps=0.125)

        def another_model(pod):
            with_folder("/other", other)(pod)
            with_flag("--model=/other")(pod)
        self.misfit(another_model, "it serves another model", "a stage started with another model")
        self.misfit(with_flag("--model=/models/gone"), "/models/gone", "a missing volume")
        self.same_text("and once each is put right the same text comes")

    def misfit(self, edit, words, what):
        embedding = f"{self.name}-0-embedding"
        change(embedding, edit)
        self.ends_saying("embedding", words, what)
        kubectl("rollout", "undo", f"deployment/{embedding}")
        kubectl("rollout", "status", f"deployment/{embedding}", "--timeout=240s", check=False)
        until(lambda: all_ready(self.release, self.num_pods), 240)

    def pipelines(self):
        def scale(count, *values):
            self.helm("upgrade", self.release, values=[*self.values, f"replicas={count}", *values])
            return until(lambda: all_ready(self.release, 6 * count + 1), 300)
        self.under_load("a second whole pipeline", lambda: scale(2))
        self.under_load("an upgrade of one pipeline after the other, clients by HTTP", self.one_after_the_other, client=HttpClient(self.name))
        self.under_load("back to one pipeline", lambda: scale(1, "podAnnotations.upgrade=in-turn"))

    def one_after_the_other(self):
        """Whether the first is replaced while the second stays as it is, then that one."""
        for count in (1, 2):
            self.helm("upgrade", self.release, values=[*self.values, "replicas=2", "podAnnotations.upgrade=in-turn", f"upgrade.pipelines={count}"])

            def replaced(count=count):
                new = {number: [pod["metadata"].get("annotations", {}).get("upgrade") == "in-turn"
                                for pod in pods(f"app.kubernetes.io/instance={self.release},sluice/pipeline={number}")] for number in (0, 1)}
                left = all(not any(new[number]) for number in range(count, 2))
                return left and all(len(new[number]) == 6 and all(new[number]) for number in range(count)) and all_ready(self.release, 13)
            if not until(replaced, 300):
                return False
        return True


class Ranks(Scenario):
    release = "ranks"
    what = "layout services, 2 ranks in pods of their own"
    values = ["layout=services", "model.tensorParallel=2", "ranks.placement=pods", "model.kvCacheMib=128", "gateway.enabled=false"]
    num_pods = 6
    first_text = "first text, with ranks over TLS"
    steps = ["rollout", "kill"]

    def rollout(self):
        self.under_load("rolling update of the StatefulSet of ranks under load", lambda: self.roll_out(f"statefulset/{self.name}-0-stage-0"))

    def kill(self):
        pod = pods(self.component("stage-0"))[1]
        self.under_load("kill -9 of a rank in its pod", lambda: strike(pod, "sluice-shard", signal.SIGKILL))


class Drafts(Scenario):
    """The embedded model, which its own INT4 weights draft for, from a folder of the node."""

    release = "drafts"
    what = "layout services, with a model that drafts"
    values = ["layout=services", f"model.hostPath={os.path.join(ROOT, 'models')}", "model.path=storyteller", "model.kvCacheMib=128",
              "model.draft.path=storyteller", "model.draft.weights=int4", "gateway.enabled=false"]
    num_pods = 8
    first_text = "first text, drafted"
    steps = ["kill"]

    def kill(self):
        for role, program in (("draft-shard", "sluice-shard"), ("draft-sampler", "sluice-sampler")):
            pod = pods(self.component(role))[0]
            self.under_load(f"kill -9 of {program} of the draft model in its pod",
                            lambda pod=pod, program=program: strike(pod, program, signal.SIGKILL))
        status = json.loads(self.client.sluice("status", "--json").stdout)
        model = status["draft_model"]
        self.told(model["num_proposed_tokens"] > 0 and model["num_recoveries"] > 0, "the draft model is asked again",
                  f"{model['num_proposed_tokens']} tokens proposed, {status['num_accepted_draft_tokens']} of "
                  f"{status['num_drafted_tokens']} drafted ones right, {model['num_recoveries']} recoveries")
