"""The client libraries: what each needs, how it is built, and the program that runs cases with it."""

import json
import os
import shutil
import subprocess
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, "..", "..", "clients")
RUNNERS = os.path.join(HERE, "runners")
PROTOS = os.path.abspath(os.path.join(HERE, "..", "..", "protos"))
PYTHON = "/usr/bin/python3"
GOCODE = "/usr/share/gocode"
JARS = "/usr/share/java"
LONGEST_CASE = 120  # seconds


class Missing(Exception):
    """What a language needs is not installed."""


def need(*things):
    for thing in things:
        if not (os.path.exists(thing) if os.path.isabs(thing) else shutil.which(thing)):
            raise Missing(f"{thing} is not there: ./dev setup clients")


def build(command, cwd=None, **env):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, "SLUICE_PROTOS": PROTOS, **env}, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("v1", "node_modules", "target", "__pycache__"))


# Each makes what it needs below `folder` and returns the runner's command line and environment.


def cpp(_folder, bin_folder):
    return [os.path.join(bin_folder, "..", "tests", "conformance_cpp_runner")], {}


def python(folder, _bin_folder, runner="python_runner.py"):
    need(PYTHON, "protoc", "grpc_python_plugin")
    if subprocess.run([PYTHON, "-c", "import grpc, google.protobuf"], capture_output=True).returncode != 0:
        raise Missing("python3-grpcio or python3-protobuf is not there: ./dev setup clients")
    library = os.path.join(folder, "python")
    copy(os.path.join(CLIENTS, "python"), library)
    build([PYTHON, os.path.join(library, "generate.py")])
    return [PYTHON, "-B", os.path.join(RUNNERS, runner)], {"PYTHONPATH": library}


def python_asyncio(folder, bin_folder):
    return python(folder, bin_folder, "asyncio_runner.py")


def go(folder, _bin_folder):
    need("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc", os.path.join(GOCODE, "src/google.golang.org/grpc"),
         os.path.join(GOCODE, "src/google.golang.org/protobuf"))
    path = os.path.join(folder, "go")
    library = os.path.join(path, "src", "sluice")
    copy(os.path.join(CLIENTS, "go"), library)
    copy(os.path.join(RUNNERS, "go"), os.path.join(path, "src", "runner"))
    build(["./generate.sh"], cwd=library)
    program = os.path.join(path, "runner")
    build(["go", "build", "-o", program, "."], cwd=os.path.join(path, "src", "runner"), GO111MODULE="off",
          GOPATH=f"{path}:{GOCODE}")
    return [program], {}


def node(folder, _bin_folder):
    library = os.path.abspath(os.path.join(CLIENTS, "node"))
    need("node", os.path.join(library, "node_modules"))
    return ["node", os.path.join(RUNNERS, "node_runner.js"), os.path.join(library, "lib", "index.js")], {}


def java(folder, _bin_folder):
    need("java", "javac", "protoc", "grpc_java_plugin", *(f"{JARS}/{jar}.jar" for jar in (
        "grpc-netty", "grpc-stub", "protobuf-util", "netty-handler", "netty-tcnative", "perfmark-api", "gson", "geronimo-annotation-1.3-spec")))
    target = os.path.join(folder, "java")
    class_path = build([os.path.join(CLIENTS, "java", "build.sh"), target]).strip() + f":{JARS}/protobuf-util.jar"
    build(["javac", "-nowarn", "-d", target, "-cp", class_path, os.path.join(RUNNERS, "Runner.java")])
    return ["java", f"-Djava.library.path={target}/native", "-cp", f"{class_path}:{target}", "Runner"], {}


LANGUAGES = {"cpp": cpp, "python": python, "python_asyncio": python_asyncio, "go": go, "node": node, "java": java}
TITLES = {"cpp": "C++", "python": "Python", "python_asyncio": "Python, asyncio", "go": "Go", "node": "Node.js", "java": "Java"}


class Runner:
    """A runner that has been started with a client's settings."""

    def __init__(self, command, environment, settings):
        self.process = subprocess.Popen(command, env={**os.environ, **environment, "SLUICE_CLIENT": json.dumps(settings)},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.timer = threading.Timer(LONGEST_CASE, self.process.kill)
        self.timer.start()

    def send(self, case):
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the runner has ended with {self.process.wait(10)}")
        return json.loads(line)

    def close(self):
        self.timer.cancel()
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the runner does not end") from None
        finally:
            self.process.stdout.close()
