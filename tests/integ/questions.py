"""What reviewers ask of the audit: the 42 questions of the manual's list, as commands, on a store of tests/bench/b_fill.

Each has its number, what its answer is like, the command, its arguments, and what was planted for it, if anything.  {a[b]} in an
argument is planted.a.b of what b_fill said; {cursor} a file of the asker's.  Used by test_report_work.py and tests/bench/scale.py."""

PAGED = "paged"         # the newest of many rows: the work is that of the page
RARE = "rare"           # a few rows, wherever they are
SUMS = "sums"           # counts of what there is
SMALL = "small"         # of what does not grow with the calls: registry, events of the system
ALL = "all"             # whatever there is, because that is what was asked for

T = {"tenant": "fill00000"}
QUESTIONS = [
    ("Q01", PAGED, "audit calls", {"limit": "10"}),
    ("Q01", PAGED, "audit calls", {**T, "limit": "10"}),
    ("Q01", PAGED, "audit calls", {**T, "tool": "{common[tool]}", "limit": "10"}),
    ("Q01", PAGED, "audit calls", {**T, "key": "{common[key]}", "limit": "10"}),
    ("Q01", PAGED, "audit calls", {**T, "outcome": "timeout", "limit": "10"}),
    ("Q01", RARE, "audit calls", {**T, "tool": "rare"}, "rare_tool"),
    ("Q01", RARE, "audit calls", {**T, "key": "{rare_principal[key]}"}, "rare_principal"),
    ("Q01", RARE, "audit calls", {**T, "outcome": "crashed"}, "rare_outcome"),
    ("Q01", RARE, "audit calls", {"outcome": "crashed"}, "rare_outcome"),
    ("Q01", RARE, "audit calls", {**T, "tool": "{tool_error[tool]}", "outcome": "tool_error"}, "tool_error"),
    ("Q01", RARE, "audit calls", {**T, "principal": "{common[principal]}", "outcome": "crashed"}, "rare_outcome"),
    ("Q01", ALL, "audit calls", {**T, "limit": "0"}),
    ("Q02", PAGED, "audit calls", {**T, "principal": "{common[principal]}", "limit": "10"}),
    ("Q02", RARE, "audit calls", {**T, "principal": "seldom"}, "rare_principal"),
    ("Q03", PAGED, "audit credential", {"key": "{common[key]}", "timeline": True, "limit": "10"}),
    ("Q03", SUMS, "audit credential", {"key": "{common[key]}", "limit": "10"}),
    ("Q03", RARE, "audit credential", {"key": "{rare_principal[key]}"}),
    ("Q04", RARE, "audit show", {"call": "{rare_tool[calls][0]}", **T}),
    ("Q04", RARE, "audit show", {"call": "{rare_tool[calls][1]}"}),
    ("Q07", SUMS, "audit coverage", {**T, "limit": "10"}),
    ("Q08", RARE, "audit sample", {**T, "number": "5", "seed": "7"}),
    ("Q08", SMALL, "audit sample", {"kind": "tool.register", "number": "5"}),
    ("Q08", RARE, "audit sample", {**T, "method": "hash", "number": "5"}),
    ("Q08", SMALL, "audit sample", {"kind": "tool.register", "method": "hash"}),
    ("Q09", PAGED, "audit denied", {**T, "limit": "10"}),
    ("Q09", SUMS, "audit denied", {**T, "by": "rule"}),
    ("Q10", SMALL, "audit auth-failures", {}),
    ("Q10", SMALL, "audit auth-failures", {"by": "source"}),
    ("Q11", SMALL, "audit admin", {"limit": "10"}),
    ("Q12", SMALL, "audit access", {"limit": "10"}),
    ("Q13", SMALL, "audit credentials", {"limit": "10"}),
    ("Q14", SMALL, "key list", {**T, "review": True}),
    ("Q15", SMALL, "key list", {**T, "stale": "90d"}),
    ("Q15", SMALL, "key list", {**T, "unused-scopes": True}),
    ("Q16", RARE, "audit after-revocation", {}, "after_revocation"),
    ("Q17", SMALL, "audit continuity", {"commands": True}),
    ("Q18", RARE, "audit continuity", {"executions": True}),
    ("Q19", SMALL, "audit clock", {}),
    ("Q20", SMALL, "retention show", {"history": True}),
    ("Q21", SMALL, "hold list", {"history": True}),
    ("Q22", SMALL, "audit erasures", {}),
    ("Q23", SUMS, "audit subject", {"principal": "fill00000/{common[principal]}", "limit": "10"}),
    ("Q23", RARE, "audit subject", {"principal": "fill00000/seldom"}),
    ("Q23", PAGED, "audit subject", {"principal": "fill00000/{common[principal]}", "export": True, "limit": "10"}),
    ("Q24", SUMS, "audit blast-radius", {"key": "{common[key]}"}),
    ("Q24", RARE, "audit blast-radius", {"tool-hash": "{rare_tool[definition]}"}),
    ("Q25", SMALL, "tool history", {"tool": "rare", "events": True}),
    ("Q26", RARE, "audit drift", {}, "drift"),
    ("Q27", SMALL, "audit config", {}),
    ("Q28", SMALL, "audit isolation", {}),
    ("Q29", SMALL, "audit key-history", {}),
    ("Q30", SMALL, "audit dual-control", {}),
    ("Q31", SMALL, "audit reviews", {}),
    ("Q32", SUMS, "audit anomalies", {**T}),
    ("Q33", SUMS, "audit tool-health", {**T}),
    # Of all days: of its last 24 hours a filled store has more or less records by the hour of the day.
    ("Q33", SUMS, "audit stats", {**T, "since": "6d"}),
    ("Q34", SUMS, "audit sandbox", {**T}),
    ("Q35", RARE, "audit oversight", {}, "oversight"),
    ("Q35", RARE, "audit approvals", {}),
    ("Q35", RARE, "audit approvals", {**T, "by": "person"}),
    ("Q35", RARE, "audit tasks", {}, "task"),
    ("Q35", RARE, "audit tasks", {**T, "open": True}),
    ("Q35", RARE, "audit tasks", {**T, "by": "tool"}),
    ("Q36", SUMS, "audit calls", {**T, "group-by": "client,obo"}),
    # Not by tool as well: a store of few records would lack groups of rare outcomes, more or fewer by the hour of the day.
    ("Q36", SUMS, "audit calls", {**T, "group-by": "outcome,day", "limit": "10"}),
    ("Q37", SMALL, "audit capacity", {}),
    ("Q37", SMALL, "audit capacity", {"events": True}),
    ("Q37", ALL, "audit capacity", {"tables": True}),
    ("Q37", SMALL, "audit segments", {}),
    ("Q38", PAGED, "audit tail", {**T, "number": "10"}),
    ("Q38", ALL, "audit export", {**T}),
    ("Q38", SMALL, "audit export-check", {"cursor": "{cursor}"}),
    ("Q39", SMALL, "audit anchors", {}),
]

# Of several ids, which meet often, seldom or never: two that are common are in each part of a log.
MEETING = [
    ("", PAGED, "audit calls", {**T, "tool": "{common[tool]}", "principal": "{common[principal]}", "limit": "0"}),
    ("", PAGED, "audit calls", {**T, "tool": "{common[tool]}", "outcome": "ok", "limit": "10"}),
    ("", PAGED, "audit calls", {**T, "key": "{common[key]}", "outcome": "timeout", "limit": "0"}),
    ("", RARE, "audit calls", {**T, "tool": "rare", "principal": "seldom"}),
    ("", PAGED, "audit calls", {"tool": "{common[tool]}", "outcome": "denied", "limit": "30"}),
    ("", PAGED, "audit calls", {**T, "tool": "{common[tool]}", "outcome": "timeout", "since": "4d", "until": "1d"}),
    ("", PAGED, "audit denied", {**T, "tool": "{common[tool]}", "limit": "0"}),
    ("", PAGED, "audit denied", {**T, "key": "{common[key]}", "outcome": "rate_limited", "limit": "0"}),
    ("", PAGED, "audit tail", {**T, "tool": "{common[tool]}", "principal": "{common[principal]}", "number": "20"}),
    ("", PAGED, "audit tail", {**T, "tool": "{common[tool]}", "kind": "call.denied", "number": "20"}),
    ("", ALL, "audit export", {**T, "tool": "{common[tool]}", "outcome": "timeout"}),
    ("", ALL, "audit export", {**T, "since": "4d", "until": "2d"}),
]


def filled(args, planted):
    """The arguments with what was planted in its places."""
    return {name: value.format(**planted) if isinstance(value, str) else value for name, value in args.items()}


def title(question):
    """As people write it, without what b_fill drew."""
    number, _, command, args = question[:4]
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in args.items()]
    return " ".join([number, command, *words])
