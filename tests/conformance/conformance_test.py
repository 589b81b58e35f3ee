"""Every case of cases.json with one client library, against a live `sluice up`.

Usage: conformance_test.py BIN_DIR LANGUAGE... [--write]

With --write the languages' columns of the table in clients/README.md are written. Ends with 77 where a language is not
installed.
"""

import copy
import hashlib
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "services", "gateway"))

import languages  # noqa: E402
from fake_servers import FakeServers  # noqa: E402
from raw_client import RawClient  # noqa: E402
from served import STORYTELLER, Served  # noqa: E402

import random_adapter  # noqa: E402

README = os.path.join(HERE, "..", "..", "clients", "README.md")
TOKEN = "open sesame"


def close_enough(a, b):
    """Equal but for the last digits of numbers: 32 bits are shown in different ways."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close_enough(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close_enough, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)
    return a == b


class Servers:
    """The pipelines that cases run against."""

    def __init__(self, bin_folder, folder, generated):
        adapter = random_adapter.write(os.path.join(folder, "adapter"), STORYTELLER, 1)
        self.plain = Served(bin_folder, "--adapters", f"adapted={adapter}")
        self.raw = RawClient(generated, self.plain.endpoint)
        self.fake = FakeServers(self.raw)
        self.certificate, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                        "-out", self.certificate], check=True, capture_output=True)
        tokens = os.path.join(folder, "tokens")
        with open(tokens, "w") as file:
            file.write(f"{hashlib.sha256(TOKEN.encode()).hexdigest()} tester\n")
        self.tls = Served(bin_folder, "--tls_cert", self.certificate, "--tls_key", key, "--tokens", tokens, http=False)
        # A port that is taken and where nobody answers; it is closed with the process.
        self.nobody = socket.socket()
        self.nobody.bind(("127.0.0.1", 0))

    def settings(self, case):
        client = dict(case.get("client", {}))
        server = self.tls if case.get("server") == "tls" else self.plain
        places = {"SERVER": server.endpoint, "NOBODY": "127.0.0.1:%d" % self.nobody.getsockname()[1],
                  "BUSY": self.fake.busy, "BREAKS": self.fake.breaks, "ENDS": self.fake.ends,
                  "COSTLY": self.fake.costly}
        client["endpoints"] = ",".join(places[place] for place in client.get("endpoints", ["SERVER"]))
        if client.pop("ca", False):
            client["ca"] = self.certificate
        return client

    def stop(self):
        self.fake.stop()
        self.plain.stop()
        self.tls.stop()
        self.nobody.close()


class Suite:
    def __init__(self, servers):
        self.servers = servers
        with open(os.path.join(HERE, "cases.json")) as file:
            self.cases = json.load(file)
        # Asked for once, while nothing is killed.
        self.expected = {case["name"]: [servers.raw.answer(each) for each in self.copies(case)]
                         for case in self.cases if "error" not in case and "cancel_after" not in case}

    def run(self, command, environment):
        """{name of the case: what is wrong, or None}"""
        results = {}
        for case in self.cases:
            runner = languages.Runner(command, environment, self.servers.settings(case))
            try:
                results[case["name"]] = self.run_case(runner, case)
                runner.close()
            except AssertionError as failure:
                runner.timer.cancel()
                runner.process.kill()
                results[case["name"]] = str(failure)
        return results

    def run_case(self, runner, case):
        sent = {number: self.to_send(each, number) for number, each in enumerate(self.copies(case))}
        for each in sent.values():
            runner.send(each)
        answers = {}
        while len(answers) < len(sent):
            message = runner.receive()
            if "event" not in message:
                answers[message["id"]] = message
            elif "kill" in case:
                self.servers.plain.kill(case["kill"])
        for number, message in answers.items():
            expected = self.expected.get(case["name"])
            fault = self.fault(case, message, expected and expected[number])
            if fault:
                return fault
        if case.get("ends_on_server") and self.servers.plain.wait_until_idle() != 0:
            return "sequences still run on the server"
        return None

    @staticmethod
    def copies(case):
        copies = [copy.deepcopy(case) for _ in range(case.get("copies", 1))]
        for number, each in enumerate(copies[1:], 1):
            each["request"]["sampling"]["seed"] += number
        return copies

    @staticmethod
    def to_send(case, number):
        known = ("op", "request", "timeout_ms", "cancel_after")
        return {"id": number, **{name: case[name] for name in known if name in case}}

    @staticmethod
    def fault(case, message, expected):
        if "error" in case:
            error = message.get("error", {})
            if error.get("code") != case["error"]["code"] or case["error"]["message"] not in error.get("message", ""):
                return f"expected {case['error']}, got {message}"
            return None
        result = message.get("result")
        if "cancel_after" in case:
            return None if result == {"cancelled": True} else f"was not cancelled: {message}"
        if result is None:
            return f"failed: {message}"
        if "seed" not in expected:  # drawn by the library
            result.pop("seed", None)
        if not close_enough(result, expected):
            return f"expected {expected}, got {result}"
        wrong = {name: result.get(name) for name, value in case.get("expect", {}).items() if result.get(name) != value}
        return f"expected {case['expect']}, got {wrong}" if wrong else None


def write_table(columns):
    """Puts the columns of these languages into the table; those of others stay."""
    with open(README) as file:
        text = file.read()
    begin, end = "<!-- conformance -->\n", "<!-- end -->"
    head, rest = text.split(begin)
    old, tail = rest.split(end)
    rows = [re.split(r" *\| *", line.strip("| \n")) for line in old.strip().splitlines()]
    table = {title: {row[0]: row[i] for row in rows[2:]} for i, title in enumerate(rows[0]) if i > 0} if rows else {}
    for language, results in columns.items():
        table[languages.TITLES[language]] = {name: "no" if fault else "yes" for name, fault in results.items()}
    titles = [title for title in languages.TITLES.values() if title in table]
    names = list(next(iter(columns.values())))
    lines = ["| case | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]
    lines += ["| " + " | ".join([name] + [table[title].get(name, "") for title in titles]) + " |" for name in names]
    with open(README, "w") as file:
        file.write(head + begin + "\n".join(lines) + "\n" + end + tail)


def main():
    bin_folder, *wanted = sys.argv[1:]
    writes = "--write" in wanted
    wanted = [language for language in wanted if language != "--write"]
    ready, failed, columns = {}, False, {}
    with tempfile.TemporaryDirectory() as folder:
        for language in wanted:
            try:
                ready[language] = languages.LANGUAGES[language](os.path.join(folder, language), bin_folder)
            except languages.Missing as missing:
                print(f"skipped: {language}: {missing}")
        if not ready:
            sys.exit(77)
        generated = os.path.join(folder, "raw")
        languages.build([languages.PYTHON, os.path.join(languages.CLIENTS, "python", "generate.py"), generated])
        servers = Servers(bin_folder, folder, generated)
        try:
            suite = Suite(servers)
            for language, (command, environment) in ready.items():
                columns[language] = suite.run(command, environment)
                for name, fault in columns[language].items():
                    print(f"{language}: {name}: {fault or 'ok'}", flush=True)
                    failed = failed or fault is not None
        finally:
            servers.stop()
    if writes:
        write_table(columns)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
