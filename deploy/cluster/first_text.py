"""The commands of deploy/README.md that lead from nothing to a first text, as they are written there."""

import json
import os
import re
import time

from cluster import HOME, ROOT, inside, pods, until

HEADING = "## From nothing to first text"


def commands():
    """Those after the first, which builds the image that this cluster was given."""
    with open(os.path.join(ROOT, "deploy", "README.md")) as file:
        section = file.read().split(HEADING, 1)[1]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL).group(1)
    first, _, rest = block.partition("\n")
    if not first.startswith("./dev images"):
        raise RuntimeError(f"the first command is {first!r}")
    return rest


class FirstText:
    steps = []

    def __init__(self, helm, image, report, cluster_folder):
        self.helm, self.report = helm, report

    def run(self, only):
        path = ":".join([os.path.join(HOME, "dist/usr/bin"), os.path.dirname(self.helm.program), os.environ["PATH"]])
        state = os.path.join(HOME, "state")
        script = f"set -e; cd {ROOT}; trap 'kill $(jobs -p)' EXIT\n{commands()}"
        began = time.monotonic()
        try:
            done = inside("bash", "-c", script, check=False,
                          environment={"PATH": path, "KUBECONFIG": f"{state}/pki/admin.kubeconfig", "HOME": f"{state}/home"})
            text = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
            said = repr(json.loads(text.group(0))["choices"][0]["text"][:50]) if text else (done.stdout + done.stderr)[-500:]
            self.report.told(text is not None and done.returncode == 0, "the commands of deploy/README.md lead to text",
                             f"{said}, {time.monotonic() - began:.0f} s after the image was built")
        finally:
            self.helm("uninstall", "sluice", check=False)
            until(lambda: not pods("app.kubernetes.io/instance=sluice"))
