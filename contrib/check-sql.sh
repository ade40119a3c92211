#!/bin/sh
# Fails on a statement of sql/queries that no code uses, and on one about a tenant's rows that does not
# name the tenant (house rule 40).  "-- any tenant: REASON" in the comment above or below a statement's name excuses it.
# Tables whose rows belong to a tenant:
owned='principal|cred|tool_grant|limit_row|usage_day|tool_level|alert|inventory|system|task|assent|assent_vote|assent_event'
failed=0
unused=`{ grep -rhoE '\bSQL_[A-Z0-9_]+' src --include='*.c' --include='*.h' | sort -u | sed 's/^/used /'
	sed -n 's/^-- name: *//p' sql/queries/*.sql; } |
	${AWK:-awk} '$1 == "used" { used[$2] = 1; next } !(("SQL_" toupper($1)) in used)'`
for name in $unused; do
	echo "sql/queries: nobody uses $name"
	failed=1
done
${AWK:-awk} -v owned="(FROM|INTO|UPDATE|JOIN) ($owned)([^a-z_]|\$)" '
function judge() {
	if (name != "" && text ~ owned && text !~ /tenant_id/ && !excused) {
		print file ": " name " does not say which tenant"
		failed = 1
	}
	name = ""; text = ""; excused = 0
}
FNR == 1 { judge(); pending = 0; file = FILENAME }
/^-- takes:/ { next }
/^-- name:/ { judge(); name = $3; excused = pending; pending = 0; next }
/^--/ { if (text != "") judge(); if (/any tenant: ./ && name != "") excused = 1; else if (/any tenant: ./) pending = 1; next }
{ text = text " " $0 }
END { judge(); exit failed }' sql/queries/*.sql || failed=1
exit $failed
