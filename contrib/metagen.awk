# awk -f contrib/metagen.awk FILES...     meta-schemas (JSON, one member per line) to a table of C strings
# By parts, not by gsub: awks differ in what backslashes of a replacement mean.
function replace(s, what, by,   n, part, i, out) {
	n = split(s, part, what); out = part[1]
	for (i = 2; i <= n; i++) out = out by part[i]
	return out
}
function close_file() { if (name) print "\t\t\"\" }," }
BEGIN { print "/* generated from src/schema/meta/ by contrib/metagen.awk; do not edit */\n#include \"config.h\"\n"
	print "#include \"../src/schema/meta_int.h\"\n\nconst struct meta_text meta_texts[] = {" }
FNR == 1 { close_file(); name = FILENAME; sub(/^.*\//, "", name); sub(/\.json$/, "", name)
	uri = name ~ /^draft/ ? "http://json-schema.org/" name "/schema" : "https://json-schema.org/draft/" substr(name, 1, 7) \
		(name ~ /^2...-..-/ ? "/meta" "/" substr(name, 9) : "/schema")
	print "\t{ \"" uri "\"," }
{ sub(/^ +/, ""); print "\t\t\"" replace(replace($0, "[\\\\]", "\\\\"), "\"", "\\\"") "\"" }
END { close_file(); print "\t{ 0, 0 },\n};" }
