# awk -f contrib/check-style.awk contrib/style-ok contrib/retired-words FILES...
# One dialect.  contrib/style-ok: RULE MOST, numbers that only go down to 0.  contrib/retired-words: WORD, what is said
# instead; "adm_" is any name that begins so, "deed" is the word alone or between underscores, in files' names too.
function found(rule, text) { if (n[rule]++ < 20 || !ok[rule]) at[rule] = at[rule] FILENAME ":" FNR ": " text "\n" }
FILENAME == ARGV[1] { if (NF == 2) ok[$1] = $2; next }
FILENAME == ARGV[2] { if (NF < 2 || /^#/) next
	w = ($1 ~ /_$/ ? "(^|[^A-Za-z0-9_])" $1 : "(^|[^A-Za-z])" $1 "([^A-Za-z]|$)")
	any = any (any ? "|" : "") w; next }
FNR == 1 { own = 0; decl = 0; first = 1; if (any && FILENAME ~ any) found("retired", "the file's name")
	if (FILENAME ~ /\.c$/ && !/^\/\*/) found("face", "begins with no comment that says what it is") }
first && FNR == 9 && FILENAME ~ /\.c$/ { found("face", "first comment of more than 8 lines") }
/\*\// || !NF { first = 0 }
any && $0 ~ any { found("retired", $0) }
length($0) > 120 { found("width", length($0) " wide") }
/^\/\* *(---|===|\*\*\*|###)/ && !/^\/\* --- [^ -].* \*\/$/ || / --+ \*\/$/ { found("section", "/* --- words */: " $0) }
/^#[ \t]*include "/ && !/"config.h"/ { own = 1 }
/^#[ \t]*include </ && own { found("include", "own headers stand after the system's: " $0) }
{ s = $0; gsub(/"([^"\\]|\\.)*"/, "\"\"", s); gsub(/'[^']+'|'\\''/, "''", s); gsub(/\/\*([^*]|\*[^\/])*\*\/|^ \*.*/, "", s) }
s ~ /(^|[^A-Za-z_])sizeof [^(]|[^A-Za-z_]sizeof[^ (A-Za-z_]/ { found("sizeof", $0) }
/^\{/ { decl = 1; next }
!NF || /^[^\t ]/ { decl = 0 }
decl && (s ~ /^\t([A-Za-z_0-9]+ \**)+[A-Za-z_0-9]+(\[[^=]*\])*( =.*|;|,)/ || s ~ /^\t[a-z ]*(struct|union|enum) .*\{|^\t[A-Za-z_0-9 ]+ \**\(\*[a-z_]+(\[[^=]*\])?\)\(/) \
	&& s !~ /^\t(return|goto|else|case) / { decl = 2; next }
decl && s ~ /^\t[A-Za-z_*(]/ { if (decl == 2) found("blank", "blank line after declarations: " $0); decl = 0 }
END { for (r in n) if (n[r] > ok[r] + 0) { bad = 1; printf "%s", at[r]; print r ": " n[r] " found, at most " ok[r] + 0 " by contrib/style-ok" }
	exit bad }
