"""Tamperings of rows that no record vouched for once: versions that are not in force, settings, whose log it is, labels,
holds, what waits, what an upstream's tools are here (A-T65 to A-T74), the inventory and its systems (A-T54 to A-T56).
The rows of Made are few; what a kind needs and the store lacks is put in with the place of a record, as an enemy would."""
import hashlib
import json

from kinds import NEVER, UNCHECKED, Kind

LEAVES = {"LEAF", "ROOT"}
FOUND = {"each": ("REGISTRY",), "never": LEAVES}


def place(s, rnd):
    """Log and index of a record that speaks of rows."""
    return rnd.choice(s.all("SELECT log, idx FROM rec WHERE log = 1 AND kind IN (1301, 1201, 1501, 1502, 1534, 1701)"))


def digest(doc):
    return hashlib.sha256(json.dumps(doc, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).digest()


def version_text(s, rnd):
    """The text of a version is edited, and its digest made anew."""
    number, text = rnd.choice(s.all("SELECT id, definition FROM tool_version"))
    doc = {**json.loads(text), "description": f"Harmless {rnd.randrange(1 << 30)}"}
    s.run("UPDATE tool_version SET definition = ?, digest = ? WHERE id = ?", json.dumps(doc), digest(doc), number)
    if rnd.random() < 0.5:
        s.run("UPDATE tool_version SET actor = 'uid 0', created_us = created_us - 1 WHERE id = ?", number)


def version_invented(s, rnd):
    """A version that never was."""
    where = rnd.choice(((None, None), place(s, rnd), (1, -1 - place(s, rnd)[1])))
    s.run("INSERT INTO tool_version(tool_id, version, digest, list_digest, definition, actor, created_us, kind, uri, rec_log, "
          "rec_idx) SELECT tool_id, version + 7, digest, list_digest, definition, actor, created_us, kind, uri, ?, ? "
          "FROM tool_version WHERE id = ?", *where, rnd.choice(s.all("SELECT id FROM tool_version"))[0])


def version_deleted(s, rnd):
    """A version is taken away."""
    number, = rnd.choice(s.all("SELECT id FROM tool_version"))
    s.run("DELETE FROM tool_schema WHERE version_id = ?", number)
    s.run("DELETE FROM tool_version WHERE id = ?", number)


def setting(s, rnd):
    """A setting is changed, added or taken away."""
    how = rnd.randrange(4)
    if how == 3:
        s.run("UPDATE meta SET value = ? WHERE key = 'instance'", f"other{rnd.randrange(1 << 30)}")
    elif how == 0:
        s.run("UPDATE meta SET value = CASE value WHEN 'metadata' THEN 'request' ELSE 'metadata' END WHERE key = 'audit_level'")
    elif how == 1:
        s.run("DELETE FROM meta WHERE key = ?", rnd.choice(("approvals", "audit_level")))
    else:
        s.run("INSERT OR REPLACE INTO meta(key, value, rec_log, rec_idx) VALUES(?, ?, ?, ?)",
              *rnd.choice((("versions", "free"), ("approvals", "two"))), *place(s, rnd))


def tenants_relabelled(s, rnd):
    """Two logs change their tenants, or their names."""
    (a, mine, mine_name), (b, other, other_name) = rnd.sample(
        s.all("SELECT l.id, l.tenant_id, t.name FROM log l JOIN tenant t ON t.id = l.tenant_id"), 2)
    if rnd.random() < 0.5:
        for log, tenant in ((a, -1), (b, mine), (a, other)):
            s.run("UPDATE log SET tenant_id = ? WHERE id = ?", tenant, log)
    else:
        for tenant, name in ((mine, "x"), (other, mine_name), (mine, other_name)):
            s.run("UPDATE tenant SET name = ? WHERE id = ?", name, tenant)


def label(s, rnd):
    """The label of a key is changed, which reports say is no evidence."""
    s.run("UPDATE cred SET label = ? WHERE id = ?", f"key of nobody {rnd.randrange(1 << 30)}", rnd.choice(s.all("SELECT id FROM cred"))[0])


def hold(s, rnd):
    """A hold that nobody set."""
    log = rnd.choice([*s.tenants(), 99])
    s.run("INSERT INTO hold(log, from_idx, to_idx, set_by, rec_log, rec_idx) VALUES(?, 0, 5, ?, ?, ?)", log,
          rnd.choice((-1, 1 << 40, 0)), *rnd.choice(((None, None), place(s, rnd))))


def pending(s, rnd):
    """A version that waits, and nobody made."""
    tool, version = rnd.choice(s.all("SELECT tool_id, version FROM tool_version"))
    s.run("INSERT OR REPLACE INTO pending_version(tool_id, version, state, actor, created_us, rec_log, rec_idx) "
          "VALUES(?, ?, 1, 'uid 1000', 1, ?, ?)", tool, version, *rnd.choice(((None, None), place(s, rnd))))


def remote_state(s, rnd):
    """A tool of an upstream that was never listed."""
    s.run("INSERT INTO upstream(name, state, definition, digest, prefix, revision, server, created_us, rec_log, rec_idx) "
          "VALUES('other', 1, '{}', x'00', '', '', '', 1, ?, ?)", *place(s, rnd))
    s.run("INSERT INTO upstream_tool(upstream_id, remote, state, held, note, rec_log, rec_idx, state_log, state_idx) "
          "VALUES(last_insert_rowid(), 'rm', 1, 0, '', ?, ?, ?, ?)", *place(s, rnd), *place(s, rnd))


def log_state(s, rnd):
    """A log is said to be closed."""
    s.run("UPDATE log SET state = 2 WHERE id = ?", rnd.choice([1, *s.tenants()]))


def epoch_time(s, rnd):
    """When an epoch began, which is no evidence: reports have it from the record."""
    s.run("UPDATE epoch SET from_ts = from_ts + ? WHERE n = ?", rnd.randrange(1, 1 << 40), rnd.choice(s.all("SELECT n FROM epoch"))[0])


def principal_name(s, rnd):
    """The name of a principal whom no record has named yet."""
    s.run("UPDATE principal SET name = ? WHERE id = ?", f"person {rnd.randrange(1 << 30)}",
          rnd.choice(s.all("SELECT id FROM principal n WHERE NOT EXISTS (SELECT 1 FROM alias a WHERE a.name = n.pseudonym)"))[0])


def inventory_invented(s, rnd):
    """Who answers for a tool, and that it was reviewed, is put in."""
    where = rnd.choice(((None, None), place(s, rnd), (1, -1 - place(s, rnd)[1])))
    subject = rnd.choice(s.all("SELECT 3, id, 0 FROM tool UNION ALL SELECT 1, id, id FROM tenant"))
    s.run("INSERT OR REPLACE INTO inventory(subject_kind, subject_id, tenant_id, owner, risk, review_days, since_us, set_us, set_by, "
          "reviewed_us, reviewed_by, rec_log, rec_idx) VALUES(?, ?, ?, 'Order desk', ?, 90, 1, 1, 'uid 0', 2, 'uid 1', ?, ?)", *subject,
          rnd.choice(("minimal", "high", "prohibited")), *where)


def system_invented(s, rnd):
    """A system that nobody registered."""
    where = rnd.choice(((None, None), place(s, rnd), (1, -1 - place(s, rnd)[1])))
    s.run("INSERT INTO system(tenant_id, name, provider, model, role, state, created_us, rec_log, rec_idx) "
          "SELECT id, 'claims-agent', 'Example AI', 'x-large', 'deployer', ?, 1, ?, ? FROM tenant WHERE id = ?", rnd.choice((1, 2)), *where,
          rnd.choice(s.all("SELECT id FROM tenant"))[0])


def system_borrowed(s, rnd):
    """A principal becomes an AI system, behind the back of its record."""
    number, idx = rnd.choice(s.all("SELECT id, rec_idx FROM principal WHERE rec_idx >= 0"))
    s.run("UPDATE principal SET system_id = ? WHERE id = ?", rnd.randrange(1, 1 << 30), number)
    s.run("UPDATE principal SET rec_idx = ? WHERE id = ?", idx, number)


KINDS = [
    Kind("A-T54", inventory_invented, **FOUND), Kind("A-T55", system_invented, **FOUND), Kind("A-T56", system_borrowed, **FOUND),
    Kind("A-T65", version_text, **FOUND), Kind("A-T66", version_invented, **FOUND), Kind("A-T67", version_deleted, **FOUND),
    Kind("A-T68", setting, **FOUND), Kind("A-T69", tenants_relabelled, **FOUND), Kind("A-T70", label, found=NEVER),
    Kind("A-T71", hold, **FOUND), Kind("A-T72", pending, **FOUND), Kind("A-T73", remote_state, **FOUND),
    Kind("A-T74", log_state, **FOUND), Kind("A-T74b", epoch_time, found=NEVER),
    Kind("A-T93", principal_name, found={"tv": UNCHECKED, "py": UNCHECKED, "av": UNCHECKED}),
]
