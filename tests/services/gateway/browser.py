"""Chromium, driven through Debian's chromium-driver by the W3C's WebDriver protocol: as much of it as the page's test
needs."""

import base64
import http.client
import json
import shutil
import socket
import subprocess
import time

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference to an element


def is_installed():
    return bool(CHROMIUM and DRIVER)


class Browser:
    """One window."""

    def __init__(self, width=1280, height=860, dark=False):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.driver = subprocess.Popen([DRIVER, f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--force-device-scale-factor=1", f"--window-size={width},{height}"]
        if dark:
            arguments.append("--force-dark-mode")
        options = {"binary": CHROMIUM, "args": arguments}
        if width < 500:  # the narrowest window; phones are narrower
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1}}
        capabilities = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = self._wait_for_driver(capabilities)

    def _wait_for_driver(self, capabilities):
        for attempt in range(200):
            try:
                return self._send("POST", "/session", {"capabilities": capabilities})["sessionId"]
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError("chromedriver does not answer")

    def close(self):
        try:
            self._send("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait(20)

    def _send(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{path}: {value['error']}: {value['message'][:500]}")
        return value

    def _do(self, method, path, body=None):
        return self._send(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self._do("POST", "/url", {"url": url})

    def script(self, source, *arguments):
        """Runs a function's body in the page; what it returns."""
        return self._do("POST", "/execute/sync", {"script": source, "args": list(arguments)})

    def _find(self, selector):
        return self._do("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._do("POST", f"/element/{self._find(selector)}/click", {})

    def fill(self, selector, text):
        element = self._find(selector)
        self._do("POST", f"/element/{element}/clear", {})
        self._do("POST", f"/element/{element}/value", {"text": text})

    def press(self, *keys):
        actions = [{"type": kind, "value": key} for kind, key in keys]
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def hover(self, selector):
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self._find(selector)}}
        self._do("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def text(self, selector):
        return self.script("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, condition, seconds=30):
        """Until an expression of the page is true."""
        end = time.monotonic() + seconds
        while not self.script(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"still false after {seconds} s: {condition}")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._do("GET", "/screenshot")))

    def complaints(self):
        """What the page wrote to its console, policy violations included."""
        return [entry["message"] for entry in self._do("POST", "/se/log", {"type": "browser"})]
