"""A good client beside another tenant's costly work outside of steps: masks, schemas to compile, long texts, chat templates.
Prints what it measured.

Usage: work_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
import unittest

import grpc
from beside import FULL, GOOD, SLACK_S, Attack, Good, hold_to_bounds, peak_mib, show
from processes import PROMPT, STORYTELLER, Up, generation_pb2, listeners_of, main

# For each message it looks at each: 2,000 messages are four million steps.
QUADRATIC = ("{% for m in messages %}{% for n in messages %}{% if n.content == m.content %}{{ n.content }}{% endif %}"
             "{% endfor %}{% endfor %}")


@contextlib.contextmanager
def model_with_template(template):
    """A folder of the storyteller with another chat template."""
    with tempfile.TemporaryDirectory() as folder:
        model = shutil.copytree(STORYTELLER, os.path.join(folder, "model"))
        with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(template)
        yield model


def costly_requests():
    """Requests of each kind of work outside of steps, by name, each of tenths of a second."""
    text = generation_pb2.GenerateRequest(text="the king went " * ((12 << 20) // 14), max_tokens=1)
    chat = generation_pb2.GenerateRequest(max_tokens=1)
    for i in range(2000):
        chat.chat.messages.add(role="user", content=f"message {i:08}")
    schema = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=1)
    members = {f"m{i}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{12}}c{{{i}}}$",
                         "not": {"pattern": "^(a|b)*(a|b){12}c*$"}} for i in range(10)}
    schema.constraint.json_schema = json.dumps({"properties": members})
    masks = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=150)
    masks.constraint.regex = "|".join([".*e.{150}t.*", ".*a.{150}o.*", ".*n.{150}i.*", ".*h.{150}s.*"])
    return {"text": text, "chat": chat, "schema": schema, "masks": masks}


class WorkTest(unittest.TestCase):
    def beside(self, attack, count, *flags, one=None):
        hold_to_bounds(self, lambda: self.times_beside(attack, count, flags, one))

    def times_beside(self, name, count, flags, one, requests=9, tokens=48):
        """The good client's first token and its tokens while `name` is at work, against its quiet times before and after."""
        with Up(*flags) as up:
            good = Good(up.endpoint)
            ask = one or (lambda good: good.one(tokens))

            def several():
                results = [ask(good) for _ in range(requests)]
                return [statistics.median(r[i] for r in results) for i in (0, 1)] + [{r[2] for r in results}]
            several()
            first, token, texts = several()
            begin = good.status()
            with Attack(up.endpoint, name, count):
                time.sleep(1)  # its work stands
                began, steps = time.monotonic(), good.status().num_steps
                first_beside, token_beside, texts_beside = several()
                step = (time.monotonic() - began) / max(good.status().num_steps - steps, 1)
            first_after, token_after, _ = several()
            end = good.status()
            first, token = max(first, first_after), max(token, token_after)
            show(f"{name} x {count}: first token {1000 * first_beside:.1f} ms beside, {1000 * first:.1f} quiet; "
                 f"a token {1000 * token_beside:.2f} ms beside, {1000 * token:.2f} quiet; a step {1000 * step:.2f} ms")
            self.assertEqual(texts, texts_beside, "another text")
            self.assertEqual(end.num_recoveries, begin.num_recoveries, "the replica was lost")
            self.assertEqual(end.num_integrity_faults, 0)
            most_first = 2 * first + step + SLACK_S
            most_token = (2 if FULL else 4) * token + (0 if FULL else 0.002)
            if first_beside <= most_first and token_beside <= most_token:
                return None
            return (f"a first token after {first_beside:.3f} s, accepted: {most_first:.3f} s; "
                    f"a token in {token_beside:.4f} s, accepted: {most_token:.4f} s")

    def test_masks_that_take_long(self):
        self.beside("costly_masks", 4)

    def test_not_over_patterns(self):
        self.beside("not_over_patterns", 4)

    def test_fresh_schemas_beside_a_trivial_one(self):
        """The good client has a constraint of its own, a new one each time."""
        variants = iter(range(1_000_000))

        def one(good):
            request = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=16)
            request.sampling.temperature = 0
            request.constraint.regex = f"(a|b{{1,{1 + next(variants)}}})"
            began, first, text = time.monotonic(), None, ""
            for response in good.generate(request, metadata=GOOD):
                first = first or time.monotonic()
                text += response.chunk.text
            return first - began, 0, text[:0]
        self.beside("fresh_schemas", 90, one=one)

    def test_long_texts_to_tokenize(self):
        with Up() as up:
            good = Good(up.endpoint)
            good.several(5)
            orchestrator = listeners_of(up.process.pid)["orchestrator"]
            quiet = good.several(9)[0]
            with Attack(up.endpoint, "long_texts", 24) as attack:
                beside = good.several(9)[0]
                self.assertEqual(attack.wait(), [])
            held = peak_mib(orchestrator)
            show(f"long_texts x 24: first token {1000 * beside:.1f} ms beside, {1000 * quiet:.1f} quiet; "
                 f"the orchestrator held {held:.0f} MiB at most")
            self.assertLess(beside, 2 * quiet + SLACK_S + (0.05 if not FULL else 0.01))

    def test_a_template_that_is_quadratic(self):
        with model_with_template(QUADRATIC) as model:
            def one(good):
                request = generation_pb2.GenerateRequest(max_tokens=32)
                request.chat.messages.add(role="user", content=PROMPT)
                request.stop.ignore_eos = True
                request.sampling.temperature = 0
                began, first, text, tokens = time.monotonic(), None, "", 0
                for response in good.generate(request, metadata=GOOD):
                    first = first or time.monotonic()
                    text += response.chunk.text
                    tokens += len(response.chunk.token_ids)
                return first - began, (time.monotonic() - first) / max(tokens - 1, 1), text
            self.beside("long_chats", 16, "--model", model, one=one)

    def test_a_request_ends_by_name_where_it_takes_more_work_than_one_may(self):
        with model_with_template(QUADRATIC) as model, Up("--model", model, "--max_request_work", "40ms") as up:
            good = Good(up.endpoint)
            text = good.one(8)[2]
            for name, request in costly_requests().items():
                with self.assertRaises(grpc.RpcError) as ended:
                    began = time.monotonic()
                    list(good.generate(request, metadata=(("sluice-tenant", "hostile"),)))
                show(f"{name}: ended after {1000 * (time.monotonic() - began):.0f} ms: {ended.exception.details()}")
                self.assertEqual(ended.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, name)
                self.assertIn("max_request_work: ", ended.exception.details(), name)
            self.assertEqual(good.one(8)[2], text, "another's request is served as before")
            self.assertEqual(good.status().num_recoveries, 0)


if __name__ == "__main__":
    main()
