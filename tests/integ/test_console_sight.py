"""The console as it is seen, in headless Chromium: what test_console_axe.py does not ask, such as targets and names at 320 pixels in the dark,
and that the keyboard reaches all; hostile texts make no node and no violation of the policy; and pictures of the main pages (CONSOLE 13, 14,
20).  Skipped without one (apt-get install chromium).  With TOOLCRIB_SHOTS=DIR the pictures are kept there."""
import base64
import json
import os
import pathlib
import struct
import unittest
import zlib

import crib
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
  for (const e of all('button,input:not([type=hidden]),select,nav a,td a,th a,summary')) {
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
# What lies where it should not: beside the page, out of its box, on its neighbour.  Whatever scrolls may hold more than it shows.
LAYOUT = r"""(() => {
  const wrong = [], say = (what, e) => wrong.push(what + ': ' + e.outerHTML.slice(0, 200)), all = s => [...document.querySelectorAll(s)];
  const seen = e => e.checkVisibility() && !e.closest('.skip') && !e.closest('svg'), scrolls = e => getComputedStyle(e).overflowX !== 'visible';
  const held = e => { for (let p = e.parentElement; p; p = p.parentElement) if (scrolls(p)) return true; return false; };
  for (const e of all('body *')) {
    if (!seen(e)) continue;
    const r = e.getBoundingClientRect();
    if (!held(e) && (r.right > innerWidth + 0.5 || r.left < -0.5)) say(`from ${r.left} to ${r.right}`, e);
    if (getComputedStyle(e).display !== 'inline' && !scrolls(e) && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1) say(`${e.scrollWidth} in ${e.clientWidth}`, e);
  }
  for (const p of all('header, nav, main, section, .links, .filter, .decide, tbody, tr, dl, dl > div, details, footer')) {
    const boxes = [...p.children].filter(e => seen(e) && !['absolute', 'sticky'].includes(getComputedStyle(e).position)).map(e => [e, e.getBoundingClientRect()]);
    for (let i = 1; i < boxes.length; i++) {
      const [a, b] = [boxes[i - 1][1], boxes[i][1]];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) say('two on each other', boxes[i][0]);
    }
  }
  return wrong.slice(0, 5); })()"""
SIDE = 12                               # pixels at the right of each page, which nothing is painted on
MAIN = {"start": "/", "questions": "/t/acme/questions", "calls": "/t/acme/r/calls?since=1d", "call": None, "access": "/t/acme/access", "tool": "/tool/diff?name=deploy",
        "approvals": "/approvals", "evidence": "/evidence", "server": "/server"}


def is_one_colour(png):
    """Of a picture with 8 bits a channel, as Chromium makes them."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            width, _, depth, colour = struct.unpack(">IIBB", png[at + 8:at + 18])
            assert depth == 8 and colour in (2, 6)
        data += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    step, raw = 3 if colour == 2 else 4, zlib.decompress(data)
    row, above, first = 1 + width * step, bytearray(width * step), None
    for start in range(0, len(raw), row):
        kind, line = raw[start], bytearray(raw[start + 1:start + row])
        for i in range(len(line)):
            left, corner = (line[i - step], above[i - step]) if i >= step else (0, 0)
            guess = left + above[i] - corner
            near = min((left, above[i], corner), key=lambda one: abs(guess - one))
            line[i] = line[i] + (0, left, above[i], (left + above[i]) // 2, near)[kind] & 255
        first = first or bytes(line[:step])
        if bytes(line) != first * width:
            return False
        above = line
    return True


@unittest.skipUnless(PROGRAM, "needs Chromium: apt-get install chromium")
class Sight(test_console_browser.Seen):
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

    def test_every_page_can_be_read(self):
        """C-903, C-904: structure, names, contrast, sizes, at 320 and 1280 pixels, in light and dark; the keyboard reaches all and is let go."""
        pages = [*self.fill().values(), "/tools", "/tool?name=deploy", "/t/acme", "/t/acme/keys", "/t/acme/tool?name=deploy", "/t/acme/kept", "/t/acme/counts", "/t/acme/sample",
                 "/t/acme/key-review", "/t/acme/persons", "/t/acme/principal?principal=build-bot", "/runs", "/room", "/failures", "/outside", "/t/acme/r/denied",
                 "/t/acme/r/reviews", "/r/reviews", "/r/admin", "/t/acme/r/tool-health", "/nothing", "/t/acme/r/calls?n=0", "/enter?t=x"]
        b = self.open()
        for path in pages:
            for scheme, width in (("light", 1280), ("dark", 1280), ("light", 320), ("dark", 320)):
                self.media(b, scheme, width)
                self.to(b, path)
                with self.subTest(path=path, scheme=scheme, width=width):
                    self.assertEqual(b.value(LOOK), [])
        self.media(b, "light", 1280)
        for path in ("/approvals", "/t/acme/r/calls?since=1d"):
            self.to(b, path)
            seen = []
            for _ in range(200):
                b.ask("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
                b.ask("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
                at = b.value("""[...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,summary,[tabindex]')].filter(e =>
                    e.checkVisibility()).indexOf(document.activeElement)""")
                if at in seen or at < 0 and seen:
                    break
                seen.append(at)
            many = b.value("[...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,summary,[tabindex]')].filter(e => e.checkVisibility()).length")
            self.assertEqual(sorted(at for at in seen if at >= 0), list(range(many)), path)

    def picture(self, b, clip):
        """Of a part of the page: x, y, width, height, whole pixels."""
        return base64.b64decode(b.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                                      clip=dict(zip(("x", "y", "width", "height"), clip), scale=1))["data"])

    def head(self, b):
        """The bar at the top of a page, where nothing stands that others wrote."""
        return self.picture(b, b.value("(() => { const r = document.querySelector('header').getBoundingClientRect(); return [0, 0, innerWidth, Math.ceil(r.bottom)]; })()"))

    def layout(self, b, width, heads):
        """What is broken of the page that is shown."""
        wrong = b.value(LAYOUT)
        if b.value("document.documentElement.scrollWidth") > width:
            wrong.append("it scrolls to the side")
        height = b.value("Math.min(1500, document.documentElement.scrollHeight)")
        if not is_one_colour(self.picture(b, (width - SIDE, 0, SIDE, height))):
            wrong.append("something is painted beside it")
        if b.value("document.querySelector('header') !== null") and self.head(b) not in heads:
            wrong.append("its bar looks otherwise than before")
        return wrong

    def test_hostile_texts_are_only_seen(self):
        """C-801, C-403: what others wrote makes no node, loads nothing, moves nothing, and the policy has nothing to stop: at 1280 and 320 pixels
        the bar of each page is the picture that it was of a store without such texts, and nothing lies outside of its box or on another."""
        self.serve(level="audit: {level: request_response}")
        b = self.open()
        heads = {}
        for width in (1280, 320):
            self.media(b, "light", width)
            heads[width] = []
            for path in ("/", "/t/acme"):
                self.to(b, path)
                heads[width].append(self.head(b))
                self.assertEqual(self.layout(b, width, heads[width]), [], path)
        self.assertNotEqual(heads[1280][0], heads[320][0])
        pages, calls = test_console_pages.fill_with_hostile(self)
        for width in (1280, 320):
            self.media(b, "light", width)
            for path in pages:
                b.ask("Page.navigate", url=self.origin + path)
                b.arrive(path[:60], "document.querySelector('h1') !== null")
                with self.subTest(path=path[:80], width=width):
                    self.assertEqual(b.value("document.querySelectorAll('x-hostile,script:not([src^=\"/a/\"]),img,iframe,object,[hostile],[onerror],[onmouseover],style').length"), 0)
                    self.assertEqual(self.layout(b, width, heads[width]), [])
        wrong = [e for e in b.events if "Content Security Policy" in json.dumps(e) or "Trusted" in json.dumps(e) or
                 e.get("method") in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")]
        self.assertEqual(wrong, [])
        asked = {e["params"]["request"]["url"] for e in b.events if e.get("method") == "Network.requestWillBeSent"}
        self.assertEqual([url for url in asked if not url.startswith((self.origin + "/", "about:", "data:"))], [])
        # what it looks for is found
        for harm in ("document.querySelector('main').style.marginRight = '-40px'", "document.querySelector('header a').style.padding = '9px'",
                     "document.querySelector('h1').style.marginBottom = '-3rem'"):
            self.to(b, "/")
            b.value(harm + "; 0")
            self.assertNotEqual(self.layout(b, 320, heads[320]), [], harm)

    def test_pictures_of_the_main_pages(self):
        """CONSOLE 20: the main pages, in light and dark, none of them empty."""
        pages = self.fill()
        b = self.open()
        b.ask("Emulation.setScriptExecutionDisabled", value=True)
        folder = os.environ.get("TOOLCRIB_SHOTS")
        for name, path in pages.items():
            for scheme in ("light", "dark"):
                self.media(b, scheme, 1280, 800)
                b.ask("Page.navigate", url=self.origin + path)
                b.arrive(path, "document.querySelector('h1') !== null")
                shot = base64.b64decode(b.ask("Page.captureScreenshot", format="webp", quality=60)["data"])
                self.assertGreater(len(shot), 2000, name)
                if folder:
                    (pathlib.Path(folder) / f"{name}-{scheme}.webp").write_bytes(shot)


if __name__ == "__main__":
    crib.main()
