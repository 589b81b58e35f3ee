"""Connections whose other end is gone without a word, as a host that lost its power: a proxy that passes nothing on any more.

Usage: half_open_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from processes import BIN, STORYTELLER, grpc, main


class Proxy:
    """Passes on what comes for a unix socket, until it is cut."""

    def __init__(self, path):
        self.cut = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = [self.listener]
        threading.Thread(target=self.accept, args=(path,), daemon=True).start()

    def accept(self, path):
        while True:
            try:
                ends = [self.listener.accept()[0], socket.socket(socket.AF_UNIX)]
                ends[1].connect(path)
            except OSError:
                return
            self.sockets += ends
            for source, sink in (ends, ends[::-1]):
                threading.Thread(target=self.pass_on, args=(source, sink), daemon=True).start()

    def pass_on(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                if self.cut.is_set():
                    return  # both connections stay
                sink.sendall(data)
        except OSError:
            pass

    def close(self):
        for end in self.sockets:
            end.close()


def num_sockets(pid):
    """Sockets, each once: a process may have several descriptors of one."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return len(found)


class HalfOpenTest(unittest.TestCase):
    def test_a_connection_without_a_sign_of_life_is_closed(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "embedding")
        process = subprocess.Popen([os.path.join(BIN, "sluice-embedding"), "--model", STORYTELLER, "--listen", f"unix:{path}",
                                    "--hang_timeout", "1s"], stderr=subprocess.PIPE, text=True)
        try:
            next(line for line in process.stderr if "listening" in line)
            alone = num_sockets(process.pid)
            proxy = Proxy(path)
            with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60)
                self.assertEqual(next(watch), b"\x08\x01")  # SERVING
                self.assertEqual(num_sockets(process.pid), alone + 1)
                time.sleep(2)  # as long as a silent connection has, twice over
                self.assertEqual(num_sockets(process.pid), alone + 1, "one that answers pings stays")
                proxy.cut.set()
                began = time.monotonic()
                while num_sockets(process.pid) > alone:
                    self.assertLess(time.monotonic() - began, 20, "nobody finds that its other end is gone")
                    time.sleep(0.05)
            proxy.close()
        finally:
            process.terminate()
            process.wait(30)
            process.stderr.close()


if __name__ == "__main__":
    main()
