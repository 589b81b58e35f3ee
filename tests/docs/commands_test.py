#!/usr/bin/env python3
"""Holds what the documents tell a reader to type against the programs, and their links against the files.

Usage: commands_test.py BIN_DIR

Of every command of Sluice in a code block or between backticks, the subcommand and the flags must be in its --help; what
follows a link to a file of the project must be there, headings included.
"""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None  # the folder with the programs
PROGRAMS = ("sluice", "sluice-tokenizer", "sluice-embedding", "sluice-shard", "sluice-sampler", "sluice-orchestrator",
            "sluice-gateway", "sluice-gateway-demo")
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FLAG = re.compile(r"^--(?:no)?([a-z][a-z0-9_]*)")
ENDS = {"|", "||", "&&", ";", "&", ">", "<", "2>/dev/null"}


def documents():
    for path in sorted(ROOT.rglob("*.md")):
        parts = path.relative_to(ROOT).parts
        if parts[0] not in ("build", "models") and "node_modules" not in parts and not parts[0].startswith("."):
            yield path


@functools.cache
def help_of(*command):
    """What a command says to --help."""
    program = os.path.join(BIN, command[0])
    return subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True).stdout


@functools.cache
def subcommands():
    listed = subprocess.run([os.path.join(BIN, "sluice"), "help"], capture_output=True, text=True).stdout
    return re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE)


def words_of(line):
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def commands_in(line):
    """[program, words after it] of each of ours in a line of a shell."""
    words = words_of(line)
    for at, word in enumerate(words):
        program = word.rsplit("/", 1)[-1].lstrip("$(")
        if program not in PROGRAMS or (at > 0 and words[at - 1] in ("-f", "build", "--bin")):
            continue
        rest = []
        for following in words[at + 1:]:
            if following in ENDS:
                break
            rest.append(following)
        yield program, rest


def faults_of(program, words):
    command = [program]
    if program == "sluice":
        if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
            return
        command.append(words[0])
        if words[0] not in subcommands():
            yield f"there is no `sluice {words[0]}`"
            return
    for word in words:
        flag = FLAG.match(word)
        if flag and flag[1] not in ("help",) and not re.search(rf"--(?:\[no\])?{flag[1]}\b", help_of(*command)):
            yield f"`{' '.join(command)}` has no flag {word}"


def shell_lines(text):
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").split("\n"):
            yield line
    for line in INLINE.findall(BLOCK.sub("", text)):
        yield line


def anchor_of(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def missing_links(path, text):
    for link in LINK.findall(BLOCK.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists():
            yield f"{link} is not there"
        elif anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", file.read_text()), re.MULTILINE)
            if anchor not in map(anchor_of, headings):
                yield f"{link}: no such heading"


class DocumentsTest(unittest.TestCase):
    maxDiff = None

    def test_commands_and_flags_exist(self):
        found, count = [], 0
        for path in documents():
            for line in shell_lines(path.read_text()):
                for program, words in commands_in(line):
                    count += 1
                    found += [f"{path.relative_to(ROOT)}: {fault}: {line.strip()}" for fault in faults_of(program, words)]
        self.assertGreater(count, 60)
        self.assertEqual([], found)

    def test_links_lead_somewhere(self):
        found = [f"{path.relative_to(ROOT)}: {fault}" for path in documents() for fault in missing_links(path, path.read_text())]
        self.assertEqual([], found)

    def test_notices_what_is_wrong(self):
        def faults(line):
            return [fault for program, words in commands_in(line) for fault in faults_of(program, words)]

        self.assertEqual([], faults("$ build/release/bin/sluice run --seed 2 'once' | head --lines 3"))
        self.assertEqual(1, len(faults("$ sluice run --no_such_flag 2")))
        self.assertEqual(1, len(faults("$ sluice rum")))
        self.assertEqual(1, len(faults("$ sluice-shard --no_such_flag=2 &")))


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
