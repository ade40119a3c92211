#!/usr/bin/env python3
"""What the steps of sql/pgsql make of an empty database, a line for each thing: sql/pgsql/catalogue, which servers compare theirs with.

    catalogue.py --write    after a step was added
    catalogue.py            what differs; t_db holds it as well
"""
import pathlib
import re
import subprocess
import sys

import pgrig

TOP = pathlib.Path(__file__).resolve().parents[2]
FILE = TOP / "sql/pgsql/catalogue"
ROLES = "crib_owner", "toolcrib", "toolcrib_audit", "toolcrib_views"


def texts():
    """The steps, and the statement that lists what is there."""
    names = [str(p.relative_to(TOP)) for folder in ("migrate", "keys", "segment", "pgsql", "queries") for p in sorted((TOP / "sql" / folder).glob("*.sql"))]
    made = subprocess.run(["awk", "-v", "dialect=pgsql", "-v", "mode=c", "-f", "contrib/sqlgen.awk", *names], cwd=TOP, check=True, capture_output=True, text=True).stdout
    steps = re.search(r"sql_pgsql_steps\[\] = \{\n(.*?)\tNULL", made, re.S).group(1)
    listing = re.search(r'"meta_list_catalogue",\n\t\t("(?:[^"\\]|\\.)*")', made).group(1)
    return [re.sub(r"\\(.)", r"\1", text[1:-1]) for text in [*(line.strip().rstrip(",") for line in steps.splitlines()), listing]]


def main():
    *steps, listing = texts()
    with pgrig.Server() as server:
        for role in ROLES:
            server.sql("postgres", f"CREATE ROLE {role} LOGIN")
        server.sql("postgres", "CREATE DATABASE store OWNER crib_owner")
        for step in steps:
            server.sql("store", f"SET ROLE crib_owner; BEGIN; {step}; COMMIT")
        now = server.sql("store", f"SET search_path = toolcrib, pg_temp; {listing}") + "\n"
    if "--write" in sys.argv[1:]:
        FILE.write_text(now)
        return 0
    was = FILE.read_text() if FILE.exists() else ""
    for line in sorted({*now.splitlines()} ^ {*was.splitlines()}):
        print("missing" if line in now.splitlines() else "gone", line)
    return was != now


if __name__ == "__main__":
    sys.exit(main())
