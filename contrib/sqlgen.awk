# awk -v dialect=sqlite|pgsql -v mode=h|c -f contrib/sqlgen.awk sql/migrate/*.sql sql/queries/*.sql
# -- name: topic_verb_what   starts a statement (a migration: step_NNNN_what, of keys.db keys_step_NNNN_what, of sealed files
#                            segment_step_NNNN_what, in this order and before all others); it runs to the next name
# -- only: DIALECT           the text below is for that dialect alone; "-- only: all" ends it
# -- takes: int text ...     the types of ?1, ?2, ... of a statement of sql/queries, any of them also NULL: int, text, blob, real, or
#                            row (db_bind_row()); several such lines go on
# A statement without a text of the dialect has none there: those of PostgreSQL alone, and the other way round; what of SQLite's words has a word there is put in its place
# (spoken(); functions are in sql/pgsql); "row_out(?N, a, b)" is NULL, and a, b behind all columns; and steps are those named pgsql_step_NNNN_what and
# pgsql_keys_step_NNNN_what, which are no names of enum sql_id.
# By parts, not by gsub: awks differ in what backslashes of a replacement mean.
function replace(s, what, by,   n, part, i, out) {
	n = split(s, part, what); out = part[1]
	for (i = 2; i <= n; i++) out = out by part[i]
	return out
}
# The highest ?N.
function params(s,   max, n) {
	for (max = 0; match(s, /[?][0-9]+/); s = substr(s, RSTART + RLENGTH)) {
		n = substr(s, RSTART + 1, RLENGTH - 1) + 0
		if (n > max) max = n
	}
	return max
}
# Without row_out(?N, and what closes it: in its place is nothing, so that the columns beside it keep their numbers, and what it
# hands over is behind them, in front of FROM.
function columns(s,   at, n, i, depth, c, list) {
	while (match(s, /row_out[(][?][0-9]+, /)) {
		at = RSTART; n = RLENGTH; depth = 1; list = ", "
		for (i = at + n; depth > 0 && i <= length(s); i++) {
			c = substr(s, i, 1)
			if (c == "(") depth++
			if (c == ")") depth--
			if (depth > 0) list = list (c == "," && depth == 1 ? " AS _r," : c)
		}
		s = substr(s, 1, at - 1) "NULL::int8" substr(s, i)
		for (i = at; depth > 0 || substr(s, i, 6) != " FROM "; i++) {
			c = substr(s, i, 1)
			if (c == "(") depth++
			if (c == ")") depth--
		}
		s = substr(s, 1, i - 1) list " AS _r" substr(s, i)
	}
	return s
}
# IS, but before NULL: "is the same" there has a name of its own.
function same(s,   out, rest) {
	for (out = ""; match(s, / IS /); s = substr(s, RSTART + 4)) {
		rest = substr(s, RSTART + 4)
		if (rest ~ /^(NOT )?(NULL|DISTINCT )/) out = out substr(s, 1, RSTART + 3)
		else if (rest ~ /^NOT /) { out = out substr(s, 1, RSTART) "IS DISTINCT FROM "; s = substr(s, 1, RSTART + 3) substr(rest, 5) }
		else out = out substr(s, 1, RSTART) "IS NOT DISTINCT FROM "
	}
	return out s
}
function blobs(s,   out) {
	for (out = ""; match(s, /[^A-Za-z0-9_]x'[0-9a-f]*'/); s = substr(s, RSTART + RLENGTH))
		out = out substr(s, 1, RSTART) "'\\x" substr(s, RSTART + 3, RLENGTH - 3) "::bytea"
	return out s
}
# CROSS JOIN with a condition, by which SQLite is told the order.
function joins(s,   out) {
	for (out = ""; match(s, / CROSS JOIN [a-z_.]+( AS)?( [a-z]+)? ON /); s = substr(s, RSTART + 6))
		out = out substr(s, 1, RSTART - 1)
	return out s
}
# Sums are a view of records there: what is asked of a table that is computed here is a condition.
function sums(s,   a, b, c) {
	while (match(s, /r[.]of_[a-z]+ = CASE WHEN [?][0-9]+ IS NULL THEN -1 ELSE coalesce[(][(]SELECT id FROM dict WHERE kind = [0-9]+ AND text = [?][0-9]+[)], -2[)] END/)) {
		a = substr(s, 1, RSTART - 1); b = substr(s, RSTART, RLENGTH); s = substr(s, RSTART + RLENGTH)
		split(b, c, " "); sub(/^.*coalesce[(]/, "", b); sub(/, -2[)] END$/, "", b); sub(/of_/, "", c[1])
		s = a "(" c[5] " IS NULL OR " c[1] " = " b ")" s
	}
	if (match(s, /r[.]of_outcome = max[(][?]7, -1[)]/))
		s = substr(s, 1, RSTART - 1) "(?7 < 0 OR r.outcome = ?7)" substr(s, RSTART + RLENGTH)
	gsub(/ AND r[.]"by" = [?]11 [|][|] 'outcome,'/, "", s)
	gsub(/r[.]of_cred = /, "r.cred = ", s); gsub(/r[.]of_prn = /, "r.prn = ", s)
	gsub(/since = /, "ts_min >= ", s); gsub(/until = /, "ts_min < ", s)
	return s
}
# A record is its place: there is no number of its row.
function places(s,   t) {
	for (t = ""; match(s, / rec [a-z] ON [a-z][.]id = /); s = substr(s, RSTART + RLENGTH))
		t = t substr(s, 1, RSTART + 4) substr(s, RSTART + 5, 1) " ON " substr(s, RSTART + 5, 1) ".log = ?1 AND " substr(s, RSTART + 5, 1) ".idx = "
	s = t s
	gsub(/[(]x[.]id[)]/, "(x.idx)", s); gsub(/SELECT x[.]id /, "SELECT x.idx ", s); gsub(/ [+]id /, " +idx ", s)
	gsub(/ e[.]id IS NULL/, " e.idx IS NULL", s)
	return s
}
function spoken(s) {
	s = joins(blobs(same(columns(s))))
	if (s ~ / rollup /) s = sums(s)
	s = places(s)
	gsub(/[?]/, "$", s); gsub(/main[.]/, "toolcrib.", s)
	gsub(/ NOT INDEXED/, "", s); gsub(/ INDEXED BY [a-z_]+/, "", s)
	gsub(/ NOT GLOB /, " !~@ ", s); gsub(/ GLOB /, " ~@ ", s)
	gsub(/ AS INTEGER[)]/, " AS int8)", s); gsub(/ AS REAL[)]/, " AS float8)", s); gsub(/ AS BLOB[)]/, " AS bytea)", s)
	gsub(/ char[(]/, " chr(", s); gsub(/[(]char[(]/, "(chr(", s); gsub(/ LIKE /, " ILIKE ", s); gsub(/group_concat[(]/, "string_agg(", s)
	return s
}
function quoted(s) { return "\"" replace(replace(s, "[\\\\]", "\\\\"), "\"", "\\\"") "\"" }
function steps_of(what,   i) {
	print "const char *const sql_" what "s[] = {"
	for (i = 1; i <= made[what]; i++) print "\t" quoted(sql[what, i]) ","
	print "\tNULL,\n};"
}
function fail(msg) { print FILENAME ":" FNR ": " msg > "/dev/stderr"; failed = 1; exit 1 }
function flush() {
	gsub(/[ \t\n]+/, " ", text); sub(/^ /, "", text); sub(/;? *$/, "", text)
	if (text != "" && (only == "all" || only == dialect)) sql[name] = sql[name] (sql[name] ? " " : "") text
	if (text != "" && only != dialect) elsewhere[name]
	text = ""
}
BEGIN { letter["int"] = "i"; letter["text"] = "t"; letter["blob"] = "b"; letter["real"] = "f"; letter["row"] = "r" }
/^-- name:/ { flush(); name = $3; only = "all"
	if (name in seen) fail(name " twice")
	seen[name]
	if (name ~ /^pgsql_(keys_)?step_/) {
		step = at = name; sub(/_[0-9]+_.*/, "", step); sub(/^[a-z_]*/, "", at)
		if (substr(at, 1, 4) + 0 != ++made[step]) fail("steps come in order")
		name = step SUBSEP made[step]
		next
	}
	order[++n] = name
	if (name ~ /^step_/ && (++steps != n || substr(name, 6, 4) + 0 != n)) fail("steps come first and in order")
	if (name ~ /^keys_step_/ && (steps + ++keys_steps != n || substr(name, 11, 4) + 0 != keys_steps))
		fail("steps of keys.db come behind those of the store and in order")
	if (name ~ /^segment_step_/ && (steps + keys_steps + ++segment_steps != n || substr(name, 14, 4) + 0 != segment_steps))
		fail("steps of sealed files come behind those of keys.db and in order")
	next }
/^-- only:/ { flush(); only = $3; next }
/^-- takes:/ { for (i = 3; i <= NF; i++) {
		if (!($i in letter)) fail(name " takes " $i ", which is no type")
		takes[name] = takes[name] letter[$i]
	}
	next }
/^[ \t]*--/ || /^[ \t]*$/ { next }
/--/ { fail("put comments on lines of their own") }
{ for (t = $0; match(t, /'[^']*'/); t = substr(t, RSTART + RLENGTH))
	if (substr(t, RSTART, RLENGTH) ~ /[?]|  /) fail("? or two spaces inside a literal") }
name == "" { fail("text before the first -- name:") }
{ text = text "\n" $0 }
END {
	if (failed) exit 1
	flush()
	print "/* generated from sql/ by contrib/sqlgen.awk; do not edit */"
	if (mode == "h") {
		print "#ifndef DB_SQL_GEN_H\n#define DB_SQL_GEN_H\nenum sql_id {"
		for (i = 1; i <= n; i++) printf "\tSQL_%s,\n", toupper(order[i])
		print "\tSQL__COUNT,\n\tSQL__STEPS = " steps + 0 ",\n\tSQL__KEYS_STEPS = " keys_steps + 0 ",\n\tSQL__SEGMENT_STEPS = " segment_steps + 0 "\n};\nstruct sql_text { const char *name, *text, *types; unsigned params; };"
		print "extern const struct sql_text sql_sqlite[SQL__COUNT], sql_pgsql[SQL__COUNT];"
		print "extern const char *const sql_pgsql_steps[], *const sql_pgsql_keys_steps[];      /* a NULL ends them */\n#endif"
		exit
	}
	print "#include \"config.h\"\n#include <stddef.h>\n#include \"db/sql_gen.h\"\nconst struct sql_text sql_" dialect "[SQL__COUNT] = {"
	for (i = 1; i <= n; i++) {
		if ((dialect == "pgsql" || order[i] in elsewhere) && !(order[i] in sql) || dialect == "pgsql" && order[i] ~ /^(keys_|segment_)?step_/) {
			printf "\t[SQL_%s] = { .name = \"%s\" },\n", toupper(order[i]), order[i]
			continue
		}
		if (!(order[i] in sql)) fail(order[i] " has no text for " dialect)
		s = sql[order[i]]; max = params(s)
		if (max != length(takes[order[i]]))
			fail(order[i] " has " max " parameters, and -- takes: names " length(takes[order[i]]))
		if (dialect == "pgsql") s = spoken(s)
		printf "\t[SQL_%s] = { \"%s\",\n\t\t%s, \"%s\", %d },\n", toupper(order[i]), order[i], quoted(s), takes[order[i]], max
	}
	print "};"
	if (dialect == "pgsql") { steps_of("pgsql_step"); steps_of("pgsql_keys_step") }
}
