# awk -f contrib/check-size.awk contrib/size-ok FILES...     (braces of functions in column 0)
# Above the soft limit a line "PATH FUNCTION-or-file LINES REASON" in contrib/size-ok is
# needed, and its number only goes down.  The hard limit has no exceptions.  A .c of less than 60 lines wants a line
# "PATH short LINES REASON": most of what is so short belongs to the file that calls it.
function fail(msg) { print msg; failed = 1 }
function judge(name, n, soft, hard,   k, at) {
	k = file SUBSEP name; at = file ": " name ": " n " lines"; seen[k]
	if (n > hard) fail(at ", hard limit " hard)
	else if (n > soft && !(k in ok)) fail(at ", limit " soft ": split it, or give a reason in contrib/size-ok")
	else if (k in ok && n > ok[k]) fail(at ", grew from " ok[k])
	else if (k in ok && (n < ok[k] || n <= soft)) fail(at ": better than " ok[k] ", lower it in contrib/size-ok")
}
function close_file() {
	if (file ~ /\.h$/) judge("file", n, 250, 400); else if (file) judge("file", n, 1000, 1500)
	if (file ~ /\.c$/ && n < 60 && !((file, "short") in ok)) fail(file ": " n " lines: join it, or give a reason in contrib/size-ok")
	if (n < 60) seen[file, "short"]
}
FILENAME == ARGV[1] { if ($0 !~ /^#/ && NF > 3) ok[$1, $2] = $3; next }
FNR == 1 { close_file(); file = FILENAME; there[file]; start = 0; name = "?" }
{ n = FNR }
/^[A-Za-z_][A-Za-z0-9_ *]*\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
/^\{/ && !start { start = FNR }
/^\}/ && start { judge(name, FNR - start + 1, 60, 100); start = 0 }
END { close_file(); for (k in ok) if (!(k in seen)) { split(k, w, SUBSEP)
		if (w[2] != "short" || w[1] in there) fail("contrib/size-ok: no " w[2] " in " w[1]) }
	exit failed }
