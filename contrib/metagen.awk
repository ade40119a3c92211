# awk -f contrib/metagen.awk FILES...     meta-schemas (JSON, one member per line) to a table of C strings
function close_file() { if (name) print "\t\t\"\" }," }
BEGIN { print "/* generated from src/schema/meta/ by contrib/metagen.awk; do not edit */\n#include \"config.h\"\n"
	print "#include \"../src/schema/meta_int.h\"\n\nconst struct meta_text meta_texts[] = {" }
FNR == 1 { close_file(); name = FILENAME; sub(/^.*\//, "", name); sub(/\.json$/, "", name)
	uri = name ~ /^draft/ ? "http://json-schema.org/" name "/schema" : "https://json-schema.org/draft/" substr(name, 1, 7) \
		(name ~ /^2...-..-/ ? "/meta" "/" substr(name, 9) : "/schema")
	print "\t{ \"" uri "\"," }
{ sub(/^ +/, ""); gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); print "\t\t\"" $0 "\"" }
END { close_file(); print "\t{ 0, 0 },\n};" }
