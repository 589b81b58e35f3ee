"""docs/parameters.md against the protos, the gateway and the command line.

Usage: parameters_test.py BIN_DIR [unittest arguments]
"""

import os
import re
import subprocess
import sys
import unittest

from served import Served, call

BIN = sys.argv[1]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def column(number):
    """The names in a column: what stands in backticks before any colon."""
    names = set()
    for line in read("docs", "parameters.md").splitlines():
        if line.startswith("| ") and not line.startswith("| what"):
            cell = line.split("|")[number]
            names.update(re.findall(r"`([^`]+)`", re.sub(r":[^|]*", "", cell)))
    return names


def fields(file, message):
    """The names of a message's fields."""
    body = re.search(rf"^message {message} {{\n(.*?)^}}", read("protos", "sluice", "v1", file), re.MULTILINE | re.DOTALL).group(1)
    return set(re.findall(r"^ +[\w. <>,]*? (\w+) = \d+", re.sub(r"//.*", "", body), re.MULTILINE))


# What OpenAI's reference lists for each path: honoured, or refused by name where more than nothing is asked for.
SAMPLING = "frequency_penalty logit_bias logprobs model n presence_penalty seed stop stream stream_options temperature top_p user"
DOCUMENTED = {
    "/v1/completions": f"{SAMPLING} best_of echo max_tokens prompt suffix",
    "/v1/chat/completions": f"""{SAMPLING} audio function_call functions max_completion_tokens max_tokens messages metadata
        modalities parallel_tool_calls prediction prompt_cache_key prompt_cache_retention reasoning_effort response_format
        safety_identifier service_tier store tool_choice tools top_logprobs verbosity web_search_options""",
    "/v1/responses": """background context_management conversation include input instructions max_output_tokens max_tool_calls
        metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning
        safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p
        truncation user""",
}
# Those that no server of texts can honour, with a value that asks for something.
REFUSED = {
    "/v1/completions": {"suffix": "x"},
    "/v1/chat/completions": {"audio": {}, "function_call": "auto", "functions": [], "modalities": ["audio"],
                             "store": True, "web_search_options": {}},
    "/v1/responses": {"background": True, "context_management": [], "conversation": "x", "max_tool_calls": 1,
                      "previous_response_id": "x", "prompt": {}, "store": True, "top_logprobs": 2},
}


def ignored():
    """[(where, name)] of docs/http_clients.md's first table."""
    section = read("docs", "http_clients.md").split("\n## ")[1]
    return re.findall(r"^\| (request|message|call of a tool|tool) \| `(\w+)` \|", section, re.MULTILINE)


def with_ignored(where, name):
    """A chat that has this member there."""
    extra = {name: {"a": 1}}
    message = {"role": "user", "content": "x", **(extra if where == "message" else {})}
    calls = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **(extra if where == "call of a tool" else {})}
    tool = {"type": "function", "function": {"name": "f", **(extra if where == "tool" else {})}}
    return {"messages": [message, {"role": "assistant", "content": None, "tool_calls": [calls]},
                         {"role": "tool", "tool_call_id": "a", "content": "y"}],
            "tools": [tool], "max_tokens": 1, **(extra if where == "request" else {})}


class ParametersTest(unittest.TestCase):
    def test_every_field_is_one_of_requests(self):
        known = fields("generation.proto", "GenerateRequest") - {"sampling", "stop", "chat", "beams", "drafts"}
        for prefix, file, message in (("sampling", "sampling.proto", "SamplingOptions"), ("stop", "generation.proto", "StopOptions"),
                                      ("chat", "generation.proto", "Chat"), ("beams", "generation.proto", "BeamSearch"),
                                      ("drafts", "generation.proto", "DraftOptions")):
            known |= {f"{prefix}.{name}" for name in fields(file, message)}
        self.assertGreater(len(known), 40)
        self.assertEqual(column(2) - known, set())
        sampling = {name for name in known if name.startswith("sampling.")}
        self.assertEqual(sampling - column(2), set())

    def test_every_flag_is_one_of_the_command(self):
        done = subprocess.run([os.path.join(BIN, "sluice"), "generate", "--help"], capture_output=True, text=True, check=True)
        flags = set(re.findall(r"^  (--\w+)", done.stdout, re.MULTILINE))
        named = {name for name in column(4) if name.startswith("--")}
        self.assertGreater(len(named), 30)
        self.assertEqual(named - flags, set())

    def test_every_name_over_http_is_known(self):
        served = Served(BIN)
        self.addCleanup(served.stop)
        names = {name for name in column(3) if not name.startswith("header") and name != "x-request-id"}
        of_chats = {"messages", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs", "add_generation_prompt",
                    "reasoning_effort", "max_completion_tokens", "top_logprobs", "prediction", "enable_thinking",
                    "continue_final_message"}
        of_completions = {"prompt", "echo", "truncate_prompt_tokens"}
        self.assertGreater(len(names), 40)
        # A member that is null counts as absent, but has to be known.
        for path, body, others in (
                ("/v1/completions", {"prompt": "x", "max_tokens": 1}, of_chats),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}, of_completions)):
            answer = call(served.address, "POST", path, {**dict.fromkeys(names - others), **body})
            self.assertEqual(answer.status, 200, answer.text)
        messages = [{"role": "user", "content": "x"}]
        asked = {"/v1/completions": {"prompt": "x", "max_tokens": 1}, "/v1/responses": {"input": "x", "max_output_tokens": 1},
                 "/v1/chat/completions": {"messages": messages, "max_tokens": 1}}
        for path, body in asked.items():
            answer = call(served.address, "POST", path, {**dict.fromkeys(DOCUMENTED[path].split()), **body})
            self.assertEqual(answer.status, 200, answer.text)
            for name, value in REFUSED[path].items():
                refused = call(served.address, "POST", path, {**body, name: value})
                self.assertEqual((refused.status, refused.error["param"], refused.error["code"]),
                                 (400, name, "unsupported_parameter"), refused.text)
        self.assertGreater(len(ignored()), 20)
        for where, name in ignored():
            answer = call(served.address, "POST", "/v1/chat/completions", with_ignored(where, name))
            self.assertEqual(answer.status, 200, (where, name, answer.text))
            surprise = call(served.address, "POST", "/v1/chat/completions", with_ignored(where, "surprise"))
            self.assertEqual((surprise.status, surprise.error["code"]), (400, "unknown_parameter"), surprise.text)
        unknown = call(served.address, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "nonsense": None})
        self.assertEqual(unknown.error["code"], "unknown_parameter")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
