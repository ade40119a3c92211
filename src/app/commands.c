/* All commands there are: their tables in the order in which help and toolcrib(8) list them.  The one place that
 * knows every room of commands; the frame and the program toolcrib are handed the list. */
#include "config.h"

#include <string.h>

#include "app/app.h"

#include "alert/alert.h"
#include "base/mem.h"
#include "command/approval.h"
#include "command/command.h"
#include "command/visit.h"
#include "documents/documents.h"
#include "inventory/inventory.h"
#include "keeping/keeping.h"
#include "people/people.h"
#include "remote/remote.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "app_int.h"

const struct command *const app_commands[] = {
	server_commands,
	top_commands,
	sink_commands,
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
	grant_commands, who_commands,
	upstream_commands,
	sync_commands,
	upstream_remove_commands,
	system_commands,
	inventory_commands, inventory_review_commands,
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
	daily_commands,
	drill_commands,
	sign_commands,
	bundle_commands,
	approval_commands,
	versions_policy_commands,
	hold_commands,
	retention_commands,
	prune_commands,
	compact_commands,
	seal_commands, archive_commands,
	restore_commands, tested_commands,
	escrow_commands,
	erase_commands,
	level_commands, task_commands, pdp_commands, approve_commands,
	limit_commands,
	session_commands, node_commands, console_commands,
	alert_commands,
	NULL,
};

struct reports *app_reports_new(struct app *a)
{
	static const char *const classes[] = { [SERVED_IDLE] = "idle", [SERVED_BATCH] = "batch", [SERVED_NORMAL] = "normal" };
	const struct conf *conf = a->opt.conf ? a->opt.conf : a->opt.tools;
	struct reports_opt opt = {
		.store = a->store, .at_once = conf ? conf->admin_reports : REPORTS_AT_ONCE,
		.bounds = { .memory = (uint64_t)(conf ? conf->report_memory_mib : REPORT_MEMORY_MIB) << 20,
			    .temp = (uint64_t)(conf ? conf->report_temp_mib : REPORT_TEMP_MIB) << 20,
			    .class = SERVED_IDLE, .landlock = a->sandbox.best.landlock, .archive = app_archive(a) },
	};

	for (size_t i = 0; conf && i < NELEMS(classes); i++)
		if (strcmp(conf->report_class, classes[i]) == 0)
			opt.bounds.class = (enum served_class)i;
	a->reports = reports_new(a->loop, &opt);
	if (conf && conf->console_listen && a->opt.profile == APP_DAEMON) {
		opt.at_once = conf->console_reporters;
		opt.bounds.class = SERVED_PAGE;
		a->paged = reports_new(a->loop, &opt);
	}
	return a->reports;
}

struct daily *app_daily_new(struct app *a)
{
	if (a->opt.profile != APP_DAEMON)
		return NULL;
	return a->daily = daily_new(a->loop, &(struct daily_opt){ .store = a->store, .writer = a->writer,
		.at = a->opt.conf->verify_at, .landlock = a->sandbox.best.landlock,
		.archive = app_archive(a) });
}

void app_commands_free(struct app *a)
{
	commands_free(&a->admin);
	jobs_free(&a->jobs);
	reports_free(&a->reports);
	reports_free(&a->paged);
	visits_free(&a->visits);
	daily_free(&a->daily);
}
