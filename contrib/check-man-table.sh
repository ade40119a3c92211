#!/bin/sh
# Compares what manual pages list with the tables of the programs: the COMMANDS of src/ctl/toolcrib.8, the keys of
# documents in src/backend/toolcrib-tool.5.  --write puts the tables' into the pages.  Runs in make check with the paths
# of AM_TESTS_ENVIRONMENT.
mdoc=${TOOLCRIB_BUILDDIR:-.}/src/ctl/mdoc
table=$(mktemp) || exit 1
want=$(mktemp) || exit 1
trap 'rm -f "$table" "$want"' EXIT
# PAGE BEGIN END [WORD of mdoc]
look() {
	page=${TOOLCRIB_SRCDIR:-.}/$1
	"$mdoc" $4 >"$table" || exit 1
	awk -v begin="$2" -v end="$3" -v table="$table" '
		index($0, end) { skip = 0; seen++ }
		!skip { print }
		index($0, begin) { skip = 1; seen++; while ((getline line <table) > 0) print line }
		END { if (seen != 2) { print "no marks in the page" >"/dev/stderr"; exit 1 } }' "$page" >"$want" || exit 1
	if [ "$write" = --write ]; then
		cmp -s "$want" "$page" || cat "$want" >"$page"
	else
		diff -u "$page" "$want" || { echo "run: contrib/check-man-table.sh --write" >&2; exit 1; }
	fi
}
write=$1
look src/ctl/toolcrib.8 'commands: from the table' 'end of commands'
look src/backend/toolcrib-tool.5 'keys of documents: from the table' 'end of keys' documents
