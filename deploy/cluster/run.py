#!/usr/bin/env python3
"""The chart on a real cluster: installs it from the image, and does to its pods what happens to pods.

Usage: run.py CLUSTER_FOLDER IMAGE_ARCHIVE HELM [single] [services] [ranks]. CLUSTER_FOLDER is ../shared/cluster; $CLUSTER_HOME
says where its state is.
"""

import base64
import json
import os
import re
import shutil
import signal
import sys
import time

from cluster import (
    CHART, CLUSTER, HOME, IMAGE, ROOT, Client, HttpClient, all_ready, failures, helm, inside, install, kubectl, pods, process_ids,
    restart_daemon, restarts_of, run, secret, told, under_load, until)

# Of each scenario.
RELEASES = {"single": "whole", "services": "parts", "ranks": "ranks"}


def single(image):
    flags = install("whole", image)
    began = time.monotonic()
    helm("install", "whole", CHART, *flags)
    if not told(until(lambda: all_ready("whole", 2), 300), "layout single: ready", f"{time.monotonic() - began:.0f} s after helm install"):
        print(kubectl("describe", "pods").stdout[-3000:], kubectl("logs", "-l", "app.kubernetes.io/instance=whole").stdout[-3000:])
        return
    client = Client("whole-sluice", image)
    first = client.text()
    told(first.returncode == 0 and len(first.stdout) > 40, "first text through a Service from another pod, over TLS",
         repr(first.stdout[:50]) if first.returncode == 0 else first.stderr)
    expected = first.stdout
    refused = kubectl("exec", client.pod, "--", "/usr/bin/sluice", "generate", "--endpoint", client.endpoint, "--tls_ca", "/ca/ca.crt",
                      "--prompt", "x", check=False)
    told("UNAUTHENTICATED" in refused.stderr, "a call without a token is refused", refused.stderr.strip()[-120:])

    def rollout():
        kubectl("rollout", "restart", "deployment/whole-sluice")
        kubectl("rollout", "status", "deployment/whole-sluice", "--timeout=240s")
    under_load(client, expected, "rolling update of the Deployment under load", rollout)

    http = HttpClient("whole-sluice")
    answer = http.text()
    told(answer.stdout == expected, "the same text through the gateway, over HTTPS", repr((answer.stdout or answer.stderr)[:50]))

    def rollout_gateway():
        kubectl("rollout", "restart", "deployment/whole-sluice-gateway")
        kubectl("rollout", "status", "deployment/whole-sluice-gateway", "--timeout=240s")
    under_load(http, expected, "rolling update of the gateway under load", rollout_gateway)

    def scale(count):
        helm("upgrade", "whole", CHART, *flags, "--set", f"replicas={count}")
        until(lambda: all_ready("whole", count + 1), 240)
    under_load(client, expected, "replicas from 1 to 2 and back", lambda: (scale(2), scale(1)))

    pod = next(p for p in pods("app.kubernetes.io/instance=whole,app.kubernetes.io/component=all")
               if "deletionTimestamp" not in p["metadata"])
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction",
                "metadata": {"name": pod["metadata"]["name"], "namespace": "default"}}
    answer = kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/eviction", "-f", "-",
                     stdin=json.dumps(eviction), check=False)
    told("disruption budget" in answer.stderr, "an eviction is refused by the budget", answer.stderr.strip()[-100:])

    def strike(program, number):
        for victim in process_ids(pod, program)[:1]:
            os.kill(victim, number)
    for number, name in ((signal.SIGKILL, "kill -9 of"), (signal.SIGSTOP, "SIGSTOP to")):
        for program in ("sluice-tokenizer", "sluice-embedding", "sluice-shard", "sluice-sampler"):
            under_load(client, expected, f"{name} {program} in the pod",
                       lambda program=program, number=number: strike(program, number))

    restarts = {p["metadata"]["uid"]: restarts_of(p) for p in pods("app.kubernetes.io/instance=whole")}
    for daemon in ("kubelet", "containerd"):
        under_load(client, expected, f"{daemon} restarted", lambda daemon=daemon: restart_daemon(daemon))
    told({p["metadata"]["uid"]: restarts_of(p) for p in pods("app.kubernetes.io/instance=whole")} == restarts,
         "no pod restarted with them")

    over = helm("upgrade", "whole", CHART, *flags, "--set", "resources.all.limits.memory=96Mi", "--set",
                "resources.all.requests.memory=64Mi", "--atomic", "--timeout", "40s", check=False)
    after = client.text()
    told(over.returncode != 0 and after.stdout == expected, "a pod that its memory limit is too small for does not replace one that serves")

    wrong = helm("upgrade", "whole", CHART, *flags, "--set", "image.tag=missing", "--atomic", "--timeout", "25s", check=False)
    after = client.text()
    told(wrong.returncode != 0 and after.stdout == expected, "an upgrade that fails rolls back, and clients notice nothing",
         wrong.stderr.strip()[-100:])

    old = secret("whole-sluice-tls-public", "tls.crt")
    uids = {p["metadata"]["uid"] for p in pods("app.kubernetes.io/instance=whole")}
    before = presented(client)
    helm("upgrade", "whole", CHART, *flags, "--set", "certificates.renew=1")
    fresh = secret("whole-sluice-tls-public", "tls.crt")
    changed = fresh != old and until(lambda: presented(client) not in ("", before), 150)
    same_pods = {p["metadata"]["uid"] for p in pods("app.kubernetes.io/instance=whole")} == uids
    told(changed and same_pods and client.text().stdout == expected, "certificates rotated by their Secret, without a restart of a pod")
    helm("uninstall", "whole")
    until(lambda: not pods("app.kubernetes.io/instance=whole"))


def presented(client):
    """Serial number of the certificate that the Service presents."""
    address = json.loads(kubectl("get", "service", client.endpoint.split(".")[0], "-o", "json").stdout)["spec"]["clusterIP"]
    shown = inside("sh", "-c", f"openssl s_client -connect {address}:8700 -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout -serial",
                   check=False)
    return shown.stdout.strip()


def messages(selector):
    """What ended containers said why."""
    for pod in pods(selector):
        for status in pod["status"].get("containerStatuses", []):
            for state in (status.get("state", {}), status.get("lastState", {})):
                yield state.get("terminated", {}).get("message", "")


def ends_saying(selector, words, what):
    until(lambda: any(words in message for message in messages(selector)), 150)
    said = next((message for message in messages(selector) if words in message), "")
    told(said != "", f"{what} is told in the pod's termination message", said.strip()[-200:])


def strange_authority():
    """The certificate of an authority that nobody here knows, as a Secret has it."""
    folder = os.path.join(HOME, "state")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
        "/CN=strange", "-keyout", f"{folder}/strange.key", "-out", f"{folder}/strange.crt")
    with open(f"{folder}/strange.crt", "rb") as file:
        return base64.b64encode(file.read()).decode()


def other_model():
    """A folder like the embedded model's, but for how much its norms keep from zero."""
    folder = os.path.join(HOME, "state", "other-model")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "models", "storyteller"), folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config["rms_norm_eps"] = 0.125
    with open(path, "w") as file:
        json.dump(config, file)
    run("chmod", "-R", "a+rX", folder)
    return folder


def with_model(deployment, folder, volume=None):
    """Has a Deployment's pods read another folder, `volume` of the node where it is given."""
    found = json.loads(kubectl("get", "deployment", deployment, "-o", "json").stdout)
    pod = found["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["args"] = [f"--model={folder}" if a.startswith("--model=") else a for a in container["args"]]
    if volume:
        pod["volumes"].append({"name": "other", "hostPath": {"path": volume, "type": "Directory"}})
        container["volumeMounts"].append({"name": "other", "mountPath": folder, "readOnly": True})
    kubectl("replace", "-f", "-", stdin=json.dumps(found))


def misfits(client, expected):
    """What a part says that can't do its work; each is put right again."""
    def part(role):
        return f"app.kubernetes.io/instance=parts,app.kubernetes.io/component={role}"

    name = "parts-sluice-tls-sampler"
    right = json.loads(kubectl("get", "secret", name, "-o", "json").stdout)["data"]["ca.crt"]

    def trust(authority):
        kubectl("patch", "secret", name, "-p", json.dumps({"data": {"ca.crt": authority}}))
        kubectl("delete", "pod", "-l", part("sampler"), "--now")
    trust(strange_authority())
    ends_saying(part("sampler"), "no authority in", "a wrong authority")
    trust(right)
    until(lambda: all_ready("parts", 7), 240)

    embedding = "parts-sluice-0-embedding"
    for folder, volume, words, what in (("/other", other_model(), "it serves another model", "a stage started with another model"),
                                        ("/models/gone", None, "/models/gone", "a missing volume")):
        with_model(embedding, folder, volume)
        ends_saying(part("embedding"), words, what)
        kubectl("rollout", "undo", f"deployment/{embedding}")
        kubectl("rollout", "status", f"deployment/{embedding}", "--timeout=240s", check=False)
        until(lambda: all_ready("parts", 7), 240)
    told(client.text().stdout == expected, "and once each is put right the same text comes")


def services(image):
    flags = install("parts", image, "layout=services", "model.tensorParallel=2", "model.pipelineParallel=2", "model.kvCacheMib=128")
    began = time.monotonic()
    helm("install", "parts", CHART, *flags)
    if not told(until(lambda: all_ready("parts", 7), 400), "layout services, 2 stages of 2 ranks: ready",
                f"{time.monotonic() - began:.0f} s after helm install"):
        print(kubectl("get", "pods", "-o", "wide").stdout)
        print(kubectl("logs", "-l", "app.kubernetes.io/instance=parts", "--prefix", "--tail=20").stdout[-4000:])
        return
    client = Client("parts-sluice", image)
    first = client.text()
    told(first.returncode == 0, "first text over mutual TLS between eight processes in six pods",
         repr(first.stdout[:50]) if first.returncode == 0 else first.stderr)
    expected = first.stdout
    for role in ("tokenizer", "embedding", "sampler"):
        def restart(role=role):
            kubectl("rollout", "restart", f"deployment/parts-sluice-0-{role}")
            kubectl("rollout", "status", f"deployment/parts-sluice-0-{role}", "--timeout=240s")
        under_load(client, expected, f"rolling update of the Deployment of the {role} under load", restart)
    for stage in (0, 1):
        def restart(stage=stage):
            kubectl("rollout", "restart", f"statefulset/parts-sluice-0-stage-{stage}")
            kubectl("rollout", "status", f"statefulset/parts-sluice-0-stage-{stage}", "--timeout=240s")
        under_load(client, expected, f"rolling update of the StatefulSet of stage {stage} under load", restart)
    for role, program in (("stage-0", "sluice-shard"), ("sampler", "sluice-sampler")):
        pod = pods(f"app.kubernetes.io/instance=parts,app.kubernetes.io/component={role}")[0]
        under_load(client, expected, f"kill -9 of {program} in its pod",
                   lambda pod=pod, program=program: [os.kill(p, 9) for p in process_ids(pod, program)[:1]])
    misfits(client, expected)

    def pipelines(count):
        helm("upgrade", "parts", CHART, *flags, "--set", f"replicas={count}")
        until(lambda: all_ready("parts", 6 * count + 1), 300)
    under_load(client, expected, "a second whole pipeline, and back to one", lambda: (pipelines(2), pipelines(1)))
    helm("uninstall", "parts")
    until(lambda: not pods("app.kubernetes.io/instance=parts"))


def ranks(image):
    flags = install("ranks", image, "layout=services", "model.tensorParallel=2", "ranks.placement=pods", "model.kvCacheMib=128",
                    "gateway.enabled=false")
    began = time.monotonic()
    helm("install", "ranks", CHART, *flags)
    if not told(until(lambda: all_ready("ranks", 6), 400), "layout services, 2 ranks in pods of their own: ready",
                f"{time.monotonic() - began:.0f} s after helm install"):
        print(kubectl("get", "pods", "-o", "wide").stdout)
        print(kubectl("logs", "-l", "app.kubernetes.io/instance=ranks", "--prefix", "--tail=20").stdout[-4000:])
        return
    client = Client("ranks-sluice", image)
    first = client.text()
    told(first.returncode == 0, "first text, with ranks over TLS", repr(first.stdout[:50]) if first.returncode == 0 else first.stderr)
    pod = pods("app.kubernetes.io/instance=ranks,app.kubernetes.io/component=stage-0")[1]
    under_load(client, first.stdout, "kill -9 of a rank in its pod",
               lambda: [os.kill(p, 9) for p in process_ids(pod, "sluice-shard")[:1]])
    helm("uninstall", "ranks")
    until(lambda: not pods("app.kubernetes.io/instance=ranks"))


def main():
    os.makedirs(os.path.join(HOME, "images"), exist_ok=True)
    up = os.path.exists(os.path.join(HOME, "kc")) and kubectl("get", "--raw", "/readyz", check=False).stdout == "ok"
    if not os.path.exists(os.path.join(HOME, "bin", "kubelet")):
        print("building Kubernetes, which takes some minutes", flush=True)
        run("bash", os.path.join(CLUSTER, "build.sh"), timeout=3600)
    if not up:
        run("bash", os.path.join(CLUSTER, "up.sh"), timeout=600)
    listed = inside(os.path.join(HOME, "dist/usr/bin/ctr"), "-n", "k8s.io", "images", "import", IMAGE).stdout
    image = re.search(r"(\S+:\S+) *\(", listed).group(1) if "(" in listed else listed.split()[1]
    version = json.loads(kubectl("version", "-o", "json").stdout)["serverVersion"]["gitVersion"]
    print(f"Kubernetes {version}, image {image}", flush=True)
    chosen = sys.argv[4:] or list(RELEASES)
    try:
        if "single" in chosen:
            single(image)
        if "services" in chosen:
            services(image)
        if "ranks" in chosen:
            ranks(image)
    finally:
        for release in (RELEASES[one] for one in chosen):
            kubectl("delete", "pod", f"client-{release}-sluice", "--ignore-not-found", "--now", check=False)
            helm("uninstall", release, check=False)
    print(f"{len(failures)} failed" if failures else "all seen")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
