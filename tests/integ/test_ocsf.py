"""Every kind of record is an event that OCSF 1.9.0 allows (AUDIT A-1004, OP-332): each is walked by a cut of the class API
Activity, tests/ocsf/api_activity-1.9.0.tsv."""
import copy
import hashlib
import json
import re

import crib
import test_screens

CUT = crib.SOURCE / "tests/ocsf/api_activity-1.9.0.tsv"
INTEGERS = {"integer_t", "long_t", "timestamp_t", "port_t"}
TEXTS = {"string_t", "username_t", "resource_uid_t", "ip_t"}
LEAF = "0458d97eece77e75e6c963f5ce978ea78c5458ea003e94d47af8f44af23020c0"
# A record with all that the mapping knows, and the least that one has.
FULL = {"log": "crib.example/t/acme", "index": 41207, "time": "2026-11-23T23:06:04.060909Z", "tenant": "acme",
        "call": "019c7a4e-0000-7000-8000-000000000001", "principal": "build-bot", "pseudonym": "p4KxWq7J9mTz", "key": "lBdPl0yrZnFj",
        "tool": "get_weather", "outcome": "ok", "rule": "grant", "ms": 12.345, "transport": "http", "authn": "key", "actor": "principal",
        "on_behalf_of": "oVq2", "address": "aX19", "client": "claude", "revision": "2026-07-28", "definition": "5d2f" * 16,
        "policy": None, "scopes": "tools:call", "sandbox": "base+landlock:6", "object": "tool/get_weather", "detail": "a reason",
        "before": None, "after": "5d2f" * 16, "level": "request", "request_bytes": 17, "result_bytes": 120, "status": 200,
        "previous": None, "trace": "4bf92f3577b34da6a3ce929d0e0e4736", "enc": 1, "leaf": LEAF, "bytes": "VENBUgEAAg=="}
LEAST = {**dict.fromkeys(FULL), "log": "crib.example", "index": 0, "time": FULL["time"], "actor": "system", "enc": 1, "leaf": LEAF,
         "bytes": "VENBUgEAAg=="}


def kinds():
    """Number and name of each kind that a record can have."""
    text = (crib.SOURCE / "include/audit/audit.h").read_text()
    return [name for _, name in re.findall(r'X\(\w+, (\d{4}), "([a-z_.]+)"\)', text)]


class Cut:
    """What the cut allows."""

    def __init__(self):
        self.objects, self.any_of = {}, {}
        for line in CUT.read_text().splitlines():
            if line.startswith("#"):
                continue
            name, attribute, *rest = line.split("\t")
            if attribute == "any of":
                self.any_of[name] = rest[0].split()
            else:
                self.objects.setdefault(name, {})[attribute] = (*rest[:2], rest[2].split() if len(rest) > 2 else None)

    def walk(self, value, kind="api_activity", at="event"):
        """All that is wrong, in words."""
        if kind == "object":
            return [] if isinstance(value, dict) else [f"{at} is no object"]
        if kind in INTEGERS:
            return [] if isinstance(value, int) and not isinstance(value, bool) else [f"{at} is no integer"]
        if kind in TEXTS:
            return [] if isinstance(value, str) and value else [f"{at} is no text"]
        if kind.endswith("[]"):
            if not isinstance(value, list) or not value:
                return [f"{at} is no list"]
            return [fault for i, one in enumerate(value) for fault in self.walk(one, kind[:-2], f"{at}[{i}]")]
        if not isinstance(value, dict):
            return [f"{at} is no object"]
        return self.members(value, kind, at)

    def members(self, value, kind, at):
        known, faults = self.objects[kind], []
        faults += [f"{at}.{name} is missing" for name, (_, need, _) in known.items() if need == "required" and name not in value]
        if kind in self.any_of and not set(self.any_of[kind]) & set(value):
            faults.append(f"{at} has none of {self.any_of[kind]}")
        for name, one in value.items():
            type_, need, enum = known.get(name, (None, "", None))
            if type_ is None:
                faults.append(f"{at}.{name} is not of 1.9.0")
                continue
            if need.startswith("deprecated"):
                faults.append(f"{at}.{name} is {need}")
            faults += self.walk(one, type_, f"{at}.{name}")
            for each in one if isinstance(one, list) else [one]:
                if enum and str(each) not in enum:
                    faults.append(f"{at}.{name} is {each}")
        return faults


class Ocsf(crib.Case):
    def setUp(self):
        super().setUp()
        self.cut = Cut()

    def written(self, records):
        """What the program makes of these rows of an export."""
        header = {**test_screens.header("audit export"), "must_be_empty": False}
        test_screens.SCREENS["audit export"] = ({"header": header, "columns": list(FULL)}, records)
        path = self.crib.dir / "canned.sock"
        canned = test_screens.Canned(path)
        try:
            done = self.crib.run("--socket", path, "audit", "export", "--format", "ocsf")
        finally:
            canned.close()
            path.unlink()
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(events), len(records))
        return events

    def test_every_kind_of_record_is_an_event(self):
        names = kinds()
        self.assertGreater(len(names), 70)
        records = [{**record, "kind": kind, "outcome": outcome} for kind in names for record in (FULL, LEAST)
                   for outcome in (None, "ok", "denied", "tool_error")]
        for record, event in zip(records, self.written(records)):
            self.assertEqual(self.cut.walk(event), [], (record["kind"], event))
            self.assertEqual(event["unmapped"]["kind"], record["kind"])
            self.assertEqual(event["type_uid"], 600300 + event["activity_id"])
            self.assertEqual(event["status_id"] == 2, record["outcome"] in ("denied", "tool_error") or
                             record["outcome"] is None and bool(re.search(r"fail|denied|\.crash$", record["kind"])), event)

    def test_where_the_members_of_a_record_go(self):
        full, least = self.written([{**FULL, "kind": "call.end"}, {**LEAST, "kind": "log.open"}])
        self.assertEqual(full["metadata"]["profiles"], ["trace", "ai_operation"])
        self.assertEqual(full["actor"], {"user": {"name": "build-bot", "uid": "p4KxWq7J9mTz",
                                                  "programmatic_credentials": [{"uid": "lBdPl0yrZnFj"}]}})
        self.assertEqual((full["ai_agent"], full["trace"]), ({"name": "claude"}, {"uid": FULL["trace"]}))
        self.assertEqual((full["duration"], full["unmapped"]["ms"]), (12, 12.345))
        self.assertEqual(full["api"], {"operation": "get_weather", "service": {"name": "toolcrib"}, "version": "2026-07-28",
                                       "request": {"uid": FULL["call"]}, "response": {"code": 200, "message": "ok"}})
        self.assertEqual((full["src_endpoint"], least["src_endpoint"]), ({"uid": "aX19"}, {"svc_name": "toolcrib"}))
        self.assertEqual(least["actor"], {"application": {"name": "toolcrib"}})
        for event, record in ((full, FULL), (least, LEAST)):
            self.assertEqual(event["unmapped"]["leaf"], LEAF)       # of the record's bytes, and no attestation of the event
            name = record["log"].encode() + b"\0" + record["index"].to_bytes(8, "big") + bytes.fromhex(LEAF)
            self.assertEqual(event["metadata"]["uid"], hashlib.sha256(name).hexdigest()[:32])

    def test_the_walk_finds_what_is_wrong(self):
        good = self.written([{**FULL, "kind": "call.end"}])[0]
        self.assertEqual(self.cut.walk(good), [])

        def spoilt(path, value):
            event = copy.deepcopy(good)
            *way, last = path.split(".")
            inner = event
            for name in way:
                inner = inner[name]
            inner.pop(last, None)
            if value is not None:
                inner[last] = value
            return self.cut.walk(event)
        for path, value, said in (("src_endpoint", None, "missing"), ("metadata.version", "1.3.0", "is 1.3.0"), ("duration", 12.3, "no integer"),
                                  ("metadata.profiles", ["record_integrity"], "is record_integrity"), ("actor.app_name", "x", "deprecated"),
                                  ("actor.user.credential_uid", "x", "deprecated"), ("attestation_list", [{}], "not of 1.9.0"),
                                  ("actor", {}, "none of"), ("trace", {}, "missing"), ("resources", [{}], "none of"),
                                  ("severity_id", 7, "is 7"), ("api.operation", 5, "no text"), ("metadata", "x", "no object")):
            faults = spoilt(path, value)
            self.assertTrue(faults and said in faults[0], (path, faults))

    def test_what_a_server_writes_is_one_too(self):
        c = self.crib.init()
        c.tool(crib.ECHO)
        key = c.tenant("acme", "echo")
        c.start()
        peer = c.http(key)
        peer.ask("tools/call", {"name": "echo", "arguments": {"text": "x"},
                                "_meta": {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}, crib.MODERN)
        peer.call("nothing", {}, rev=crib.MODERN)
        peer.close()
        events = [json.loads(line) for line in c.cli("audit", "export", "--format", "ocsf").splitlines()]
        self.assertGreater(len({event["unmapped"]["kind"] for event in events}), 10)
        for event in events:
            self.assertEqual(self.cut.walk(event), [], event)
        self.assertEqual(len({event["metadata"]["uid"] for event in events}), len(events))
        self.assertIn("4bf92f3577b34da6a3ce929d0e0e4736", [event.get("trace", {}).get("uid") for event in events])


if __name__ == "__main__":
    crib.main()
