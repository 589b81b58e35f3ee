"""`sluice` at a real terminal: what is typed is edited, pasted, interrupted and shown.

Usage: terminal_test.py BIN_DIR [unittest arguments]
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
import unittest

BIN = sys.argv[1]
SLUICE = os.path.join(BIN, "sluice")
PASTE = "\x1b[200~{}\x1b[201~"
UP = "\x1b[A"


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, *arguments, columns=80, home=None):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = dict(os.environ, TERM="xterm", HOME=home or "/nonexistent")
            environment.pop("XDG_STATE_HOME", None)
            os.execve(SLUICE, [SLUICE, *arguments], environment)
        self.resize(columns)

    def resize(self, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text):
        # A terminal that nobody empties takes no more.
        data = text.encode()
        while data:
            readable, writable, _ = select.select([self.fd], [self.fd], [], 60)
            if readable:
                self.read()
            if writable:
                data = data[os.write(self.fd, data[:512]):]

    def read(self):
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program has ended
            data = b""
        self.shown += data.decode(errors="replace")
        return data != b""

    def expect(self, pattern, timeout=60):
        """Waits until `pattern` is shown and forgets all up to it."""
        end = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.shown)
            if found:
                before, self.shown = self.shown[: found.end()], self.shown[found.end():]
                return before
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0] or not self.read():
                raise AssertionError(f"{pattern!r} was not shown; there is {self.shown[-2000:]!r}")

    def exit_status(self):
        while select.select([self.fd], [], [], 60)[0] and self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class TerminalTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def chat(self, *flags, columns=80):
        terminal = Terminal("chat", "--max_tokens", "1", "--temperature", "0", *flags,
                            columns=columns, home=self.folder.name)
        terminal.expect("> ")
        return terminal

    def saved(self, terminal):
        path = os.path.join(self.folder.name, "saved.json")
        terminal.type(f"/save {path}\r")
        terminal.expect("saved.json.*\n(.*> )")
        with open(path) as file:
            return [message["content"] for message in json.load(file)["messages"] if message["role"] == "user"]

    def turn(self, terminal, text):
        terminal.type(text + "\r")
        terminal.expect("\n[^\n]*> $")

    def test_a_line_is_edited(self):
        terminal = self.chat()
        self.turn(terminal, "The kin\x7f\x7fin\x1b[D\x1b[D\x01\x05g")  # erases, moves, home, end
        self.assertEqual(self.saved(terminal), ["The king"])
        terminal.type("\x04")
        self.assertEqual(terminal.exit_status(), 0)

    def test_a_line_may_be_longer_than_the_terminals_4095_bytes(self):
        for columns in (40, 100):
            with self.subTest(columns=columns):
                terminal = self.chat(columns=columns)
                terminal.type("word " * 1500 + "\r")
                # The whole of it is more than the model's context of 512 takes.
                self.assertRegex(terminal.expect(r"INVALID_ARGUMENT\]"), r"the prompt has 1[,0-9]{3}")
                terminal.type("/exit\r")
                self.assertEqual(terminal.exit_status(), 0)

    def test_a_paste_of_several_lines_is_one_turn(self):
        terminal = self.chat()
        terminal.type(PASTE.format("one\rtwo\rthree é") + "\r")
        terminal.expect("\n[^\n]*> $")
        self.assertEqual(self.saved(terminal), ["one\ntwo\nthree é"])
        terminal.type("\x04")
        self.assertEqual(terminal.exit_status(), 0)

    def test_former_turns_come_back_also_in_another_session(self):
        terminal = self.chat()
        self.turn(terminal, "The wolf")
        terminal.type("/exit\r")
        self.assertEqual(terminal.exit_status(), 0)
        path = os.path.join(self.folder.name, ".local/state/sluice/chat_history")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        terminal = self.chat()
        terminal.type(UP + UP + "\r")
        terminal.expect("\n[^\n]*> $")
        self.assertEqual(self.saved(terminal), ["The wolf"])
        terminal.type("\x04")
        terminal.exit_status()

    def test_ctrl_c_drops_the_line_and_twice_ends(self):
        terminal = self.chat()
        terminal.type("never sent\x03")
        terminal.expect(r"\^C\r?\n.*once more ends.*\n[^\n]*> $")
        self.turn(terminal, "sent")
        self.assertEqual(self.saved(terminal), ["sent"])
        terminal.type("\x03")
        terminal.expect(r"once more ends.*\n[^\n]*> $")
        terminal.type("\x03")
        self.assertEqual(terminal.exit_status(), 130)
        self.assertRegex(terminal.shown, r"\^C\r?\n$")

    def test_ctrl_d_ends_with_a_line_break(self):
        terminal = self.chat()
        terminal.type("\x04")
        self.assertEqual(terminal.exit_status(), 0)
        self.assertRegex(terminal.shown, r"\n$")

    def test_ctrl_c_ends_an_answer_and_not_the_program(self):
        terminal = self.chat("--max_tokens", "400", "--ignore_eos")
        terminal.type("Once upon a time\r")
        terminal.expect("time.*\n[^\n]*[a-z] [a-z]")
        terminal.type("\x03")
        terminal.expect("\n[^\n]*> $")
        self.assertEqual(self.saved(terminal), ["Once upon a time"])
        terminal.type("\x04")
        self.assertEqual(terminal.exit_status(), 0)

    def test_a_terminal_that_is_resized_shows_the_line_again(self):
        terminal = self.chat(columns=100)
        terminal.type("The wolf went through the wood")
        terminal.expect("wood")
        terminal.resize(40)
        terminal.expect("The wolf went through the wood")
        terminal.type("\r")
        terminal.expect("\n[^\n]*> $")
        self.assertEqual(self.saved(terminal), ["The wolf went through the wood"])
        terminal.type("\x04")
        terminal.exit_status()

    def test_a_progress_bar_stays_on_one_row(self):
        terminal = Terminal("bench", "--requests", "40", "--max_tokens", "40", "--concurrency", "2", columns=40)
        self.assertEqual(terminal.exit_status(), 0)
        bars = re.findall(r"\r([^\r\n\x1b]*)\x1b\[", terminal.shown)
        self.assertTrue(bars)
        self.assertLess(max(map(len, bars)), 40)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
