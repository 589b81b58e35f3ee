"""The `sluice` commands as somebody types them."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from processes import BIN, PROMPT, SLUICE, STORYTELLER, Up, main, sluice


def request_of(address, path, body, key=None):
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    return urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(), headers)


def post(address, path, body):
    with urllib.request.urlopen(request_of(address, path, body), timeout=60) as answer:
        return json.load(answer)


def status_of(address, path, body, key):
    try:
        with urllib.request.urlopen(request_of(address, path, body, key), timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class CommandsTest(unittest.TestCase):
    def test_plan_foretells_what_status_shows(self):
        for flags in (["--tp", "2", "--pp", "2"], ["--weights", "int8", "--kv_dtype", "bf16"], ["--weights", "f32"]):
            with self.subTest(flags=flags):
                plan = json.loads(sluice("plan", "--json", "--sequences", "8", *flags).stdout)
                with Up(*flags, "--kv_cache_mib", str(plan["kv_cache_mib"])) as up:
                    status = json.loads(sluice("status", "--endpoint", up.endpoint, "--json").stdout)
                shown = [process for process in status["processes"] if process["service"] != "tokenizer"]
                self.assertEqual([process["weight_bytes"] for process in plan["processes"]],
                                 [process["weight_bytes"] for process in shown])
                self.assertGreaterEqual(status["kv_cache"]["num_blocks"] * status["kv_cache"]["block_size"], 8 * 512)
                for planned, seen in zip(plan["processes"], shown):
                    self.assertLessEqual(planned["kv_bytes"], seen.get("kv_bytes", 0))

    def test_a_model_is_called_what_its_server_says(self):
        with Up("--served_model_name", "tales") as up:
            self.assertEqual(json.loads(sluice("status", "--endpoint", up.endpoint, "--json").stdout)["model"], "tales")

    def test_the_context_can_be_shortened(self):
        with Up("--max_model_len", "64") as up:
            fits = sluice("generate", "--endpoint", up.endpoint, "--max_tokens", "40", PROMPT)
            self.assertTrue(fits.stdout)
            refused = subprocess.run([SLUICE, "generate", "--endpoint", up.endpoint, "--max_tokens", "65", PROMPT],
                                     capture_output=True, text=True, timeout=60)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("64", refused.stderr)
        for command in (["up", "--port", "0"], ["run", PROMPT]):
            refused = subprocess.run([SLUICE, *command, "--max_model_len", "513"], capture_output=True, text=True, timeout=60)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--max_model_len is 513; accepted: 2 to 512", refused.stderr)

    def test_a_chat_template_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "loud.jinja")
            with open(path, "w") as file:
                file.write("{% for message in messages %}{{ message.content | upper }}{% endfor %}")
            body = {"messages": [{"role": "user", "content": "once"}]}
            with Up("--chat_template", path, "--http_port", "0") as up:
                shouted = post(up.http_address, "/tokenize", body)
                text = post(up.http_address, "/detokenize", {"tokens": shouted["tokens"]})
            self.assertEqual(text, {"prompt": "ONCE"})
            with open(path, "w") as file:
                file.write("{% for %}")
            for wrong, said in ((path, "loud.jinja:1"), (os.path.join(folder, "none"), "none")):
                for command in (["up", "--port", "0"], ["run", PROMPT]):
                    refused = subprocess.run([SLUICE, *command, "--chat_template", wrong], capture_output=True, text=True, timeout=60)
                    self.assertEqual(refused.returncode, 1)
                    self.assertRegex(refused.stderr, "^sluice: --chat_template: .*" + said)

    def test_the_model_that_comes_with_it_answers_chats(self):
        with Up("--http_port", "0") as up:
            answer = post(up.http_address, "/v1/chat/completions", {
                "model": "storyteller", "max_tokens": 24, "seed": 1,
                "messages": [{"role": "user", "content": "Once upon a time there was a king who"}]})
            text = post(up.http_address, "/v1/completions", {
                "max_tokens": 24, "seed": 1, "prompt": "Once upon a time there was a king who"})
        self.assertTrue(answer["choices"][0]["message"]["content"])
        self.assertEqual(answer["choices"][0]["message"]["content"], text["choices"][0]["text"])

    def test_an_api_key_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = os.path.join(folder, "tokens")
            first = sluice("token", "new", "search", "--tokens", tokens).stdout.strip()
            for flags, key in (((), None), (("--api_key", "sesame"), "sesame"), (("--tokens", tokens), first)):
                with self.subTest(flags=flags), Up("--http_port", "0", *flags) as up:
                    body = {"prompt": PROMPT, "max_tokens": 1}
                    self.assertEqual(status_of(up.http_address, "/v1/completions", body, key), 200)
                    self.assertEqual(status_of(up.http_address, "/v1/completions", body, "wrong"), 200 if key is None else 401)
                    environment = {**os.environ, "SLUICE_API_KEY": key or "", "SLUICE_ENDPOINT": up.endpoint}
                    done = subprocess.run([SLUICE, "generate", "--max_tokens", "1", PROMPT], env=environment,
                                          capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if flags and flags[0] == "--tokens":  # a key of a running server
                        later = sluice("token", "new", "web", "--tokens", tokens).stdout.strip()
                        self.assertEqual(status_of(up.http_address, "/v1/completions", body, later), 200)

    def test_help_of_a_service(self):
        for service in ("tokenizer", "embedding", "shard", "sampler", "orchestrator", "gateway"):
            shown = subprocess.run([os.path.join(BIN, f"sluice-{service}"), "--help"], capture_output=True, text=True, check=True).stdout
            self.assertTrue(shown.startswith(f"Usage: sluice-{service} [flags]\n"), shown)
            self.assertRegex(shown, r"\n  --log_level LEVEL +Least level")
            wrong = subprocess.run([os.path.join(BIN, f"sluice-{service}"), "--log_levle=info"], capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn("unknown flag --log_levle; did you mean --log_level?", wrong.stderr)

    def test_run_starts_quickly(self):
        began = time.monotonic()
        process = subprocess.Popen([SLUICE, "run", "--prompt", PROMPT, "--max_tokens", "64"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        first = process.stdout.read(1)
        seconds = time.monotonic() - began
        process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(60), 0)
        print(f"first text after {seconds:.2f} s", file=sys.stderr)
        self.assertTrue(first)
        self.assertLess(seconds, 5)  # 1 s on an idle machine; this one may be busy

    def test_score_and_bench(self):
        score = json.loads(sluice("score", "--text", PROMPT, "--json").stdout)
        self.assertIsNone(score["logprobs"][0])
        self.assertEqual(len(score["logprobs"]), len(score["token_ids"]))
        self.assertGreater(score["perplexity"], 1)
        bench = sluice("bench", "--prompt_tokens", "16", "--max_tokens", "8", "--concurrency", "2",
                       "--requests", "4")
        self.assertTrue(bench.stdout)

    def test_score_equals_the_oracle(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "storyteller.json")
        with open(golden) as file:
            expected = json.load(file)
        ids = ",".join(map(str, expected["ids"]))
        score = json.loads(sluice("score", "--token_ids", ids, "--json", "--weights", "f32").stdout)
        self.assertEqual(len(score["logprobs"]), len(expected["logprobs"]) + 1)
        for ours, oracles in zip(score["logprobs"][1:], expected["logprobs"]):
            self.assertAlmostEqual(ours, oracles, delta=1e-4)
        self.assertAlmostEqual(score["perplexity"] / expected["perplexity"], 1, delta=1e-4)

    def test_a_quantized_model_serves_as_if_quantized_at_load(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "int4")
            sluice("quantize", STORYTELLER, out, "--weights", "int4")
            score = ["score", "--text", PROMPT, "--json", "--kv_dtype", "bf16"]
            saved = sluice(*score, "--model", out).stdout
            self.assertEqual(saved, sluice(*score, "--weights", "int4").stdout)
            self.assertNotEqual(saved, sluice(*score, "--weights", "int8").stdout)
            with Up("--model", out) as up:
                self.assertIn("int4", sluice("bench", "--endpoint", up.endpoint, "--prompt_tokens",
                                             "8", "--max_tokens", "4", "--requests", "1").stdout)
            refused = sluice("score", "--text", PROMPT, "--model", out, "--weights", "int8", code=1)
            self.assertIn("accepted: auto, int4, f32, bf16", refused.stderr)
            self.assertIn("holds files already",
                          sluice("quantize", STORYTELLER, out, "--weights", "int8", code=1).stderr)

    def test_bad_input_is_refused_by_name(self):
        for arguments, part in (
                (["--model", "/nowhere"], "/nowhere"),
                (["--tp", "3"], "3"),
                (["--max_tokens", "0"], "max_tokens is 0"),
                (["--temperature", "nan"], "temperature"),
                (["--top_p", "1.5"], "top_p is 1.5"),
                (["--token_ids", "1,99999"], "99999")):
            flags = arguments if "--token_ids" in arguments else ["--prompt", PROMPT, *arguments]
            done = subprocess.run([SLUICE, "run", *flags], capture_output=True, text=True, timeout=60)
            with self.subTest(arguments=arguments):
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(part, done.stderr)
                self.assertEqual(done.stdout, "")
        broken = subprocess.run([SLUICE, "run", "--prompt", b"abc\xff"], capture_output=True, timeout=60)
        self.assertNotEqual(broken.returncode, 0)
        self.assertIn(b"3", broken.stderr)


if __name__ == "__main__":
    main()
