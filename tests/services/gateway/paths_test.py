"""The paths beside OpenAI's own: Anthropic's, KServe's, tokenize, detokenize, score, metrics; and curl.

Usage: paths_test.py BIN_DIR [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from served import STORYTELLER, Served, call

import random_adapter

BIN = sys.argv[1]
TEXT = "The king had a daughter."
served = None
folder = tempfile.TemporaryDirectory()


def setUpModule():
    global served
    for seed, name in enumerate(("first", "second", "watched/third")):
        random_adapter.write(os.path.join(folder.name, name), STORYTELLER, seed)
    with open(os.path.join(folder.name, "tenants.json"), "w") as file:
        json.dump({"default": {"loads_adapters": True}}, file)
    served = Served(BIN, "--batch_dir", f"{folder.name}/batches", "--adapters", f"first={folder.name}/first",
                    "--adapter_folder", f"{folder.name}/watched", "--tenants", f"{folder.name}/tenants.json")


def tearDownModule():
    served.stop()
    folder.cleanup()


def post(path, **body):
    return call(served.address, "POST", path, body)


def get(path):
    return call(served.address, "GET", path)


def new_file():
    """The id of a file for a batch of one line."""
    line = json.dumps({"custom_id": "1", "url": "/v1/completions", "body": {"prompt": "x", "max_tokens": 1}})
    form = ('--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n{line}\r\n--b--\r\n')
    return call(served.address, "POST", "/v1/files", form.encode(), {"content-type": "multipart/form-data; boundary=b"}).json["id"]


def ended_batch():
    batch = post("/v1/batches", input_file_id=new_file(), endpoint="/v1/completions").json
    while batch["status"] not in ("completed", "failed"):
        batch = get(f"/v1/batches/{batch['id']}").json
    return batch["id"]


class DescriptionTest(unittest.TestCase):
    def test_version_is_that_of_the_program(self):
        version = subprocess.run([f"{BIN}/sluice", "version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertEqual(get("/version").json, {"version": version})
        self.assertEqual(get("/v2").json["version"], version)
        self.assertEqual(get("/openapi.json").json["info"]["version"], version)

    def test_openapi_describes_paths_that_are_there(self):
        document = get("/openapi.json").json
        self.assertGreater(len(document["paths"]), 12)
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                with self.subTest(path=path):
                    sent = path.replace("{model}", "storyteller")
                    if "{file_id}" in sent:
                        sent = sent.replace("{file_id}", new_file())
                    if "{batch_id}" in sent:
                        sent = sent.replace("{batch_id}", ended_batch())
                    answer = call(served.address, method.upper(), sent, {} if method == "post" else None)
                    required = (operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                                .get("schema", {}).get("required", []))
                    self.assertEqual(answer.status, 400 if required or method == "post" else 200, answer.text)

    def test_what_openapi_names_is_known(self):
        for path, operations in get("/openapi.json").json["paths"].items():
            schema = (operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
                      .get("schema"))
            if schema is None:
                continue
            # A member that is null counts as absent, but has to be known; what is missing is told before what is unknown.
            body = dict.fromkeys(schema["properties"])
            self.assertNotIn("Unknown", call(served.address, "POST", path, body).text)
            full = {"messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x", "max_tokens": 1,
                    "query": "x", "documents": ["x"], "text_1": "x", "text_2": "x",
                    "max_output_tokens": 1, "tokens": [1], "input_file_id": new_file(), "endpoint": "/v1/completions"}
            body.update({name: value for name, value in full.items() if name in body})
            if path == "/tokenize":
                body["messages"] = None
            answer = call(served.address, "POST", path, body)
            is_refused = (operations["post"]["tags"] == ["Embeddings, reranking, classification"]  # which storyteller does not make
                          or path.endswith("_lora_adapter"))  # without a name
            if is_refused:
                self.assertEqual(answer.status, 400, path)
                self.assertNotIn("Unknown", answer.text)
            else:
                self.assertEqual(answer.status, 200, path)


class TextTest(unittest.TestCase):
    def test_tokenize_and_back(self):
        tokens = post("/tokenize", prompt=TEXT, add_special_tokens=False).json
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual(tokens["max_model_len"], 512)
        self.assertEqual(post("/detokenize", tokens=tokens["tokens"]).json, {"prompt": TEXT})
        self.assertIn("'prompt' or 'messages'", post("/tokenize").error["message"])
        self.assertEqual(post("/detokenize", tokens=[1.5]).error["param"], "tokens[0]")
        self.assertEqual(post("/tokenize", prompt=TEXT, model="x").status, 404)

    def test_tokens_of_a_conversation(self):
        messages = [{"role": "user", "content": "hi"}]
        for begins, text in ((None, "user: hi\nassistant:"), (True, "user: hi\nassistant:"), (False, "user: hi\n")):
            tokens = post("/tokenize", messages=messages, add_generation_prompt=begins).json["tokens"]
            self.assertEqual(tokens, post("/tokenize", prompt=text, add_special_tokens=False).json["tokens"])
        counted = post("/v1/messages/count_tokens", messages=messages, model="storyteller").json["input_tokens"]
        self.assertEqual(post("/tokenize", messages=messages).json["count"], counted)
        self.assertEqual(post("/tokenize", messages=messages, prompt="hi").error["param"], "messages")
        self.assertEqual(post("/tokenize", messages=[]).error["param"], "messages")

    def test_score(self):
        score = post("/v1/score", prompt=TEXT, top_logprobs=2).json
        self.assertEqual(len(score["token_ids"]), len(score["logprobs"]["tokens"]))
        logprobs = score["logprobs"]["token_logprobs"][1:]
        self.assertAlmostEqual(score["mean_nll"], -sum(logprobs) / len(logprobs), places=5)
        self.assertEqual(post("/v1/score", prompt=score["token_ids"]).json["mean_nll"], score["mean_nll"])
        self.assertAlmostEqual(score["sum_logprob"], sum(logprobs), places=4)
        self.assertEqual(post("/v1/score").error["param"], "prompt")
        self.assertEqual(post("/v1/score", prompt=3).error["code"], "invalid_type")


class KserveTest(unittest.TestCase):
    def test_scores_of_several_texts(self):
        alone = [post("/v1/score", prompt=text, top_logprobs=1).json for text in (TEXT, TEXT + " and")]
        scores = post("/v1/score", prompt=[TEXT, TEXT + " and"], top_logprobs=1).json
        self.assertEqual((scores["object"], [score["index"] for score in scores["data"]]), ("list", [0, 1]))
        self.assertEqual(scores["usage"]["prompt_tokens"], sum(score["usage"]["prompt_tokens"] for score in alone))
        for score, one in zip(scores["data"], alone):
            for name in ("token_ids", "logprobs", "sum_logprob", "mean_nll", "perplexity"):
                self.assertEqual(score[name], one[name], name)
        by_ids = post("/v1/score", prompt=[score["token_ids"] for score in alone]).json
        self.assertEqual([score["mean_nll"] for score in by_ids["data"]], [score["mean_nll"] for score in alone])
        for prompt in ([], ["x", 3], ["x"] * 129):
            self.assertEqual(post("/v1/score", prompt=prompt).error["param"], "prompt")
        self.assertIn("prompt[1]", post("/v1/score", prompt=["x", ""]).error["message"])

    def test_health_and_metadata(self):
        self.assertEqual(get("/v2/health/live").json, {"live": True})
        self.assertEqual(get("/v2/health/ready").json, {"ready": True})
        self.assertEqual(get("/v2").json["name"], "sluice")
        self.assertEqual(get("/v2/models/storyteller").json["name"], "storyteller")
        self.assertEqual(get("/v2/models/storyteller/ready").json, {"ready": True})
        self.assertEqual(get("/v2/models/other/ready").status, 404)


class AnthropicTest(unittest.TestCase):
    ASK = {"model": "storyteller", "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": TEXT}]}

    def test_errors_have_anthropics_shape(self):
        for change, status, kind, part in (
                ({"max_tokens": None}, 400, "invalid_request_error", "max_tokens"),
                ({"model": "claude-9"}, 404, "not_found_error", "claude-9"),
                ({"thinking": {"type": "deep"}}, 400, "invalid_request_error", "thinking"),
                ({"stop_sequences": ["x"] * 70}, 400, "invalid_request_error", "stop_sequences is 70"),
                ({"temperature": -1}, 400, "invalid_request_error", "temperature is -1"),
                ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, 400, "invalid_request_error",
                 "'web_search_20250305' is a tool that Anthropic defines"),
                ({"messages": []}, 400, "invalid_request_error", "messages"),
                ({"messages": [{"role": "system", "content": "x"}]}, 400, "invalid_request_error", "messages[0].role"),
                ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 400, "invalid_request_error", "image"),
                ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "tool_choice"),
                ({"surprise": 1}, 400, "invalid_request_error", "surprise")):
            with self.subTest(change=change):
                answer = post("/v1/messages", **{**self.ASK, **change})
                self.assertEqual((answer.status, answer.json["type"], answer.error["type"]), (status, "error", kind))
                self.assertIn(part, answer.error["message"])

    def test_the_text_is_that_of_a_chat_completion(self):
        message = post("/v1/messages", **self.ASK).json
        chat = post("/v1/chat/completions", **self.ASK).json
        self.assertEqual(message["content"], [{"type": "text", "text": chat["choices"][0]["message"]["content"]}])
        usage = message["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], chat["usage"]["prompt_tokens"])

    def test_what_does_not_fit_is_said_in_the_words_that_clients_look_for(self):
        long = [{"role": "user", "content": "Once upon a time. " * 1000}]
        messages = post("/v1/messages", **{**self.ASK, "messages": long})
        self.assertEqual(messages.status, 400)
        self.assertRegex(messages.error["message"], r"^prompt is too long: \d+ tokens > \d+ maximum$")
        both = post("/v1/messages", **{**self.ASK, "max_tokens": get("/v1/models").json["data"][0]["max_model_len"]})
        self.assertRegex(both.error["message"], r"^input length and `max_tokens` exceed context limit: \d+ \+ \d+ > \d+, ")
        for path, name, ask in (("/v1/chat/completions", "messages", {"messages": long}), ("/v1/completions", "prompt",
                                {"prompt": long[0]["content"]}), ("/v1/responses", "input", {"input": long})):
            error = post(path, **ask).error
            self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", name), path)
            self.assertIn("This model's maximum context length is ", error["message"])

    def test_a_final_turn_of_the_assistant_goes_on(self):
        turns = [*self.ASK["messages"], {"role": "assistant", "content": "The king was"}]
        tokens = post("/tokenize", messages=turns, continue_final_message=True).json["tokens"]
        self.assertTrue(post("/detokenize", tokens=tokens).json["prompt"].endswith("assistant: The king was"))
        expected = post("/v1/completions", prompt=tokens, max_tokens=8, temperature=0).json["choices"][0]["text"]
        goes_on = post("/v1/messages", **{**self.ASK, "messages": turns}).json["content"][0]["text"]
        chat = post("/v1/chat/completions", **{**self.ASK, "messages": turns, "continue_final_message": True}).json
        self.assertEqual([goes_on, chat["choices"][0]["message"]["content"]], [expected] * 2)

    def test_events_come_in_their_order(self):
        answer = post("/v1/messages", **self.ASK, stream=True)
        kinds = [event["type"] for event in answer.events]
        deltas = kinds.count("content_block_delta")
        self.assertEqual(kinds, ["message_start", "ping", "content_block_start", *["content_block_delta"] * deltas,
                                 "content_block_stop", "message_delta", "message_stop"])
        begin, end = answer.events[0]["message"]["usage"], answer.events[-2]["usage"]
        self.assertEqual(begin["input_tokens"], end["input_tokens"] + end["cache_read_input_tokens"])


class AdaptersTest(unittest.TestCase):
    """LoRA adapters as vLLM's clients name, list, load and unload them."""

    def complete(self, model):
        return post("/v1/completions", model=model, prompt="Once upon a time", max_tokens=40, temperature=1, seed=7)

    def text(self, model):
        return self.complete(model).json["choices"][0]["text"]

    def test_a_model_may_be_an_adapter(self):
        answer = self.complete("first").json
        self.assertEqual(answer["model"], "first")
        self.assertEqual(self.complete("storyteller").json["model"], "storyteller")
        self.assertEqual(len({self.text(model) for model in ("storyteller", "first", "third")}), 3)
        expected = subprocess.run([os.path.join(BIN, "sluice"), "generate", "--endpoint", served.endpoint, "--adapter", "first",
                                   "--prompt", "Once upon a time", "--max_tokens", "40", "--temperature", "1", "--seed", "7"],
                                  capture_output=True, text=True, timeout=120, check=True).stdout
        self.assertEqual(self.text("first"), expected.removesuffix("\n"))
        chat = {"messages": [{"role": "user", "content": "Tell me of the king."}], "max_tokens": 8, "temperature": 0}
        for path in ("/v1/chat/completions", "/v1/messages"):
            self.assertEqual(post(path, **chat, model="first").json["model"], "first", path)
        streamed = post("/v1/completions", model="first", prompt="Once upon a time", max_tokens=40, temperature=1, seed=7,
                        stream=True)
        self.assertEqual("".join(event["choices"][0]["text"] for event in streamed.events[:-1]), self.text("first"))
        for path, body in (("/v1/completions", {"prompt": TEXT}), ("/v1/chat/completions", chat), ("/v1/messages", chat),
                           ("/v1/score", {"prompt": TEXT})):
            self.assertEqual(post(path, **body, model="ninth").status, 404, path)
        self.assertEqual(self.complete("ninth").error["code"], "model_not_found")

    def test_models_are_listed_with_their_base(self):
        data = {model["id"]: model.get("parent") for model in get("/v1/models").json["data"]}
        self.assertEqual(data, {"storyteller": None, "first": "storyteller", "third": "storyteller"})
        self.assertEqual(get("/v1/models/first").json["parent"], "storyteller")
        self.assertEqual(get("/v1/models/second").status, 404)

    def test_load_and_unload(self):
        path = os.path.join(folder.name, "second")
        loaded = post("/v1/load_lora_adapter", lora_name="second", lora_path=path)
        self.assertEqual((loaded.status, loaded.text), (200, "Success: LoRA adapter 'second' added successfully."))
        self.assertEqual(self.complete("second").json["model"], "second")
        self.assertEqual(post("/v1/load_lora_adapter", lora_name="second", lora_path=path).status, 400)
        self.assertEqual(post("/v1/load_lora_adapter", lora_name="second", lora_path=path, load_inplace=True).status, 200)
        self.assertEqual(post("/v1/unload_lora_adapter", lora_name="second").status, 200)
        self.assertEqual(self.complete("second").status, 404)
        self.assertEqual(post("/v1/unload_lora_adapter", lora_name="second").status, 404)
        self.assertEqual(post("/v1/load_lora_adapter", lora_name="second", lora_path="/nowhere").status, 404)
        missing = post("/v1/load_lora_adapter", lora_name="second")
        self.assertEqual((missing.status, missing.error["param"]), (400, "lora_path"))

    def test_a_folder_is_watched(self):
        path = os.path.join(folder.name, "watched", "fourth")
        random_adapter.write(path, STORYTELLER, 4)
        self.await_status("fourth", 200)
        shutil.rmtree(path)
        self.await_status("fourth", 404)

    def await_status(self, model, status):
        deadline = time.monotonic() + 30
        while self.complete(model).status != status:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)


class CurlTest(unittest.TestCase):
    def curl(self, path, *arguments):
        done = subprocess.run(["curl", "-sS", "--no-buffer", f"http://{served.address}{path}", *arguments],
                              capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("curl is not installed")
        body = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
        # As one types it, which makes curl call the body a form.
        whole = json.loads(self.curl("/v1/completions", "-d", json.dumps(body)))
        streamed = self.curl("/v1/completions", "-d", json.dumps({**body, "stream": True}))
        chunks = [json.loads(line[6:]) for line in streamed.split("\n") if line.startswith("data: {")]
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), whole["choices"][0]["text"])
        self.assertTrue(streamed.endswith("data: [DONE]\n\n"))


class MetricsTest(unittest.TestCase):
    def test_metrics_count(self):
        post("/v1/completions", prompt=TEXT, max_tokens=5, ignore_eos=True)
        text = get("/metrics").text
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertGreaterEqual(int(figures["sluice_gateway_tokens_total"]), 5)
        self.assertGreaterEqual(int(figures["sluice_gateway_time_to_first_token_seconds_count"]), 1)
        self.assertEqual(int(figures["sluice_gateway_generations"]), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
