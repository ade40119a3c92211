#ifndef ADM_LEVEL_ROWS_H
#define ADM_LEVEL_ROWS_H

/* Commands about how much of calls is kept, and to read it.  A part of admin_table.c. */

static const struct adm_arg level_set_args[] = {
	WORD("level", "LEVEL", COMPLETE_NONE, "metadata, request, request_response; or default: as the tenant or the server says."),
	NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose calls."),
	OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "Only calls of this tool, by its own name."), END };
static const struct adm_arg level_list_args[] = { TENANT_MAYBE, END };
static const struct adm_column level_list_cols[] = {
	COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("level", "LEVEL"), COL_END };

static const struct adm_arg audit_payload_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT,
	FLAG("opening", "What proves each value to somebody else: its commitment in the record, and the opening."), END };
static const struct adm_column audit_payload_cols[] = {
	COL("index", "INDEX"), COL("kind", "KIND"), COL("what", "WHAT"), COL("state", "STATE"), COL("value", "VALUE"), COL_END };

#define PAYLOAD_ROW \
	{ .noun = "audit", .verb = "payload", .help = "Show what a call said, decrypted", \
	  .detail = "Arguments, result, the text of an error, the caller's address and client.  STATE is kept, or committed (only " \
		    "the commitment is there), or erased; of an address or a client the pseudonym.  Reading it is recorded.  With " \
		    "an opening somebody else can check a value: HMAC-SHA-256 over \"toolcrib/c/1\", a zero byte, the ctag as two " \
		    "bytes and the value, keyed with the opening, is the commitment.  It says nothing about other records.", \
	  .args = audit_payload_args, .columns = audit_payload_cols, .shape = ADM_TABLE, .role = ADM_PAYLOAD, .where = ADM_ON_POOL, \
	  .record = AUDIT_AUDIT_READ, .check = adm_audit_payload_check, .body = adm_audit_payload_body }

#define LEVEL_ROWS \
	{ .noun = "level", .verb = "set", .help = "Say how much of a tenant's calls is kept", \
	  .detail = "At metadata the records say who, what, when, sizes and outcome, and commit to arguments and results without " \
		    "keeping them.  At request the arguments are kept as well, encrypted; at request_response the result and the " \
		    "text of an error too.  The level of the tool wins over its definition's, that over the tenant's, that over " \
		    "the server's.  A tenant that comes to be recorded less, and a tool or a definition that comes to be below its tenant, " \
		    "need a second administrator: see approval list.", \
	  .args = level_set_args, .done = "%{what} of %{tenant}: level %{level}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, \
	  .where = ADM_ON_WRITER, .check = adm_level_set_check, .body = adm_level_set_body }, \
	{ .noun = "level", .verb = "list", .help = "List how much of calls is kept", .args = level_list_args, \
	  .columns = level_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .check = adm_level_list_check, .body = adm_level_list_body }

#endif
