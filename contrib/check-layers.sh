#!/bin/sh
# Fails on an include, a library header or a call that contrib/layers does not allow.
find src include -name '*.[ch]' ! -name '*_gen.*' | sort | xargs ${AWK:-awk} '
function bad(msg) { print FILENAME ":" FNR ": " msg; failed = 1 }
function may(list,   n, a, i) {
	n = split(list, a, " ")
	for (i = 1; i <= n; i++) if (a[i] == mod || index(FILENAME, a[i]) == 1) return 1
	return 0
}
NR == FNR && (/^#/ || NF < 2) { next }
NR == FNR {                                      # contrib/layers: KIND NAME: REST
	name = rest = substr($0, length($1) + 2); sub(/: .*|:$/, "", name)
	rest = substr(rest, length(name) + 2)
	if ($1 == "header") header[name] = rest
	else if ($1 == "call") {
		call["(^|[^A-Za-z0-9_])" name "[ \t]*[(]"] = rest
		any = any (any ? "|" : "") name         # one expression for all: it is compiled once
	}
	else for (n = split(name " " rest, a, " "); n > 0; n--) {
		if (n > 1 && !(a[n] in known)) bad(name " names " a[n] " before it is declared")
		known[name]; ok[name, a[n]]
	}
	next
}
!within { within = "(^|[^A-Za-z0-9_])(" any ")[ \t]*[(]" }
FNR == 1 { comment = 0; split(FILENAME, a, "/"); mod = a[2]
	if (!(mod in known)) bad("module " mod " is not in contrib/layers") }
/^[ \t]*#[ \t]*include/ { split($0, a, /["<>]/); n = split(a[2], b, "/")
	if (/"/ && n == 2 && !((mod, b[1]) in ok)) bad(mod " must not include " a[2])
	for (h in header) if (/</ && index(a[2], h) == 1 && !may(header[h])) bad(mod " must not include " a[2])
	next }
{ gsub(/"([^"\\]|\\.)*"/, "\"\""); gsub(/\/\*([^*]|\*[^\/])*\*\//, " ")
	if (comment && !sub(/^.*\*\//, "")) next
	comment = sub(/\/\*.*/, "")
	if ($0 !~ within) next
	for (c in call) if ($0 ~ c && !may(call[c])) bad("allowed only in" call[c] ": " $0) }
END { exit failed }' contrib/layers
