"""A start on PostgreSQL refuses what is not as it must be, by its name and with the cure, and serves nothing weaker in silence (CLUSTER K-006).
Skipped where PostgreSQL is not installed."""
import subprocess
import sys
import unittest

import crib
from test_postgresql import ROLES, Shared

sys.path.insert(0, str(crib.SOURCE / "tests/pg"))
import pgrig                                                                                    # noqa: E402


SHIFT = crib.BUILD / "tests/integ/shift.so"


class Start(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = pgrig.Server(max_connections="12", superuser_reserved_connections="3")
        cls.addClassCleanup(cls.rig.stop)
        cls.rig.sql("postgres", f"{ROLES}; CREATE ROLE stranger LOGIN")

    def crib(self, **more):
        c = Shared(self.rig, **more)
        self.addCleanup(c.close)
        return c

    def refused(self, c, says, cure, url=None, more="", **env):
        """What a server said that was not to come up."""
        config = c.dir / "refused.yaml"
        config.write_text(f'database: {{url: "{url or c.url}", require_standby: no{more}}}\nnode: n1\n')
        done = subprocess.run([crib.BUILD / "toolcribd", "--store", c.store, "-c", config], capture_output=True, text=True, timeout=crib.DEADLINE,
                              env={**c.env, **env})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(says, done.stderr)
        self.assertIn(cure, done.stderr)

    def test_a_role_without_rights(self):
        c = self.crib().init()
        self.refused(c, "permission denied for schema toolcrib", "connect as the role toolcrib", f"postgresql:{self.rig.at(c.database, 'stranger')}")
        self.refused(c, "its user may update records", "which owns no table", f"postgresql:{self.rig.at(c.database, 'toolcrib_owner')}")
        self.refused(c, "its user is a superuser, who may change any record", "the role toolcrib", f"postgresql:{self.rig.at(c.database, 'postgres')}")
        c.sql("REVOKE INSERT ON toolcrib.rec FROM toolcrib")
        self.refused(c, "permission denied for table rec", "let the owner give back what it may do")
        c.sql("GRANT INSERT ON toolcrib.rec TO toolcrib")
        c.start()

    def test_settings_of_a_role_are_made_right(self):
        """A zone and a way to commit are each connection's own: whoever set them otherwise is overruled, not believed."""
        c = self.crib().init()
        c.sql(f"ALTER ROLE toolcrib IN DATABASE {c.database} SET TimeZone = 'Asia/Tokyo'; "
              f"ALTER ROLE toolcrib IN DATABASE {c.database} SET synchronous_commit = off")
        c.start()
        c.tenant("acme")
        c.sql("CREATE TABLE public.seen AS SELECT 1")
        self.assertEqual(c.stop(), 0)
        c.sql(f"ALTER ROLE toolcrib IN DATABASE {c.database} SET default_transaction_read_only = on")
        self.refused(c, "it is a standby, or may only be read", "target_session_attrs=read-write")

    def test_no_connection_is_left(self):
        c = self.crib().init()
        held = []

        def nine():
            held[:] = [one for one in held if one.poll() is None]       # who came while somebody else had not left yet was refused
            while len(held) < 9:
                held.append(self.rig.run(f"{self.rig.bin}/psql", "-X", "-q", "-h", str(self.rig.dir), "-U", "stranger", "-d", "postgres",
                                         "-c", "SELECT pg_sleep(600)", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            return self.rig.sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'stranger'").strip() == "9"
        try:
            crib.wait_for("connections that are held", nine)
            self.refused(c, "cannot connect: ", "raise max_connections of PostgreSQL")
        finally:
            for one in held:
                one.kill()
                one.wait()
            self.rig.sql("postgres", "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'stranger'")
        c.start()

    def test_a_database_that_is_not_there(self):
        c = self.crib().init()
        self.refused(c, 'database "nowhere" does not exist', "POSTGRESQL, says how its databases", f"postgresql:{self.rig.at('nowhere')}")
        self.refused(c, "cannot connect: ", "see whether PostgreSQL runs there", f"postgresql:host={c.dir} dbname=x user=toolcrib")

    def test_two_stores_in_one_database(self):
        """The second is told at once, whatever of the first it has."""
        a = self.crib().init()
        b = self.crib(database=a.database)
        done = b.run("init", "--database", b.url, "--no-standby")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there is a store", done.stderr)
        own = self.crib().init()                                # one of its own, which then is pointed to the other's
        for c in (a, own):
            c.tenant("acme")
        self.refused(own, "is not the master key of this store", "name this store's own database in database.url", a.url)
        keys = f"postgresql:{self.rig.at(f'{a.database}_keys')}"
        self.refused(own, "keys.db is another store's", "put this store's own back", more=f', keys_url: "{keys}"')
        a.start()

    @unittest.skipUnless(SHIFT.exists(), "shift.so is not built")
    def test_a_clock_that_is_a_minute_off(self):
        c = self.crib().init()
        for off in ("65", "-65"):
            self.refused(c, f"this machine's clock is {off[:-1]}", "set one of them right", LD_PRELOAD=str(SHIFT), TOOLCRIB_TEST_SHIFT=off,
                         ASAN_OPTIONS="verify_asan_link_order=0")
        c.env.update(LD_PRELOAD=str(SHIFT), TOOLCRIB_TEST_SHIFT="20", ASAN_OPTIONS="verify_asan_link_order=0")
        c.start()

    def test_a_database_that_was_put_back_to_before(self):
        c = self.crib().init()
        c.tenant("acme")
        c.start()
        self.assertEqual(c.stop(), 0)
        for name in (c.database, f"{c.database}_keys"):
            self.rig.sql("postgres", f"CREATE DATABASE {name}_old TEMPLATE {name} STRATEGY file_copy")
        c.start()
        c.tenant("later")
        self.assertEqual(c.stop(), 0)
        for name in (c.database, f"{c.database}_keys"):
            self.rig.sql("postgres", f"DROP DATABASE {name} WITH (FORCE)")
            self.rig.sql("postgres", f"ALTER DATABASE {name}_old RENAME TO {name}")
        self.refused(c, "SIGNER_AHEAD: the signer has signed", "")

    def test_a_full_disk_refuses_calls_and_no_more(self):
        """What PostgreSQL says of it, said by a rule of the test: calls again as soon as there is room."""
        c = self.crib().init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start()
        peer = c.tcp(key)
        self.addCleanup(peer.close)
        peer.initialize()
        self.assertNotIn("error", peer.call("echo", {"text": "a"}))
        c.sql("CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; "
              "END $$; CREATE TRIGGER x BEFORE INSERT ON toolcrib.rec FOR EACH ROW EXECUTE FUNCTION public.full()")
        said = str(peer.call("echo", {"text": "b"}))
        self.assertNotIn("'b'", said)
        self.assertIn("error", said)
        self.assertIn("the database of the store takes no records", c.run("status").stdout)
        c.sql("DROP TRIGGER x ON toolcrib.rec")
        crib.wait_for("calls that are answered", lambda: "error" not in peer.call("echo", {"text": "c"}))


if __name__ == "__main__":
    crib.main()
