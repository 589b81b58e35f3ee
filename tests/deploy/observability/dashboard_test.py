"""A pipeline under load, a real Prometheus that scrapes it, and every query of the dashboard: each must parse and find data.

Usage: dashboard_test.py BIN_DIR. Exit status 77, and why, where prometheus is not installed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testing"))

from pipeline import Pipeline, free_ports  # noqa: E402

BIN = sys.argv[1]
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PROCESSES = 5  # of a pipeline without ranks or stages


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.port = free_ports(PROCESSES + 1)
        # Nobody listens at the collector's address: what is dropped is shown too.
        self.up = Pipeline(os.path.join(BIN, "sluice"), "--metrics_port", str(self.port), "--vllm_metric_names",
                           "--otlp_endpoint", "127.0.0.1:1", stderr=subprocess.DEVNULL)
        self.endpoint = self.up.endpoint
        config = os.path.join(self.folder, "prometheus.json")  # JSON is YAML
        with open(config, "w") as file:
            json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "sluice", "static_configs": [
                {"targets": [f"127.0.0.1:{self.port + i}" for i in range(PROCESSES)]}]}]}, file)
        self.address = f"127.0.0.1:{self.port + PROCESSES}"
        self.prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address={self.address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tearDown(self):
        self.prometheus.terminate()
        self.prometheus.wait(30)
        self.up.stop()
        shutil.rmtree(self.folder)

    def query(self, expression):
        url = f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        return json.loads(get(url))["data"]["result"]

    def wait_for(self, expression):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if self.query(expression):
                    return True
            except OSError:
                pass
            time.sleep(0.5)
        return False

    def test_every_query_finds_data(self):
        self.assertTrue(self.wait_for(f"count(sluice_serving == 1) == {PROCESSES}"), "not every process is scraped")
        self.assertTrue(self.wait_for("sluice_steps_total"))
        load = [os.path.join(BIN, "sluice"), "bench", "--endpoint", self.endpoint, "--prompt_tokens", "16", "--max_tokens", "8",
                "--concurrency", "2", "--requests", "8"]
        subprocess.run(load, check=True, capture_output=True, timeout=120)
        refused = subprocess.run([os.path.join(BIN, "sluice"), "generate", "--endpoint", self.endpoint, "--prompt", "x",
                                  "--max_tokens", "0"], capture_output=True, timeout=60)
        self.assertEqual(refused.returncode, 1)
        self.assertTrue(self.wait_for('sluice_requests_total{outcome="ok"} >= 8'))
        self.assertTrue(self.wait_for('sluice_requests_total{outcome="invalid_argument"} == 1'))
        with open(os.path.join(ROOT, "deploy", "observability", "dashboard.json")) as file:
            dashboard = json.load(file)
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        self.assertGreater(len(expressions), 15)
        for expression in expressions:
            for variable, value in (("$job", ".*"), ("$instance", ".*"), ("$__rate_interval", "1m")):
                expression = expression.replace(variable, value)
            with self.subTest(expression=expression):
                self.assertTrue(self.wait_for(expression), "finds nothing")

    def test_the_native_and_the_borrowed_names_agree(self):
        self.assertTrue(self.wait_for("sluice_steps_total"))
        text = get(f"http://127.0.0.1:{self.port}/metrics")
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertEqual(values["vllm:kv_cache_usage_perc"], values["sluice_kv_usage_ratio"])
        self.assertEqual(values["vllm:num_requests_waiting"], values['sluice_sequences{state="waiting"}'])


if __name__ == "__main__":
    if shutil.which("prometheus") is None:
        print("skipped: prometheus is not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
