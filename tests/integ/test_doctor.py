"""toolcrib doctor (OP-180): what is wrong around a store is named, with its place and what to do, and what is said to do
cures it.  Each finding against a store, a machine or a server that really is so."""
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import unittest

import certs
import crib

SHIFT = crib.BUILD / "tests/integ/shift.so"
DAY = 86400
WITHOUT_SERVER = {"configuration", "store", "server", "schema", "keys", "rows", "space", "disk", "signer", "clock", "sqlite",
                  "programs", "sandbox", "cgroups"}


def can_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


class Doctor(crib.Case):
    def setUp(self):
        super().setUp()
        self.c = self.crib.init()
        self.conf = self.crib.config()

    def look(self, env=None, wrapper=()):
        """What is found: what -> lines of (class, where, said, do)."""
        env = {"TOOLCRIB_TEST_SYNC": "1", **(env or {})}
        if SHIFT.exists():
            env.update(LD_PRELOAD=str(SHIFT))
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0" + ":detect_leaks=0" * bool(wrapper)    # LeakSanitizer cannot trace who is traced
        done = subprocess.run([*wrapper, str(crib.BUILD / "toolcrib"), "--store", str(self.c.store), "--json", "doctor", "--config",
                               str(self.conf)], capture_output=True, text=True, timeout=60, env={**self.c.env, **env})
        rows = [json.loads(line)["row"] if "row" in json.loads(line) else json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 4 if any(row["class"] != "ok" for row in rows) else 0, done)
        self.assertEqual(done.stderr, "")
        found = {}
        for row in rows:
            self.assertEqual(row["class"] == "ok", row["do"] == "", row)
            self.assertTrue(row["what"] and row["said"], row)
            found.setdefault(row["what"], []).append((row["class"], row["where"], row["said"], row["do"]))
        return found

    def line(self, what, **more):
        """The only line about it."""
        found = self.look(**more)
        self.assertEqual(len(found.get(what, ())), 1, found)
        return found[what][0]

    def bad(self, what, level, where, said, **more):
        got = self.line(what, **more)
        self.assertEqual(got[0], level, got)
        self.assertIn(str(where), got[1], got)
        self.assertIn(said, got[2], got)
        return got[3]

    def good(self, *what, **more):
        found = self.look(**more)
        for name in what:
            self.assertEqual([line[0] for line in found.get(name, ())], ["ok"], found)

    def configure(self, extra):
        self.conf = self.crib.config(extra)

    # --- stores and their files

    def test_a_new_store_has_nothing_that_is_wrong_with_it(self):
        found = self.look()
        self.assertEqual(WITHOUT_SERVER - set(found), set())
        for what in ("configuration", "store", "server", "schema", "keys", "rows", "signer", "sqlite", "programs", "sandbox"):
            self.assertEqual([line[0] for line in found[what]], ["ok"], found[what])
        self.assertIn("none runs", found["server"][0][2])

    def test_nothing_is_changed(self):
        before = {path: path.stat().st_mtime_ns for path in self.c.store.rglob("*") if path.is_file()}
        records = self.c.rows("SELECT count(*) FROM rec")
        self.look()
        self.assertEqual(self.c.rows("SELECT count(*) FROM rec"), records)
        after = {path: path.stat().st_mtime_ns for path in self.c.store.rglob("*") if path.is_file()}
        self.assertEqual({path.name for path in {*before, *after} if before.get(path) != after.get(path)} -
                         {"toolcrib.db-wal", "toolcrib.db-shm"}, set())

    def test_modes_are_named_and_the_cure_cures(self):
        for path, mode in ((self.c.store, 0o755), (self.c.store / "keys.db", 0o644), (self.c.store / "toolcrib.db", 0o660),
                           (self.c.store / "signer", 0o750)):
            was = path.stat().st_mode
            path.chmod(mode)
            with self.subTest(path.name):
                self.assertIn(("fail", str(path), f"others may use it: its mode is {mode:03o}"), [line[:3] for line in self.look()["mode"]])
                for _ in range(2):              # SQLite gives what it makes beside the file the mode of the file
                    for *_, cure in self.look().get("mode", ()):
                        subprocess.run(cure, shell=True, check=True)
                self.good("store")
            path.chmod(was)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_file_of_another_owner(self):
        path = self.c.store / "keys.db"
        os.chown(path, 40001, -1)
        cure = self.bad("owner", "fail", path, "belongs to uid 40001")
        subprocess.run(cure, shell=True, check=True)
        self.good("store")

    def test_there_is_no_store(self):
        self.c.store = self.c.dir / "nowhere"
        self.assertIn("toolcrib init", self.bad("store", "fail", "nowhere", "No such file"))

    def test_a_key_file_that_is_lost(self):
        (self.c.store / "master.key").unlink()
        self.assertIn("put it back", self.bad("keys", "fail", "master.key", "No such file"))

    def test_a_newer_schema_and_one_that_was_changed(self):
        file = self.c.store / "toolcrib.db"
        with sqlite3.connect(file) as db:
            known = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute(f"PRAGMA user_version = {known + 1}")
        self.assertIn("newer program", self.bad("schema", "fail", file, f"schema {known + 1}"))
        with sqlite3.connect(file) as db:
            db.execute(f"PRAGMA user_version = {known}")
            db.execute("CREATE TABLE stranger(x)")
        self.bad("schema", "fail", file, "not this release's own")

    def test_an_older_schema(self):
        packed = sorted((crib.SOURCE / "tests" / "old-db").glob("*.tar.xz"))[0]
        with tarfile.open(packed) as tar:
            tar.extractall(self.c.dir / "old")
        self.c.store = self.c.dir / "old/store"
        self.assertIn("migrate", self.bad("schema", "warn", "toolcrib.db", "an older release"))
        self.c.must(["migrate"])
        self.good("schema")

    def test_rows_that_keep_it_from_starting(self):
        self.c.tenant("acme")
        with sqlite3.connect(self.c.store / "toolcrib.db") as db:
            mark = db.execute("SELECT id, rec_log, rec_idx FROM tenant").fetchall()
            db.execute("UPDATE tenant SET title = 'other'")
            db.executemany("UPDATE tenant SET rec_log = ?2, rec_idx = ?3 WHERE id = ?1", mark)
        self.assertIn("toolcrib fsck", self.bad("rows", "fail", self.c.store, "1 of the registry"))

    # --- the machine

    @unittest.skipUnless(SHIFT.exists(), "shift.so is not built")
    def test_a_clock_that_is_wrong_or_nobodys(self):
        self.assertIn("set it", self.bad("clock", "fail", "", "behind the newest checkpoint", env={"TOOLCRIB_TEST_SHIFT": "-3600"}))
        self.assertIn("chrony", self.bad("clock", "warn", "", "nobody keeps it", env={"TOOLCRIB_TEST_SYNC": "2"}))
        self.good("clock")
        self.good("clock", env={"TOOLCRIB_TEST_SYNC": "0"})         # the kernel does not say

    @unittest.skipUnless(can_trace(), "needs strace")
    def test_a_disk_that_fails_or_is_slow(self):
        def inject(fault):
            return ["strace", "-D", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", f"inject=fdatasync:{fault}"]
        self.assertIn("mend", self.bad("disk", "fail", self.c.store, "Input/output error", wrapper=inject("error=EIO")))
        self.assertIn("faster", self.bad("disk", "warn", self.c.store, "each call waits for two", wrapper=inject("delay_enter=50000")))
        self.configure("audit: {deadline_ms: 50}\n")
        self.bad("disk", "fail", self.c.store, "audit.deadline_ms", wrapper=inject("delay_enter=100000"))

    def test_room_below_the_floor_and_below_the_warning(self):
        self.configure("audit: {space_floor: 1048576}\n")
        self.bad("space", "fail", self.c.store, "audit.space_floor")
        free = os.statvfs(self.c.store)
        if free.f_bavail * 100 // free.f_blocks < 98:
            self.configure("audit: {space_warn: 99}\n")
            self.bad("space", "warn", self.c.store, "audit.space_warn")

    def test_a_sandbox_that_is_not_reached(self):
        self.configure("sandbox: {require: base+landlock:6+seccomp+ns}\n")
        self.assertIn("sandbox.require", self.bad("sandbox", "fail", "", "tools that are programs are refused"))

    def test_a_program_that_is_missing(self):
        self.assertIn("install", self.bad("programs", "fail", "/nowhere/run", "cannot be run", env={"TOOLCRIB_RUN": "/nowhere/run"}))

    # --- evidence

    def test_a_signer_whose_directory_is_gone(self):
        (self.c.store / "signer").rename(self.c.dir / "elsewhere")
        self.assertIn("put its directory back", self.bad("signer", "fail", self.c.store / "signer", "No such file"))
        self.configure(f"signer: {{dir: {self.c.dir}/elsewhere}}\n")
        self.good("signer")
        (self.c.dir / "elsewhere/log.key").unlink()
        self.bad("signer", "fail", "elsewhere", "")

    def test_a_signer_that_does_not_listen_or_is_anothers(self):
        socket, keys = self.c.dir / "sign.sock", self.c.dir / "elsewhere"
        self.configure(f"signer: {{socket: {socket}}}\n")
        self.assertIn("start it", self.bad("signer", "fail", socket, "no signer"))
        other = crib.Crib()
        self.addCleanup(other.close)
        other.must(["init"])
        for store, level in ((self.c.store, "ok"), (other.store, "fail")):
            shutil.copytree(store / "signer", keys)
            signer = subprocess.Popen([crib.BUILD / "toolcrib-sign", "--dir", keys, "--socket", socket], stdin=subprocess.DEVNULL)
            crib.wait_for("a signer that listens", socket.exists)
            try:
                got = self.line("signer")
            finally:
                signer.kill()
                signer.wait()
            self.assertEqual(got[0], level, got)
            self.assertIn("answers" if level == "ok" else "another store", got[2])
            socket.unlink(missing_ok=True)
            shutil.rmtree(keys)

    def test_anchors_that_go_nowhere(self):
        self.configure("anchor: {cmd: /nowhere/keep}\n")
        self.bad("anchor", "fail", "/nowhere/keep", "cannot be run")
        self.configure("approve: {notify: /nowhere/ask}\n")
        self.bad("approve", "fail", "/nowhere/ask", "cannot be run")
        self.configure("anchor: {file: /nowhere/notes}\n")
        self.bad("anchor", "fail", "/nowhere/notes", "cannot be written")
        self.configure(f"anchor: {{file: {self.c.dir}/notes}}\n")
        self.bad("anchor", "warn", "notes", "the disk of the store")

    # --- the configuration

    def test_a_configuration_that_is_wrong_or_anybodys(self):
        self.conf.write_text("drain_ms: soon\n")
        self.assertIn("check-config", self.bad("configuration", "fail", "toolcribd.yaml:1:", "drain_ms"))
        self.conf.write_text("drain_mss: 5\n")
        self.assertIn("did you mean drain_ms", self.bad("configuration", "fail", "toolcribd.yaml:1:", "unknown key"))
        self.configure("")
        self.conf.chmod(0o646)
        subprocess.run(self.bad("configuration", "fail", self.conf, "others may write it"), shell=True, check=True)
        self.good("configuration")

    def test_certificates_that_are_over_end_soon_or_have_time(self):
        ca = certs.Ca(self.c.dir)
        for days, level, what in ((-1, "fail", "listener"), (5, "warn", "certificate"), (60, "ok", "certificate")):
            cert, key = ca.sign("server", "IP:127.0.0.1", days=days)
            self.conf.write_text(f"listeners:\n- {{transport: http, address: \"127.0.0.1:0\", tls: {{cert: {cert}, key: {key}}}}}\n")
            with self.subTest(days=days):
                got = self.line(what)
                self.assertEqual(got[0], level, got)
                self.assertIn(str(cert), got[1] + got[2])
        key.chmod(0o644)
        self.bad("listener", "fail", key, "")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_users_of_the_server(self):
        self.bad("user", "warn", "", "as root")
        self.configure("user: nobody-of-this-name\n")
        self.bad("user", "fail", "", "nobody-of-this-name")
        self.configure("user: nobody\n")
        self.assertIn("chown", self.bad("user", "fail", "", "belongs to uid 0"))

    # --- the server

    def test_a_server_is_asked(self):
        self.c.start()
        found = self.look()
        self.assertEqual(found["server"], [("ok", f"process {self.c.daemon.pid}", "serving", "")])
        self.assertIn("required", found["sandbox"][0][2])
        for what in ("configuration", "store", "schema", "keys", "rows", "signer"):
            self.assertEqual([line[0] for line in found[what]], ["ok"], found[what])

    def test_a_server_that_has_read_something_else(self):
        """Keys that wait for a restart, a file that was changed since, another file."""
        self.c.start()
        self.configure("audit: {queue: 300}\n")
        lines = self.look()["configuration"]
        self.assertEqual([line[0] for line in lines], ["ok", "warn"])
        self.assertIn("has changed", lines[1][2])
        self.c.cli("reload")
        lines = self.look()["configuration"]
        self.assertEqual([line[0] for line in lines], ["ok", "warn"])
        self.assertIn("wait for a restart: audit.queue", lines[1][2])
        self.conf = self.conf.rename(self.c.dir / "other.yaml")
        self.assertIn(f"--config {self.c.dir}/toolcribd.yaml", self.look()["configuration"][1][3])
        self.c.stop()
        self.c.start("audit: {queue: 300}\n")
        self.conf = self.c.dir / "toolcribd.yaml"
        self.good("configuration")

    def test_a_server_that_hangs(self):
        self.c.start()
        self.c.daemon.send_signal(signal.SIGSTOP)
        try:
            self.assertIn("look at its log", self.bad("server", "fail", self.c.daemon.pid, "does not answer"))
        finally:
            self.c.daemon.send_signal(signal.SIGCONT)

    def test_a_server_that_refuses(self):
        cert, key = certs.Ca(self.c.dir).sign("server", "IP:127.0.0.1", days=-1)
        self.c.start(f"- {{transport: http, address: \"127.0.0.1:0\", tls: {{cert: {cert}, key: {key}}}}}\n")
        self.assertIn("the log", self.bad("server", "fail", self.c.daemon.pid, "refuses calls: listener"))

    def test_people_read_it_and_it_works_where_the_store_is(self):
        done = self.c.run("doctor", "--config", self.conf)
        self.assertRegex(done.stdout, r"STATE +WHAT +WHERE +SAID +DO")
        self.assertRegex(done.stdout, r"(?m)^ok +schema +\S+toolcrib\.db +\d+")
        done = self.c.run("--remote", "127.0.0.1:1", "--key-file", "/nowhere", "doctor")
        self.assertEqual((done.returncode, "not over --remote" in done.stderr), (1, True), done)


class Growth(crib.SmallDisk):
    @unittest.skipUnless(SHIFT.exists(), "shift.so is not built")
    def test_a_disk_that_is_full_within_a_week(self):
        """Records of two days are counted up to seven, and the floor stays free."""
        c = self.crib
        env = {"LD_PRELOAD": str(SHIFT), "ASAN_OPTIONS": "verify_asan_link_order=0"}
        c.run("init", env={**env, "TOOLCRIB_TEST_SHIFT": str(-2 * DAY)})
        for name in range(5):
            c.must(["tenant", "add", f"t{name}"])
        fs = os.statvfs(c.path)
        for floor, level, said in ((fs.f_bavail * fs.f_frsize >> 20, "warn", "grows by"), (1, "ok", "grows by")):
            conf = c.config(f"audit: {{space_floor: {floor}}}\n")
            done = c.run("--json", "doctor", "--config", conf)
            got = next(row for row in map(json.loads, done.stdout.splitlines()) if row["what"] == "space")
            self.assertEqual((got["class"], said in got["said"]), (level, True), got)


if __name__ == "__main__":
    crib.main()
