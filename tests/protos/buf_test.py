"""The protos by npm's buf: their style, that they stay compatible, and calls through nothing but reflection.

Usage: buf_test.py BIN_DIR [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOS = os.path.join(HERE, "..", "..", "protos")
BUF = os.path.join(HERE, "npm", "node_modules", ".bin", "buf")
sys.path.insert(0, os.path.join(HERE, "..", "services", "gateway"))

from served import Served  # noqa: E402

BIN = sys.argv[1]
served = None


def setUpModule():
    global served
    served = Served(BIN, http=False)


def tearDownModule():
    served.stop()


def buf(*arguments, folder=PROTOS):
    return subprocess.run([BUF, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)


class StyleTest(unittest.TestCase):
    def test_lint(self):
        done = buf("lint")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_nothing_breaks_since_the_last_release(self):
        described = subprocess.run(["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"], cwd=PROTOS,
                                   capture_output=True, text=True)
        if described.returncode != 0:
            self.skipTest("no release has been tagged yet")
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", described.stdout.strip(), "."], cwd=PROTOS, capture_output=True, check=True)
            subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
            done = buf("breaking", "--against", folder)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_a_field_that_changes_its_number_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            changed = os.path.join(folder, "protos")
            shutil.copytree(PROTOS, changed)
            path = os.path.join(changed, "sluice", "v1", "sampling.proto")
            with open(path) as file:
                text = file.read()
            self.assertIn("float min_p = 5;", text)
            with open(path, "w") as file:
                file.write(text.replace("float min_p = 5;", "float min_p = 55;"))
            done = buf("breaking", "--against", os.path.abspath(PROTOS), folder=changed)
        self.assertEqual(done.returncode, 100)
        self.assertIn("min_p", done.stdout)


def addresses():
    """(name, where buf finds it) of every process that answers gRPC."""
    yield "orchestrator", [f"http://{served.endpoint}"]
    for process in served.status()["processes"]:
        yield process["service"], ["--unix-socket", process["address"].removeprefix("unix:"), "http://localhost"]


def curl(address, method, request=None, *flags):
    *options, url = address
    data = [] if request is None else ["--data", json.dumps(request)]
    return buf("curl", "--protocol", "grpc", "--http2-prior-knowledge", *options, *flags, *data, f"{url}{method}")


class ReflectionTest(unittest.TestCase):
    OWN = {"orchestrator": "sluice.v1.GenerationService", "tokenizer": "sluice.v1.TokenizerService",
           "embedding": "sluice.v1.StageService", "shard": "sluice.v1.StageService", "sampler": "sluice.v1.StageService"}

    def test_every_service_of_every_process_is_listed_and_described(self):
        seen = set()
        for name, address in addresses():
            seen.add(name)
            done = curl(address, "", None, "--list-services")
            self.assertEqual(done.returncode, 0, done.stderr)
            services = set(done.stdout.split())
            # Ranks of shards meet at rank 0, the sampler compiles constraints and sends the tokens it has chosen, gateways hold
            # their calls in sessions.
            inner = {"orchestrator": {"sluice.v1.GenerationSessionService", "sluice.v1.EmbedService",
                                      "sluice.v1.InspectService", "sluice.v1.KvEventService"},
                     "shard": {"sluice.v1.RendezvousService"},
                     "sampler": {"sluice.v1.ConstraintService", "sluice.v1.ChosenTokensService"}}.get(name, set())
            common = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
                      "grpc.reflection.v1.ServerReflection"}
            self.assertEqual(services, {self.OWN[name]} | inner | common, name)
            methods = curl(address, "", None, "--list-methods")
            self.assertEqual(methods.returncode, 0, methods.stderr)
            described = {method.rsplit("/", 1)[0] for method in methods.stdout.split()}
            self.assertEqual(described, services, name)
        self.assertEqual(seen, set(self.OWN))

    def test_health_is_called_by_reflection_alone(self):
        for name, address in addresses():
            done = curl(address, "/grpc.health.v1.Health/Check", {"service": ""})
            self.assertEqual((done.returncode, json.loads(done.stdout or "{}")), (0, {"status": "SERVING"}), name + done.stderr)

    def test_the_public_api_is_called(self):
        address = [f"http://{served.endpoint}"]
        model = curl(address, "/sluice.v1.GenerationService/GetModel", {})
        self.assertEqual(json.loads(model.stdout)["name"], "storyteller")
        stream = curl(address, "/sluice.v1.GenerationService/Generate",
                      {"text": "Once upon a time", "maxTokens": 5, "sampling": {"temperature": 0}})
        self.assertEqual(stream.returncode, 0, stream.stderr)
        self.assertIn('"numGeneratedTokens":5', stream.stdout.replace(" ", ""))
        refused = curl(address, "/sluice.v1.GenerationService/Generate", {"text": "x", "sampling": {"temperature": -1}})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("sampling.temperature is -1", refused.stderr)

    def test_stages_are_called(self):
        for name, address in addresses():
            if name == "orchestrator":
                continue
            done = curl(address, f"/{self.OWN[name]}/{'GetInfo' if name == 'tokenizer' else 'GetStageInfo'}", {})
            self.assertEqual(done.returncode, 0, name + done.stderr)


if __name__ == "__main__":
    if not os.path.exists(BUF):
        print("skipped: buf is not installed: ./dev setup clients")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
