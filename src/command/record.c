/* Records of commands: each leaves one in the system's log, refused ones as well (AUDIT 3, 1701); what reads the audit
 * leaves one in each log that it read, durable before anything is shown. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "audit/rows.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "limit/limit.h"
#include "writer/writer.h"

#include "command_int.h"

#define PRINCIPAL_PREFIX "principal:"    /* of a subject of the inventory: a name follows */
#define LINE_MAX_BYTES 480              /* of a command's text in its record */

/* --- what the record says of the command */

/* A key that was given where its accessor or a name belongs is a secret (AUDIT A-411). */
static void put_value(struct str *line, const char *name, const json_t *value, bool people)
{
	static const char *const keys[] = { "tck_", ADMIN_KEY_PREFIX };
	const char *text = json_string_value(value);

	if (!text)
		return;
	str_printf(line, " %s=", name);
	if (!people && strncmp(text, PRINCIPAL_PREFIX, sizeof(PRINCIPAL_PREFIX) - 1) == 0) {
		str_puts(line, PRINCIPAL_PREFIX "...");
		return;
	}
	for (size_t i = 0; i < NELEMS(keys); i++) {
		if (strstr(text, keys[i])) {
			str_printf(line, "%s...", keys[i]);
			return;
		}
	}
	str_puts(line, text);
}

static bool is_secret(const struct command_arg *arg)
{
	return arg->type == ARG_FILE || arg->type == ARG_KEYVALUES || arg->type == ARG_JSON || arg->type == ARG_SECRET;
}

static void put_command(struct str *line, const struct command_run *run, bool people)
{
	const struct command *cmd = run->cmd;

	str_printf(line, "%s%s%s", cmd->noun, cmd->verb ? " " : "", cmd->verb ? cmd->verb : "");
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		const json_t *value = json_object_get(run->args, arg->name), *item;
		size_t i;

		if (is_secret(arg) || (!people && strcmp(arg->name, "principal") == 0))
			continue;
		if (json_is_true(value))
			str_printf(line, " %s", arg->name);
		put_value(line, arg->name, value, people);
		json_array_foreach(value, i, item)
			put_value(line, arg->name, item, people);
	}
}

/* "uid 1000: tenant add name=acme", "key ci: ...".  Documents and tool arguments stay out (AUDIT A-411), principals as
 * well: a record names them by their pseudonym. */
void command_record_line(struct command_run *run)
{
	const struct actor *who = &run->c.who;
	struct str line = STR_INIT, asked = STR_INIT;
	char by[ACTOR_SIZE];

	str_printf(&line, "%s%s: ", actor_text(who, by), who->embedded ? " (cli)" : who->visit ? " (console)" : "");
	put_command(&line, run, false);
	if (line.len > LINE_MAX_BYTES) {
		size_t n = LINE_MAX_BYTES;

		while (n > 0 && ((unsigned char)line.p[n] & 0xc0) == 0x80)      /* between characters only */
			n--;
		line.p[n] = '\0';
	}
	run->line = str_take(&line);
	if (run->cmd->second) {
		put_command(&asked, run, true);
		run->asked = str_take(&asked);
	}
}

void command_line_default(struct command_call *c, const char *name, const char *value)
{
	struct command_run *run = command_run_of(c);
	char *line;

	if (arg_given(c, name))
		return;
	line = mem_printf("%s %s=%s", run->line, name, value);
	free(run->line);
	run->line = line;
}

void command_record_event(const struct command_run *run, int kind, int64_t tenant_id, struct audit_event *ev)
{
	audit_event_init(ev, (enum audit_kind)kind, tenant_id);
	ev->actor = run->c.who.system ? AUDIT_BY_SYSTEM : AUDIT_BY_UID;
	ev->authn = run->c.who.system ? AUDIT_AUTHN_NONE : AUDIT_AUTHN_UID;
	ev->tport = run->c.who.system ? 0 : AUDIT_ADMIN_SOCKET;
	if (run->c.who.key) {
		ev->actor = AUDIT_BY_ADMIN;
		ev->authn = AUDIT_AUTHN_KEY;
		ev->tport = AUDIT_TCP;
		ev->cred = run->c.who.name;
		ev->peer = run->c.who.from;
	}
	ev->detail = run->line;
}

/* --- of what a command changed */

/* Kinds whose digests are those of one row; definitions and upstreams have those of their documents. */
static unsigned row_of(int kind)
{
	static const struct { int from, to; enum audit_row_kind row; } rows[] = {
		{ AUDIT_CRED_CREATE, AUDIT_CRED_RESUME, AUDIT_ROW_CRED },
		{ AUDIT_TENANT_CREATE, AUDIT_TENANT_CHANGE, AUDIT_ROW_TENANT },
		{ AUDIT_POLICY_CHANGE, AUDIT_POLICY_CHANGE, AUDIT_ROW_PRINCIPAL },
		{ AUDIT_GRANT_ADD, AUDIT_GRANT_REMOVE, AUDIT_ROW_GRANT },
		{ AUDIT_SECRET_SET, AUDIT_SECRET_REMOVE, AUDIT_ROW_SECRET },
		{ AUDIT_REVIEW_DONE, AUDIT_REVIEW_DONE, AUDIT_ROW_INVENTORY },
		{ AUDIT_INVENTORY_CHANGE, AUDIT_INVENTORY_CHANGE, AUDIT_ROW_INVENTORY },
		{ AUDIT_SYSTEM_CHANGE, AUDIT_SYSTEM_CHANGE, AUDIT_ROW_SYSTEM },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		if (kind >= rows[i].from && kind <= rows[i].to)
			return rows[i].row;
	return 0;
}

void command_event_of(const struct command_call *c, int kind, struct audit_event *ev)
{
	command_record_event(command_run_of(c), kind, 0, ev);
}

int command_record(struct command_call *c, struct db *db, struct audit_logs *logs, const struct command_record *r,
		   struct err *err)
{
	struct audit_field field[AUDIT_FIELDS_MAX];
	struct audit_event ev;

	command_record_event(command_run_of(c), r->kind, r->tenant_id, &ev);
	ev.obj = r->obj;
	ev.before = r->before;
	ev.after = r->after;
	if (r->accessor)
		ev.cred = r->accessor;
	ev.prn = r->prn;
	ev.field = r->field;
	ev.nfield = r->nfield;
	if (r->reason) {        /* both, then: 0113 and 0114 */
		if (r->nfield > 0)
			memcpy(field, r->field, r->nfield * sizeof(*field));
		field[ev.nfield++] = (struct audit_field){ AUDIT_TAG_COMMAND, ev.detail, strlen(ev.detail) };
		ev.field = field;
		ev.detail = r->reason;
	}
	return audit_append_rows(logs, db, &ev, row_of(r->kind), r->ret, err);
}

/* --- of the command itself */

static int outcome_of(int rc)
{
	switch (rc) {
	case 0:
		return AUDIT_OK;
	case ERR_DENIED:
		return AUDIT_DENIED;
	case ERR_INVALID:
	case ERR_NOT_FOUND:
	case ERR_CONFLICT:
	case ERR_LIMIT:
		return AUDIT_INVALID;
	case ERR_RATE:
		return AUDIT_RATE_LIMITED;
	case ERR_BUSY:
		return AUDIT_OVERLOAD;
	case ERR_TIMEOUT:
		return AUDIT_TIMEOUT;
	case ERR_CANCELLED:
		return AUDIT_CANCELLED;
	case ERR_TOOL:
		return AUDIT_TOOL_ERROR;
	default:
		return AUDIT_ABORTED;
	}
}

static void command_event(const struct command_run *run, int rc, struct audit_event *ev)
{
	command_record_event(run, AUDIT_ADMIN_CMD, 0, ev);
	ev->has_outcome = true;
	ev->outcome = outcome_of(rc);
	ev->rule = rc < 0 ? err_name(rc) : NULL;
}

int command_record_done(struct command_run *run, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct audit_field by = { AUDIT_TAG_APPROVER, run->approver, strlen(run->approver) };
	struct audit_event ev;
	char obj[40];

	command_event(run, 0, &ev);
	if (*run->approver) {           /* it is used up with this record */
		(void)snprintf(obj, sizeof(obj), "approval/%" PRId64, run->approval);
		ev.obj = run->approval ? obj : NULL;
		ev.after = run->action;
		ev.field = &by;
		ev.nfield = 1;
	}
	return audit_append_all_rows(logs, db, &ev, 0, err);
}

/* Strangers who try all day must not fill the disk: so many a second are recorded, and how many were not. */
static bool may_record(struct commands *a, int rc)
{
	uint32_t retry_ms;

	if (rc != ERR_DENIED)
		return true;
	if (limit_bucket_take(&a->refused, (struct text_rate){ ADM_REFUSED_PER_S, 1 }, clock_mono_us(), &retry_ms) == 0)
		return true;
	a->unrecorded++;
	return false;
}

static int submit(struct command_run *run, writer_audit_fn *done)
{
	struct commands *a = run->c.admin;
	struct audit_event ev;
	uint8_t unrecorded[8];
	const struct audit_field counts = { AUDIT_TAG_COUNTS, unrecorded, sizeof unrecorded };
	int rc;

	command_event(run, run->rc, &ev);
	audit_put_be(unrecorded, a->unrecorded, sizeof unrecorded);
	ev.field = &counts;
	ev.nfield = a->unrecorded > 0;
	rc = writer_audit(a->env.writer, &ev, done, run);
	if (rc == 0)
		a->unrecorded = 0;
	return rc;
}

static void end_recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct command_run *run = arg;

	(void)receipt;
	/* It has happened, so it is kept until it can be written (AUDIT A-225: who only looks is served meanwhile). */
	if (rc < 0 && !run->c.admin->closed && submit(run, NULL) < 0)
		log_warn(NULL, "a command could not be recorded command=\"%s\"", run->line ? run->line : "");
	run->ended(run);
}

void command_record_end(struct command_run *run, void (*ended)(struct command_run *run))
{
	struct commands *a = run->c.admin;

	run->ended = ended;
	if (run->recorded || a->closed || !a->env.writer || run->cmd->storeless || !may_record(a, run->rc))
		ended(run);
	else if (submit(run, end_recorded) < 0)
		end_recorded(run, ERR_AUDIT, NULL);
}

/* --- of what was read */

void command_record_in(struct command_call *c, int64_t tenant_id)
{
	command_run_of(c)->record_tenant = tenant_id;
}

static struct command_seen *seen_in(struct command_run *run, int64_t tenant_id)
{
	for (size_t i = run->nseen; i > 0; i--)
		if (run->seen[i - 1].tenant_id == tenant_id)
			return &run->seen[i - 1];
	if (run->nseen == ADM_SEEN_MAX)
		return NULL;
	run->seen = mem_realloc(run->seen, (run->nseen + 1) * sizeof(*run->seen));
	run->seen[run->nseen] = (struct command_seen){ .tenant_id = tenant_id, .from = INT64_MAX };
	return &run->seen[run->nseen++];
}

void command_seen(struct command_call *c, int64_t tenant_id, int64_t idx)
{
	struct command_seen *s = seen_in(command_run_of(c), tenant_id);

	if (!s) {
		s = seen_in(command_run_of(c), 0);  /* too many: the system's log speaks for the rest */
		idx = -1;
	}
	if (!s || idx < 0)
		return;
	s->rows++;
	if (idx < s->from)
		s->from = idx;
	if (idx >= s->to)
		s->to = idx + 1;
}

void command_seen_span(struct command_call *c, int64_t tenant_id, int64_t from, int64_t to, uint64_t rows)
{
	struct command_seen *s = seen_in(command_run_of(c), tenant_id);

	if (!s) {
		s = seen_in(command_run_of(c), 0);
		to = 0;
	}
	if (!s || from >= to)
		return;
	s->rows += rows;
	s->from = from < s->from ? from : s->from;
	s->to = to > s->to ? to : s->to;
}

static int exit_status(const struct command_run *run)
{
	/* The last row of a verification is its sum. */
	if (run->c.status || run->cmd->shape != ADM_FINDINGS || run->record == AUDIT_AUDIT_VERIFY)
		return run->c.status;
	return run->out.rows > 0 ? ADM_STATUS_FINDINGS : 0;
}

static void read_recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct command_run *run = arg;

	(void)receipt;
	if (rc < 0)
		run->reads_rc = rc;
	if (--run->reads_out == 0)
		run->reads_done(run, run->c.admin->closed ? ERR_CANCELLED : run->reads_rc);
}

static const char *result_of(int status)
{
	return status == 0 ? "INTACT" : status == ADM_STATUS_GAPS ? "INCOMPLETE" : "DAMAGED";
}

static int record_read(struct command_run *run, const struct command_seen *s, const uint8_t digest[DIGEST_SIZE])
{
	uint8_t range[16], counts[8];
	const char *result = run->how ? run->result : result_of(exit_status(run));
	const struct audit_field fields[] = {
		{ AUDIT_TAG_RANGE, range, sizeof range }, { AUDIT_TAG_BUNDLE, digest, DIGEST_SIZE },
		{ AUDIT_TAG_COUNTS, counts, sizeof counts }, { AUDIT_TAG_RESULT, result, strlen(result) },
	};
	bool ranged = s->from < s->to;
	struct audit_event ev;

	command_record_event(run, run->record, s->tenant_id, &ev);
	audit_put_be(range, (uint64_t)s->from, 8);
	audit_put_be(range + 8, (uint64_t)s->to, 8);
	audit_put_be(counts, ranged ? s->rows : run->out.rows, 8);
	ev.field = ranged ? fields : fields + 1;
	ev.nfield = (ranged ? 3 : 2) + (run->how || run->record == AUDIT_AUDIT_VERIFY);
	if (run->how)
		ev.detail = run->how;
	ev.has_xstat = true;
	ev.xstat = exit_status(run);
	return writer_audit(run->c.admin->env.writer, &ev, read_recorded, run);
}

static void record_reads(struct command_run *run, const uint8_t digest[DIGEST_SIZE],
			 void (*done)(struct command_run *run, int rc))
{
	int rc = 0;

	run->reads_done = done;
	run->reads_rc = 0;
	run->reads_out = 1;             /* held until all are submitted: one may fail at once */
	for (size_t i = 0; i < run->nseen && rc == 0; i++) {
		run->reads_out++;
		rc = record_read(run, &run->seen[i], digest);
		if (rc < 0)
			run->reads_out--;
	}
	read_recorded(run, rc, NULL);
}

void command_record_reads(struct command_run *run, void (*done)(struct command_run *run, int rc))
{
	uint8_t digest[DIGEST_SIZE];

	if (run->c.admin->closed) {
		done(run, ERR_CANCELLED);
		return;
	}
	if (run->nseen == 0)
		(void)seen_in(run, run->record_tenant);
	digest_sha256(str_text(&run->out.text), run->out.text.len, digest);
	record_reads(run, digest, done);
}

void command_record_told(struct command_run *run, const struct command_told *told,
			 void (*done)(struct command_run *run, int rc))
{
	struct str how = STR_INIT;

	if (run->c.admin->closed || run->how) {
		done(run, ERR_CANCELLED);
		return;
	}
	str_printf(&how, "%s: %s, %" PRIu64 " row%s", run->line, told->how, told->rows, told->rows == 1 ? "" : "s");
	run->how = str_take(&how);
	run->result = told->how;
	run->out.rows = told->rows;
	record_reads(run, told->digest, done);
}
