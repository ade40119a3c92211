"""The tour of contrib/doc/verify.md: each command of it is run on a store that a server has made, and prints what stands
there, but for names, times and hashes, which are another store's.

    test_tour.py             compares
    test_tour.py --write     puts the output of this run into the document

A block that is marked sh is run, the block behind it is its output; what a block leaves in the folder is there for the next."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integ"))
import crib

TOUR = crib.SOURCE / "contrib/doc/verify.md"
BLOCK = re.compile(r"(?ms)^```sh\n(.*?)^```\n\n```\n(.*?)^```\n")


def folder(c):
    """What the stranger has."""
    c.init().start(f"roles: [{{role: auditor, uid: {os.geteuid()}}}]\n")
    c.tool(crib.ECHO)
    key = c.tenant("acme", "echo")
    with contextlib.closing(c.http(key)) as peer:
        for i in range(3):
            call = peer.call("echo", {"text": f"call {i}"}, crib.MODERN)["result"]["_meta"]["dev.toolcrib/callId"]
    here = c.dir / "tour"
    here.mkdir()
    (here / "keys").write_text("\n".join(line for line in c.cli("audit", "keys").split() if line.count("+") >= 2) + "\n")
    (here / "note").write_text(c.cli("audit", "checkpoint"))
    c.cli("audit", "bundle", "acme", here / "acme.tar")
    (here / "proof").write_text(c.cli("audit", "proof", call, "--begin"))
    (here / "opening").write_text(c.cli("--json", "audit", "payload", call, "--opening"))
    c.stop()
    shutil.copy(c.store / "toolcrib.db", here / "copy.db")
    shutil.copy(crib.SOURCE / "contrib/verify/verify.py", here)
    return here


def walk(here):
    """Each block's commands and output."""
    env = {"PATH": f"{crib.BUILD.resolve()}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": str(here)}
    for commands, _ in BLOCK.findall(TOUR.read_text()):
        done = subprocess.run(["sh", "-c", commands], cwd=here, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=crib.DEADLINE)
        yield commands, done.stdout


def plain(text):
    """Without what is another store's."""
    text = re.sub(r"(?m)^(beside .*\n)+", "beside\n", text)
    text = re.sub(r"(?m)^([0-9A-F]+\n)+", "#\n", text)
    for what in (r"[0-9A-Za-z+/]{40,}=*", r"[0-9a-f]{64}", r"\b[0-9A-Za-z]{20}\b", r"\+[0-9a-f]{8}\+", r"\d+"):
        text = re.sub(what, "#", text)
    return text


@unittest.skipUnless(shutil.which("sqlite3") and shutil.which("openssl"), "needs sqlite3 and openssl")
class Tour(crib.Case):
    def test_every_command_says_what_the_document_says(self):
        shown = [output for _, output in BLOCK.findall(TOUR.read_text())]
        walked = list(walk(folder(self.crib)))
        self.assertGreater(len(walked), 7)
        for (commands, output), there in zip(walked, shown):
            self.assertEqual(plain(output), plain(there), commands)
        way = next(output for commands, output in walked if "writefile" in commands).splitlines()
        said = {line[:8]: line[9:] for line in way}
        self.assertEqual(said["the leaf"], said["the copy"])
        self.assertEqual(said["the root"], said["the note"])
        self.assertRegex(walked[1][1], "Signature Verified Successfully")


def write():
    c = crib.Crib()
    try:
        said = iter([output for _, output in walk(folder(c))])
        TOUR.write_text(BLOCK.sub(lambda m: f"```sh\n{m[1]}```\n\n```\n{next(said)}```\n", TOUR.read_text()))
    finally:
        c.close()


if __name__ == "__main__":
    write() if "--write" in sys.argv else crib.main()
