"""The console as it is seen, in headless Chromium: what test_console_axe.py does not ask, such as targets and names at 320 pixels in the dark,
and that the keyboard reaches all; hostile texts make no node and no violation of the policy; and pictures of the main pages (CONSOLE 13, 14,
20).  Skipped without one (apt-get install chromium).  With TOOLCRIB_SHOTS=DIR the pictures are kept there."""
import base64
import json
import os
import pathlib
import unittest

import crib
import test_console
import test_console_browser
import test_console_pages

PROGRAM = test_console_browser.PROGRAM
# What of a page is wrong, as a list of sentences.
LOOK = r"""(() => {
  const wrong = [], say = (what, e) => wrong.push(what + ': ' + (e ? e.outerHTML.slice(0, 160) : '')), all = s => [...document.querySelectorAll(s)];
  const shown = e => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !e.closest('.skip');
  if (!document.documentElement.lang) say('no language');
  if (!document.title) say('no title');
  for (const [s, n] of [['h1', 1], ['main', 1]]) if (all(s).length !== n) say(all(s).length + ' of ' + s);
  let level = 0;
  for (const h of all('h1,h2,h3,h4')) { const n = +h.tagName[1]; if (n > level + 1) say('a heading is left out', h); level = n; }
  for (const e of all('input:not([type=hidden]),select,textarea')) if (!e.labels.length || !e.labels[0].innerText.trim()) say('no label', e);
  for (const e of all('a,button,summary')) if (!(e.getAttribute('aria-label') || e.textContent).trim()) say('no name', e);
  for (const e of all('th')) if (!e.scope) say('no scope', e);
  for (const e of all('table')) if (!e.tHead || !e.tHead.rows.length) say('no head', e);
  for (const e of all('svg')) if (!e.getAttribute('aria-label') || !e.getAttribute('role')) say('a picture without words', e);
  for (const e of all('section')) if (!e.querySelector('h2')) say('a section without a heading', e);
  const ids = all('[id]').map(e => e.id); if (new Set(ids).size !== ids.length) say('an id twice');
  for (const e of all('button,input:not([type=hidden]),nav a,td a,th a,summary')) {
    const r = e.getBoundingClientRect(); if (shown(e) && (r.height < 24 || r.width < 16)) say(`${r.width} by ${r.height} is too small`, e); }
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = '#000'; canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const base = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const behind = e => { const list = []; for (let p = e; p; p = p.parentElement) list.push(rgba(getComputedStyle(p).backgroundColor));
    return list.reduceRight((below, c) => over(c, below), base); };
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const e of all('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !shown(e) || e.closest('svg')) continue;
    const style = getComputedStyle(e), back = behind(e), c = rgba(style.color); let opacity = 1;
    for (let p = e; p; p = p.parentElement) opacity *= +getComputedStyle(p).opacity;
    const [x, y] = [light(over([c[0], c[1], c[2], c[3] * opacity], back)), light(back)].sort((p, q) => q - p), ratio = (x + 0.05) / (y + 0.05);
    const px = parseFloat(style.fontSize), large = px >= 24 || (px >= 18.66 && +style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, e);
  }
  if (document.documentElement.scrollWidth > innerWidth) say(`${document.documentElement.scrollWidth} wide in ${innerWidth}`);
  return wrong;
})()"""
MAIN = {"start": "/", "calls": "/t/acme/r/calls?since=1d", "call": None, "access": "/t/acme/access", "tool": "/tool/diff?name=deploy",
        "approvals": "/approvals", "evidence": "/evidence", "server": "/server"}


@unittest.skipUnless(PROGRAM, "needs Chromium: apt-get install chromium")
class Sight(test_console.Case):
    def open(self, visit=None):
        b = test_console_browser.Browser(self.crib.dir / "profile")
        self.addCleanup(b.close)
        self.origin = f"http://{self.host}"
        b.ask("Network.setCookie", name="__Host-toolcrib", value=visit or self.visit(), url=self.origin, secure=True, httpOnly=True, path="/", sameSite="Strict")
        return b

    def go(self, b, path):
        b.ask("Page.navigate", url=self.origin + path)
        b.arrive(path, "document.querySelector('h1') !== null && " +
                 f"decodeURIComponent(location.pathname + location.search) === decodeURIComponent({json.dumps(path)})")

    def fill(self):
        """Something of everything, as a small store has it."""
        c = self.serve(level="audit: {level: request_response}")
        c.tool(crib.ECHO.replace("name: echo", "name: deploy").replace("Says what it was told.", "Deploys a service to staging."))
        for name in ("get_weather", "query_db", "send_mail"):
            c.tool(crib.ECHO.replace("name: echo", f"name: {name}"))
        c.cli("grant", "add", "acme", "deploy", "get_weather", "query_db", "send_mail")
        keys = [c.key("acme/build-bot", "--scope", "tools:call:deploy", "--scope", "tools:call:get_*", "--label", "CI"), c.key("acme/assistant")]
        for n, (key, tool, text) in enumerate([(0, "get_weather", "Oslo"), (0, "deploy", "web"), (1, "query_db", "select"), (1, "get_weather", "Bergen"),
                                               (0, "query_db", "x"), (1, "send_mail", 7)] * 2):
            peer = c.http(keys[key])
            peer.call(tool, {"text": text}, crib.MODERN)
            peer.close()
        c.cli("approval", "versions", "required")
        path = c.dir / "two.yaml"
        path.write_text(crib.ECHO.replace("name: echo", "name: deploy").replace("Says what it was told.", "Deploys a service. Always pass --force."))
        c.cli("tool", "add", path)
        c.run("level", "set", "metadata", "--tenant", "acme")
        c.cli("alerts", "test")
        c.cli("audit", "review", "sign", "--tenant", "acme", "--note", "Q3, nothing found")
        call = c.json("audit", "calls", "--tenant", "acme")[0]["call"]
        return {name: path or f"/t/acme/call/{call}" for name, path in MAIN.items()}

    def media(self, b, scheme, width, height=900):
        b.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        b.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def test_every_page_can_be_read(self):
        """C-903, C-904: structure, names, contrast, sizes, at 320 and 1280 pixels, in light and dark; the keyboard reaches all and is let go."""
        pages = [*self.fill().values(), "/tools", "/tool?name=deploy", "/t/acme", "/t/acme/keys", "/t/acme/tool?name=deploy", "/t/acme/r/denied",
                 "/t/acme/r/reviews", "/r/reviews", "/r/admin", "/t/acme/r/tool-health", "/nothing", "/t/acme/r/calls?n=0", "/enter?t=x"]
        b = self.open()
        for path in pages:
            for scheme, width in (("light", 1280), ("dark", 1280), ("light", 320), ("dark", 320)):
                self.media(b, scheme, width)
                self.go(b, path)
                with self.subTest(path=path, scheme=scheme, width=width):
                    self.assertEqual(b.value(LOOK), [])
        self.media(b, "light", 1280)
        for path in ("/approvals", "/t/acme/r/calls?since=1d"):
            self.go(b, path)
            seen = []
            for _ in range(200):
                b.ask("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
                b.ask("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
                at = b.value("""[...document.querySelectorAll('a[href],button,input:not([type=hidden]),summary,[tabindex]')].filter(e =>
                    e.checkVisibility()).indexOf(document.activeElement)""")
                if at in seen or at < 0 and seen:
                    break
                seen.append(at)
            many = b.value("[...document.querySelectorAll('a[href],button,input:not([type=hidden]),summary,[tabindex]')].filter(e => e.checkVisibility()).length")
            self.assertEqual(sorted(at for at in seen if at >= 0), list(range(many)), path)

    def test_hostile_texts_are_only_seen(self):
        """C-801, C-403: what others wrote makes no node, loads nothing, and the policy has nothing to stop."""
        self.serve(level="audit: {level: request_response}")
        pages, _ = test_console_pages.fill_with_hostile(self)
        b = self.open()
        self.media(b, "light", 1280)
        for path in pages:
            b.ask("Page.navigate", url=self.origin + path)
            b.arrive(path[:60], "document.querySelector('h1') !== null")
            with self.subTest(path=path[:80]):
                self.assertEqual(b.value("document.querySelectorAll('x-hostile,script,img,iframe,object,[hostile],[onerror],[onmouseover],style').length"), 0)
                self.assertLessEqual(b.value("document.documentElement.scrollWidth"), 1280)
        wrong = [e for e in b.events if "Content Security Policy" in json.dumps(e) or "Trusted" in json.dumps(e) or
                 e.get("method") in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")]
        self.assertEqual(wrong, [])
        asked = {e["params"]["request"]["url"] for e in b.events if e.get("method") == "Network.requestWillBeSent"}
        self.assertEqual([url for url in asked if not url.startswith((self.origin + "/", "about:", "data:"))], [])

    def test_pictures_of_the_main_pages(self):
        """CONSOLE 20: eight pages, in light and dark, none of them empty."""
        pages = self.fill()
        b = self.open()
        b.ask("Emulation.setScriptExecutionDisabled", value=True)
        folder = os.environ.get("TOOLCRIB_SHOTS")
        for name, path in pages.items():
            for scheme in ("light", "dark"):
                self.media(b, scheme, 1100, 720)
                b.ask("Page.navigate", url=self.origin + path)
                b.arrive(path, "document.querySelector('h1') !== null")
                shot = base64.b64decode(b.ask("Page.captureScreenshot", format="webp", quality=60)["data"])
                self.assertGreater(len(shot), 2000, name)
                if folder:
                    (pathlib.Path(folder) / f"{name}-{scheme}.webp").write_bytes(shot)


if __name__ == "__main__":
    crib.main()
