"""What a release consists of, as those use it who install it: without protoc, without this tree, by their own names.

Usage: release_test.py TOOLS_DIR [unittest arguments]. Parts whose tools are not installed are left out, and named.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOOLS = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[3]
RELEASE = ROOT / "deploy" / "release"
NEEDS = {"python": ["protoc", "grpc_python_plugin"], "node": ["npm"], "go": ["go", "protoc-gen-go", "protoc-gen-go-grpc"],
         "java": ["javac", "grpc_java_plugin"], "chart": [os.path.join(TOOLS, "helm")]}
PARTS = [part for part, tools in NEEDS.items() if all(shutil.which(tool) for tool in tools)]
folder = tempfile.TemporaryDirectory()
dist = pathlib.Path(folder.name) / "dist"
version = (ROOT / "VERSION").read_text().strip()


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def setUpModule():
    left_out = sorted(set(NEEDS) - set(PARTS))
    if left_out:
        print(f"left out, since their tools are not installed: {', '.join(left_out)}")
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", f"{folder.name}/key.pem")
    run("openssl", "pkey", "-in", f"{folder.name}/key.pem", "-pubout", "-out", f"{folder.name}/key.pub")
    run(RELEASE / "release.sh", dist, *PARTS, env={**os.environ, "HELM": os.path.join(TOOLS, "helm"),
                                                   "SLUICE_SIGNING_KEY": f"{folder.name}/key.pem"})


def tearDownModule():
    folder.cleanup()


class VersionTest(unittest.TestCase):
    def test_every_file_has_the_version_of_the_file_version(self):
        self.assertEqual(run(sys.executable, "-B", RELEASE / "set_version.py").strip(), version)

    def test_it_is_written_everywhere_and_a_wrong_one_is_found(self):
        sys.path.insert(0, str(RELEASE))
        import set_version
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, _ in set_version.COPIES:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, root / path)
            self.assertEqual(len(list(set_version.wrong_copies(root, "9.8.7"))), len(set_version.COPIES))
            set_version.write(root, "9.8.7")
            self.assertEqual(list(set_version.wrong_copies(root, "9.8.7")), [])

    def test_what_is_no_version_is_refused(self):
        done = subprocess.run([sys.executable, "-B", RELEASE / "set_version.py", "next"], capture_output=True, text=True)
        self.assertIn("no semantic version", done.stderr)


class SumsTest(unittest.TestCase):
    def verify(self, *arguments):
        return subprocess.run([RELEASE / "verify_release.sh", dist, *arguments], capture_output=True, text=True)

    def test_a_changed_file_and_a_foreign_key_are_found(self):
        self.assertEqual(self.verify(f"{folder.name}/key.pub").returncode, 0)
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", f"{folder.name}/other.pem")
        run("openssl", "pkey", "-in", f"{folder.name}/other.pem", "-pubout", "-out", f"{folder.name}/other.pub")
        self.assertNotEqual(self.verify(f"{folder.name}/other.pub").returncode, 0)
        file = next(path for path in dist.rglob("*") if path.is_file() and not path.name.startswith("SHA256SUMS"))
        content = file.read_bytes()
        file.write_bytes(content + b"x")
        self.assertNotEqual(self.verify().returncode, 0)
        file.write_bytes(content)


class PackagesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def need(self, part):
        if part not in PARTS:
            self.skipTest(f"the tools of {part} are not installed")

    def test_the_wheel_needs_no_protoc(self):
        self.need("python")
        wheel = dist / f"sluice_client-{version}-py3-none-any.whl"
        run("/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", self.folder.name, wheel,
            env={"PATH": "/nowhere", "HOME": self.folder.name})
        schema = run("/usr/bin/python3", "-c", """
import sluice.request
class Model:
    @staticmethod
    def model_json_schema(): return {"type": "object", "b": 1, "a": 2}
for schema in ({"type": "object", "b": 1, "a": 2}, Model, '{"type": "object", "b": 1, "a": 2}'):
    print(sluice.request.make_request("Once", {"json_schema": schema}).constraint.json_schema)""",
                     env={"PYTHONPATH": self.folder.name, "PATH": "/nowhere"})
        self.assertEqual(schema, '{"type": "object", "b": 1, "a": 2}\n' * 3)

    def test_the_npm_package_brings_its_protos(self):
        self.need("node")
        run("tar", "-xzf", dist / f"sluice-client-{version}.tgz", "-C", self.folder.name)
        package = pathlib.Path(self.folder.name) / "package"
        self.assertTrue((package / "protos" / "sluice" / "v1" / "generation.proto").exists())
        self.assertEqual(json.loads((package / "package.json").read_text())["version"], version)
        modules = ROOT / "clients" / "node" / "node_modules"
        if not modules.is_dir():
            self.skipTest("the packages that it uses are not installed: ./dev setup clients")
        (package / "node_modules").symlink_to(modules)
        text = run("node", "--input-type=module", "-e", f"""
import {{makeRequest}} from "{package}/lib/request.js";
import * as client from "{package}/lib/index.js";
if (!client.Client) throw new Error("no client");
for (const jsonSchema of [{{b: 1, a: 2}}, {{toJSONSchema: () => ({{b: 1, a: 2}})}}, '{{"b":1,"a":2}}'])
  console.log(makeRequest({{prompt: "Once", jsonSchema}}).constraint.jsonSchema);""")
        self.assertEqual(text, '{"b":1,"a":2}\n' * 3)

    def test_the_go_module_builds_under_its_own_name(self):
        self.need("go")
        module = "sluice.internal/client"
        at = dist / "go" / module / "@v"
        self.assertEqual((at / "list").read_text(), f"v{version}\n")
        self.assertTrue((at / f"v{version}.mod").read_text().startswith(f"module {module}\n"))
        self.assertEqual(json.loads((at / f"v{version}.info").read_text())["Version"], f"v{version}")
        with zipfile.ZipFile(at / f"v{version}.zip") as archive:
            self.assertTrue(all(name.startswith(f"{module}@v{version}/") for name in archive.namelist()))
            archive.extractall(self.folder.name)
        if not os.path.isdir("/usr/share/gocode/src/google.golang.org/grpc"):
            self.skipTest("Debian's packages of gRPC for Go are not installed: ./dev setup clients")
        source = pathlib.Path(self.folder.name) / "path" / "src" / module
        source.parent.mkdir(parents=True)
        (pathlib.Path(self.folder.name) / f"{module}@v{version}").rename(source)
        run("go", "build", "./...", cwd=source,
            env={**os.environ, "GO111MODULE": "off", "GOPATH": f"{self.folder.name}/path:/usr/share/gocode", "GOFLAGS": "",
                 "GOCACHE": f"{self.folder.name}/cache"})

    def test_the_jar_has_client_and_messages(self):
        self.need("java")
        with zipfile.ZipFile(dist / f"sluice-client-{version}.jar") as archive:
            names = archive.namelist()
        self.assertIn("sluice/client/Client.class", names)
        self.assertTrue(any(name.endswith("$GenerateRequest.class") for name in names), names[:20])

    def test_the_chart_shows_its_readme(self):
        self.need("chart")
        shown = run(os.path.join(TOOLS, "helm"), "show", "readme", dist / f"sluice-{version}.tgz")
        self.assertIn("ingress.http.host", shown)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
