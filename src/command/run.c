/* One running command: role, arguments, thread, record, effect, reply, in this order and for every row of the
 * table.  What a command does stands in adm_<noun>.c. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "assent/assent.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "command/command.h"
#include "command/rows.h"
#include "db/db.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "json/json.h"
#include "mcp/mcp.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "command_int.h"

struct command_run *command_run_of(const struct command_call *c)
{
	return CONTAINER_OF((struct command_call *)(uintptr_t)c, struct command_run, c);
}

struct commands *commands_new(const struct command_env *env)
{
	struct commands *a = mem_zalloc(sizeof(*a));

	a->env = *env;
	a->refs = 1;
	a->reader[0] = env->reader;
	list_init(&a->streams);
	list_init(&a->running);
	return a;
}

const struct command_env *command_env(const struct command_call *c)
{
	return &c->admin->env;
}

const struct command_env *commands_env(const struct commands *a)
{
	return &a->env;
}

bool commands_closed(const struct commands *a)
{
	return a->closed;
}

void commands_ref(struct commands *a)
{
	a->refs++;
}

void commands_unref(struct commands *a)
{
	if (--a->refs == 0)
		free(a);
}

static void command_streams_close(struct commands *a);

void commands_free(struct commands **ap)
{
	struct commands *a = ap ? *ap : NULL;

	if (!a)
		return;
	*ap = NULL;
	a->closed = true;
	if (a->env.writer)
		writer_share_start(a->env.writer, NULL, NULL);
	command_streams_close(a);
	for (size_t i = 0; i < NELEMS(a->reader); i++)
		db_close(&a->reader[i]);
	commands_unref(a);
}

const struct command_arg no_args[] = { { .name = NULL } };

const struct command *command_next(const struct command *const *tables, const struct command *cmd)
{
	if (!cmd)
		return *tables && (*tables)->noun ? *tables : NULL;
	if (cmd[1].noun)
		return cmd + 1;
	for (; *tables; tables++) {
		for (const struct command *row = *tables; row->noun; row++) {
			if (row == cmd)
				return tables[1];
		}
	}
	return NULL;
}

const struct command *command_find(const struct command *const *tables, const char *noun, const char *verb)
{
	for (const struct command *cmd = NULL; (cmd = command_next(tables, cmd)) != NULL;) {
		if (strcmp(cmd->noun, noun) != 0)
			continue;
		if (!cmd->verb || (verb && strcmp(cmd->verb, verb) == 0))
			return cmd;
	}
	return NULL;
}

/* --- the end */

static void forget_changes(struct command_run *run)
{
	while (run->nchange > 0)
		reg_change_free(&run->change[--run->nchange]);
	while (run->nimage > 0)
		tenant_image_free(&run->image[--run->nimage]);
}

static void run_free(struct command_run *run)
{
	struct commands *a = run->c.admin;

	if (run->c.free_priv)
		run->c.free_priv(run->c.priv);
	forget_changes(run);
	free(run->change);
	free(run->image);
	free(run->told);
	free(run->seen);
	free(run->how);
	free(run->line);
	free(run->asked);
	free(run->agreed);
	command_pieces_free(&run->pieces);
	if (run->out.text.secret)
		str_wipe(&run->out.text);
	str_fini(&run->out.text);
	while (run->nfiles > 0) {
		close(run->files[--run->nfiles].fd);
		free(run->files[run->nfiles].path);
	}
	free(run->files);
	jx_wipe(&run->args);            /* a value of a secret, whatever became of the command */
	free(run);
	commands_unref(a);
}

static void run_reply(void *arg)
{
	struct command_run *run = arg;

	run->reply(run->arg, &run->out.text, run->rc < 0 ? &run->err : NULL);
	run_free(run);
}

static void run_reply_soon(struct command_run *run)
{
	ev_defer(run->c.admin->env.loop, run_reply, run);
}

static void run_end(struct command_run *run, int rc)
{
	char who[ACTOR_SIZE];

	list_unlink(&run->running);
	run->rc = rc;
	if (rc < 0)
		log_info(NULL, "admin command refused command=\"%s%s%s\" by=\"%s\" error=%s why=\"%s\"", run->cmd->noun,
			 run->cmd->verb ? " " : "", run->cmd->verb ? run->cmd->verb : "", actor_text(&run->c.who, who), err_name(rc),
			 run->err.msg);
	command_record_end(run, run_reply_soon);
}

void command_ended(struct command_call *c, const struct err *err)
{
	struct command_run *run = command_run_of(c);

	if (err)
		run->err = *err;
	run_end(run, err ? (int)err->code : 0);
}

void command_finish(struct command_call *c, const struct err *err)
{
	struct command_run *run = command_run_of(c);

	if (err)
		run->err = *err;
	if (!err && run->cmd->after && !c->admin->closed)
		run->cmd->after(c);
	run_end(run, err ? (int)err->code : 0);
}

/* --- the effect: what is durable now is shown now, and told, before anybody hears "done" (product.md 11) */

static void note_told(void *arg, const struct reg_news *news)
{
	struct command_run *run = arg;
	size_t i = 0;

	while (i < run->ntold && run->told[i].tenant_id != news->tenant_id)
		i++;
	if (i == run->ntold) {
		run->told = mem_realloc(run->told, (run->ntold + 1) * sizeof(*run->told));
		run->told[run->ntold++] = *news;
		return;
	}
	memcpy(run->told[i].generation, news->generation, sizeof(news->generation));
	for (size_t f = 0; f < REG_FAMILIES; f++)
		run->told[i].differs[f] |= news->differs[f];
}

static void apply(struct command_run *run)
{
	const struct command_env *env = &run->c.admin->env;

	for (size_t i = 0; i < run->nimage; i++) {
		int64_t tenant_id = tenant_image_id(run->image[i]);

		tenants_apply(env->tenants, &run->image[i]);
		if (env->mcp)
			mcp_recheck(env->mcp, tenant_id);
	}
	for (size_t i = 0; i < run->nchange; i++)
		reg_apply(env->registry, &run->change[i], note_told, run);
	if (env->assents && run->nchange > 0)
		assents_look(env->assents);
	if (!env->mcp)
		return;
	for (size_t i = 0; i < run->ntold; i++)
		(void)mcp_changed(env->mcp, &run->told[i], run->line);
}

/* What was read is a record in the log it was read from before anybody sees it (AUDIT A-304). */
static void reads_recorded(struct command_run *run, int rc)
{
	if (rc < 0) {
		str_reset(&run->out.text);
		run->out.rows = 0;
		writer_refused(run->c.admin->env.writer, rc, "no record could be written of what was read, nothing is shown",
			       &run->err);
	}
	run_end(run, rc);
}

static bool is_read(const struct command_run *run)
{
	return run->record == AUDIT_AUDIT_READ || run->record == AUDIT_AUDIT_EXPORT || run->record == AUDIT_AUDIT_VERIFY;
}

static void run_done(struct command_run *run, int rc)
{
	if (rc == 0 && !run->c.admin->closed) {
		apply(run);
		if (run->cmd->after)
			run->cmd->after(&run->c);
		if (run->c.later)
			return;
	}
	if (rc == 0 && is_read(run))
		command_record_reads(run, reads_recorded);
	else
		run_end(run, rc);
}

/* --- the three places where a body runs */

/* The arguments go with the body: to nobody while it waits for its turn, then to its thread, back to the loop
 * at its end. */
static void own_args(struct command_run *run)
{
	run->owner = pthread_self();
	run->owned = true;
}

void command_lend(const struct command_call *c)
{
	const struct command_run *run = c ? command_run_of(c) : NULL;

	path_lend(run ? run->files : NULL, run ? run->nfiles : 0);
}

static int answer_too_large(struct command_run *run, struct err *err)
{
	str_reset(&run->out.text);
	run->out.rows = 0;
	metric_inc(METRIC_admin_answer_too_large);
	(void)err_set(err, ERR_LIMIT, "", "the answer is larger than %zu MiB (admin.answer_max)",
		      run->c.admin->env.answer_max >> 20);
	err_hint(err, "ask for less: --since and --until, --limit, --tenant");
	return ERR_LIMIT;
}

/* What a body says is bounded: a change that says too much is undone, a report is not sent in part. */
static int body_of(struct command_run *run, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc;

	command_lend(&run->c);
	rc = run->cmd->body(&run->c, db, logs, err);
	command_lend(NULL);
	if (rc < 0 || !reply_full(&run->out))
		return rc;
	return answer_too_large(run, err);
}

/* From now on it can be seen and cancelled. */
static void begin_running(struct command_run *run)
{
	struct commands *a = run->c.admin;

	run->id = a->env.mcp ? mcp_next_id(a->env.mcp) : ++a->serial;
	run->since_us = clock_wall_us();
	list_push_back(&a->running, &run->running);
}

static void command_stream_wait(struct command_run *run, uint64_t us);

static void run_on_loop(struct command_run *run)
{
	int rc;

	if (run->cmd->stream) {         /* no part before command_run() has returned */
		command_stream_wait(run, 0);
		return;
	}
	if (run->cmd->cancel)
		begin_running(run);
	rc = run->cmd->body ? body_of(run, NULL, NULL, &run->err) : 0;
	if (rc < 0 || !run->c.later)
		run_done(run, rc);
}

static void pool_body(void *arg)
{
	struct command_run *run = arg;

	own_args(run);
	run->rc = 0;
	run->c.more = ADM_NO_MORE;
	if (!run->db)
		run->rc = db_open_store(db_in(run->c.admin->env.store), &run->db, &run->err);
	if (run->rc == 0)
		run->rc = forms_see(run->db, &run->err);
	if (run->rc == 0)
		run->rc = body_of(run, run->db, NULL, &run->err);
}

static void command_stream_part(struct command_run *run, int rc);

static void pool_done(void *arg)
{
	struct command_run *run = arg;
	struct commands *a = run->c.admin;

	own_args(run);
	for (size_t i = 0; i < NELEMS(a->reader) && run->db && !a->closed; i++) {
		if (!a->reader[i]) {
			a->reader[i] = run->db;
			run->db = NULL;
		}
	}
	db_close(&run->db);
	if (run->cmd->stream)
		command_stream_part(run, run->rc);
	else
		run_done(run, run->rc);
}

static int run_on_pool(struct command_run *run)
{
	struct commands *a = run->c.admin;
	int rc;

	for (size_t i = 0; i < NELEMS(a->reader) && !run->db; i++) {
		run->db = a->reader[i];
		a->reader[i] = NULL;
	}
	run->owned = false;
	rc = ev_work(a->env.loop, EV_LANE_READ, pool_body, pool_done, run);
	if (rc < 0)
		own_args(run);
	return rc;
}

static int command_stream_body(struct command_run *run)
{
	if (run->cmd->where != ADM_ON_LOOP)
		return run_on_pool(run);
	run->c.more = ADM_NO_MORE;
	command_stream_part(run, body_of(run, NULL, NULL, &run->err));
	return 0;
}

static void command_stream_end(struct command_run *run);

/* admin.c: ask for the next part; ERR_BUSY.  And: the command has ended. */
static void command_stream_done(struct command_run *run, int rc)
{
	command_stream_end(run);
	run_end(run, rc);
}

static int writer_body(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct command_run *run = arg;
	bool ask = run->cmd->second == ADM_SECOND_ALWAYS && !run->c.undo;
	int rc;

	own_args(run);
	run->logs = logs;
	rc = ask ? approval_require(&run->c, db, err) : 0;
	if (rc == 0)
		rc = body_of(run, db, logs, err);
	if (rc == 0 && run->unapproved) {
		approval_refuse(run, err);
		return ERR_DENIED;
	}
	if (rc == 0 && run->c.undo)
		return ERR_CANCELLED;
	return rc < 0 ? rc : command_record_done(run, db, logs, err);
}

/* What was done without a second administrator is undone; now the request for one is filed. */
static int file_body(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	return approval_file(arg, db, logs, err);
}

static void filed(void *arg, int rc, const struct err *err)
{
	struct command_run *run = arg;

	if (rc < 0 && err)
		run->err = *err;
	if (rc == 0)
		approval_refuse(run, &run->err);
	run_end(run, rc < 0 ? rc : ERR_DENIED);
}

static bool ask_second(struct command_run *run)
{
	/* A request that waits already needs no record. */
	const struct writer_job job = { .name = "approval", .run = file_body, .volatile_only = true, .done = filed };

	return run->unapproved && !run->c.admin->closed && writer_submit(run->c.admin->env.writer, &job, run) == 0;
}

static void writer_done(void *arg, int rc, const struct err *err)
{
	struct command_run *run = arg;

	own_args(run);
	run->recorded = rc == 0;
	if (rc == ERR_CANCELLED && run->c.undo) {
		forget_changes(run);
		run_done(run, 0);
		return;
	}
	if (rc < 0 && err)
		run->err = *err;
	if (rc < 0) {           /* what it said was done has been undone */
		str_reset(&run->out.text);
		run->out.rows = 0;
	}
	if (rc == ERR_DENIED && ask_second(run))
		return;
	run_done(run, rc);
}

static int run_on_writer(struct command_run *run)
{
	const struct writer_job job = { .name = run->cmd->noun, .run = writer_body, .patient = run->cmd->pieces,
		.done = writer_done };
	int rc;

	run->owned = false;
	rc = writer_submit(run->c.admin->env.writer, &job, run);
	if (rc < 0)
		own_args(run);
	return rc;
}

static void run_body(struct command_run *run)
{
	int rc = 0;

	if (run->cmd->gather && !run->gathered) {
		run->gathering = true;
		run->cmd->gather(&run->c);
		return;
	}
	switch (run->cmd->where) {
	case ADM_ON_LOOP:
		run_on_loop(run);
		return;
	case ADM_ON_POOL:
		rc = run_on_pool(run);
		break;
	case ADM_ON_WRITER:
		rc = run_on_writer(run);
		break;
	case ADM_ON_CTL:
	case ADM_ELSEWHERE:
		rc = err_set(&run->err, ERR_INVALID, "", "%s is a matter of the toolcrib program alone", run->cmd->noun);
		run_end(run, rc);
		return;
	}
	if (rc < 0) {
		writer_refused(run->c.admin->env.writer, rc, "nothing was done", &run->err);
		run_end(run, rc);
	}
}

/* --- what another process answers */

int command_room(struct command_call *c)
{
	struct command_run *run = command_run_of(c);

	return run->left ? -1 : run->sink ? run->sink->room(run->arg) : 1;
}

/* Where nobody takes parts they are the reply, which is bounded. */
void command_part(struct command_call *c, const struct str *lines)
{
	struct command_run *run = command_run_of(c);

	if (run->sink)
		run->sink->part(run->arg, lines);
	else
		str_put(&run->out.text, lines->p, lines->len);
}

int command_still_may(struct command_call *c, struct err *err)
{
	return actor_check(command_run_of(c), err);
}

/* It was shown, so it is an end in any case; the first record names the question. */
static void told_recorded(struct command_run *run, int rc)
{
	if (rc < 0 && !run->c.admin->closed)
		log_warn(NULL, "what a report has shown could not be recorded command=\"%s\"", run->line);
	if (run->rc == 0 && reply_full(&run->out))
		run->rc = answer_too_large(run, &run->err);
	run_end(run, run->rc);
}

void command_told(struct command_call *c, const struct command_told *told, const struct err *err)
{
	struct command_run *run = command_run_of(c);

	list_unlink(&run->running);     /* nobody cancels it any more */
	if (err)
		run->err = *err;
	run->rc = err ? (int)err->code : 0;
	command_record_told(run, told, told_recorded);
}

static void run_elsewhere(struct command_run *run)
{
	struct command_told none = { .how = "cancelled" };
	int rc;

	digest_sha256("", 0, none.digest);
	begin_running(run);
	if (run->left) {
		rc = err_set(&run->err, ERR_CANCELLED, "", "whoever gave it has hung up");
	} else {
		rc = run->c.elsewhere->start(&run->c, &run->err);
		none.how = "failed";
	}
	if (rc < 0) {
		struct err err = run->err;

		command_told(&run->c, &none, &err);
	}
}

/* What a stream reads is recorded once, at its beginning. */
static void stream_recorded(struct command_run *run, int rc)
{
	if (rc < 0)
		writer_refused(run->c.admin->env.writer, rc, "no record could be written of what is read, nothing is shown",
			       &run->err);
	if (rc < 0)
		run_end(run, rc);
	else if (run->c.elsewhere)
		run_elsewhere(run);
	else
		run_body(run);
}

void command_gathered(struct command_call *c, const struct err *err)
{
	struct command_run *run = command_run_of(c);

	run->gathered = true;
	run->gathering = false;
	if (!err && !c->admin->closed) {
		run_body(run);
		return;
	}
	if (err)
		run->err = *err;
	else
		(void)err_set(&run->err, ERR_CANCELLED, "", "the server is stopping; nothing was done");
	run_end(run, run->err.code);
}

/* One of those that are running. */
static void cancel(struct command_run *run, bool stopped)
{
	(run->c.elsewhere ? run->c.elsewhere->cancel : run->cmd->cancel)(&run->c, stopped);
}

void command_hang_up(struct command_call *c)
{
	struct command_run *run = command_run_of(c);

	run->left = true;
	if (run->expects) {
		run->expects = false;
		run_end(run, err_set(&run->err, ERR_CANCELLED, "",
				     "whoever gave it has hung up before all was there; nothing was done"));
		return;
	}
	if (c->admin->closed)
		return;
	if (!list_empty(&run->running))
		cancel(run, false);
	if (!run->gathering || !run->cmd->ungather)
		return;
	run->gathering = false;
	run->cmd->ungather(c);
	metric_inc(METRIC_admin_commands_left);
	run_end(run, err_set(&run->err, ERR_CANCELLED, "", "whoever gave it has hung up; nothing was done"));
}

/* --- those that run and can be cancelled */

static bool is_of(const struct command_run *run, const char *tenant)
{
	const char *name = arg_text(&run->c, "tenant");

	return !tenant || (name && strcmp(name, tenant) == 0);
}

void commands_running(const struct commands *a, const char *tenant, command_view_fn *fn, void *arg)
{
	LIST_FOREACH(n, &a->running) {
		const struct command_run *run = CONTAINER_OF(n, struct command_run, running);
		const char *name = arg_text(&run->c, "tenant"), *principal = arg_text(&run->c, "principal");

		if (is_of(run, tenant))
			fn(arg, &(struct command_view){ run->id, name, name && !principal ? "default" : principal, run->line,
							run->since_us });
	}
}

bool commands_cancel(const struct commands *a, const char *tenant, uint64_t id)
{
	LIST_FOREACH_SAFE(n, tmp, &a->running) {
		struct command_run *run = CONTAINER_OF(n, struct command_run, running);

		if (run->id != id || !is_of(run, tenant))
			continue;
		cancel(run, true);
		return true;
	}
	return false;
}

/* A line among those of rows, so to whoever knows it alone; a peer that is slow does without. */
void command_progress(struct command_call *c, double done, double total, const char *note)
{
	struct command_run *run = command_run_of(c);
	struct str line = STR_INIT;

	if (c->admin->closed || !run->sink || !arg_flag(c, "progress") || run->sink->room(run->arg) <= 0)
		return;
	str_printf(&line, "{\"progress\":{\"done\":%.15g", done);
	if (total >= 0)
		str_printf(&line, ",\"total\":%.15g", total);
	if (note) {
		str_puts(&line, ",\"message\":");
		jx_write_stringz(&line, note);
	}
	str_puts(&line, "}}\n");
	run->sink->part(run->arg, &line);
	str_fini(&line);
}

/* --- the record of rows that run something: durable first, then the work */

static void record_done(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct command_run *run = arg;

	(void)receipt;
	if (run->c.admin->closed || (run->left && run->cmd->cancel))
		rc = ERR_CANCELLED;
	if (rc < 0) {
		writer_refused(run->c.admin->env.writer, rc, "no record could be written, nothing was done", &run->err);
		run_end(run, rc);
		return;
	}
	run_body(run);
}

reg_bind_fn *command_bind(const struct command_call *c)
{
	return c->admin->env.bind;
}

const char *command_noun(const struct command_call *c)
{
	return command_run_of(c)->cmd->noun;
}

const char *command_verb(const struct command_call *c)
{
	return command_run_of(c)->cmd->verb;
}

const char *command_line(const struct command_call *c)
{
	return command_run_of(c)->line;
}

void command_record_as(struct command_call *c, int kind)
{
	command_run_of(c)->record = kind;
}

/* --- what a body notes for apply() */

static int note_change(struct command_call *c, int rc, struct reg_change *change)
{
	struct command_run *run = command_run_of(c);

	if (rc < 0)
		return rc;
	run->change = mem_realloc(run->change, (run->nchange + 1) * sizeof(struct reg_change *));
	run->change[run->nchange++] = change;
	return 0;
}

int command_changed_tools(struct command_call *c, struct db *db, const int64_t *ids, size_t n, struct err *err)
{
	struct reg_change *change = NULL;
	int rc = reg_change_tools(db, ids, n, &change, err);

	return note_change(c, rc, change);
}

int command_changed_schema(struct command_call *c, struct db *db, const char *uri, struct err *err)
{
	struct reg_change *change = NULL;
	int rc = reg_change_schema(db, uri, &change, err);

	return note_change(c, rc, change);
}

int command_changed_tenant(struct command_call *c, struct db *db, int64_t tenant_id, struct err *err)
{
	struct reg_change *change = NULL;
	int rc = reg_change_tenant(db, tenant_id, &change, err);

	return note_change(c, rc, change);
}

int command_changed_people(struct command_call *c, struct db *db, int64_t tenant_id, struct err *err)
{
	struct command_run *run = command_run_of(c);
	struct tenant_image *image = NULL;
	int rc = tenant_image_load(db, tenant_id, &image, err);

	if (rc < 0)
		return rc;
	run->image = mem_realloc(run->image, (run->nimage + 1) * sizeof(struct tenant_image *));
	run->image[run->nimage++] = image;
	return 0;
}

/* --- the beginning */

static int prepare(struct command_run *run, const struct command_req *req)
{
	struct commands *a = run->c.admin;
	int rc = actor_check(run, &run->err);

	if (rc == 0)
		rc = command_args_check(run->cmd, req->args, &run->err);
	if (rc < 0)
		return rc;
	if (!run->cmd->storeless && !run->cmd->store_if_any && !a->env.writer)
		return err_set(&run->err, ERR_INTERNAL, "", "no store");
	command_lend(&run->c);
	rc = run->cmd->check ? run->cmd->check(&run->c, &run->err) : 0;
	command_lend(NULL);
	return rc;
}

static const struct command unknown_cmd = { .noun = "unknown" };

/* The first piece, or all there is. */
static int take_first(struct command_run *run, const struct command_req *req)
{
	if (!run->cmd->pieces)
		return req->more ? err_set(&run->err, ERR_INVALID, "", "%s takes no documents in pieces", run->cmd->noun) : 0;
	run->expects = req->more;
	return command_pieces_take(run, json_object_get(run->args, "documents"), req->more);
}

/* All that was asked is here and checked, unless rc says otherwise. */
static void begin(struct command_run *run, int rc)
{
	struct commands *a = run->c.admin;
	struct audit_event ev;

	if (rc == 0 && run->cmd->stream && !run->c.elsewhere && !run->sink)
		rc = err_set(&run->err, ERR_INVALID, "", "%s%s%s answers in parts, which nobody takes here", run->cmd->noun,
			     run->cmd->verb ? " " : "", run->cmd->verb ? run->cmd->verb : "");
	if (rc == 0 && (run->cmd->stream || run->c.elsewhere) && is_read(run)) {
		command_record_reads(run, stream_recorded);
		return;
	}
	if (rc == 0 && run->record == AUDIT_ADMIN_CMD) {
		command_record_event(run, AUDIT_ADMIN_CMD, run->record_tenant, &ev);
		rc = writer_audit(a->env.writer, &ev, record_done, run);
		if (rc == 0)
			return;
		(void)err_set(&run->err, (enum err_code)rc, "", "no record could be written; nothing was done");
	}
	if (rc < 0)
		run_end(run, rc);
	else
		run_body(run);
}

struct command_call *command_run(struct commands *a, const struct command_req *req, command_reply_fn *reply, void *arg)
{
	struct command_run *run = mem_zalloc(sizeof(*run));
	int rc;

	a->refs++;
	run->cmd = req->cmd ? req->cmd : command_find(a->env.tables, req->noun, req->verb);
	run->reply = reply;
	run->arg = arg;
	run->sink = req->sink;
	run->args = req->args;
	run->files = req->files;
	run->nfiles = req->nfiles;
	own_args(run);
	list_init(&run->running);
	str_init(&run->out.text, a->env.answer_max);
	run->c = (struct command_call){ .admin = a, .who = req->who, .args = req->args, .out = &run->out };
	if (!run->cmd)
		run->cmd = &unknown_cmd;
	run->out.text.secret = run->cmd->shape == ADM_SECRET;
	command_record_line(run);
	if (run->cmd == &unknown_cmd)
		rc = err_set(&run->err, ERR_NOT_FOUND, "", "command %s %s: not found", req->noun, req->verb ? req->verb : "");
	else {
		run->record = run->cmd->record;
		rc = prepare(run, req);
	}
	if (rc == 0)
		rc = take_first(run, req);
	if (rc == 0 && run->expects)
		return &run->c;
	begin(run, rc);
	return &run->c;
}

void command_piece(struct command_call *c, const json_t *documents, bool more)
{
	struct command_run *run = command_run_of(c);
	int rc;

	if (!run->expects)
		return;
	if (!documents) {
		command_hang_up(c);
		return;
	}
	rc = command_pieces_take(run, documents, more);
	if (rc == 0 && !more)           /* a reload may have taken the role away meanwhile */
		rc = actor_check(run, &run->err);
	run->expects = rc == 0 && more;
	if (!run->expects)
		begin(run, rc);
}

/* Commands that answer in parts: the body is asked again while it has more to say and somebody listens, with a pause
 * when there is nothing new or the listener is slow.  What is read is recorded once, before the first part (AUDIT
 * */

#define IDLE_US 250000                  /* until a feed that follows looks again */
#define SLOW_US 20000                   /* until a full listener is asked again */

static void drop_timer(struct command_run *run)
{
	list_unlink(&run->streams);
	ev_timer_free(&run->timer);
}

/* there will be no further one */
static void command_stream_end(struct command_run *run)
{
	if (run->timer)
		drop_timer(run);
}

static void go_on(void *arg)
{
	struct command_run *run = arg;
	int room = run->sink->room(run->arg), rc = room < 0 ? 0 : actor_check(run, &run->err);

	if (rc == 0 && room > 0 && run->cmd->again)
		rc = run->cmd->again(&run->c, &run->err);
	if (room < 0 || rc < 0) /* a role that a reload took away ends what it reads, too */
		command_stream_done(run, rc);
	else if (room == 0 || command_stream_body(run) < 0)         /* a busy pool is tried again as well */
		ev_timer_start(run->timer, SLOW_US);
}

static void command_stream_wait(struct command_run *run, uint64_t us)
{
	struct commands *a = run->c.admin;

	if (!run->timer) {
		run->timer = ev_timer_new(a->env.loop, go_on, run);
		list_push_back(&a->streams, &run->streams);
	}
	ev_timer_start(run->timer, us);
}

/* a body has ended */
static void command_stream_part(struct command_run *run, int rc)
{
	struct commands *a = run->c.admin;

	if (rc == 0 && a->closed)
		rc = err_set(&run->err, ERR_CANCELLED, "", "the server is stopping");
	if (rc < 0 || run->c.more == ADM_NO_MORE) {
		command_stream_done(run, rc);
		return;
	}
	if (run->out.text.len > 0)
		run->sink->part(run->arg, &run->out.text);
	str_reset(&run->out.text);
	command_stream_wait(run, run->c.more == ADM_MORE_LATER ? IDLE_US : 0);
}

/* Answers in parts: admin.c runs the bodies, admin_stream.c says when. */
static void command_streams_close(struct commands *a)
{
	LIST_FOREACH_SAFE(n, tmp, &a->streams) {
		struct command_run *run = CONTAINER_OF(n, struct command_run, streams);

		if (!ev_timer_armed(run->timer))
			continue;               /* its body runs, and comes to command_stream_part() */
		command_stream_done(run, err_set(&run->err, ERR_CANCELLED, "", "the server is stopping"));
	}
}
