#!/usr/bin/env python3
"""The signed list of digests beside the images, and where each came from.

Usage: signing_test.py [unittest arguments]
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "images"
DIGEST = "0123456789abcdef" * 4
PACKAGE = "pkg:deb/debian/libgrpc%2B%2B1.51@1.51.1-3?arch=amd64"


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


class SigningTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.key, self.public = self.folder / "key.pem", self.folder / "public.pem"
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", self.key)
        run("openssl", "pkey", "-in", self.key, "-pubout", "-out", self.public)
        (self.folder / "sluice.tar").write_text("an archive")
        sbom = self.folder / "sluice.spdx.json"
        sbom.write_text(json.dumps({"packages": []})[:-1] + f',\n"referenceLocator": "{PACKAGE}"\n}}')
        self.provenance = run(SCRIPTS / "write_provenance.sh", "sluice", "1.2.3", f"sha256:{DIGEST}", "ab12-dirty", "sources",
                              sbom, SOURCE_DATE_EPOCH="1700000000").stdout
        (self.folder / "sluice.provenance.json").write_text(self.provenance)

    def sign(self, key=None):
        done = run(SCRIPTS / "sign_images.sh", self.folder, SLUICE_SIGNING_KEY=str(key or ""))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def verify(self, public=None):
        return run(SCRIPTS / "verify_images.sh", self.folder, public or self.public).returncode

    def test_provenance_is_an_in_toto_statement(self):
        statement = json.loads(self.provenance)
        self.assertEqual(statement["subject"], [{"name": "sluice:1.2.3", "digest": {"sha256": DIGEST}}])
        self.assertEqual(statement["predicateType"], "https://slsa.dev/provenance/v1")
        source, package = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        self.assertEqual((source["digest"]["gitCommit"], source["annotations"]["dirty"]), ("ab12", True))
        self.assertEqual(package["uri"], PACKAGE)
        self.assertEqual(statement["predicate"]["runDetails"]["metadata"]["startedOn"], "2023-11-14T22:13:20Z")

    def test_what_was_signed_is_believed(self):
        self.sign(self.key)
        self.assertEqual(self.verify(), 0)
        digests = (self.folder / "digests").read_text()
        self.assertIn(f"{DIGEST}  manifest of sluice:1.2.3\n", digests)
        self.assertEqual(len(digests.splitlines()), 4)

    def test_what_changed_since_is_not(self):
        for name in ("sluice.tar", "sluice.spdx.json", "sluice.provenance.json", "digests"):
            self.sign(self.key)
            path = self.folder / name
            before = path.read_bytes()
            path.write_bytes(before.replace(b"a", b"b", 1))
            self.assertNotEqual(self.verify(), 0, name)
            path.write_bytes(before)
            self.assertEqual(self.verify(), 0, name)

    def test_another_key_is_not(self):
        self.sign(self.key)
        other = self.folder / "other.pem"
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", other)
        public = self.folder / "other.public.pem"
        run("openssl", "pkey", "-in", other, "-pubout", "-out", public)
        self.assertNotEqual(self.verify(public), 0)

    def test_without_a_key_there_is_no_signature(self):
        self.sign(self.key)
        self.assertIn("not signed", self.sign())
        self.assertFalse((self.folder / "digests.sig").exists())
        self.assertNotEqual(self.verify(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
