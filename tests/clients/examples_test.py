"""The examples of the client libraries and the plain ones, as their READMEs say to run them.

Usage: examples_test.py BIN_DIR [unittest arguments]
"""

import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, "..", "..", "clients")
sys.path[:0] = [os.path.join(HERE, "..", "services", "gateway"), os.path.join(HERE, "..", "conformance")]

import browser  # noqa: E402
import languages  # noqa: E402
from served import Served  # noqa: E402

BIN = sys.argv[1]
served = None


def setUpModule():
    global served
    served = Served(BIN)


def tearDownModule():
    served.stop()


def story():
    """What all examples write: the same prompt, temperature and seed."""
    return subprocess.run([f"{BIN}/sluice", "generate", "--endpoint", served.endpoint, "--prompt", "Once upon a time",
                           "--max_tokens", "60", "--temperature", "0.7", "--seed", "1"],
                          capture_output=True, text=True, check=True, timeout=120).stdout.strip()


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def build(self, language):
        try:
            return languages.LANGUAGES[language](self.folder, BIN)
        except languages.Missing as missing:
            self.skipTest(str(missing))

    def output(self, command, stdin="", **env):
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "SLUICE_PROTOS": languages.PROTOS, **env})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_python(self):
        _, env = self.build("python")
        examples = os.path.join(CLIENTS, "python", "examples")
        run = lambda name, stdin="": self.output([languages.PYTHON, "-B", os.path.join(examples, name), served.endpoint],  # noqa: E731
                                                 stdin, **env)
        self.assertEqual(run("story.py").strip(), story() + "\n60 tokens")
        self.assertEqual(len(run("many.py").splitlines()), 16)
        self.assertGreater(len(run("chat.py", "Tell me of the king.\nAnd then?\n")), 20)

    def test_go(self):
        self.build("go")
        path = os.path.join(self.folder, "go")
        text = self.output(["go", "run", os.path.join(path, "src", "sluice", "examples", "story", "main.go"), served.endpoint],
                           GO111MODULE="off", GOPATH=f"{path}:{languages.GOCODE}")
        self.assertEqual(text.strip(), story() + "\n60 tokens")

    def test_node(self):
        self.build("node")
        node = os.path.join(CLIENTS, "node")
        self.assertEqual(self.output(["node", os.path.join(node, "examples", "story.js"), served.endpoint]).strip(),
                         story() + "\n60 tokens")
        self.output([os.path.join(node, "node_modules", ".bin", "tsc"), "--noEmit", "-p", os.path.join(node, "examples")])

    def test_java(self):
        command, _ = self.build("java")
        class_path = command[command.index("-cp") + 1]
        text = self.output(["java", "-cp", class_path, os.path.join(CLIENTS, "java", "examples", "Story.java"), served.endpoint])
        self.assertEqual(text.strip(), story() + "\n60 tokens")

    def test_ruby(self):
        if not shutil.which("ruby") or not shutil.which("grpc_ruby_plugin"):
            self.skipTest("ruby-grpc or its plugin is not there: ./dev setup clients")
        text = self.output(["ruby", os.path.join(CLIENTS, "examples", "ruby", "story.rb"), served.endpoint])
        self.assertEqual(text.strip(), story())

    def test_bash(self):
        script = os.path.join(CLIENTS, "examples", "bash", "story.sh")
        path = f"{os.path.abspath(BIN)}:{os.environ['PATH']}"
        self.assertEqual(self.output([script, "sluice", served.endpoint], PATH=path).strip(), story())
        if not shutil.which("curl"):
            self.skipTest("curl is not there: ./dev setup clients")
        self.assertEqual(self.output([script, "http", served.address]).strip(), story())


class BrowserTest(unittest.TestCase):
    """A page of another origin, whose TypeScript is compiled by the compiler of clients/node."""

    def serve_page(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shutil.copytree(os.path.join(CLIENTS, "examples", "browser"), folder.name, dirs_exist_ok=True)
        subprocess.run([os.path.join(CLIENTS, "node", "node_modules", ".bin", "tsc"), "-p", folder.name], check=True)

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=folder.name)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"

    def start_gateway(self, origin):
        process = subprocess.Popen([f"{BIN}/sluice-gateway", "--orchestrator", served.endpoint, "--listen", "127.0.0.1:0",
                                    "--cors_origin", origin], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return re.search(r"address=(\S+)", process.stderr.readline()).group(1)

    def test_a_page_of_another_origin(self):
        if not browser.is_installed() or not os.path.isdir(os.path.join(CLIENTS, "node", "node_modules")):
            self.skipTest("chromium or the TypeScript compiler is not there: ./dev setup clients page")
        origin = self.serve_page()
        gateway = self.start_gateway(origin)
        page = browser.Browser()
        self.addCleanup(page.close)
        page.open(f"{origin}/?gateway=http://{gateway}")
        page.click("button")
        page.wait("document.querySelector('button').textContent === 'Tell a story' && "
                  "document.querySelector('output').textContent.length > 0", 60)
        self.assertEqual(page.text("output").strip(), story())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
