"""No page of the console breaks a rule of WCAG 2.2 AA that axe-core knows, light and dark, wide and at 320 px (CONSOLE C-903).  Pages are found by
following links, so that a new one is asked as well; with TOOLCRIB_AXE, axe.min.js: make check-console."""
import collections
import html
import json
import os
import pathlib
import re
import unittest
import urllib.parse

import crib
import test_console
import test_console_browser

AXE = os.environ.get("TOOLCRIB_AXE")
PAGES = 150                             # that are looked at, at most
EACH = 3                                # of one form: pages of calls are as many as there are calls
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ASK = """axe.run(document, {runOnly: {type: 'tag', values: %s}, resultTypes: ['violations'], elementRef: false}).then(r => JSON.stringify(
    r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' -- ' + n.failureSummary.slice(0, 300))])))"""

WIDE = """[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).slice(-3).map(e => e.outerHTML.slice(0, 200))"""


@unittest.skipUnless(AXE and test_console_browser.PROGRAM, "needs axe-core, which make check-console gets, and Chromium")
class Axe(test_console.Case):
    def found(self, visit):
        """Paths of pages, by their links."""
        seen, wait, forms, queries = {}, collections.deque(["/"]), collections.Counter(), set()
        while wait and len(seen) < PAGES:
            path = wait.popleft()
            status, headers, text = self.ask("GET", path, visit=visit)
            if not headers.get("Content-Type", "").startswith("text/html"):
                continue
            seen[path] = status
            for link in re.findall(r'<a [^>]*href="([^"]*)"', text):
                there = urllib.parse.urljoin(path, html.unescape(link))
                form = re.sub(r"[0-9a-f]{8}-[0-9a-f-]+|\d+", "N", there.partition("?")[0]) + ("?" if "?" in there else "")
                if there.partition("?")[0].endswith(("/tail", "/export")):      # no end, and no page
                    continue
                if there.startswith("/") and there not in queries and forms[form] < (1 if "?" in there else EACH):
                    forms[form] += 1
                    queries.add(there)
                    wait.append(there)
        return seen

    def test_no_page_breaks_a_rule(self):
        c = self.serve()
        self.call(3)
        c.must(["audit", "review", "sign", "--tenant", "acme", "--note", "seen"])
        c.cli("audit", "checkpoint")
        pages = self.found(self.visit())
        self.assertGreater(len(pages), 15)
        b = test_console_browser.Browser(c.dir / "profile")
        self.addCleanup(b.close)
        origin, axe = f"http://{self.host}", pathlib.Path(AXE).read_text()
        broken = {}

        def judge(url):
            b.ask("Page.navigate", url=url)
            b.arrive("a page", "location.href !== 'about:blank'")
            b.value(axe + "; 0")
            got = b.ask("Runtime.evaluate", expression=ASK % json.dumps(RULES), awaitPromise=True, returnByValue=True)["result"]["value"]
            for rule, nodes in json.loads(got):
                broken.setdefault((rule, nodes[0][:80]), (url, look, nodes))
            wide = b.value("document.documentElement.scrollWidth")
            if wide > width:
                broken.setdefault(("reflow", url), (wide, b.value(WIDE)))
        for look, scheme, width in (("light", "light", 1280), ("dark", "dark", 1280), ("narrow", "light", 320)):
            b.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            b.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
            judge(f"{origin}/")                 # nobody is signed in
            b.go(f"{origin}/enter?t={self.link()}", "Sign in")
            judge(b.value("location.href"))
            b.value("document.querySelector('main button').click()")
            b.arrive("the first page", "location.pathname === '/' && document.title.startsWith('Console')")
            for path in [*pages, "/nothing", "/t/acme/r/calls?since=nonsense", "/t/acme/r/calls?tool=none"]:
                judge(origin + path)
            b.value("document.querySelector('header form button').click()")
            b.arrive("the way in", "document.title.startsWith('Sign in')")
        page = c.dir / "verify.html"
        page.write_text(c.run("console", "verifier").stdout)
        for look, scheme, width in (("light", "light", 1280), ("dark", "dark", 1280), ("narrow", "light", 320)):
            b.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            b.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
            judge(page.as_uri())
        self.assertEqual(sorted(broken), [], "\n".join(f"{rule}: {what}" for (rule, _), what in broken.items())[:6000])


if __name__ == "__main__":
    crib.main()
