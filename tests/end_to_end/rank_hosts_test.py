"""Two ranks of a stage on two hosts: network namespaces with a cable between them, and TLS on it.

Usage: rank_hosts_test.py BIN_DIR [unittest arguments]
"""

import ctypes
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN = sys.argv[1]
STORYTELLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "storyteller")
PROMPT = "Once upon a time there was a king who"
HELLO = b"slranks2"  # how one rank greets another
ALPHA, BETA = "10.231.77.1", "10.231.77.2"  # of the cable, which nothing else is on


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


class Hosts:
    """Two network namespaces, and a virtual cable between them."""

    def __init__(self):
        mark = f"{os.getpid() % 100000}"
        self.names = {ALPHA: f"sluice-a{mark}", BETA: f"sluice-b{mark}"}
        self.made = []

    def make(self):
        for name in self.names.values():
            run("ip", "netns", "add", name)
            self.made.append(name)
        alpha, beta = self.names.values()
        run("ip", "-n", alpha, "link", "add", "cable0", "type", "veth", "peer", "name", "cable0", "netns", beta)
        for address, name in self.names.items():
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable0")
            run("ip", "-n", name, "link", "set", "cable0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def on(self, address):
        """What a command begins with that runs on the host of that address."""
        return ["ip", "netns", "exec", self.names[address]]


class Authority:
    """Certificates by openssl, one for each role."""

    def __init__(self, folder):
        self.folder = folder
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
            "-subj", "/CN=authority", "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem")

    def flags(self, role):
        base = f"{self.folder}/{role}"
        if not os.path.exists(f"{base}.pem"):
            run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={role}",
                "-keyout", f"{base}.key", "-out", f"{base}.csr")
            with open(f"{base}.ext", "w") as file:
                file.write(f"subjectAltName=DNS:{role}.sluice.internal,IP:{ALPHA}\n")
            run("openssl", "x509", "-req", "-in", f"{base}.csr", "-CA", f"{self.folder}/ca.pem", "-CAkey",
                f"{self.folder}/ca.key", "-CAcreateserial", "-days", "1", "-extfile", f"{base}.ext", "-out", f"{base}.pem")
        return ["--tls_cert", f"{base}.pem", "--tls_key", f"{base}.key", "--tls_ca", f"{self.folder}/ca.pem"]


def enter_network(fd):
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Wire:
    """What passes the cable, from now on."""

    def __init__(self, namespace):
        self.bytes = bytearray()
        # A socket belongs to the network in which it was made.
        with open("/proc/self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
            enter_network(there.fileno())
            try:
                self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                self.socket.bind(("cable0", 0))
            finally:
                enter_network(home.fileno())
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.socket.setblocking(False)

    def passed(self):
        try:
            while True:
                self.bytes += self.socket.recv(1 << 16)
        except BlockingIOError:
            return bytes(self.bytes)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "needs root and ip(8), for network namespaces")
@unittest.skipUnless(shutil.which("openssl"), "needs openssl(1), for certificates")
class RankHostsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.authority = Authority(self.folder)
        self.hosts = Hosts()
        self.addCleanup(self.hosts.remove)
        try:
            self.hosts.make()
        except AssertionError as error:
            self.skipTest(f"no network namespaces here: {error}")
        self.wire = Wire(self.hosts.names[ALPHA])
        self.addCleanup(self.wire.socket.close)

    def start(self, address, role, port, *flags):
        with open(f"{self.folder}/{role}-{address}.log", "w") as log:
            process = subprocess.Popen(
                [*self.hosts.on(address), os.path.join(BIN, f"sluice-{role}"), "--model", STORYTELLER,
                 *self.authority.flags(role), "--listen", f"{address}:{port}", *flags], stdout=log, stderr=log)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)

    def start_pipeline(self, *rank_flags):
        self.start(ALPHA, "tokenizer", 9001)
        self.start(ALPHA, "embedding", 9002)
        self.start(ALPHA, "sampler", 9003)
        for rank, address in enumerate((ALPHA, BETA)):
            self.start(address, "shard", 9010, "--num_ranks", "2", "--rank", str(rank), "--threads", "1",
                       "--communicator_address", address, *rank_flags)
        self.start(ALPHA, "orchestrator", 8700, "--tokenizer", f"{ALPHA}:9001", "--embedding", f"{ALPHA}:9002",
                   "--shards", f"{ALPHA}:9010,{BETA}:9010", "--sampler", f"{ALPHA}:9003", "--rank_transport", "tcp")

    def logs(self):
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in pathlib.Path(self.folder).glob("*.log"))

    def generate(self, command, *flags, attempts_until=0.0):
        """Each token with its log-probability and those of its alternatives."""
        while True:
            done = subprocess.run([*command, *flags, "--max_tokens", "24", "--ignore_eos", "--temperature", "0", "--logprobs", "2", "--json",
                                   PROMPT], capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                events = [json.loads(line) for line in done.stdout.splitlines()]
                return [token for event in events if event.get("token_ids")
                        for token in zip(event["token_ids"], event["logprobs"])]
            if time.monotonic() > attempts_until:
                self.fail(f"{done.stderr}\n{self.logs()}")

    def expect_the_bits_of_one_rank(self):
        sluice = os.path.join(BIN, "sluice")
        there = self.generate(
            [*self.hosts.on(ALPHA), sluice, "generate", "--endpoint", f"{ALPHA}:8700", "--connect_timeout", "60"],
            *self.authority.flags("client"), attempts_until=time.monotonic() + 90)
        here = self.generate([sluice, "run", "--model", STORYTELLER])
        self.assertEqual(there, here)
        self.assertEqual(len(here), 24)

    def test_two_hosts_over_tls_give_the_bits_of_one_rank(self):
        self.start_pipeline()
        self.expect_the_bits_of_one_rank()
        passed = self.wire.passed()
        self.assertGreater(len(passed), 100_000)
        self.assertNotIn(HELLO, passed)

    def test_a_trusted_network_carries_plaintext(self):
        self.start_pipeline("--trusted_network")
        self.expect_the_bits_of_one_rank()
        self.assertIn(HELLO, self.wire.passed())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
