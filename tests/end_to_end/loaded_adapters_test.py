"""LoRA adapters that come and go while a pipeline of processes runs."""

import json
import os
import tempfile
import unittest

from processes import STORYTELLER, Client, Up, generation_pb2, grpc, main, request, text_of
import random_adapter


def resident_bytes(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
    return total * 1024


class LoadedAdaptersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, seed, rank in (("a", 1, 4), ("b", 2, 7), ("c", 3, 4)):
            random_adapter.write(self.path(name), STORYTELLER, seed, rank)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, rule, *flags):
        with open(self.path("tenants.json"), "w", encoding="utf-8") as file:
            json.dump({"default": rule}, file)
        up = Up("--tenants", self.path("tenants.json"), *flags)
        up.__enter__()
        self.addCleanup(up.__exit__, None, None, None)
        self.client = Client(up.endpoint)
        return up

    def load(self, name, folder, replace=False):
        self.client.unary("LoadAdapter", generation_pb2.LoadAdapterRequest(name=name, folder=folder, replace=replace),
                          generation_pb2.LoadAdapterResponse)

    def unload(self, name):
        self.client.unary("UnloadAdapter", generation_pb2.UnloadAdapterRequest(name=name), generation_pb2.UnloadAdapterResponse)

    def text(self, adapter, tokens=30):
        message = request(tokens, seed=7)
        message.adapter = adapter
        return text_of(self.client.generate(message))

    def expect(self, code, words, call, *arguments, **more):
        with self.assertRaises(grpc.RpcError) as refused:
            call(*arguments, **more)
        self.assertEqual(refused.exception.code(), code, refused.exception.details())
        self.assertIn(words, refused.exception.details())

    def test_requests_may_name_an_adapter_from_its_load_to_its_unload(self):
        self.start({"loads_adapters": True}, "--adapters", f"a={self.path('a')},b={self.path('b')}", "--tp", "2")
        expected = {name: self.text(name) for name in ("", "a", "b")}
        self.assertEqual(len(set(expected.values())), 3)
        self.load("x", self.path("a"))
        self.assertEqual(self.text("x"), expected["a"])
        listed = self.client.unary("ListAdapters", generation_pb2.ListAdaptersRequest(), generation_pb2.ListAdaptersResponse)
        self.assertEqual([(each.name, each.folder, each.max_rank) for each in listed.adapters],
                         [("a", self.path("a"), 4), ("b", self.path("b"), 7), ("x", self.path("a"), 4)])
        self.assertEqual(listed.base_model, "storyteller")
        self.expect(grpc.StatusCode.ALREADY_EXISTS, "already", self.load, "x", self.path("b"))
        # What was cached of the first one of that name is not the second one's.
        self.load("x", self.path("b"), replace=True)
        self.assertEqual(self.text("x"), expected["b"])
        self.unload("x")
        self.expect(grpc.StatusCode.NOT_FOUND, 'adapter is "x", which is not loaded; accepted: a, b', self.text, "x")
        self.expect(grpc.StatusCode.NOT_FOUND, "not loaded", self.unload, "x")

    def test_what_is_no_adapter_is_refused_by_name(self):
        self.start({"loads_adapters": True})
        code = grpc.StatusCode
        self.expect(code.NOT_FOUND, "adapter_config.json", self.load, "x", "/nowhere")
        self.expect(code.ALREADY_EXISTS, "is the model itself", self.load, "storyteller", self.path("a"))
        self.expect(code.INVALID_ARGUMENT, "accepted: 1 to 128 letters", self.load, "a b", self.path("a"))
        with open(os.path.join(self.path("a"), "adapter_config.json"), "w", encoding="utf-8") as file:
            json.dump({"peft_type": "LORA", "r": 1000, "lora_alpha": 1}, file)
        self.expect(code.INVALID_ARGUMENT, "1000", self.load, "x", self.path("a"))
        self.assertTrue(self.text(""))

    def test_callers_need_the_operators_leave(self):
        self.start({})
        self.expect(grpc.StatusCode.PERMISSION_DENIED, "loads_adapters", self.load, "x", self.path("a"))
        self.expect(grpc.StatusCode.PERMISSION_DENIED, "loads_adapters", self.unload, "x")

    def test_two_hundred_loads_and_unloads_leave_no_memory_behind(self):
        """Once each process keeps as many files open as it ever does (AdapterLibrary::kMaxOpen). 200 would be 40 MB."""
        up = self.start({"loads_adapters": True}, "--max_loaded_adapters", "2")
        pids = [pid for name in ("sluice-shard", "sluice-embedding", "sluice-sampler", "sluice-orchestrator")
                for pid in up.pids(name)]

        def rounds(count):
            for i in range(count):
                self.load("x", self.path("abc"[i % 3]))
                self.text("x", tokens=1)
                self.unload("x")

        rounds(280)
        before = resident_bytes(pids)
        rounds(200)
        self.assertLess(resident_bytes(pids) - before, 8 << 20)


if __name__ == "__main__":
    main()
