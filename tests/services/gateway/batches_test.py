"""Files and batches: results that survive deaths, each once, and that nobody else sees.

Usage: batches_test.py BIN_DIR [unittest arguments]
"""

import hashlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

from served import Served, call
from pipeline import arguments_of  # whose folder `served` has put on the path

BIN = sys.argv[1]
KEYS = {"search": "key of search", "chat": "key of chat", "batch": "key of batch"}
URL = "/v1/completions"
served = None
folder = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(folder.name, name)


def setUpModule():
    global served
    with open(path("tokens"), "w") as file:
        for tenant, key in KEYS.items():
            file.write(f"{hashlib.sha256(key.encode()).hexdigest()} {tenant}\n")
    with open(path("batch-token"), "w") as file:
        file.write(KEYS["batch"] + "\n")
    with open(path("tenants.json"), "w") as file:
        json.dump({"tenants": {"batch": {"weight": 0.1}, "chat": {"sees_all_requests": True}}}, file)
    served = Served(BIN, "--tokens", path("tokens"), "--tenants", path("tenants.json"), "--batch_dir", path("batches"),
                    "--batch_token_file", path("batch-token"), "--batch_concurrency", "8")


def tearDownModule():
    served.stop()
    folder.cleanup()


def ask(method, path, body=None, tenant="search", server=None, **headers):
    """The answer, also where the gateway has just been killed."""
    for _ in range(100):
        try:
            return call((server or served).address, method, path, body, {"authorization": f"Bearer {KEYS[tenant]}", **headers})
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    raise AssertionError("the gateway does not come back")


def lines(count, tokens=8):
    return [{"custom_id": f"line {i}", "method": "POST", "url": URL,
             "body": {"prompt": f"Once upon a time there were {i} kings who", "max_tokens": tokens, "seed": i,
                      "ignore_eos": True}} for i in range(count)]


def upload(requests, tenant="search"):
    content = "".join(json.dumps(request) + "\n" for request in requests)
    form = ('--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            '--b\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
            f"{content}\r\n--b--\r\n")
    answer = ask("POST", "/v1/files", form.encode(), tenant, **{"content-type": "multipart/form-data; boundary=b"})
    assert answer.status == 200, answer.text
    assert answer.json["bytes"] == len(content)
    return answer.json["id"]


def create(file, tenant="search"):
    answer = ask("POST", "/v1/batches", {"input_file_id": file, "endpoint": URL, "completion_window": "24h"}, tenant)
    assert answer.status == 200, answer.text
    return answer.json["id"]


def get(batch):
    return ask("GET", f"/v1/batches/{batch}").json


def wait_until(batch, condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition(state := get(batch)):
        if time.monotonic() > end:
            raise AssertionError(state)
        time.sleep(0.02)
    return state


def results(file):
    return [json.loads(line) for line in ask("GET", f"/v1/files/{file}/content").text.splitlines()]


class BatchesTest(unittest.TestCase):
    def test_no_line_is_lost_or_there_twice_whoever_dies(self):
        requests = lines(240, tokens=30)
        batch = create(upload(requests))
        for program, part in (("sluice-gateway", 10), ("sluice-orchestrator", 60), ("sluice-gateway", 120)):
            state = wait_until(batch, lambda state: state["request_counts"]["completed"] >= part)
            self.assertEqual(state["status"], "in_progress", f"too fast for the death of {program}")
            served.kill(program)
        state = wait_until(batch, lambda state: state["status"] not in ("in_progress", "finalizing"))
        self.assertEqual(state["status"], "completed")
        self.assertEqual(state["request_counts"], {"total": 240, "completed": 240, "failed": 0})
        self.assertIsNone(state["error_file_id"])
        answers = results(state["output_file_id"])
        self.assertEqual(sorted(a["custom_id"] for a in answers), sorted(r["custom_id"] for r in requests))
        by_id = {answer["custom_id"]: answer["response"] for answer in answers}
        for request in requests[::80]:
            alone = ask("POST", URL, request["body"]).json
            batched = by_id[request["custom_id"]]
            self.assertEqual(batched["status_code"], 200)
            self.assertEqual(batched["body"]["choices"][0]["text"], alone["choices"][0]["text"])

    def test_lines_run_for_the_tenant_of_the_batch_key(self):
        batch = create(upload(lines(20, tokens=60)))
        tenants = set()
        while get(batch)["status"] in ("validating", "in_progress"):
            status = ask("GET", "/page/status?sequences", tenant="chat").json
            tenants |= {sequence["tenant"] for sequence in status["sequences"]}
        self.assertEqual(tenants, {"batch"})

    def test_each_key_sees_its_own_alone(self):
        file = upload(lines(1))
        batch = create(file)
        for method, path in (("GET", f"/v1/files/{file}"), ("GET", f"/v1/files/{file}/content"),
                             ("DELETE", f"/v1/files/{file}"), ("GET", f"/v1/batches/{batch}"),
                             ("POST", f"/v1/batches/{batch}/cancel")):
            self.assertEqual(ask(method, path, tenant="chat").status, 404, path)
        self.assertEqual(ask("GET", "/v1/files", tenant="chat").json["data"], [])
        self.assertEqual(call(served.address, "GET", "/v1/files").status, 401)
        self.assertEqual(ask("GET", "/v1/files?limit=1&purpose=batch").json["data"][0]["object"], "file")

    def test_says_what_is_wrong(self):
        file = upload(lines(1))
        for change, words in (({"endpoint": "/v1/embeddings"}, "/v1/embeddings"), ({"input_file_id": "file-x"}, "file-x"),
                              ({"completion_window": "soon"}, "completion_window")):
            answer = ask("POST", "/v1/batches", {"input_file_id": file, "endpoint": URL, "completion_window": "24h", **change})
            self.assertEqual(answer.status, 400, answer.text)
            self.assertIn(words, answer.error["message"])
        self.assertEqual(ask("POST", "/v1/files", b"{}").status, 400)
        self.assertEqual(ask("GET", "/v1/batches?limit=0").error["param"], "limit")

    def test_a_gateway_without_a_folder_says_how_to_have_one(self):
        with subprocess.Popen([os.path.join(BIN, "sluice-gateway"), "--orchestrator", served.endpoint, "--listen",
                               "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as gateway:
            address = gateway.stderr.readline().strip().split("address=")[-1]
            answer = call(address, "GET", "/v1/batches", headers={"authorization": f"Bearer {KEYS['chat']}"})
            gateway.kill()
        self.assertEqual(answer.status, 400)
        self.assertIn("--batch_dir", answer.error["message"])

    def test_a_file_without_a_server_of_http(self):
        with open(path("in.jsonl"), "w") as file:
            file.writelines(json.dumps(request) + "\n" for request in lines(60, tokens=30))
        command = [os.path.join(BIN, "sluice"), "batch", path("in.jsonl"), "-o", path("out.jsonl"), "--endpoint",
                   served.endpoint, "--concurrency", "4", "--token_file", path("batch-token")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
            while not os.path.exists(path("out.jsonl")) or os.path.getsize(path("out.jsonl")) < 3000:
                self.assertIsNone(first.poll())
                time.sleep(0.01)
            first.kill()
        with open(path("out.jsonl"), "rb+") as file:  # as if it had died within a line
            file.truncate(os.path.getsize(path("out.jsonl")) - 9)
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("60 of 60 lines", done.stderr)
        with open(path("out.jsonl")) as file:
            answers = [json.loads(line) for line in file]
        self.assertEqual(sorted(a["custom_id"] for a in answers), sorted(r["custom_id"] for r in lines(60)))
        again = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(again.returncode, 0, again.stderr)
        refused = subprocess.run([*command[:4], path("tokens"), *command[5:]], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("something else than results", refused.stderr)


class OneKeyTest(unittest.TestCase):
    def test_up_sees_to_the_key_and_the_weight_of_batches(self):
        one = Served(BIN, "--api_key", KEYS["search"], "--batch_dir", path("batches of one"))
        self.addCleanup(one.stop)
        form = ('--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
                '--b\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
                f"{json.dumps(lines(1)[0])}\r\n--b--\r\n")
        file = ask("POST", "/v1/files", form.encode(), server=one, **{"content-type": "multipart/form-data; boundary=b"}).json
        batch = ask("POST", "/v1/batches", {"input_file_id": file["id"], "endpoint": URL, "completion_window": "1d"},
                    server=one).json
        while batch["status"] not in ("completed", "failed"):
            batch = ask("GET", f"/v1/batches/{batch['id']}", server=one).json
        self.assertEqual(batch["request_counts"]["completed"], 1, batch)
        orchestrator = arguments_of(one.pids("sluice-orchestrator")[0])
        with open(orchestrator[orchestrator.index("--tenants") + 1]) as file:
            self.assertEqual(json.load(file), {"tenants": {"batch": {"weight": 0.1}}})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
