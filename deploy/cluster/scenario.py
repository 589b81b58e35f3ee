"""A layout of the chart, and what happens to it: steps that do not need each other."""

import time

from clients import PodClient, under_load
from cluster import all_ready, kubectl, pods, until
from faults import messages


class Scenario:
    """Subclasses say the release, its values and how many pods those make, and list their steps in the order of their run."""

    release = ""
    what = ""
    values = []
    num_pods = 0
    first_text = "first text through a Service from another pod, over TLS"
    steps = []

    def __init__(self, helm, image, report, cluster_folder):
        self.helm, self.image, self.report, self.cluster_folder = helm, image, report, cluster_folder
        self.name = f"{self.release}-sluice"  # of what the chart makes
        self.client = None
        self.expected = ""

    def run(self, only):
        try:
            if self.install():
                for step in self.steps:
                    if not only or step in only:
                        getattr(self, step)()
        finally:
            self.uninstall()

    def install(self):
        """What every run begins with: ready, and the text that all later ones are compared with."""
        self.uninstall()  # what a run that was killed has left
        began = time.monotonic()
        self.helm("install", self.release, values=self.values)
        up = until(lambda: all_ready(self.release, self.num_pods), 400)
        if not self.told(up, f"{self.what}: ready", f"{time.monotonic() - began:.0f} s after helm install"):
            print(kubectl("get", "pods", "-o", "wide").stdout)
            print(kubectl("logs", "-l", f"app.kubernetes.io/instance={self.release}", "--prefix", "--tail=20").stdout[-4000:])
            return False
        self.client = PodClient(self.name, self.image)
        first = self.client.text()
        self.expected = first.stdout
        return self.told(first.returncode == 0 and len(first.stdout) > 40, self.first_text,
                         repr(first.stdout[:50]) if first.returncode == 0 else first.stderr)

    def uninstall(self):
        if self.client is not None:
            self.client.delete()
        self.helm("uninstall", self.release, check=False)
        until(lambda: not pods(f"app.kubernetes.io/instance={self.release}"))

    def told(self, ok, what, detail=""):
        return self.report.told(ok, what, detail)

    def under_load(self, what, act, client=None):
        under_load(self.report, client or self.client, self.expected, what, act)

    def roll_out(self, workload):
        kubectl("rollout", "restart", workload)
        kubectl("rollout", "status", workload, "--timeout=240s")

    def component(self, name):
        return f"app.kubernetes.io/instance={self.release},app.kubernetes.io/component={name}"

    def ends_saying(self, component, words, what):
        """Whether a pod's termination message has these words."""
        selector = self.component(component)
        until(lambda: any(words in message for message in messages(selector)), 150)
        said = next((message for message in messages(selector) if words in message), "")
        self.told(said != "", f"{what} is told in the pod's termination message", said.strip()[-200:])

    def same_text(self, what):
        after = self.client.text()
        same = after.returncode == 0 and after.stdout == self.expected
        self.told(same, what, "" if same else (after.stderr or after.stdout).strip()[-200:])
