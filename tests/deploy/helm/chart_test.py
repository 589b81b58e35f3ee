"""The chart over a matrix of values: it lints, renders, keeps the rules of rules.py, speaks the flags of the programs as they are
built, and refuses wrong values with a sentence that names value and what is accepted.

Usage: chart_test.py BIN_DIR TOOLS_DIR [unittest arguments]. Exit status 77, and why, where helm or PyYAML is missing.
"""

import base64
import copy
import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("skipped: PyYAML is missing (python3-yaml)")
    sys.exit(77)

BIN, TOOLS = sys.argv[1:3]
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
CHART = os.path.join(ROOT, "deploy", "helm", "sluice")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
HELM = os.path.join(TOOLS, "helm")
sys.path.insert(0, os.path.dirname(__file__))

import api_types  # noqa: E402
import rules  # noqa: E402

# With cert-manager the chart makes no keys, which takes most of the time otherwise.
CERT_MANAGER = ["--api-versions", "cert-manager.io/v1"]
MODERN = ["--kube-version", "1.32.0"]
OLD = ["--kube-version", "1.20.2"]

# Values that must render and keep every rule.
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = f"affinity.podAffinity.{PREFERRED}[0]"
AFFINITY = f"{TERM}.weight=1,{TERM}.podAffinityTerm.topologyKey=zone"
MATRIX = {
    "nothing": [],
    "three pods": ["replicas=3"],
    "no pod": ["replicas=0"],
    "services": ["layout=services"],
    "services, 2 stages of 2 ranks": ["layout=services", "model.tensorParallel=2", "model.pipelineParallel=2"],
    "services, ranks in pods": ["layout=services", "model.tensorParallel=4", "ranks.placement=pods"],
    "services, ranks in pods in plaintext": ["layout=services", "model.tensorParallel=4", "ranks.placement=pods",
                                             "ranks.trustedNetwork=true"],
    "services, 3 pipelines": ["layout=services", "replicas=3", "model.pipelineParallel=3"],
    "a claim": ["model.persistentVolumeClaim=weights", "model.path=llama/8b"],
    "a model as an image": ["model.image=registry.example/model:1"],
    "a model of a hub": ["model.source=hf://Qwen/Qwen3-0.6B"],
    "services, a model of a hub": ["layout=services", "model.source=hf://Qwen/Qwen3-0.6B@v1.0", "model.tensorParallel=2",
                                   "model.persistentVolumeClaim=weights", "model.hubEndpoint=https://hub.example"],
    "a model that drafts": ["model.persistentVolumeClaim=weights", "model.path=8b", "model.draft.path=1b", "model.draft.weights=int4"],
    "services, a model that drafts": ["layout=services", "model.persistentVolumeClaim=weights", "model.path=8b", "model.draft.path=1b",
                                      "replicas=2", "model.tensorParallel=2"],
    "own tokens": ["auth.tokens[0].sha256=" + "a" * 64, "auth.tokens[0].tenant=search"],
    "no tokens": ["auth.enabled=false", "auth.insecurePublic=true"],
    "autoscaling": ["autoscaling.enabled=true"],
    "GPUs": ["gpu.perRank=1", "layout=services", "model.tensorParallel=2"],
    "GPUs of one pod": ["gpu.perRank=1", "model.tensorParallel=2"],
    "flags of one process": ["layout=services", "extraArgsOf.sampler={--threads=3}"],
    "two gateways": ["gateway.replicas=2"],
    "ingress": ["ingress.enabled=true", "ingress.host=sluice.example", "ingress.tlsSecret=tls",
                r"ingress.annotations.nginx\.ingress\.kubernetes\.io/backend-protocol=GRPC"],
    "routes": ["gatewayApi.enabled=true", "gatewayApi.gateway=edge", "gatewayApi.hostnames={sluice.example}",
               "gatewayApi.httpHostnames={api.example}"],
    "metrics": ["metrics.vllmNames=true", "metrics.podMonitor.enabled=true", "model.tensorParallel=2"],
    "metrics of services": ["layout=services", "metrics.podMonitor.enabled=true", "model.tensorParallel=2"],
    "no metrics": ["metrics.enabled=false"],
    "gateway beside the pipeline": ["gateway.placement=sidecar", "inferencePool.enabled=true", "inferencePool.picker=epp",
                                    "gatewayApi.enabled=true", "gatewayApi.gateway=edge",
                                    "gatewayApi.httpHostnames={api.example}", "gatewayApi.authorityConfigMap=ca"],
    "no gateway": ["gateway.enabled=false"],
    "gateway of services": ["layout=services", "gateway.replicas=2", "gateway.corsOrigin=https://a.example",
                            "networkPolicy.clients[0].namespaceSelector.matchLabels.app=web"],
    "KEDA": ["keda.enabled=true", "keda.prometheus=http://prometheus.lab:9090"],
    "spans": ["otlp.endpoint=http://otel-collector.monitoring:4317", "otlp.sampleRatio=0.1"],
    "spans of services, over TLS": ["layout=services", "otlp.endpoint=https://otel.example:443", "otlp.authorityConfigMap=otel-ca",
                                    "otlp.resourceAttributes=deployment.environment=test",
                                    "otlp.collectors[0].namespaceSelector.matchLabels.app=otel"],
    "renewal": ["certificates.renew=7"],
    "names": ["podLabels.team=a", "podAnnotations.note=b", "nodeSelector.zone=c", "priorityClassName=high"],
    "an ingress for HTTP": ["ingress.enabled=true", "ingress.http.host=api.example", "ingress.http.tlsSecret=tls"],
    "both ingresses": ["ingress.enabled=true", "ingress.host=sluice.example", "ingress.http.host=api.example"],
    "what every chart has": ["nameOverride=llm", AFFINITY, "extraEnv[0].name=A", "extraEnv[0].value=b",
                             "extraVolumes[0].name=ca", "extraVolumes[0].secret.secretName=demo-llm-tokens",
                             "extraVolumeMounts[0].name=ca", "extraVolumeMounts[0].mountPath=/ca", "otlp.endpoint=http://otel:4317"],
    "what every chart has, services": ["layout=services", "fullnameOverride=llm", "model.tensorParallel=2", "ranks.placement=pods",
                                       AFFINITY, "extraEnv[0].name=A", "extraEnv[0].value=b",
                                       "extraVolumes[0].name=ca", "extraVolumes[0].secret.secretName=llm-tokens",
                                       "extraVolumeMounts[0].name=ca", "extraVolumeMounts[0].mountPath=/ca"],
    "a chat template": ["model.chatTemplate=text of {{ messages }}", "model.maxModelLen=64", "threads.all=3", "cpus.all=0-2"],
    "a chat template of services": ["layout=services", "model.chatTemplate=text of {{ messages }}", "model.maxModelLen=64",
                                    "threads.shard=3", "cpus.sampler=1-2", "threads.gateway=2"],
    "replicas that say what they hold": ["replicas=3", "gateway.orchestratorTokenSecret=demo-sluice-tokens"],
    "replicas that say it to a gateway beside": ["gateway.placement=sidecar", "gateway.orchestratorTokenSecret=demo-sluice-tokens"],
    "adapters": ["model.persistentVolumeClaim=models", "model.path=llama", "model.adapters.path=adapters"],
    "adapters of services": ["layout=services", "model.persistentVolumeClaim=models", "model.path=llama", "model.adapters.path=adapters",
                             "model.adapters.maxLoaded=8"],
    "batches": ["gateway.batches.persistentVolumeClaim=batches", "gateway.batches.tokenSecret=demo-sluice-tokens"],
    "batches beside the pipeline": ["gateway.placement=sidecar", "gateway.batches.persistentVolumeClaim=batches",
                                    "gateway.batches.tokenSecret=demo-sluice-tokens"],
    "no policies": ["networkPolicy.enabled=false", "podDisruptionBudget.enabled=false"],
}

# A value, and what the refusal must say.
REFUSED = [
    (["layout=both"], "layout: layout must be one of the following"),
    (["replicas=-1"], "replicas: Must be greater than or equal to 0"),
    (["model.tensorParallel=3"], "model.tensorParallel"),
    (["model.weights=fp6"], "model.weights"),
    (["resources.all.limits.cpu=1", "resources.all.limits.memory=null"], "memory is required"),
    (["resources.all.limits.memory=abc"], "resources.all.limits.memory"),
    (["resources.gateway.requests.cpu=1 core"], "resources.gateway.requests.cpu"),
    (["extraArgsOf.shard={--threads=2}"], "extraArgsOf is set with layout single; accepted: extraArgs"),
    (["extraArgsOf.gateway={--x}", "layout=services"], "Additional property gateway is not allowed"),
    (["upgrade.pipelines=1", "layout=services"], "upgrade.pipelines is set; accepted: 0, or in an upgrade of layout services"),
    ([r"podLabels.app\.kubernetes\.io/component=web"], "podLabels has \"app.kubernetes.io/component\", which the chart sets"),
    (["colour=red"], "Additional property colour is not allowed"),
    (["model.hostPath=relative"], "model.hostPath"),
    (["auth.tokens[0].sha256=abc", "auth.tokens[0].tenant=x"], "auth.tokens.0.sha256"),
    (["auth.enabled=false"], "accepted: true, or false together with auth.insecurePublic true"),
    (["model.persistentVolumeClaim=a", "model.image=b"], "exclude each other; accepted: one of them"),
    (["model.source=hf://Qwen/Qwen3-0.6B", "model.hostPath=/models"], "accepted: without hostPath and image"),
    (["model.source=Qwen/Qwen3-0.6B"], "model.source"),
    (["model.source=hf://Qwen"], "model.source"),
    (["model.path=x"], "model.path is \"x\" without a volume"),
    (["model.draft.path=x"], "model.draft.path is \"x\" without a volume"),
    (["model.adapters.path=x"], "model.adapters.path is \"x\" without a volume"),
    (["model.adapters.maxLoaded=0"], "model.adapters.maxLoaded"),
    (["model.draft.weights=fp4"], "model.draft.weights"),
    (["certificates.mode=existing"], "certificates.existingPrefix is empty"),
    (["certificates.mode=certManager"], "no cert-manager.io/v1; accepted: auto, helm, existing"),
    (["autoscaling.enabled=true", "layout=services"], "accepted: layout single"),
    (["autoscaling.enabled=true", "autoscaling.minReplicas=9"], "accepted: 1 to autoscaling.maxReplicas, 4"),
    (["keda.enabled=true"], "keda.prometheus the address of a Prometheus"),
    (["metrics.enabled=false", "metrics.podMonitor.enabled=true"], "metrics.enabled is false; accepted: both true"),
    (["ingress.enabled=true"], "ingress.host is empty"),
    (["ingress.enabled=true", "ingress.host=a", "ingress.http.host=a"], "accepted: two names"),
    (["ingress.enabled=true", "ingress.http.host=a", "gateway.enabled=false"], "ingress.http.host is set and gateway.enabled is false"),
    (["gateway.batches.persistentVolumeClaim=a"], "gateway.batches.tokenSecret is empty"),
    (["layout=services", "cpus.shard=0-1", "model.tensorParallel=2"], "cpus.shard is set for several ranks in one pod"),
    (["threads.shard=2"], "threads.shard is set with layout single; accepted: threads.all"),
    (["layout=services", "cpus.all=1-2"], "cpus.all is set with layout services"),
    (["cpus.all=one"], "cpus.all"),
    (["podDisruptionBudget.maxUnavailable=0"], "podDisruptionBudget.maxUnavailable"),
    (["gateway.placement=beside"], "gateway.placement"),
    (["gateway.placement=sidecar", "layout=services"], "accepted: deployment, or sidecar with layout single"),
    (["gateway.enabled=false", "gatewayApi.httpHostnames={a.example}"], "accepted: no names, or gateway.enabled true"),
    (["inferencePool.enabled=true"], "inferencePool.picker the Service of an endpoint picker"),
    (["ranks.controller=leaderWorkerSet"], "no leaderworkerset.x-k8s.io/v1; accepted: auto, statefulSet"),
    (["gatewayApi.enabled=true"], "gatewayApi.gateway is empty"),
    (["otlp.endpoint=collector"], "otlp.endpoint"),
    (["otlp.sampleRatio=2"], "otlp.sampleRatio: Must be less than or equal to 1"),
    (["otlp.sampleRatio=1.5"], "otlp.sampleRatio: Does not match pattern"),
    (["otlp.tokenSecret=t"], "otlp.endpoint is empty; accepted: HOST:PORT of a collector"),
    (["otlp.endpoint=http://otel:4317", "otlp.tokenSecret=t"], "in plaintext, which goes with neither"),
]


# Names of one kind beside each other are an error, as they are to the API server.
class UniqueKeyLoader(LOADER):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = {key for key in keys if keys.count(key) > 1}
        if repeated:
            raise AssertionError(f"a mapping has {sorted(repeated)} twice, at line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


UniqueKeyLoader.add_constructor("tag:yaml.org,2002:map", UniqueKeyLoader.construct_mapping)


def helm(*arguments):
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=60)


def flags_of(values):
    return [part for value in values for part in ("--set", value)]


@functools.lru_cache(maxsize=None)
def rendered(values, cluster):
    done = helm("template", "demo", CHART, "--namespace", "lab", *flags_of(values), *cluster)
    if done.returncode != 0:
        raise AssertionError(f"helm template with {list(values)}:\n{done.stderr}")
    return [manifest for manifest in yaml.load_all(done.stdout, UniqueKeyLoader) if manifest]


def render(values=(), cluster=MODERN + CERT_MANAGER):
    return rendered(tuple(values), tuple(cluster))


def known_flags(program):
    done = subprocess.run([os.path.join(BIN, program[0]), *program[1:]], capture_output=True, text=True, timeout=60)
    return set(re.findall(r"^ +(--[a-z_]+)", done.stdout, re.MULTILINE))


def arguments_of(values):
    """By the name of the container, what it is started with."""
    return {container["name"]: container["args"] for workload in rules.workloads(render(values))
            for container in rules.pod_of(workload)["spec"]["containers"]}


class ChartTest(unittest.TestCase):
    def test_lints(self):
        done = helm("lint", "--strict", CHART)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_manifest_keeps_the_rules(self):
        for title, values in MATRIX.items():
            for cluster in (MODERN + CERT_MANAGER, OLD + CERT_MANAGER):
                manifests = render(values, cluster)
                for rule in rules.ALWAYS + (rules.volumes_are_restricted,):
                    with self.subTest(values=title, rule=rule.__name__, cluster=cluster[1]):
                        self.assertEqual(list(rule(manifests)), [])

    def test_every_manifest_is_of_the_apis_types(self):
        folder = os.path.join(TOOLS, "kubernetes-1.32")
        if not os.path.isdir(folder):
            self.skipTest(f"no {folder}; deploy/helm/get_api_types.sh build/tools fetches it")
        types = api_types.ApiTypes(folder)
        held = set()
        for title, values in MATRIX.items():
            for manifest in filter(types.knows, render(values)):
                held.add(manifest["kind"])
                with self.subTest(values=title, manifest=rules.name_of(manifest)):
                    self.assertEqual(list(types.problems(manifest)), [])
        self.assertEqual(held, {"ServiceAccount", "Secret", "Service", "Deployment", "StatefulSet", "NetworkPolicy",
                                "PodDisruptionBudget", "HorizontalPodAutoscaler", "Ingress", "ConfigMap"})
        # What the API would refuse is found.
        deployment = copy.deepcopy(next(m for m in render() if m["kind"] == "Deployment"))
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container.update(comand=["x"], args="--port", ports=[{"containerPort": "8700"}])
        del deployment["spec"]["selector"]
        found = "; ".join(types.problems(deployment))
        for part in ("comand is no field", "args is no list", "containerPort is '8700'", "spec.selector is missing"):
            self.assertIn(part, found)

    def test_every_manifest_is_valid_to_kubernetes_1_36(self):
        check = os.path.join(os.environ.get("CLUSTER_HOME", os.path.join(os.environ.get("TMPDIR", "/tmp"), "k8s")), "bin", "check136")
        if not os.access(check, os.X_OK):
            self.skipTest(f"no {check}; ../shared/cluster/modern/build.sh makes it")
        for title, values in MATRIX.items():
            manifests = [m for m in render(values, ["--kube-version", "1.36.0", *CERT_MANAGER]) if "." not in m["apiVersion"].split("/")[0]
                         or m["apiVersion"].split("/")[0].endswith(".k8s.io")]
            manifests = [m for m in manifests if not m["apiVersion"].startswith(("gateway.", "inference.", "leaderworkerset."))]
            done = subprocess.run([check, "-"], input=yaml.safe_dump_all(manifests), capture_output=True, text=True, timeout=60)
            with self.subTest(values=title):
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_gpus_are_computed_on_where_they_are_reserved(self):
        cuda = "--device=cuda"
        single = arguments_of(["gpu.perRank=1", "model.tensorParallel=2", "gateway.enabled=false"])["sluice"]
        self.assertIn(cuda, single)
        self.assertEqual([a for a in single if a.startswith("--kv_cache_mib")], [])  # what the GPUs have left
        self.assertNotIn(cuda, arguments_of([])["sluice"])
        values = ["gpu.perRank=1", "layout=services", "model.tensorParallel=2", "model.persistentVolumeClaim=weights",
                  "model.path=8b", "model.draft.path=1b", "gateway.enabled=false"]
        services = arguments_of(values)
        self.assertEqual({name for name, args in services.items() if cuda in args},
                         {"embedding", "rank-0", "rank-1", "sampler", "draft-embedding", "draft-shard", "draft-sampler"})
        self.assertIn("--kv_cache_mib=0", services["rank-0"])
        self.assertIn("--kv_cache_mib=512", arguments_of(values + ["model.kvCacheMib=1024"])["rank-0"])
        self.assertIn("--kv_cache_mib=256", arguments_of(["layout=services", "model.tensorParallel=2"])["rank-0"])
        # Who has the flag has a GPU, and who has none computes on the CPU.
        for given in (values, values + ["gpu.embedding=0"], values[1:]):
            for workload in rules.workloads(render(given)):
                for container in rules.pod_of(workload)["spec"]["containers"]:
                    self.assertEqual(cuda in container["args"], "nvidia.com/gpu" in container["resources"]["limits"], container["name"])
        self.assertNotIn(cuda, arguments_of(values + ["gpu.embedding=0"])["embedding"])

    def test_limits_and_flags_reach_the_processes_that_they_are_for(self):
        limits = ["limits.stepTokens=96", "limits.stepSequences=7", "limits.queuedSequences=33"]
        expected = {"--max_step_tokens=96", "--max_step_sequences=7", "--max_queued_sequences=33"}
        self.assertLessEqual(expected, set(arguments_of(limits)["sluice"]))
        services = arguments_of(["layout=services", "extraArgs={--draft=none}", "extraArgsOf.shard={--threads=3}",
                                 "extraArgsOf.tokenizer={--log_level=error}", *limits])
        self.assertLessEqual(expected | {"--draft=none"}, set(services["orchestrator"]))
        self.assertEqual({name for name, args in services.items() if "--threads=3" in args}, {"rank-0"})
        self.assertEqual({name for name, args in services.items() if "--log_level=error" in args}, {"tokenizer"})

    def test_an_orchestrator_goes_once_its_successor_stands_by(self):
        orchestrator = next(m for m in rules.workloads(render(["layout=services"])) if m["metadata"]["name"].endswith("orchestrator"))
        spec = orchestrator["spec"]
        self.assertEqual(spec["strategy"], {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        container = rules.pod_of(orchestrator)["spec"]["containers"][0]
        # Ready is who holds calls, too; and for longer than parts take to go that are being replaced.
        self.assertEqual(container["readinessProbe"]["grpc"]["service"], "accepts")
        self.assertGreater(spec["minReadySeconds"], 10)
        self.assertNotIn("paused", spec)
        hold = next(int(a.removeprefix("--hold_time=").removesuffix("s")) for a in container["args"] if a.startswith("--hold_time="))
        grace = rules.pod_of(orchestrator)["spec"]["terminationGracePeriodSeconds"]
        self.assertGreater(hold, spec["minReadySeconds"] + grace)

    def test_an_upgrade_may_leave_later_pipelines_as_they_are(self):
        for placement in ("containers", "pods"):
            values = ["layout=services", "replicas=3", "model.tensorParallel=2", f"ranks.placement={placement}", "gateway.enabled=false"]
            kept = set()
            for workload in rules.workloads(render(values + ["upgrade.pipelines=1"], MODERN + CERT_MANAGER + ["--is-upgrade"])):
                partition = workload["spec"].get("updateStrategy", {}).get("rollingUpdate", {}).get("partition")
                if workload["spec"].get("paused") or partition == workload["spec"]["replicas"]:
                    kept.add(workload["metadata"]["name"])
            self.assertEqual(kept, {f"demo-sluice-{pipeline}-{part}" for pipeline in (1, 2)
                                    for part in ("orchestrator", "tokenizer", "embedding", "sampler", "stage-0")})

    def test_frozen_processes_are_killed_at_once_where_the_cluster_can(self):
        for cluster, seconds in ((["--kube-version", "1.25.0"], 1), (["--kube-version", "1.24.0"], None)):
            for workload in rules.workloads(render(["layout=services"], [*cluster, *CERT_MANAGER])):
                for container in rules.pod_of(workload)["spec"]["containers"]:
                    self.assertEqual(container["livenessProbe"].get("terminationGracePeriodSeconds"), seconds)

    def test_names_are_resolved_at_the_clusters_dns_alone(self):
        def egress(values):
            return next(m["spec"]["egress"] for m in render(values) if m["metadata"]["name"] == "demo-sluice-dns")
        self.assertEqual([sorted(peer) for peer in egress([])[0]["to"]], [["namespaceSelector", "podSelector"], ["ipBlock"]])
        self.assertNotIn("to", egress(["networkPolicy.dns=null"])[0])

    def test_a_default_install_can_be_drained(self):
        def budget(values):
            return next(m["spec"] for m in render(values) if m["kind"] == "PodDisruptionBudget")
        self.assertEqual(budget([])["maxUnavailable"], 1)
        self.assertNotIn("minAvailable", budget([]))
        kept = budget(["replicas=3", "podDisruptionBudget.minAvailable=2"])
        self.assertEqual(kept["minAvailable"], 2)
        self.assertNotIn("maxUnavailable", kept)

    def test_http_has_an_ingress_of_its_own(self):
        def ingresses(values):
            return {m["metadata"]["name"]: m for m in render(["ingress.enabled=true", *values]) if m["kind"] == "Ingress"}
        both = ingresses(["ingress.host=a.example", "ingress.http.host=b.example"])
        protocols = {name: m["metadata"]["annotations"]["nginx.ingress.kubernetes.io/backend-protocol"] for name, m in both.items()}
        self.assertEqual(protocols, {"demo-sluice": "GRPCS", "demo-sluice-http": "HTTPS"})
        backend = both["demo-sluice-http"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
        self.assertEqual(backend, {"name": "demo-sluice-gateway", "port": {"name": "https"}})
        self.assertEqual(set(ingresses(["ingress.http.host=b.example"])), {"demo-sluice-http"})

    def test_every_pod_has_what_is_asked_for_all(self):
        for name in ("what every chart has", "what every chart has, services"):
            for workload in rules.workloads(render(MATRIX[name])):
                spec = rules.pod_of(workload)["spec"]
                asked = [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]
                self.assertEqual(spec["affinity"], {"podAffinity": {PREFERRED: asked}}, workload["metadata"]["name"])
                for container in spec["containers"]:
                    self.assertIn({"name": "A", "value": "b"}, container["env"], container["name"])
                    self.assertIn({"name": "ca", "mountPath": "/ca"}, container["volumeMounts"], container["name"])

    def test_the_name_is_chosen(self):
        names = {m["metadata"]["name"] for m in render(["nameOverride=llm"])}
        self.assertTrue(all(name.startswith("demo-llm") for name in names), names)
        self.assertTrue(all(m["metadata"]["name"].startswith("x") for m in render(["fullnameOverride=x"])))

    def test_processes_have_the_threads_template_and_length_that_are_theirs(self):
        def arguments(values):
            return {c["name"]: c["args"] for w in rules.workloads(render(values)) for c in rules.pod_of(w)["spec"]["containers"]}
        template = "--chat_template=/etc/sluice/chat-template/chat_template.jinja"
        single = arguments(MATRIX["a chat template"])["sluice"]
        self.assertLessEqual({template, "--max_model_len=64", "--threads=3", "--cpus=0-2"}, set(single))
        services = arguments(MATRIX["a chat template of services"])
        self.assertEqual({name for name, args in services.items() if template in args}, {"tokenizer"})
        self.assertEqual({name for name, args in services.items() if "--max_model_len=64" in args}, {"orchestrator"})
        self.assertEqual({name for name, args in services.items() if "--threads=3" in args}, {"rank-0"})
        self.assertEqual({name for name, args in services.items() if "--cpus=1-2" in args}, {"sampler"})
        self.assertIn("--threads=2", services["gateway"])
        maps = [m for m in render(MATRIX["a chat template"]) if m["kind"] == "ConfigMap"]
        self.assertEqual([m["data"] for m in maps], [{"chat_template.jinja": "text of {{ messages }}"}])

    def test_the_gateway_is_told_every_replica_of_either_layout(self):
        for layout in ("single", "services"):
            values = [f"layout={layout}", "replicas=3", "gateway.orchestratorTokenSecret=gateway-token"]
            manifests = render(values)
            gateway = next(args for name, args in arguments_of(values).items() if name == "gateway")
            address = next(arg for arg in gateway if arg.startswith("--orchestrator="))
            self.assertEqual(address, "--orchestrator=dns:///demo-sluice-headless.lab.svc:8700")
            self.assertIn("--orchestrator_token_file=/etc/sluice/orchestrator-token/token", gateway)
            service = next(m for m in manifests if m["kind"] == "Service" and m["metadata"]["name"] == "demo-sluice-headless")
            self.assertEqual(service["spec"]["clusterIP"], "None")
            # Every pod, or set of pods, that serves clients is behind it.
            served = [rules.pod_of(w)["metadata"]["labels"] for w in rules.workloads(manifests)
                      if service["spec"]["selector"].items() <= rules.pod_of(w)["metadata"]["labels"].items()]
            self.assertTrue(served, layout)
        self.assertFalse([arg for arg in arguments_of([])["gateway"] if "token_file" in arg])

    def test_of_several_gateways_one_at_a_time_may_be_moved(self):
        def budgets(values):
            return {m["metadata"]["name"]: m["spec"] for m in render(values) if m["kind"] == "PodDisruptionBudget"}
        self.assertEqual(set(budgets([])), {"demo-sluice"})  # one alone may be: its node could not be drained otherwise
        self.assertEqual(budgets(["gateway.replicas=2"])["demo-sluice-gateway"]["maxUnavailable"], 1)

    def test_no_token_that_was_drawn_stays_with_tokens_of_ones_own(self):
        def secret(values):
            return next(m for m in render(values) if m["metadata"]["name"] == "demo-sluice-tokens")
        drawn = secret([])
        self.assertEqual(set(drawn["data"]), {"token", "tokens"})
        token = base64.b64decode(drawn["data"]["token"])
        self.assertEqual(base64.b64decode(drawn["data"]["tokens"]).decode(), f"{hashlib.sha256(token).hexdigest()} default\n")
        own = secret(["auth.tokens[0].sha256=" + "a" * 64, "auth.tokens[0].tenant=search"])
        # Of `data` Helm takes away what is no longer there; of stringData it can't.
        self.assertEqual(set(own["data"]), {"tokens"})
        self.assertNotIn("stringData", own)
        self.assertEqual(base64.b64decode(own["data"]["tokens"]).decode(), "a" * 64 + " search\n")

    def test_two_stages_of_two_ranks_fit_a_node_of_two_cores(self):
        def millicores(quantity):
            return int(quantity[:-1]) if str(quantity).endswith("m") else 1000 * int(quantity)
        pods = [w["spec"].get("replicas", 1) * sum(millicores(c["resources"]["requests"]["cpu"]) for c in rules.pod_of(w)["spec"]["containers"])
                for w in rules.workloads(render(["layout=services", "model.tensorParallel=2", "model.pipelineParallel=2"]))]
        self.assertLessEqual(sum(pods), 1500)  # the node's own pods take some

    def test_annotations_of_an_ingress_win(self):
        ingress = next(m for m in render(MATRIX["ingress"]) if m["kind"] == "Ingress")
        self.assertEqual(ingress["metadata"]["annotations"], {"nginx.ingress.kubernetes.io/backend-protocol": "GRPC"})

    def test_names_and_kinds_are_unique(self):
        for title, values in MATRIX.items():
            names = [rules.name_of(manifest) for manifest in render(values)]
            with self.subTest(values=title):
                self.assertEqual(len(names), len(set(names)))

    def test_programs_know_every_flag(self):
        known = {}
        for values in MATRIX.values():
            for workload in rules.workloads(render(values)):
                for container in rules.pod_of(workload)["spec"]["containers"]:
                    program = ("sluice", "help", "up")
                    if "command" in container:
                        program = (os.path.basename(container["command"][0]), "--help")
                    if program not in known:
                        known[program] = known_flags(program)
                    used = {argument.split("=")[0] for argument in container["args"] if argument.startswith("--")}
                    self.assertEqual(used - known[program], set(), program)
        self.assertEqual(len(known), 7)

    def test_probes_fit_the_cluster(self):
        for cluster, kind in ((MODERN + CERT_MANAGER, "grpc"), (OLD + CERT_MANAGER, "exec")):
            for workload in rules.workloads(render(["layout=services"], cluster)):
                for container in rules.pod_of(workload)["spec"]["containers"]:
                    self.assertIn("httpGet" if container["name"] == "gateway" else kind, container["readinessProbe"])
        known = known_flags(("sluice", "help", "health"))
        command = rules.pod_of(rules.workloads(render(["gateway.enabled=false"], OLD + CERT_MANAGER))[0])["spec"]["containers"][0]["livenessProbe"]["exec"]["command"]
        self.assertEqual(command[:2], ["/usr/bin/sluice", "health"])
        self.assertEqual({word for word in command if word.startswith("--")} - known, set())

    def test_versions_of_the_api_fit_the_cluster(self):
        values = ["autoscaling.enabled=true"]
        for cluster, expected in ((MODERN + CERT_MANAGER, {"policy/v1", "autoscaling/v2"}),
                                  (OLD + CERT_MANAGER, {"policy/v1beta1", "autoscaling/v2beta2"})):
            used = {manifest["apiVersion"] for manifest in render(values, cluster)}
            self.assertLessEqual(expected, used)

    def edges(self, values):
        edges = set()
        for manifest in render(values):
            if manifest["kind"] != "NetworkPolicy" or "Ingress" not in manifest["spec"]["policyTypes"]:
                continue
            to = manifest["spec"]["podSelector"]["matchLabels"].get("app.kubernetes.io/component")
            for rule in manifest["spec"].get("ingress", []):
                for peer in rule.get("from", []):
                    to = to or "public"
                    edges.add((peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"], to))
        return edges

    def test_the_pipelines_picture_is_all_that_policies_let_through(self):
        values = ["layout=services", "model.pipelineParallel=2"]
        served = {
            ("orchestrator", "tokenizer"), ("orchestrator", "embedding"), ("orchestrator", "sampler"),
            ("orchestrator", "stage-0"), ("orchestrator", "stage-1"), ("embedding", "stage-0"), ("embedding", "sampler"),
            ("stage-0", "stage-1"), ("stage-1", "sampler"), ("gateway", "public")}
        self.assertEqual(self.edges(values), served)
        drafts = self.edges(values + ["model.persistentVolumeClaim=weights", "model.draft.path=1b"]) - served
        self.assertEqual(drafts, {
            ("orchestrator", "draft-embedding"), ("orchestrator", "draft-shard"), ("orchestrator", "draft-sampler"),
            ("draft-embedding", "draft-shard"), ("draft-embedding", "draft-sampler"), ("draft-shard", "draft-sampler")})

    def test_the_model_that_drafts_is_read_by_its_own_processes_alone(self):
        values = ["layout=services", "model.persistentVolumeClaim=weights", "model.path=8b", "model.draft.path=1b",
                  "model.draft.weights=int4", "model.draft.kvCacheMib=64"]
        arguments = {}
        for workload in rules.workloads(render(values + ["gateway.enabled=false"])):
            container = rules.pod_of(workload)["spec"]["containers"][0]
            arguments[container["name"]] = container["args"]
        for name, args in arguments.items():
            self.assertIn(f"--model=/models/{'1b' if name.startswith('draft-') else '8b'}", args, name)
        self.assertIn("--weights=int4", arguments["draft-shard"])
        self.assertIn("--kv_cache_mib=64", arguments["draft-shard"])
        self.assertIn("--draft_shard=demo-sluice-0-draft-shard.lab.svc:8710", arguments["orchestrator"])

    def test_spans_leave_by_a_policy_of_their_own_and_for_nowhere_unless_asked(self):
        self.assertNotIn("otlp", str(render(["layout=services"])))
        values = ["layout=services", "otlp.endpoint=http://otel:4317", "otlp.collectors[0].podSelector.matchLabels.app=otel"]
        policies = {m["metadata"]["name"]: m["spec"] for m in render(values) if m["kind"] == "NetworkPolicy"}
        for who in ("public", "gateway"):
            spec = policies[f"demo-sluice-otlp-{who}"]
            self.assertEqual(spec["policyTypes"], ["Egress"])
            self.assertEqual(spec["egress"], [{"ports": [{"port": 4317, "protocol": "TCP"}],
                                               "to": [{"podSelector": {"matchLabels": {"app": "otel"}}}]}])

    def test_a_token_for_the_collector_is_where_its_flag_says(self):
        for layout in ("single", "services"):
            told = []
            for workload in rules.workloads(render([f"layout={layout}", "otlp.endpoint=otel:4317", "otlp.tokenSecret=otel-token"])):
                pod = rules.pod_of(workload)["spec"]
                for container in pod["containers"]:
                    if "--otlp_token_file=/etc/sluice/otlp-token/token" not in container["args"]:
                        continue
                    told.append(container["name"])
                    self.assertIn("/etc/sluice/otlp-token", [mount["mountPath"] for mount in container["volumeMounts"]])
                    secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if volume["name"] == "otlp-token"]
                    self.assertEqual(secrets, ["otel-token"])
            self.assertEqual(sorted(told), ["gateway", "sluice" if layout == "single" else "orchestrator"])

    def test_ranks_in_pods_are_a_leader_worker_set_where_the_cluster_has_them(self):
        values = ["layout=services", "model.tensorParallel=4", "ranks.placement=pods", "ranks.trustedNetwork=true"]
        has = ["--api-versions", "leaderworkerset.x-k8s.io/v1"]
        manifests = render(values, MODERN + CERT_MANAGER + has)
        sets = [m for m in manifests if m["kind"] == "LeaderWorkerSet"]
        self.assertEqual([one["spec"]["leaderWorkerTemplate"]["size"] for one in sets], [4])
        self.assertNotIn("StatefulSet", [m["kind"] for m in manifests])
        for rule in rules.ALWAYS:
            self.assertEqual(list(rule(manifests)), [], rule.__name__)
        orchestrator = next(m for m in rules.workloads(manifests) if m["metadata"]["name"].endswith("orchestrator"))
        shards = next(a for a in rules.pod_of(orchestrator)["spec"]["containers"][0]["args"] if a.startswith("--shards="))
        name = sets[0]["metadata"]["name"]
        hosts = [address.split(".")[0] for address in shards.removeprefix("--shards=").split(",")]
        self.assertEqual(hosts, [f"{name}-0", f"{name}-0-1", f"{name}-0-2", f"{name}-0-3"])
        kept = render(values + ["ranks.controller=statefulSet"], MODERN + CERT_MANAGER + has)
        self.assertIn("StatefulSet", [m["kind"] for m in kept])

    def test_certificates_name_the_role_and_nothing_else(self):
        manifests = render(["layout=services"], MODERN)
        self.assertEqual(list(rules.what_is_named_exists(manifests)), [])
        secrets = {m["metadata"]["name"]: m for m in manifests if m["kind"] == "Secret"}
        with tempfile.TemporaryDirectory() as folder:
            for role in ("orchestrator", "shard", "client"):
                data = secrets[f"demo-sluice-tls-{role}"]["data"]
                for key in ("tls.crt", "ca.crt"):
                    with open(os.path.join(folder, key), "wb") as file:
                        file.write(base64.b64decode(data[key]))
                openssl = lambda *words: subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True)
                self.assertEqual(openssl("verify", "-CAfile", "ca.crt", "tls.crt").returncode, 0)
                names = openssl("x509", "-in", "tls.crt", "-noout", "-ext", "subjectAltName").stdout
                self.assertEqual(re.findall(r"DNS:([^,\s]+)", names), [f"{role}.demo.lab.sluice.internal"])

    def test_the_authoritys_key_is_in_no_pod(self):
        for workload in rules.workloads(render(["layout=services"])):
            for volume in rules.pod_of(workload)["spec"]["volumes"]:
                self.assertNotIn("authority", volume.get("secret", {}).get("secretName", ""))

    def test_cert_manager_is_used_where_it_is(self):
        manifests = render()
        kinds = [manifest["kind"] for manifest in manifests]
        self.assertEqual(kinds.count("Certificate"), 8)
        self.assertEqual(list(rules.what_is_named_exists(manifests)), [])

    def test_an_init_container_gets_the_model_of_a_hub(self):
        values = ["model.source=hf://Qwen/Qwen3-0.6B@v1", "model.hubEndpoint=https://hub.example", "model.hubTokenSecret=hub"]
        for layout in ("single", "services"):
            manifests = render([*values, f"layout={layout}"])
            pods = [rules.pod_of(one)["spec"] for one in rules.workloads(manifests)]
            pods = [pod for pod in pods if pod["containers"][0]["name"] != "gateway"]
            self.assertGreaterEqual(len(pods), 1 if layout == "single" else 5)
            for pod in pods:
                pull = pod["initContainers"][0]
                self.assertEqual(["pull", "--out=/models/Qwen/Qwen3-0.6B@v1", "--revision=v1", "--endpoint=https://hub.example",
                                  "--token_file=/hub/token", "Qwen/Qwen3-0.6B"], pull["args"])
                self.assertIn("--model=/models/Qwen/Qwen3-0.6B@v1", str(pod["containers"]))
                self.assertIn({"name": "model", "mountPath": "/models"}, pull["volumeMounts"])
                self.assertIn("hub", str([volume for volume in pod["volumes"] if volume["name"] == "hub-token"]))
            policies = [one for one in manifests if one["metadata"]["name"].endswith("-hub")]
            self.assertEqual([[{"port": 443, "protocol": "TCP"}]],
                             [rule["ports"] for one in policies for rule in one["spec"]["egress"]])
        self.assertNotIn("-hub", str([one["metadata"]["name"] for one in render([])]))

    def test_wrong_values_are_refused_with_a_sentence(self):
        for values, sentence in REFUSED:
            cluster = MODERN if "certificates.mode=certManager" in values else MODERN + CERT_MANAGER
            done = helm("template", "demo", CHART, *flags_of(values), *cluster)
            with self.subTest(values=values):
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    if not os.access(HELM, os.X_OK):
        print(f"skipped: no {HELM}; deploy/helm/get_helm.sh build/tools fetches it")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
