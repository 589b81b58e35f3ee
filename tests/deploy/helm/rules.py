"""What every manifest of the chart must keep, whatever the values. Each rule is a generator of sentences about what is wrong."""

WORKLOADS = ("Deployment", "StatefulSet", "LeaderWorkerSet")
# Flags that name addresses.
DIALLED = ("--tokenizer", "--embedding", "--sampler", "--shards", "--orchestrator", "--draft_embedding", "--draft_shard", "--draft_sampler")
RESTRICTED_VOLUMES = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "projected", "image"}


def name_of(manifest):
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def workloads(manifests):
    return [m for m in manifests if m["kind"] in WORKLOADS]


def pod_of(workload):
    group = workload["spec"].get("leaderWorkerTemplate")
    return group["workerTemplate"] if group else workload["spec"]["template"]


def matches(selector, labels):
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def selector_of(workload):
    """The labels that a workload finds its pods by; none where the cluster adds them itself."""
    return workload["spec"].get("selector", {}).get("matchLabels", {})


def pod_labels(manifests):
    return [pod_of(w)["metadata"]["labels"] for w in workloads(manifests)]


def longest_silence(probe):
    """Seconds from the last answer of a process to the failure of its probe."""
    return probe["failureThreshold"] * max(probe["periodSeconds"], probe["timeoutSeconds"]) + probe["periodSeconds"]


def containers_are_bounded_and_probed(manifests):
    for workload in workloads(manifests):
        for container in pod_of(workload)["spec"]["containers"]:
            where = f"{name_of(workload)}, container {container['name']}"
            if "memory" not in container["resources"].get("limits", {}):
                yield f"{where} has no limit of memory"
            if not {"cpu", "memory"} <= container["resources"].get("requests", {}).keys():
                yield f"{where} does not request cpu and memory"
            for probe in ("readinessProbe", "livenessProbe"):
                if probe not in container:
                    yield f"{where} has no {probe}"
                elif longest_silence(container[probe]) > 10:
                    yield f"{where}: {probe} takes {longest_silence(container[probe])} s to find a process that is frozen"
            if "startupProbe" in container:
                yield f"{where} has a startupProbe, for which a restarted kubelet would wait before it looks for frozen processes"
            if container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
                yield f"{where} tells nobody why it ended"
            if container["image"].endswith(":latest") or ":" not in container["image"]:
                yield f"{where} has an image without a version"


def pods_are_restricted(manifests):
    """Pod Security "restricted", but for volumes that the values asked for."""
    for workload in workloads(manifests):
        spec = pod_of(workload)["spec"]
        where = name_of(workload)
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{where} mounts a token of its service account"
        for host in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(host):
                yield f"{where} has {host}"
        security = spec.get("securityContext", {})
        if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
            yield f"{where} may run as root"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{where} has no seccomp profile"
        for container in spec["containers"]:
            inner = container.get("securityContext", {})
            if inner.get("allowPrivilegeEscalation") is not False:
                yield f"{where}, {container['name']} may gain privileges"
            if inner.get("readOnlyRootFilesystem") is not True:
                yield f"{where}, {container['name']} may write its root"
            if inner.get("capabilities", {}).get("drop") != ["ALL"] or inner["capabilities"].get("add"):
                yield f"{where}, {container['name']} has capabilities"
            if inner.get("privileged"):
                yield f"{where}, {container['name']} is privileged"


def volumes_are_restricted(manifests):
    for workload in workloads(manifests):
        for volume in pod_of(workload)["spec"].get("volumes", []):
            kind = next(key for key in volume if key != "name")
            if kind not in RESTRICTED_VOLUMES:
                yield f"{name_of(workload)} has a volume of {kind}"


def what_is_named_exists(manifests):
    secrets = {m["metadata"]["name"] for m in manifests if m["kind"] == "Secret"}
    secrets |= {m["spec"]["secretName"] for m in manifests if m["kind"] == "Certificate"}
    accounts = {m["metadata"]["name"] for m in manifests if m["kind"] == "ServiceAccount"}
    maps = {m["metadata"]["name"] for m in manifests if m["kind"] == "ConfigMap"}
    services = {m["metadata"]["name"] for m in manifests if m["kind"] == "Service"}
    services |= {m["metadata"]["name"] for m in manifests if m["kind"] == "LeaderWorkerSet"}
    for workload in workloads(manifests):
        spec = pod_of(workload)["spec"]
        if spec["serviceAccountName"] not in accounts:
            yield f"{name_of(workload)} runs as {spec['serviceAccountName']}, which does not exist"
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        for volume in spec.get("volumes", []):
            secret = volume.get("secret", {}).get("secretName")
            if secret and secret not in secrets:
                yield f"{name_of(workload)} mounts Secret {secret}, which does not exist"
        for container in spec.get("initContainers", []) + spec["containers"]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            for volume in mounted - volumes:
                yield f"{name_of(workload)} mounts {volume}, which is no volume of its pod"
        if workload["kind"] == "StatefulSet" and workload["spec"]["serviceName"] not in services:
            yield f"{name_of(workload)} is under a Service that does not exist"


def selectors_find_pods(manifests):
    pods = pod_labels(manifests)
    for manifest in manifests:
        kind, spec = manifest["kind"], manifest.get("spec", {})
        selectors = []
        if kind in WORKLOADS:
            selector = selector_of(manifest)
            if selector and not matches(selector, pod_of(manifest)["metadata"]["labels"]):
                yield f"{name_of(manifest)} does not select its own pods"
        elif kind == "Service":
            selectors = [spec["selector"]]
        elif kind == "PodDisruptionBudget":
            selectors = [spec["selector"]["matchLabels"]]
        elif kind == "NetworkPolicy":
            selectors = [spec["podSelector"]["matchLabels"]]
            for rule in spec.get("ingress", []) + spec.get("egress", []):
                peers = rule.get("from", []) + rule.get("to", [])
                # Those of other namespaces are the cluster's.
                selectors += [peer["podSelector"]["matchLabels"] for peer in peers
                              if "podSelector" in peer and "namespaceSelector" not in peer]
        for selector in selectors:
            if pods and not any(matches(selector, labels) for labels in pods):
                yield f"{name_of(manifest)} selects no pod: {selector}"


def workloads_select_apart(manifests):
    """No workload's selector may find another's pods: each would count them as its own."""
    for one in workloads(manifests):
        for other in workloads(manifests):
            if one is not other and matches(selector_of(one), pod_of(other)["metadata"]["labels"]):
                yield f"{name_of(one)} selects the pods of {name_of(other)}"


def every_dialled_address_is_served(manifests):
    """Flags that name an address: its Service exists, and its port is one that a pod behind it listens on."""
    services = {m["metadata"]["name"]: m["spec"]["selector"] for m in manifests if m["kind"] == "Service"}
    # A LeaderWorkerSet brings a Service of its own name.
    services |= {m["metadata"]["name"]: pod_of(m)["metadata"]["labels"] for m in manifests if m["kind"] == "LeaderWorkerSet"}
    for workload in workloads(manifests):
        for container in pod_of(workload)["spec"]["containers"]:
            for argument in container.get("args", []):
                flag, _, value = argument.partition("=")
                if flag not in DIALLED:
                    continue
                for address in value.removeprefix("dns:///").replace(";", ",").split(","):
                    host, _, port = address.rpartition(":")
                    labels = host.split(".") + [""]
                    if host == "localhost":
                        services["localhost"] = pod_of(workload)["metadata"]["labels"]
                    service = services.get(labels[0]) or services.get(labels[1])
                    if service is None:
                        yield f"{name_of(workload)}: {flag} names {address}, which is no Service"
                        continue
                    listening = {
                        listed["containerPort"]
                        for other in workloads(manifests)
                        if matches(service, pod_of(other)["metadata"]["labels"])
                        for one in pod_of(other)["spec"]["containers"] for listed in one["ports"]}
                    if int(port) not in listening:
                        yield f"{name_of(workload)}: {flag} names {address}; its pods listen on {sorted(listening)}"


ALWAYS = (containers_are_bounded_and_probed, pods_are_restricted, what_is_named_exists, selectors_find_pods,
          workloads_select_apart, every_dialled_address_is_served)
