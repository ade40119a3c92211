#!/bin/sh
# Compares the COMMANDS list of src/ctl/toolcrib.8 with what the command table says; --write puts the table's into
# the page.  Runs in make check with the paths of AM_TESTS_ENVIRONMENT.
page=${TOOLCRIB_SRCDIR:-.}/src/ctl/toolcrib.8
mdoc=${TOOLCRIB_BUILDDIR:-.}/src/ctl/mdoc
table=$(mktemp) || exit 1
want=$(mktemp) || exit 1
trap 'rm -f "$table" "$want"' EXIT
"$mdoc" >"$table" || exit 1
awk -v begin='commands: from the table' -v end='end of commands' -v table="$table" '
	index($0, end) { skip = 0; seen++ }
	!skip { print }
	index($0, begin) { skip = 1; seen++; while ((getline line <table) > 0) print line }
	END { if (seen != 2) { print "no marks in the page" >"/dev/stderr"; exit 1 } }' "$page" >"$want" || exit 1
if [ "$1" = --write ]; then
	cat "$want" >"$page"
else
	diff -u "$page" "$want" || { echo "run: contrib/check-man-table.sh --write" >&2; exit 1; }
fi
