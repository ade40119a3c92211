/* All commands there are: their tables in the order in which help and toolcrib(8) list them.  The one place that
 * knows every room of commands; the frame and the program toolcrib are handed the list. */
#include "config.h"

#include "app/app.h"

#include "command/approval.h"
#include "command/command.h"
#include "documents/documents.h"
#include "keeping/keeping.h"
#include "people/people.h"
#include "remote/remote.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "app_int.h"

const struct command *const app_commands[] = {
	server_commands,
	tenant_commands,
	principal_commands,
	key_make_commands,
	key_list_commands,
	key_commands,
	tool_commands,
	tool_history_commands,
	version_commands,
	test_commands,
	pending_commands,
	schema_commands,
	hosted_commands,
	secret_commands,
	grant_commands,
	upstream_commands,
	sync_commands,
	upstream_remove_commands,
	apply_commands,
	export_commands,
	import_commands,
	call_commands,
	show_commands,
	payload_commands,
	report_commands,
	tool_health_commands,
	review_commands,
	tail_commands,
	stats_commands,
	proof_commands,
	verify_commands,
	drill_commands,
	sign_commands,
	bundle_commands,
	approval_commands,
	versions_policy_commands,
	hold_commands,
	retention_commands,
	prune_commands,
	compact_commands,
	erase_commands,
	level_commands,
	limit_commands,
	session_commands,
	NULL,
};
