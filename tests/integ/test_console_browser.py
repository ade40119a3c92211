"""The console in a real browser, headless Chromium over the pipe of its debugging protocol: the way in, the cookie, the pages (CONSOLE
C-305 to C-307, C-402, C-801, C-904); skipped without one (apt-get install chromium)."""
import contextlib
import http.server
import json
import os
import select
import shutil
import subprocess
import threading
import time
import unittest

import crib
import test_console

PROGRAM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)


class Browser:
    def __init__(self, profile):
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        self.out, self.into = ours_out, ours_in
        # bash, for descriptors above 9
        script = f"exec 3<&{theirs_in} 4>&{theirs_out}; exec \"$@\""
        self.child = subprocess.Popen(
            ["bash", "-c", script, "bash", PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-features=IgnoreDuplicateNavs,IgnoreDuplicateNavsOnlyWithUserGesture,OptimizationHints,MediaRouter,Translate",
             "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-renderer-backgrounding",
             "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest, self.last, self.session, self.events = b"", 0, None, []
        self.attach(next(one["targetId"] for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page"))

    def attach(self, target):
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def tab(self):
        """The session of another page, behind this one."""
        mine, self.session = self.session, None
        self.attach(self.ask("Target.createTarget", url="about:blank", background=True)["targetId"])
        other, self.session = self.session, mine
        return other

    @contextlib.contextmanager
    def within(self, session):
        """What is asked meanwhile is of that page."""
        mine, self.session = self.session, session
        try:
            yield
        finally:
            self.session = mine

    def close(self):
        self.child.kill()
        self.child.wait()
        os.close(self.out)
        os.close(self.into)

    def ask(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            said = self.read(3 * crib.DEADLINE)
            assert said, method
            if said.get("id") == self.last:
                assert "error" not in said, said
                return said["result"]
            self.events.append(said)

    def read(self, seconds):
        """What the browser says next, or None when it says nothing so long."""
        while b"\0" not in self.rest:
            if not select.select([self.into], [], [], seconds)[0]:
                return None
            got = os.read(self.into, 1 << 16)
            assert got, "the browser has ended"
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def event(self, method):
        """The first of its kind that nobody has taken."""
        while True:
            for i, said in enumerate(self.events):
                if said.get("method") == method:
                    return self.events.pop(i)["params"]
            said = self.read(3 * crib.DEADLINE)
            assert said, method
            self.events.append(said)

    def stir(self, seconds):
        """Until a page is there, or so long: asking all the time takes the processor from those that make the page."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and (said := self.read(left)):
            self.events.append(said)
            if said.get("method") in ("Page.loadEventFired", "Page.frameStoppedLoading"):
                return

    def value(self, expression):
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, (expression, got)
        return got["result"].get("value")

    def arrive(self, what, condition):
        """In the page that is there by then; one that is just going has no value."""
        end, pause = time.monotonic() + 3 * crib.DEADLINE, 0.02
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError):
                if self.value(f"document.readyState === 'complete' && ({condition})"):
                    return
            self.stir(pause)
            pause = min(2 * pause, 0.3)
        raise AssertionError(f"not within {3 * crib.DEADLINE} s: {what}")

    def go(self, url, title):
        self.ask("Page.navigate", url=url)
        self.arrive(title, f"document.title.startsWith({json.dumps(title)})")


class Seen(test_console.Case):
    """What tests of pages in a browser begin with; it has none itself."""

    def browser(self):
        b = Browser(self.crib.dir / "profile")
        self.addCleanup(b.close)
        return b

    def open(self, visit=None, browser=None):
        b = browser or self.browser()
        self.origin = f"http://{self.host}"
        b.ask("Network.setCookie", name="__Host-toolcrib", value=visit or self.visit(), url=self.origin, secure=True, httpOnly=True, path="/", sameSite="Strict")
        return b

    def to(self, b, path):
        b.ask("Page.navigate", url=self.origin + path)
        self.at(b, path)

    def at(self, b, path):
        b.arrive(path, "document.querySelector('h1') !== null && " +
                 f"decodeURIComponent(location.pathname + location.search) === decodeURIComponent({json.dumps(path)})")

    def media(self, b, scheme, width, height=900):
        b.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        b.ask("Emulation.setScrollbarsHidden", hidden=True)
        b.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)


class Foreign(http.server.BaseHTTPRequestHandler):
    """Another server of this machine, whose page sends the console's form."""

    def do_GET(self):
        body = f'<script>location = "{self.server.link}"</script>'.encode() if self.path == "/link" else f'<form id=f method=post action="{self.server.action}"><input name=c value=x></form><script>f.submit()</script>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@unittest.skipUnless(PROGRAM, "needs Chromium: apt-get install chromium")
class Real(test_console.Case):
    def test_a_browser_looks_at_the_audit(self):
        c = self.serve()
        self.call(3)
        c.must(["audit", "review", "sign", "--tenant", "acme", "--note", "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e"])
        b = Browser(c.dir / "profile")
        self.addCleanup(b.close)
        origin = f"http://{self.host}"
        b.go(f"{origin}/enter?t={self.link()}", "Sign in")
        self.assertTrue(b.value("isSecureContext"), "though over plain http")
        b.value("document.querySelector('main button').click()")
        b.arrive("the first page", "document.title.startsWith('Console') && location.pathname === '/'")
        cookie, = b.ask("Network.getCookies", urls=[origin])["cookies"]
        self.assertEqual((cookie["name"], cookie["httpOnly"], cookie["secure"], cookie["sameSite"], cookie["session"]),
                         ("__Host-toolcrib", True, True, "Strict", True))
        for other in ("localhost", "127.0.0.1", "evil.localhost"):
            self.assertEqual(b.ask("Network.getCookies", urls=[f"http://{other}:{self.port}/"])["cookies"], [])
        self.assertEqual(b.value("document.cookie"), "")
        self.assertNotEqual(b.value("getComputedStyle(document.body).maxWidth"), "none", "the style sheet is there")
        b.value("document.querySelector('a[href=\"/t/acme/r/calls\"]').click()")
        b.arrive("the calls", "document.title.startsWith('Calls of acme')")
        self.assertEqual(b.value("document.querySelectorAll('td:last-child a').length"), 3)
        b.value("document.querySelector('input[name=n]').value = '2'; document.querySelector('.filter button').click()")
        b.arrive("two rows", "new URLSearchParams(location.search).get('n') === '2'")
        b.value("[...document.querySelectorAll('a')].find(a => a.textContent === 'Older ones').click()")
        b.arrive("the third", "document.querySelectorAll('td:last-child a').length === 1")
        b.value("document.querySelector('td:last-child a').click()")
        b.arrive("the call", "document.title.startsWith('Call ')")
        b.go(f"{origin}/t/acme/r/reviews", "Reviews of acme")
        self.assertIn("<img src=x onerror=alert(1)>", b.value("document.querySelector('tbody').textContent"))
        self.assertEqual(b.value("document.querySelectorAll('img, script:not([src^=\"/a/\"]), iframe, [onerror]').length"), 0)
        # what no template lets in, the policy stops
        for code, kind in (("document.createElement('script').setAttribute('src', '/a/x.js')", "TrustedScriptURL"),
                           ("document.body.innerHTML = '<b>x</b>'", "TrustedHTML")):
            self.assertIn(kind, b.value(f"(() => {{ try {{ {code}; return 'it went' }} catch (e) {{ return 'refused ' + e }} }})()"))
        b.events = [e for e in b.events if e.get("method") == "Network.requestWillBeSent"]
        self.assertEqual([e["params"]["request"]["url"] for e in b.events
                          if not e["params"]["request"]["url"].startswith((origin + "/", "about:", "data:"))], [])
        for path in ("/", "/t/acme/r/calls", "/t/acme/r/admin"):
            b.ask("Emulation.setDeviceMetricsOverride", width=320, height=640, deviceScaleFactor=1, mobile=False)
            b.ask("Page.navigate", url=origin + path)
            b.arrive("a narrow page", f"location.pathname === '{path}'")
            self.assertLessEqual(b.value("document.documentElement.scrollWidth"), 320, path)
        self.foreign(b, origin)
        b.go(origin + "/", "Console")
        b.value("document.querySelector('header form button').click()")
        b.arrive("the way in", "document.title.startsWith('Sign in')")
        self.assertEqual(b.ask("Network.getCookies", urls=[origin])["cookies"], [])
        self.assertEqual(c.json("console", "visits"), [])
        refused = [e for e in b.events if "Content Security Policy" in json.dumps(e) or e.get("method") == "Runtime.exceptionThrown"]
        self.assertEqual(refused, [])

    def foreign(self, b, origin):
        """C-307: its form arrives without the cookie, is refused, and nobody is signed out."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
        server.action, server.link = origin + "/sign-out", origin + "/t/acme/r/calls?n=2"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            b.ask("Page.navigate", url=f"http://localhost:{server.server_port}/link")
            b.arrive("what a link elsewhere names (C-306)", "document.title.startsWith('Calls of acme')")
            b.ask("Page.navigate", url=f"http://localhost:{server.server_port}/")
            b.arrive("the refusal", "document.body.textContent.includes('does not come from a page of the console')")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        self.assertEqual(len(self.crib.json("console", "visits")), 1)


if __name__ == "__main__":
    crib.main()
