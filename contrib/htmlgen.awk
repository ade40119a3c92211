# awk -f contrib/htmlgen.awk src/console/pages.html src/console/console.css src/console/console.mjs     templates to a table of C strings
#   <!-- part NAME -->   alone on a line begins a part; a file *.css is one part, called css, *.mjs one called mjs
#   {{x}}                a value, escaped for where it stands: text, or an attribute in double quotes
#   {{path:x}}           the same in href, src and action, percent-encoded; the literal before it begins with a / of ours or ?
#   A / that begins such a value stands behind the path under which the console is found (CONSOLE C-408).
# There is no raw form.  But for the one script of part head, script, style, comments, on...=, style= and attributes without quotes are errors (CONSOLE C-801).
function fail(msg) { print FILENAME ":" FNR ": " msg > "/dev/stderr"; failed = 1; exit 1 }
# By parts, not by gsub: awks differ in what backslashes of a replacement mean.
function replace(s, what, by,   n, part, i, out) {
	n = split(s, part, what); out = part[1]
	for (i = 2; i <= n; i++) out = out by part[i]
	return out
}
function quoted(s) { return "\"" replace(replace(replace(s, "[\\\\]", "\\\\"), "\"", "\\\""), "\n", "\\n") "\"" }
function segment(kind, name) { print "\t{ " quoted(lit) ", " kind ", \"" name "\" },"; lit = "" }
function close_part() {
	if (!part) return
	if (state != "text") fail("part " part " ends inside of a tag")
	segment("PAGE_END", "")
}
function open_part(name) {
	close_part()
	if (name in seen) fail("part " name " twice")
	seen[name]; part = name; state = "text"
	print "\t{ NULL, PAGE_PART, \"" name "\" },"
}
function is_url(attr) { return attr == "href" || attr == "src" || attr == "action" || attr == "formaction" }
function placeholder(name,   path) {
	path = name ~ /^path:/
	sub(/^path:/, "", name)
	if (name !~ /^[a-z_]+$/) fail("{{" name "}} is no name")
	if (state == "text") {
		if (path) fail("{{path:" name "}} stands in text")
		segment("PAGE_TEXT", name)
	} else if (state == "value") {
		if (is_url(attr) != path) fail("{{" name "}} in " attr)
		if (path && value !~ /^(\/[a-z]|\/$|[?])/) fail(attr " does not begin with a path of ours")
		value = value "x"
		segment(path ? "PAGE_PATH" : "PAGE_TEXT", name)
	} else fail("{{" name "}} inside of a tag")
}
function letter(c) {
	if (state == "text" && c == "<") { state = "tag"; tag = ""; word = "<" }
	else if (state == "tag" && c == ">") { close_word(); state = "text" }
	else if (state == "tag" && c == "=") { attr = word; check_attr(); state = "quote"; word = "" }
	else if (state == "tag" && c ~ /[ \n]/) { close_word(); word = "" }
	else if (state == "tag") word = word tolower(c)
	else if (state == "quote") { if (c != "\"") fail("the value of " attr " is not in double quotes"); state = "value"; value = "" }
	else if (state == "value" && c == "\"") state = "tag"
	else if (state == "value") { if (c == "/" && value == "" && is_url(attr)) segment("PAGE_BASE", ""); value = value c }
}
function close_word() {
	if (word ~ /^<\/?script$/ && ours) return
	if (word ~ /^<\/?(script|style|math|template|iframe|object|embed|base|foreignobject|use|image|animate|set)$/) fail(word "> is not for templates")
	if (word ~ /^<!/ && word != "<!doctype") fail("a comment")
}
function check_attr() { if (attr ~ /^on/ || attr == "style" || attr == "srcdoc" || attr ~ /:/) fail(attr "= is not for templates") }
BEGIN { print "/* generated from src/console/ by contrib/htmlgen.awk; do not edit */\n#include \"config.h\"\n"
	print "#include <stddef.h>\n\n#include \"../src/console/console_int.h\"\n\nconst struct page_segment page_segments[] = {" }
FILENAME ~ /\.mjs$/ { if (part != "mjs") open_part("mjs"); lit = lit $0 "\n"; next }
FILENAME ~ /\.css$/ { if (part != "css") open_part("css"); lit = lit $0 "\n"; next }
/^<!-- part [a-z-]+ -->$/ { open_part($3); next }
{ if (!part) fail("text before the first part")
	line = $0 "\n"
	ours = part == "head" && $0 == "<script type=\"module\" src=\"/a/{{path:hash}}/console.mjs\"></script>"
	while (line != "") {
		if (substr(line, 1, 2) == "{{") {
			end = index(line, "}}")
			if (!end) fail("{{ without }}")
			placeholder(substr(line, 3, end - 3)); line = substr(line, end + 2)
			continue
		}
		c = substr(line, 1, 1); letter(c); lit = lit c; line = substr(line, 2)
	} }
END { if (failed) exit 1
	close_part(); print "\t{ NULL, PAGE_PART, NULL },\n};" }
