"""The page, as a person uses it in Chromium.

Usage: page_test.py BIN_DIR [--screenshots FOLDER] [unittest arguments]

With --screenshots it writes the pictures that README shows.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

import browser
from served import Served, call

BIN = sys.argv[1]
PICTURES = None
if "--screenshots" in sys.argv:
    at = sys.argv.index("--screenshots")
    PICTURES = sys.argv[at + 1]
    del sys.argv[at:at + 2]
CONTROL, ENTER, ESCAPE, LEFT, RIGHT = "\ue009", "\ue007", "\ue00c", "\ue012", "\ue014"
served = None


def setUpModule():
    global served
    served = Served(BIN, "--tp", "2", "--pp", "2", "--demo")


def tearDownModule():
    served.stop()


class PageCase(unittest.TestCase):
    window = {}

    def setUp(self):
        self.page = browser.Browser(**self.window)
        self.addCleanup(self.page.close)
        self.page.open(f"http://{served.address}/#demo={served.demo_token}")
        self.page.wait("document.querySelector('.served.serving')")
        self.assertTrue(self.page.script("return document.getElementById('chat-mode').checked"))
        self.page.click("#text-mode")

    def tearDown(self):
        self.assertEqual([m for m in self.page.complaints() if "502" not in m and "503" not in m], [])

    def picture(self, name):
        if PICTURES:
            self.page.screenshot(os.path.join(PICTURES, f"page-{name}.png"))

    def write(self, seed="2", tokens="120"):
        self.page.script("document.getElementById('settings').open = true")
        self.page.fill("#seed", seed)
        self.page.fill("#max_tokens", tokens)
        self.page.click("#ignore_eos")
        self.page.click("#start")

    def wait_until_written(self):
        self.page.wait("!document.getElementById('start').disabled", 60)

    def wait_until_seen(self):
        self.page.wait("!document.getElementById('look').disabled && document.querySelectorAll('#heads canvas').length > 0", 60)


class PageTest(PageCase):
    def test_writes_and_shows_what_else_could_have_come(self):
        self.write()
        self.wait_until_written()
        expected = call(served.address, "POST", "/v1/completions", {
            "prompt": "Once upon a time there was a king who", "max_tokens": 120, "temperature": 0.7, "seed": 2,
            "ignore_eos": True}).json["choices"][0]["text"]
        self.assertEqual(self.page.text(".output .text"), "Once upon a time there was a king who" + expected)
        self.assertIn("10 prompt + 120 generated tokens", self.page.text(".output .facts"))
        self.assertIn("finish reason: length", self.page.text(".output .facts"))
        self.page.hover(".token[data-index='7']")
        self.page.wait("!document.getElementById('alternatives').hidden")
        self.assertGreaterEqual(self.page.script("return document.querySelectorAll('#alternatives button').length"), 5)
        self.picture("write")
        # Another token there, and it goes on from it.
        other = self.page.script("return [...document.querySelectorAll('#alternatives button')].find(b => !b.className)"
                                 ".querySelector('code').textContent").replace("␣", " ")
        self.page.script("[...document.querySelectorAll('#alternatives button')].find(b => !b.className).click()")
        self.wait_until_written()
        self.assertEqual(self.page.script("return document.querySelector('.output .text').children[8].textContent"), other)

    def test_colours_tokens_by_rank(self):
        self.write(tokens="60")
        self.wait_until_written()
        logprobs = call(served.address, "POST", "/v1/completions", {
            "prompt": "Once upon a time there was a king who", "max_tokens": 60, "temperature": 0.7, "seed": 2,
            "ignore_eos": True, "logprobs": 10}).json["choices"][0]["logprobs"]
        ranks = [sum(other > own for text, other in top.items() if text != token) + 1
                 for token, own, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"])]
        expected = ["rank-11" if rank > 10 else "rank-4" if rank > 3 else "rank-2" if rank > 1 else "" for rank in ranks]
        self.assertGreater(expected.count(""), 20)
        self.assertEqual(self.page.script(
            "return [...document.querySelectorAll('.token')].map(t => (t.className.match(/rank-\\d+/) ?? [''])[0])"), expected)

    def test_copies_the_text_and_the_request(self):
        self.page.script("navigator.clipboard.writeText = async (text) => { window.clipboard = text; };")
        self.page.fill("#prompt", "It's a king's \"tale\"")
        self.write(tokens="20")
        self.wait_until_written()
        self.page.click(".output .copy")
        self.page.wait("document.querySelector('.output .copied').textContent === 'Copied'")
        text = self.page.script("return window.clipboard")
        self.assertEqual(text, self.page.text(".output .text"))
        self.page.click(".output .copy-curl")
        command = self.page.script("return window.clipboard")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        self.assertEqual("It's a king's \"tale\"" + json.loads(done.stdout)["choices"][0]["text"], text, command)

    def test_explains_every_option(self):
        self.page.script("document.querySelector('details.more').open = true")
        self.page.wait("document.querySelectorAll('#sampling input').length > 15")
        self.assertEqual(self.page.script(
            "return [...document.querySelectorAll('.option')].filter(o => !o.querySelector('.help + p')?.textContent)"
            ".map(o => o.querySelector('input').id)"), [])
        self.page.click("[aria-label='About Temperature']")
        self.assertFalse(self.page.script("return document.getElementById('help-temperature').hidden"))

    def test_stops_and_goes_on_by_keyboard(self):
        self.page.fill("#max_tokens", "400")
        self.page.click("#ignore_eos")
        self.page.click("#prompt")
        self.page.press(("keyDown", CONTROL), ("keyDown", ENTER), ("keyUp", ENTER), ("keyUp", CONTROL))
        self.page.wait("document.querySelectorAll('.token').length > 3")
        self.page.press(("keyDown", ESCAPE), ("keyUp", ESCAPE))
        self.wait_until_written()
        self.assertIn("stopped", self.page.text(".output .facts"))
        self.assertEqual(served.wait_until_idle(), 0)
        before = self.page.script("return document.querySelectorAll('.token').length")
        self.page.fill("#max_tokens", "5")
        self.page.click("#go-on")
        self.wait_until_written()
        self.assertEqual(self.page.script("return document.querySelectorAll('.token').length"), before + 5)
        self.page.script("document.querySelector('.output .text').focus()")
        self.page.press(("keyDown", RIGHT), ("keyUp", RIGHT))
        self.assertFalse(self.page.script("return document.getElementById('alternatives').hidden"))

    def test_two_texts_side_by_side(self):
        self.page.click("#compare")
        self.write(tokens="60")
        self.wait_until_written()
        texts = self.page.script("return [...document.querySelectorAll('.output .text')].map(t => t.textContent)")
        self.assertNotEqual(texts[0], texts[1])
        self.assertTrue(all(len(text) > 80 for text in texts))
        self.picture("compare")

    def test_offers_every_option_of_sampling(self):
        self.page.click("details.more summary")
        self.page.wait("document.querySelectorAll('#sampling input').length > 15")
        listed = [option["name"] for option in call(served.address, "GET", "/page/sampling").json]
        missing = self.page.script("return arguments[0].filter(name => !document.getElementById(name))", listed)
        self.assertEqual(missing, [])
        self.page.fill("#repetition_penalty", "1.3")
        self.page.fill("#logit_bias", "300=-5, 301=2")
        self.page.fill("#bad_words_ids", "310,311;312")
        self.page.fill("#min_tokens", "3")
        self.write(tokens="30")
        self.wait_until_written()
        expected = call(served.address, "POST", "/v1/completions", {
            "prompt": "Once upon a time there was a king who", "max_tokens": 30, "temperature": 0.7, "seed": 2, "ignore_eos": True,
            "repetition_penalty": 1.3, "logit_bias": {"300": -5, "301": 2}, "bad_words_ids": [[310, 311], [312]], "min_tokens": 3})
        self.assertEqual(self.page.text(".output .text"), "Once upon a time there was a king who" + expected.json["choices"][0]["text"])
        self.page.fill("#min_tokens", "0")
        self.page.click("#ignore_eos")
        self.page.fill("#guided_regex", "yes|no")
        self.page.click("#start")
        self.wait_until_written()
        self.assertIn(self.page.text(".output .text").removeprefix("Once upon a time there was a king who"), ("yes", "no"))

    def test_a_conversation(self):
        self.page.click("#chat-mode")
        for message in ("Tell me of the king.", "And then?"):
            self.page.fill("#prompt", message)
            self.page.fill("#max_tokens", "20")
            self.page.click("#start")
            self.wait_until_written()
        self.picture("chat")
        turns = self.page.script("return [...document.querySelectorAll('.turn')].map(t => t.classList[1])")
        self.assertEqual(turns, ["user", "assistant", "user"])
        order = self.page.script("return ['.turn:last-child', '.output', '#prompt']"
                                 ".map(s => document.querySelector(s).getBoundingClientRect().top)")
        self.assertEqual(order, sorted(order))
        self.page.click("#new-chat")
        self.assertEqual(self.page.script("return document.querySelectorAll('.turn, .token').length"), 0)

    def test_says_why_a_request_is_refused(self):
        self.page.fill("#prompt", "")
        self.page.click("#start")
        self.wait_until_written()
        self.assertIn("empty", self.page.text(".output .facts"))
        # The browser itself notes an answer of 400.
        self.assertTrue(all("400" in message for message in self.page.complaints()))

    def test_a_killed_process_turns_red_and_the_stream_goes_on(self):
        expected = call(served.address, "POST", "/v1/completions", {
            "prompt": "Once upon a time there was a king who", "max_tokens": 450, "temperature": 0.7, "seed": 5,
            "ignore_eos": True}).json["choices"][0]["text"]
        self.write(seed="5", tokens="450")
        self.page.click("nav a[href='#pipeline']")
        self.page.wait("document.querySelectorAll('.process').length === 7")
        self.page.wait("Number(document.querySelector('#figures dd').textContent) > 0")
        self.page.script("""
            window.reds = 0;
            new MutationObserver(() => { window.reds += document.querySelectorAll('.process.lost').length; })
                .observe(document.getElementById('stages'), {subtree: true, attributes: true});
            document.querySelector('[aria-label="Kill shard 1·0"]').click();""")
        self.page.wait("window.reds > 0")
        self.picture("pipeline")
        self.wait_until_written()
        self.page.wait("/^killed shard 1·0 .*: back after \\d+ ms/.test(document.getElementById('notice').textContent)")
        self.page.click("nav a[href='#write']")
        self.assertEqual(self.page.text(".output .text"), "Once upon a time there was a king who" + expected)

    def test_the_cache_shows_its_blocks(self):
        self.page.click("nav a[href='#cache']")
        self.page.wait("/\\d+ of \\d+ blocks/.test(document.getElementById('cache-summary').textContent)")
        self.assertGreater(self.page.script("return document.getElementById('blocks').height"), 20)
        self.assertTrue(self.page.script("return !document.getElementById('ledger-empty').hidden"))

    def test_the_ledger_names_who_holds_blocks(self):
        self.page.fill("#max_tokens", "460")
        self.page.click("#ignore_eos")
        self.page.click("#compare")
        self.page.click("#start")
        self.page.click("nav a[href='#cache']")
        self.page.wait("document.querySelectorAll('#ledger tbody tr').length === 2")
        self.page.wait("Number(document.querySelector('#ledger tbody td:nth-child(4)').textContent) > 40")
        self.assertLessEqual(self.page.script("const l = document.querySelector('.ledger'); return l.scrollWidth - l.clientWidth"), 0)
        self.page.script("document.querySelector('#ledger tbody tr').focus()")
        self.assertEqual(self.page.script("return document.querySelectorAll('#ledger tr.chosen').length"), 1)
        self.picture("cache")
        self.page.click("nav a[href='#write']")
        self.wait_until_written()

    def test_looks_inside_the_model(self):
        text = "Once upon a time there was a king who"
        self.write(tokens="12")
        self.wait_until_written()
        written = self.page.text(".output .text")
        self.page.click(".output .look-inside")
        self.wait_until_seen()
        self.assertTrue(written.startswith(text))
        seen = call(served.address, "POST", "/page/inspect", {"text": written, "weights": True, "layers": [3], "rollout": True,
                                                              "lens": 5}).json
        self.assertEqual(self.page.script("return [...document.querySelectorAll('#flow .token')].map(t => t.textContent)"),
                         seen["tokens"])
        self.assertEqual(self.page.script("return document.querySelectorAll('#heads button').length"), seen["num_heads"])
        # Another layer, another head, another pair of tokens.
        self.page.script("const s = document.getElementById('inspect-layer'); s.value = 3; s.dispatchEvent(new Event('change'));")
        self.page.wait("document.getElementById('heat-caption').textContent.startsWith('Layer 3, head 0:')")
        self.page.click("#heads button[aria-label='Head 2']")
        self.assertTrue(self.page.text("#heat-caption").startswith("Layer 3, head 2:"))
        self.page.click("#flow .token[data-index='8']")
        self.page.script("document.getElementById('heat').focus()")
        for key in (LEFT, LEFT):
            self.page.press(("keyDown", key), ("keyUp", key))
        weight = seen["maps"][2]["weights"][8 * 9 // 2 + 6] / 10000
        shown = [token.replace(" ", "␣") for token in seen["tokens"]]
        self.assertEqual(self.page.text("#pair"), f"8 “{shown[8]}” reads 6 “{shown[6]}”: {weight:.3f}")
        # The pointer says the same.
        self.page.script("""
            const heat = document.getElementById('heat'), box = heat.getBoundingClientRect();
            heat.dispatchEvent(new MouseEvent('mousemove', {clientX: box.right - 3, clientY: box.bottom - 3, bubbles: true}));""")
        last = len(shown) - 1
        self.assertTrue(self.page.text("#pair").startswith(f"{last} “{shown[last]}” reads {last} “{shown[last]}”: 0."))
        self.page.script("document.getElementById('heat').dispatchEvent(new MouseEvent('mouseleave'))")
        # What each layer would say, the last one first, beside what came.
        rows = self.page.script("return [...document.querySelectorAll('#lens tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        self.assertEqual([row[0] for row in rows], [str(layer) for layer in reversed(range(seen["num_layers"]))])
        said = seen["lens"][-1]["positions"][8]["top"][0]
        self.assertTrue(rows[0][2].startswith(said[0].replace(" ", "␣")), rows[0])
        # As dark as much of it is in the chosen one; what comes later is not.
        share = seen["rollout"][8 * 9 // 2] / 10000
        self.assertIn(f"{100 * share:.{1 if share < 0.0995 else 0}f} %", self.page.script(
            "return document.querySelector('#flow .token').title"))
        self.assertEqual(self.page.script("return document.querySelectorAll('#flow .later').length"), last - 8)
        self.page.click(f"#flow .token[data-index='{last - 4}']")
        self.picture("attention")

    def test_says_why_a_text_is_not_looked_at(self):
        self.page.click("nav a[href='#attention']")
        self.page.fill("#inspect-text", "x")
        self.page.script("document.getElementById('inspect-text').value = 'a king '.repeat(2000)")
        self.page.click("#look")
        self.page.wait("document.querySelector('#inspect-facts.failed')")
        self.assertIn("accepted: 1 to", self.page.text("#inspect-facts"))
        self.assertTrue(all("400" in message for message in self.page.complaints()))


class KeyTest(unittest.TestCase):
    """A server that asks for tokens, as every default installation of the chart does."""

    TOKEN = "correct horse"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = os.path.join(folder.name, "tokens")
        with open(tokens, "w") as file:
            file.write(f"{hashlib.sha256(self.TOKEN.encode()).hexdigest()} reader\n")
        self.served = Served(BIN, "--tokens", tokens)
        self.addCleanup(self.served.stop)
        self.page = browser.Browser()
        self.addCleanup(self.page.close)
        self.page.open(f"http://{self.served.address}/")

    def use(self, key):
        self.page.fill("#key", key)
        self.page.click("#key-form button")

    def says(self, words):
        self.page.wait(f"document.getElementById('served').textContent.includes({json.dumps(words)})")

    def test_asks_for_a_key_and_writes_with_it(self):
        self.says("an API key is needed")
        self.assertFalse(self.page.script("return document.getElementById('key-form').hidden"))
        self.page.click("#start")
        self.page.wait("document.querySelector('.output .facts').textContent.includes('an API key is needed')")
        self.use("wrong")
        self.says("this API key is not accepted")
        self.use(self.TOKEN)
        self.page.wait("document.querySelector('.served.serving')")
        self.assertTrue(self.page.script("return document.getElementById('key-form').hidden"))
        self.page.fill("#max_tokens", "5")
        self.page.click("#ignore_eos")
        self.page.click("#start")
        self.page.wait("document.querySelector('.output .facts').textContent.includes('5 generated tokens')")
        # It is the tab's, and survives a reload; forgotten, it is asked for again.
        self.page.open(f"http://{self.served.address}/")
        self.page.wait("document.querySelector('.served.serving')")
        self.assertEqual(self.page.script("return localStorage.length"), 0)
        self.page.click("#forget-key")
        self.says("an API key is needed")
        self.assertEqual(self.page.script("return sessionStorage.length"), 0)


class PhoneTest(PageCase):
    window = {"width": 390, "height": 844, "dark": True}

    def test_the_text_is_on_the_first_screen(self):
        self.assertEqual(self.page.script("return innerWidth"), 390)
        for mode in ("text", "chat"):
            self.page.click(f"#{mode}-mode")
            self.assertFalse(self.page.script("return document.getElementById('settings').open"))
            self.page.script("scrollTo(0, 0)")
            self.assertLess(self.page.script("return document.querySelector('.output .text').getBoundingClientRect().top"), 420)

    def test_nothing_is_wider_than_the_screen(self):
        self.write(tokens="60")
        self.page.script("document.getElementById('settings').open = false")
        self.wait_until_written()
        self.picture("phone")
        self.page.script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        for view in ("write", "pipeline", "cache", "attention"):
            self.page.click(f"nav a[href='#{view}']")
            self.page.wait(f"!document.getElementById('{view}').hidden")
            if view == "attention":
                self.page.click("#look")
                self.wait_until_seen()
                self.picture("attention-phone")
            self.assertLessEqual(self.page.script("return document.documentElement.scrollWidth - innerWidth"), 0, view)


class HeadersTest(unittest.TestCase):
    def test_nothing_from_elsewhere(self):
        page = call(served.address, "GET", "/")
        self.assertIn("default-src 'none'", page.headers["content-security-policy"])
        self.assertNotRegex(page.text, r"https?://")


if __name__ == "__main__":
    if not browser.is_installed():
        print("skipped: chromium and chromium-driver are not installed: ./dev setup page")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
