"""What the console's one script adds in a real browser: times in a zone that is said, keys, what is copied; what pages are without it; and how
they print (CONSOLE D3, C-901, C-902, C-905); skipped without Chromium (apt-get install chromium)."""
import base64
import json
import re
import unittest

import crib
import test_console_browser

# What of a page is not on paper: not seen, or behind the edge of a box that scrolls.
UNPRINTED = r"""(() => {
  const wrong = [], say = (what, e) => wrong.push(what + ': ' + e.outerHTML.slice(0, 160));
  for (const e of document.querySelectorAll('main *')) {
    if (e.closest('form, svg') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const r = e.getBoundingClientRect();
    if (!e.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true }) || r.height <= 0 || r.width <= 0) say('not seen', e);
    for (let p = e; p; p = p.parentElement) if (p !== document.documentElement && getComputedStyle(p).overflowX !== 'visible' && p.scrollWidth > p.clientWidth + 1) say('cut', p);
  }
  return wrong.slice(0, 5); })()"""


@unittest.skipUnless(test_console_browser.PROGRAM, "needs Chromium: apt-get install chromium")
class Script(test_console_browser.Seen):
    def setUp(self):
        super().setUp()
        self.serve()
        self.call(3)
        self.crib.must(["audit", "review", "sign", "--tenant", "acme", "--note", "#tz=<img src=x onerror=alert(1)> g c"])
        self.b = self.open()
        self.b.ask("Emulation.setTimezoneOverride", timezoneId="Europe/Oslo")

    def press(self, *keys, modifiers=0):
        for key in keys:
            self.b.ask("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, text="" if modifiers else key)
            self.b.ask("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def zones(self, b, path):
        self.to(b, path)
        b.arrive("the zones", "document.querySelector('#zone select')")

    def tearDown(self):
        wrong = [e for e in self.b.events if "Content Security Policy" in json.dumps(e) or "Trusted" in json.dumps(e) or
                 e.get("method") == "Runtime.exceptionThrown"]
        self.assertEqual(wrong, [])
        super().tearDown()

    def times(self):
        return self.b.value("[...document.querySelectorAll('main time')].map(t => [t.dateTime, t.textContent])")

    def choose(self, zone):
        self.b.value(f"(s => {{ s.value = '{zone}'; s.dispatchEvent(new Event('change')) }})(document.querySelector('#zone select'))")

    def test_times_are_of_the_zone_that_is_said(self):
        """C-901: the browser's own zone with its offset, another one by choice, which is remembered, and by a link; typed times are of it as well."""
        b = self.b
        self.zones(b, "/t/acme/r/calls")
        for utc, shown in self.times():
            self.assertRegex(shown, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \+0[12]:00$")
            self.assertNotEqual(utc[11:13], shown[11:13])
        self.choose("America/St_Johns")
        self.assertTrue(all(re.search(r" -0[23]:30$", shown) for _, shown in self.times()), self.times())
        self.choose("UTC")
        self.assertEqual([shown for _, shown in self.times()], [f"{utc[:10]} {utc[11:23]}Z" for utc, _ in self.times()])
        self.zones(b, "/t/acme/r/admin")
        self.assertEqual(b.value("document.querySelector('#zone select').value"), "UTC", "remembered")
        b.ask("Page.navigate", url=f"{self.origin}/t/acme/r/calls?n=9#tz=Asia/Kolkata")
        b.arrive("the link's zone", "location.search === '?n=9' && document.querySelector('#zone select').value === 'Asia/Kolkata'")
        self.assertTrue(all(shown.endswith(" +05:30") for _, shown in self.times()))
        for typed, sent in (("2026-07-28 12:00", "2026-07-28T06:30:00Z"), ("2026-07-28", "2026-07-27T18:30:00Z"), ("1d", "1d"),
                            ("2026-07-28T12:00:00Z", "2026-07-28T12:00:00Z"), ("2026-02-30 12:00", "2026-02-30 12:00")):
            b.ask("Page.navigate", url=f"{self.origin}/t/acme/r/admin?n=8#tz=Asia/Kolkata")
            b.arrive("the form", "location.search === '?n=8' && document.querySelector('#zone select')?.value === 'Asia/Kolkata'")
            b.value(f"document.querySelector('input[name=since]').value = '{typed}'; document.querySelector('.filter button').click()")
            b.arrive(sent, f"new URLSearchParams(location.search).get('since') === '{sent}'")
        for n, zone in ((7, "Nowhere/Town"), (6, "%3Cimg%20src=x%20onerror=alert(1)%3E")):
            b.ask("Page.navigate", url=f"{self.origin}/t/acme/r/calls?n={n}#tz={zone}")
            b.arrive("a hint", f"location.search === '?n={n}' && document.getElementById('zone').textContent.includes('is unknown')")
            self.assertEqual(b.value("[document.querySelectorAll('img').length, document.querySelector('#zone select').value]"), [0, "UTC"])

    def test_keys_lead_through_pages(self):
        """C-902: rows, filters, pages, the list of keys; none in a field, none with a modifier, none when they are off."""
        b = self.b
        self.zones(b, "/t/acme/r/calls?n=2")
        at = "[...document.querySelectorAll('main tbody tr')].findIndex(tr => tr.contains(document.activeElement))"
        first = b.value("[...document.querySelectorAll('main tbody tr')].findIndex(tr => tr.querySelector('a'))")
        for modifier in (1, 2, 4):      # alt, control, meta
            self.press("j", "?", "/", modifiers=modifier)
            self.assertEqual(b.value("[document.activeElement.tagName, document.querySelector('dialog')]"), ["BODY", None], modifier)
        self.press("j")
        self.assertEqual(b.value(at), first)
        self.press("j")
        self.assertEqual(b.value(at), first + 1)
        self.press("j", "k")
        self.assertEqual(b.value(at), first)
        self.press("/")
        self.assertEqual(b.value("document.activeElement.name"), "since")
        self.press("j", "?", "g", "e")
        self.assertEqual(b.value("[document.activeElement.value, document.querySelector('dialog')]"), ["j?ge", None], "it is typed")
        b.value("document.querySelector('#zone select').focus()")
        self.press("g", "e")
        self.assertEqual(b.value("[location.pathname, document.activeElement.tagName]"), ["/t/acme/r/calls", "SELECT"])
        b.value("document.activeElement.blur()")
        self.press("[")
        b.arrive("older ones", "new URLSearchParams(location.search).get('after') && document.querySelector('#zone select')")
        for keys, path in (("ge", "/evidence"), ("gt", "/tools"), ("gs", "/")):
            self.press(*keys)
            b.arrive(path, f"location.pathname === '{path}' && document.querySelector('#zone select')")
        self.zones(b, "/t/acme/access")
        for keys, path in (("gc", "/t/acme/r/calls"), ("gr", "/t/acme/r/reviews"), ("gg", "/t/acme/access")):
            self.press(*keys)
            b.arrive(path, f"location.pathname === '{path}' && document.querySelector('#zone select')")
        self.press("?")
        self.assertIn("who may call what", b.value("document.querySelector('dialog[open]').textContent"))
        self.press("g", "c")
        self.switch()
        for again in (False, True):
            self.press("g", "c", "?", "j")
            self.assertEqual(b.value("[location.pathname, document.querySelector('dialog'), document.activeElement.closest('tr')]"), ["/t/acme/access", None, None], "they are off")
            if not again:
                self.zones(b, "/t/acme/access")
        b.value("document.querySelector('#zone button').click()")
        self.switch()
        b.value("document.activeElement.blur()")
        self.press("g", "c")
        b.arrive("the calls", "location.pathname === '/t/acme/r/calls'")

    def switch(self):
        self.b.value("document.querySelector('dialog input').click(); document.querySelector('dialog button').click()")
        self.b.arrive("its end", "!document.querySelector('dialog')")

    def test_what_is_copied(self):
        """C-902: the commands of a page, and a link to it with its zone, which is asked for of nobody."""
        b = self.b
        self.zones(b, "/t/acme/r/calls?n=2")
        b.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        b.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"], origin=self.origin)
        b.value("window.written = []; navigator.clipboard.writeText = text => { written.push(text); return Promise.resolve(); }; 0")
        self.press(".", "y")
        b.arrive("both", "written.length === 2 && document.querySelector('output').textContent === 'the link copied'")
        commands, link = b.value("written")
        self.assertEqual(commands, b.value("document.querySelector('footer pre').textContent"))
        self.assertEqual(link, f"{self.origin}/t/acme/r/calls?n=2#tz=Europe/Oslo")
        b.value("navigator.clipboard.writeText = () => Promise.reject(new Error('no')); 0")
        self.press(".")
        b.arrive("a word", "document.querySelector('output').textContent === 'the browser does not let this be copied'")

    def test_pages_are_whole_without_it(self):
        """C-901, JavaScript off: each page says to the letter what it says with it, times in UTC; forms and links lead on; what the script offers is not there."""
        b = self.b
        call = self.crib.json("audit", "calls", "--tenant", "acme")[0]["call"]
        paths = ["/", "/t/acme", "/t/acme/questions", "/t/acme/r/calls", f"/t/acme/call/{call}", "/t/acme/access", "/t/acme/keys", "/t/acme/r/reviews", "/t/acme/r/credentials",
                 "/t/acme/files", "/t/acme/key-review", "/t/acme/persons", "/tools", "/tool?name=echo", "/approvals", "/r/config", "/r/drift"]
        self.zones(b, "/")
        self.choose("UTC")
        said = {}
        for off in (False, True):
            b.ask("Emulation.setScriptExecutionDisabled", value=off)
            for path in paths:
                self.to(b, path)
                if not off:
                    b.arrive("the zones", "document.querySelector('#zone select')")
                text = b.value("document.querySelector('details')?.remove(); [...document.querySelector('main').children].map(e => e.innerText).join('\\n')")
                if path in ("/", "/t/acme", "/t/acme/files"):   # which say when somebody looked last, and how much of that there is
                    text = re.sub(r"\d+", "0", text)
                with self.subTest(path=path):
                    self.assertEqual(said.setdefault(path, text), text)
                    if off:
                        self.assertEqual(b.value("[document.getElementById('zone').textContent, document.querySelectorAll('#zone *, dialog, output').length]"), ["Times are UTC", 0])
        self.to(b, "/t/acme/r/calls")
        b.value("document.querySelector('input[name=n]').value = '2'; document.querySelector('input[name=since]').value = '2026-01-02'; document.querySelector('.filter button').click()")
        b.arrive("two rows", "new URLSearchParams(location.search).get('n') === '2' && new URLSearchParams(location.search).get('since') === '2026-01-02'")
        b.value("document.querySelector('a[rel=next]').click()")
        b.arrive("the third", "new URLSearchParams(location.search).get('after')")

    def test_a_page_prints(self):
        """C-905: what was looked at, its command and every row are on paper, nothing is cut, heads again on each sheet; what is clicked is not."""
        b = self.b
        b.ask("Emulation.setEmulatedMedia", media="print")
        b.ask("Emulation.setDeviceMetricsOverride", width=720, height=1000, deviceScaleFactor=1, mobile=False)
        for path in ("/t/acme/r/admin?n=200", "/t/acme/r/calls?n=200", "/t/acme/review/pack", "/t/acme/access"):
            self.zones(b, path)
            with self.subTest(path=path):
                for what in ("header nav", ".filter", "header form", "#zone button"):
                    self.assertEqual(b.value(f"[...document.querySelectorAll('{what}')].filter(e => e.checkVisibility()).length"), 0, what)
                self.assertEqual(b.value(UNPRINTED), [])
                self.assertEqual(b.value("[...new Set([...document.querySelectorAll('thead')].map(e => getComputedStyle(e).display))]"), ["table-header-group"])
                pdf = base64.b64decode(b.ask("Page.printToPDF")["data"])
                self.assertTrue(pdf.startswith(b"%PDF-"))
                self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", pdf)), 0)


if __name__ == "__main__":
    crib.main()
