/* Make an honest store of any size: tenants, keys and tools by the commands, records by src/audit as the writer's
 * transactions, checkpoints by a signer of its own; days pass on a fake clock.
 *
 *	tests/bench/b_fill STORE [--records N] [--tenants T] [--days D] [--zipf S] [--principals P] [--tools K]
 *			[--failures F] [--seed S] [--level none|metadata|request|request_response] [--hour H] [--lean]
 *
 * --hour: the days end at that hour of the day (1 to 24, UTC), the last time that it was, and not now: what is counted
 * by days and nights is then the same whenever it is made.  --lean: without the indexes of rows that a store of an earlier
 * release has, as one whose records are soon in blocks.
 * Rare things are planted in the log of the first tenant, fill00000; one JSON object says where, and how fast it went.
 * How much of everything there is follows from the seed; salts, keys and the names of principals do not. */

#include "config.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "app/app.h"
#include "audit/audit.h"
#include "audit/payload.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/command.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "json/json.h"
#include "notary/notary.h"
#include "setup/setup.h"
#include "writer/writer.h"

#include "../../src/app/app_int.h"
#include "../../src/db/db_int.h"
#include "../../src/notary/notary_int.h"

#define S_US UINT64_C(1000000)
#define DAY_US (86400 * S_US)
#define BEAT_US (2 * S_US)              /* more than from one checkpoint to the next */
#define STEP_BACK_US (30 * S_US)        /* how far the clock is set back, once; a quiet log may notice long after */
#define BATCH_MIN 500                   /* records of a transaction: a twentieth of all, within these */
#define BATCH_MAX 50000
#define TENANTS_MAX 10000
#define PEOPLE_MAX 1000
#define TOOLS_MAX 1000
#define INDEXES_MAX 12
#define PLANTS_MAX 40
#define WAIT_MS 3600000

/* --- what is asked for */

static struct {
	const char *store;
	uint64_t records, tenants, days, people, tools, seed, hour;     /* hour: 0: now */
	double zipf, failures;
	int level;                      /* enum audit_level; -1: no values */
	bool lean;
} opt = { NULL, 100000, 10, 30, 20, 25, 1, 0, 1.0, 0.02, AUDIT_METADATA, false };

/* Names as records have them; the first two tenants' are rows of the store, the others' are not. */
struct person { char prn[64], cred[32]; };

struct filled_tenant { char name[16]; int64_t id; };

/* What was planted, and in which call. */
struct plant {
	const char *what;
	double at;                      /* after which part of the records */
	int outcome;
	const char *tool, *who;         /* NULL: as any call */
	int64_t answers;                /* the plant before this one, whose question it answers */
	bool unknown_tool;              /* of a definition that was never stored */
	bool held;                      /* a person had to agree to it, and nobody did */
	bool task;                      /* it became a task, which ended by itself */
	uint8_t call[16];
	int64_t idx;
};

static struct fill {
	struct app *app;
	struct filled_tenant *tenant;
	double *tenant_share, *person_share, *tool_share;      /* cumulative */
	struct person *person, seldom, gone, elsewhere;
	uint8_t (*tdef)[32], rare_tdef[32];
	uint64_t n, step_us, batch;     /* records; between two; of a transaction */
	uint64_t begun, begun_us, begun_mono_us;        /* of this transaction: its first record, and when */
	uint64_t random;
	struct plant plant[PLANTS_MAX];
	size_t plants, planted;
	char *index[INDEXES_MAX];
	size_t indexes, made;
	bool done;
	int rc;
	struct err err;
	struct str rows;
} fill;

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "b_fill: %s: %s%s%s\n", what, err->where, *err->where ? ": " : "", err->msg);
	exit(1);
}

/* SplitMix64: the same store for the same seed. */
static uint64_t next_random(void)
{
	uint64_t z = fill.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static double next_part(void)
{
	return (double)(next_random() >> 11) / 9007199254740992.0;
}

/* Shares of n, the i-th 1 / i^s of the first. */
static double *shares(uint64_t n)
{
	double *sum = mem_calloc(n, sizeof(*sum)), all = 0;

	for (uint64_t i = 0; i < n; i++)
		sum[i] = all += pow((double)(i + 1), -opt.zipf);
	for (uint64_t i = 0; i < n; i++)
		sum[i] /= all;
	return sum;
}

static size_t draw(const double *share, uint64_t n)
{
	const double part = next_part();
	size_t from = 0, to = n - 1;

	while (from < to) {
		size_t middle = (from + to) / 2;

		if (share[middle] > part)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* --- the server that it is: commands, jobs of the writer, checkpoints */

static void on_reply(void *arg, const struct str *rows, const struct err *err)
{
	(void)arg;
	str_reset(&fill.rows);
	str_put(&fill.rows, rows->p, rows->len);
	fill.rc = err ? (int)err->code : 0;
	if (err)
		fill.err = *err;
	fill.done = true;
}

static void wait_for(const char *what)
{
	if (!ev_loop_run_until(app_loop(fill.app), &fill.done, WAIT_MS))
		(void)err_set(&fill.err, ERR_TIMEOUT, "", "not within %d s", WAIT_MS / 1000);
	else if (fill.rc == 0)
		return;
	die(what, &fill.err);
}

static void command(const char *noun, const char *verb, json_t *args)
{
	fill.done = false;
	(void)command_run(app_admin(fill.app), &(struct command_req){ .who = { .uid = geteuid(), .pid = getpid(),
		.embedded = true }, .noun = noun, .verb = verb, .args = args }, on_reply, NULL);
	wait_for(verb);
}

static void on_job(void *arg, int rc, const struct err *err)
{
	(void)arg;
	fill.rc = rc;
	if (rc < 0)
		fill.err = *err;
	fill.done = true;
}

static void job(const char *what, int (*run)(void *arg, struct db *db, struct audit_logs *logs, struct err *err),
		bool volatile_only)
{
	const struct writer_job j = { .name = "fill", .run = run, .patient = true, .volatile_only = volatile_only,
		.done = on_job };

	fill.done = false;
	if (writer_submit(fill.app->writer, &j, NULL) < 0)
		(void)err_set(&fill.err, ERR_BUSY, "", "the writer takes nothing"), die(what, &fill.err);
	wait_for(what);
}

static void on_signed(void *arg, int rc, const struct err *err)
{
	on_job(arg, rc, err);
}

/* Of what there is.  While one is under way it waits for the beat behind it, and no clock but ours goes on. */
static void sign(void)
{
	fill.done = false;
	notary_now(fill.app->notary, on_signed, NULL);
	while (!ev_loop_run_until(app_loop(fill.app), &fill.done, 5))
		if (fill.app->notary->state == NOTARY_IDLE)
			clock_step(BEAT_US);
	wait_for("checkpoint");
}

/* --- tenants, people, tools */

static void write_tools(json_t *documents)
{
	for (uint64_t i = 0; i <= opt.tools; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), i < opt.tools ? "tool_%03u" : "rare", (unsigned)i);
		json_array_append_new(documents, json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:s}}", "name", name,
			"description", "A tool of the bench.", "inputSchema", "type", "object", "handler", "type", "builtin",
			"function", "echo"));
	}
}

static void make_key(size_t tenant, const char *who)
{
	char *principal = mem_printf("%s/%s", fill.tenant[tenant].name, who);

	command("key", "create", json_pack("{s:s}", "principal", principal));
	free(principal);
}

static void make_people(void)
{
	for (uint64_t i = 0; i < opt.people; i++) {
		char who[24];

		(void)snprintf(who, sizeof(who), "agent%03u", (unsigned)i);
		make_key(0, who);
	}
	make_key(0, "seldom");
	make_key(0, "gone");
	if (opt.tenants > 1)
		make_key(1, "elsewhere");
}

/* Rows of a statement of our own, which the writer's thread may ask between others. */
static int each(struct db *db, const char *sql, void (*take)(sqlite3_stmt *st), struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->native, sql, -1, &st, NULL);

	while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
		take(st);
	sqlite3_finalize(st);
	return rc == SQLITE_OK ? 0 : err_set(err, ERR_INTERNAL, "", "%s: %s", sql, sqlite3_errmsg(db->native));
}

static const char *text_of(sqlite3_stmt *st, int col)
{
	return (const char *)sqlite3_column_text(st, col);
}

static void take_tenant(sqlite3_stmt *st)
{
	unsigned n = (unsigned)strtoul(text_of(st, 1) + strlen("fill"), NULL, 10);

	if (n < opt.tenants)
		fill.tenant[n].id = sqlite3_column_int64(st, 0);
}

static void take_person(sqlite3_stmt *st)
{
	const char *who = text_of(st, 0);
	struct person *p = strcmp(who, "seldom") == 0 ? &fill.seldom : strcmp(who, "gone") == 0 ? &fill.gone
		: strcmp(who, "elsewhere") == 0 ? &fill.elsewhere : NULL;

	if (!p && strncmp(who, "agent", 5) == 0)
		p = &fill.person[strtoul(who + 5, NULL, 10)];
	if (!p)
		return;
	(void)snprintf(p->prn, sizeof(p->prn), "%s", text_of(st, 1));
	(void)snprintf(p->cred, sizeof(p->cred), "%s", text_of(st, 2));
}

static void take_tool(sqlite3_stmt *st)
{
	const char *name = text_of(st, 0);
	uint8_t *to = strcmp(name, "rare") == 0 ? fill.rare_tdef : fill.tdef[strtoul(name + strlen("tool_"), NULL, 10)];

	memcpy(to, sqlite3_column_blob(st, 1), 32);
}

/* A store of a release before had indexes of rows from its first record on, as the steps make them. */
static void take_indexes(void)
{
	static const char makes[] = "CREATE INDEX rec_";

	for (int step = 0; step < db_schema_version(); step++) {
		const char *p = sql_sqlite[step].text;

		while ((p = strstr(p, makes)) && fill.indexes < INDEXES_MAX) {
			const size_t len = strcspn(p, ";");

			if (strncmp(p + strlen(makes), "pos ", 4) != 0)     /* of the file: "rec" is all forms to whoever sees them */
				fill.index[fill.indexes++] = mem_printf("CREATE INDEX main.%.*s", (int)(len - strlen("CREATE INDEX ")),
									p + strlen("CREATE INDEX "));
			p += len;
		}
	}
}

static int look(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = each(db, "SELECT id, name FROM tenant WHERE name GLOB 'fill[0-9]*'", take_tenant, err);

	(void)arg;
	(void)logs;
	if (rc == 0)
		rc = each(db, "SELECT p.name, p.pseudonym, c.accessor FROM cred c JOIN principal p ON p.id = c.principal_id",
			  take_person, err);
	if (rc == 0)
		rc = each(db, "SELECT t.name, v.digest FROM tool t JOIN tool_version v ON v.tool_id = t.id", take_tool, err);
	if (!opt.lean)
		take_indexes();
	return rc;
}

/* At the end, each by one sort. */
static int make_index(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *sql = fill.index[fill.made];

	if (sqlite3_exec(db->native, sql, NULL, NULL, NULL) != SQLITE_OK)
		return err_set(err, ERR_INTERNAL, "", "%s: %s", sql, sqlite3_errmsg(db->native));
	fill.made++;
	(void)arg;
	(void)logs;
	return 0;
}

static void set_up(void)
{
	json_t *documents = json_array();

	fill.tenant = mem_calloc(opt.tenants, sizeof(*fill.tenant));
	fill.person = mem_calloc(opt.people, sizeof(*fill.person));
	fill.tdef = mem_calloc(opt.tools, sizeof(*fill.tdef));
	fill.tenant_share = shares(opt.tenants);
	fill.person_share = shares(opt.people);
	fill.tool_share = shares(opt.tools);
	write_tools(documents);
	command("tool", "add", json_pack("{s:o}", "documents", documents));
	for (uint64_t i = 0; i < opt.tenants; i++) {
		(void)snprintf(fill.tenant[i].name, sizeof(fill.tenant[i].name), "fill%05u", (unsigned)i);
		command("tenant", "add", json_pack("{s:s}", "name", fill.tenant[i].name));
		if (i < 2)
			command("grant", "add", json_pack("{s:s, s:[s]}", "tenant", fill.tenant[i].name, "tool", "*"));
	}
	make_people();
	job("look", look, true);
}

/* --- records */

static void write_call_id(uint8_t id[16], uint64_t us)
{
	uint64_t r[2] = { next_random(), next_random() };

	memcpy(id, r, 16);
	for (unsigned i = 0; i < 6; i++)        /* RFC 9562: milliseconds first */
		id[i] = (uint8_t)(us / 1000 >> (40 - 8 * i));
	id[6] = (uint8_t)(0x70 | (id[6] & 0x0f));
	id[8] = (uint8_t)(0x80 | (id[8] & 0x3f));
}

/* What both records of a call say. */
struct said {
	struct audit_event ev;
	struct audit_payload arguments, result;
	char prn[32], cred[32], tool[32], text[64];
	bool refused;
	uint64_t dur_us;
};

static void say_person(struct said *s, size_t tenant, size_t who)
{
	if (tenant == 0) {
		(void)snprintf(s->prn, sizeof(s->prn), "%.31s", fill.person[who].prn);
		(void)snprintf(s->cred, sizeof(s->cred), "%.31s", fill.person[who].cred);
	} else {
		(void)snprintf(s->prn, sizeof(s->prn), "prn_%05u%07u", (unsigned)tenant, (unsigned)who);
		(void)snprintf(s->cred, sizeof(s->cred), "%05u%07u", (unsigned)tenant, (unsigned)who);
	}
}

/* An outcome; tool_000 never says tool_error by itself, so that the planted ones are all there are. */
static int draw_outcome(size_t tool)
{
	static const int outcomes[] = { AUDIT_TOOL_ERROR, AUDIT_TIMEOUT, AUDIT_INVALID, AUDIT_RATE_LIMITED, AUDIT_CANCELLED,
		AUDIT_DENIED, AUDIT_RATE_LIMITED, AUDIT_TIMEOUT };
	const int outcome = outcomes[next_random() % NELEMS(outcomes)];

	if (next_part() >= opt.failures)
		return AUDIT_OK;
	return tool == 0 && outcome == AUDIT_TOOL_ERROR ? AUDIT_TIMEOUT : outcome;
}

static void say_values(struct said *s)
{
	static const char result[] = "{\"content\":[{\"type\":\"text\",\"text\":\"This is what came of it.\"}]}";
	const int n = snprintf(s->text, sizeof(s->text), "{\"text\":\"%016llx\"}", (unsigned long long)next_random());

	if (opt.level < 0)
		return;
	s->arguments = (struct audit_payload){ .level = opt.level, .n = 1, .value[0] = { .ctag = AUDIT_C_ARGUMENTS,
		.p = s->text, .len = (size_t)n, .keep = opt.level >= AUDIT_REQUEST } };
	s->result = (struct audit_payload){ .level = opt.level, .n = 1, .value[0] = { .ctag = AUDIT_C_RESULT, .p = result,
		.len = sizeof(result) - 1, .keep = opt.level >= AUDIT_REQUEST_RESPONSE } };
	s->ev.payload = &s->arguments;
}

static void say_call(struct said *s, size_t tenant, uint64_t us)
{
	const size_t tool = draw(fill.tool_share, opt.tools);
	const int outcome = draw_outcome(tool);

	*s = (struct said){ .refused = outcome == AUDIT_DENIED || outcome == AUDIT_RATE_LIMITED };
	say_person(s, tenant, draw(fill.person_share, opt.people));
	(void)snprintf(s->tool, sizeof(s->tool), "tool_%03u", (unsigned)tool);
	s->dur_us = 200 + (uint64_t)(1000 / (0.01 + next_part()));
	s->ev = (struct audit_event){ .tenant_id = fill.tenant[tenant].id, .time_us = us, .has_call = true, .prn = s->prn,
		.cred = s->cred, .actor = AUDIT_BY_SERVICE, .authn = AUDIT_AUTHN_KEY, .tport = AUDIT_HTTP, .rev = "2026-07-28",
		.tool = s->tool, .tdef = fill.tdef[tool], .rule = "grant/1", .outcome = outcome, .n_req = 120, .n_res = -1 };
	write_call_id(s->ev.call, us);
	say_values(s);
}

static int append(struct db *db, struct audit_logs *logs, struct audit_event *ev, uint64_t after_us, int64_t *ret_idx,
		  struct err *err)
{
	struct audit_receipt receipt;
	int rc;

	ev->time_us += after_us;
	ev->mono_us = fill.begun_mono_us + (fill.n - fill.begun) * fill.step_us + after_us;
	rc = audit_append(logs, db, ev, &receipt, err);
	if (rc == 0 && ret_idx)
		*ret_idx = receipt.idx;
	fill.n++;
	return rc;
}

static int append_call(struct db *db, struct audit_logs *logs, struct said *s, int64_t *ret_idx, struct err *err)
{
	int rc;

	s->ev.kind = s->refused ? AUDIT_CALL_DENIED : AUDIT_CALL_BEGIN;
	s->ev.has_outcome = s->refused;
	if (s->refused)
		s->ev.rule = s->ev.outcome == AUDIT_DENIED ? "scope" : "rate";
	rc = append(db, logs, &s->ev, 0, ret_idx, err);
	if (rc < 0 || s->refused)
		return rc;
	s->ev.kind = AUDIT_CALL_END;
	s->ev.has_outcome = true;
	s->ev.n_res = 270;
	s->ev.dur_us = s->dur_us;
	s->ev.cpu_us = s->dur_us / 4;
	s->ev.payload = opt.level < 0 ? NULL : &s->result;
	return append(db, logs, &s->ev, fill.step_us / 2, ret_idx, err);
}

/* --- what is planted */

static void plant(const char *what, double at, struct plant p)
{
	p.what = what;
	p.at = at;
	if (fill.plants < PLANTS_MAX)
		fill.plant[fill.plants++] = p;
}

/* In the order of at. */
static void plan(void)
{
	plant("rare_tool", 0.05, (struct plant){ .tool = "rare" });
	plant("tool_error", 0.10, (struct plant){ .tool = "tool_000", .outcome = AUDIT_TOOL_ERROR });
	plant("rare_principal", 0.12, (struct plant){ .who = "seldom" });
	plant("rare_outcome", 0.20, (struct plant){ .outcome = AUDIT_CRASHED });
	plant("oversight", 0.25, (struct plant){ .outcome = AUDIT_INPUT_REQUIRED });
	plant("answer", 0.25, (struct plant){ .answers = 1 });
	plant("drift", 0.30, (struct plant){ .unknown_tool = true });
	plant("rare_principal", 0.35, (struct plant){ .who = "seldom" });
	plant("tool_error", 0.40, (struct plant){ .tool = "tool_000", .outcome = AUDIT_TOOL_ERROR });
	if (opt.tenants > 1)
		plant("isolation", 0.45, (struct plant){ .who = "elsewhere" });
	plant("rare_tool", 0.46, (struct plant){ .tool = "rare" });
	plant("after_revocation", 0.60, (struct plant){ .who = "gone" });
	plant("rare_outcome", 0.70, (struct plant){ .outcome = AUDIT_CRASHED });
	plant("tool_error", 0.80, (struct plant){ .tool = "tool_000", .outcome = AUDIT_TOOL_ERROR });
	plant("rare_principal", 0.85, (struct plant){ .who = "seldom" });
	plant("task", 0.85, (struct plant){ .who = "seldom", .task = true });
	plant("oversight", 0.86, (struct plant){ .held = true });
}

static int append_plant(struct db *db, struct audit_logs *logs, struct plant *p, uint64_t us, struct err *err)
{
	static const uint8_t drifted[32] = { 0xdd };
	static const struct audit_field task[] = { { AUDIT_TAG_TASK, "A00000000000000000task", 22 },
						   { AUDIT_TAG_TASK_END, "\004", 1 } };
	const struct person *who = !p->who ? &fill.person[0] : strcmp(p->who, "seldom") == 0 ? &fill.seldom
		: strcmp(p->who, "gone") == 0 ? &fill.gone : &fill.elsewhere;
	struct said s;
	int64_t at;
	int rc;

	say_call(&s, 0, us);
	s.refused = false;
	s.ev.rule = "grant/1";
	s.ev.outcome = p->outcome;
	s.ev.prn = who->prn;
	s.ev.cred = who->cred;
	s.ev.tool = p->tool ? p->tool : "tool_000";
	s.ev.tdef = p->unknown_tool ? drifted : strcmp(s.ev.tool, "rare") == 0 ? fill.rare_tdef : fill.tdef[0];
	if (p->answers) {
		s.ev.has_prev = true;
		memcpy(s.ev.prev, (p - p->answers)->call, 16);
	}
	memcpy(p->call, s.ev.call, 16);
	if (p->held || p->task) {
		s.ev.kind = p->held ? AUDIT_CALL_HELD : AUDIT_TASK_CREATE;
		s.ev.has_outcome = false;
		s.ev.field = task;
		s.ev.nfield = p->task;
		rc = append(db, logs, &s.ev, 0, &p->idx, err);
		if (rc < 0 || !p->task)
			return rc;
		s.ev.kind = AUDIT_TASK_END;
		s.ev.nfield = NELEMS(task);
		return append(db, logs, &s.ev, 0, &at, err);
	}
	return append_call(db, logs, &s, &p->idx, err);
}

static json_t *planted_json(const char *what)
{
	json_t *calls = json_array(), *idx = json_array();

	for (size_t i = 0; i < fill.planted; i++) {
		char hex[33], id[37];

		if (strcmp(fill.plant[i].what, what) != 0)
			continue;
		text_hex(fill.plant[i].call, 16, hex);
		(void)snprintf(id, sizeof(id), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
		json_array_append_new(calls, json_string(id));
		json_array_append_new(idx, json_integer(fill.plant[i].idx));
	}
	return json_pack("{s:s, s:o, s:o}", "tenant", fill.tenant[0].name, "calls", calls, "index", idx);
}

/* A member of planted.WHAT. */
static void also(json_t *planted, const char *what, const char *member, const char *text)
{
	json_object_set_new(json_object_get(planted, what), member, json_string(text));
}

static json_t *all_planted(void)
{
	json_t *all = json_object();
	char hex[65];

	for (size_t i = 0; i < fill.planted; i++)
		if (!json_object_get(all, fill.plant[i].what))
			json_object_set_new(all, fill.plant[i].what, planted_json(fill.plant[i].what));
	also(all, "tool_error", "tool", "tool_000");
	also(all, "tool_error", "outcome", "tool_error");
	also(all, "rare_outcome", "outcome", "crashed");
	also(all, "rare_tool", "tool", "rare");
	also(all, "rare_principal", "principal", "seldom");
	also(all, "rare_principal", "pseudonym", fill.seldom.prn);
	also(all, "rare_principal", "key", fill.seldom.cred);
	also(all, "after_revocation", "key", fill.gone.cred);
	if (opt.tenants > 1)
		also(all, "isolation", "key", fill.elsewhere.cred);
	text_hex(fill.tdef[0], 32, hex);
	json_object_set_new(all, "common", json_pack("{s:s, s:s, s:s, s:s, s:s}", "tenant", fill.tenant[0].name, "tool", "tool_000",
		"definition", hex, "principal", "agent000", "key", fill.person[0].cred));
	text_hex(fill.rare_tdef, 32, hex);
	also(all, "rare_tool", "definition", hex);
	json_object_set_new(all, "clock", json_pack("{s:I}", "step_ms", -(json_int_t)(STEP_BACK_US / 1000)));
	return all;
}

/* --- filling */

static int fill_batch(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const uint64_t until = fill.begun + fill.batch;
	struct said s;
	int rc = 0;

	(void)arg;
	while (rc == 0 && fill.n < until) {
		const uint64_t us = fill.begun_us + (fill.n - fill.begun) * fill.step_us;

		if (fill.planted < fill.plants && (double)fill.n >= fill.plant[fill.planted].at * (double)opt.records) {
			rc = append_plant(db, logs, &fill.plant[fill.planted++], us, err);
			continue;
		}
		say_call(&s, draw(fill.tenant_share, opt.tenants), us);
		rc = append_call(db, logs, &s, NULL, err);
	}
	return rc;
}

static void one_batch(void)
{
	fill.begun = fill.n;
	fill.begun_us = clock_wall_us();
	fill.begun_mono_us = clock_mono_us();
	clock_step((fill.batch + 2) * fill.step_us);    /* the last call may end behind the batch */
	job("records", fill_batch, false);
	sign();
}

/* As the writer says that a transaction failed, and how long nothing was recorded; and a key that is not right. */
static int append_fail(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_receipt receipt;
	struct audit_event ev;
	int rc;

	(void)arg;
	audit_event_init(&ev, AUDIT_AUDIT_FAIL, 0);
	ev.dur_us = 1;
	ev.detail = "disk full";
	rc = audit_append(logs, db, &ev, &receipt, err);
	audit_event_init(&ev, AUDIT_AUTH_FAIL, fill.tenant[0].id);
	ev.cred = fill.person[0].cred;
	ev.rule = "mismatch";
	ev.authn = AUDIT_AUTHN_KEY;
	ev.tport = AUDIT_HTTP;
	return rc < 0 ? rc : audit_append(logs, db, &ev, &receipt, err);
}

/* Half way a key is refused and another ends, the audit fails for a moment, and the clock is set back, which the server
 * says itself. */
static void half_way(void)
{
	job("audit.fail", append_fail, false);
	fill.app->clock.offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	command("key", "revoke", json_pack("{s:[s]}", "accessor", fill.gone.cred));
	sign();
	clock_fake(clock_wall_us() - STEP_BACK_US, clock_mono_us());
	app_clock_check(fill.app);
	sign();
}

static void run(void)
{
	bool half = false;

	fill.batch = opt.records / 20 < BATCH_MIN ? BATCH_MIN : opt.records / 20 > BATCH_MAX ? BATCH_MAX : opt.records / 20;
	fill.step_us = opt.days * DAY_US / (opt.records + 3 * (opt.records / fill.batch + 1));
	while (fill.n < opt.records) {
		if (fill.batch > opt.records - fill.n)
			fill.batch = opt.records - fill.n;
		if (!half && fill.n >= opt.records / 2) {
			half = true;
			half_way();
		}
		one_batch();
	}
}

static void open_store(struct err *err)
{
	struct app_opt o = { .profile = APP_EMBEDDED, .store = opt.store };
	struct db_card card;

	if (setup_store(opt.store, err) < 0 || db_owner_take(opt.store, &o.owner, &card, err) != 0 ||
	    app_start(&o, &fill.app, err) < 0)
		die(opt.store, err);
}

static double seconds(uint64_t since_ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - since_ns) / 1e9;
}

/* --- the program */

/* The server's own, which lie where the build has put them: two folders above. */
static void find_programs(void)
{
	static const char *const program[][2] = { { "TOOLCRIB_LAUNCHER", "toolcrib-launcher" }, { "TOOLCRIB_SIGN", "toolcrib-sign" },
		{ "TOOLCRIB_RUN", "toolcrib-run" } };
	char exe[4096], *path;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	for (int up = 0; up < 3; up++)
		*(strrchr(exe, '/') ? strrchr(exe, '/') : exe) = '\0';
	for (size_t i = 0; i < NELEMS(program); i++) {
		path = mem_printf("%s/%s", exe, program[i][1]);
		(void)setenv(program[i][0], path, 0);
		free(path);
	}
}

static bool number(const char *text, uint64_t max, uint64_t *ret)
{
	return text_u64(text, strlen(text), ret) == 0 && *ret > 0 && *ret <= max;
}

static bool part(const char *text, double max, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return end > text && !*end && *ret >= 0 && *ret <= max;
}

static bool parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "records", 1, NULL, 'n' }, { "tenants", 1, NULL, 't' }, { "days", 1, NULL, 'd' }, { "zipf", 1, NULL, 'z' },
		{ "principals", 1, NULL, 'p' }, { "tools", 1, NULL, 'k' }, { "failures", 1, NULL, 'f' },
		{ "seed", 1, NULL, 's' }, { "level", 1, NULL, 'l' }, { "hour", 1, NULL, 'h' },
		{ "lean", 0, NULL, 'i' }, { NULL, 0, NULL, 0 },
	};
	bool good = true;

	for (int k; good && (k = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		switch (k) {
		case 'n': good = number(optarg, UINT64_C(10000000000), &opt.records); break;
		case 't': good = number(optarg, TENANTS_MAX, &opt.tenants); break;
		case 'd': good = number(optarg, 3660, &opt.days); break;
		case 'z': good = part(optarg, 10, &opt.zipf); break;
		case 'p': good = number(optarg, PEOPLE_MAX, &opt.people); break;
		case 'k': good = number(optarg, TOOLS_MAX, &opt.tools); break;
		case 'f': good = part(optarg, 1, &opt.failures); break;
		case 's': good = number(optarg, UINT64_MAX, &opt.seed); break;
		case 'h': good = number(optarg, 24, &opt.hour); break;
		case 'i': opt.lean = true; break;
		case 'l':
			opt.level = strcmp(optarg, "none") == 0 ? -1 : audit_level_from_name(optarg);
			good = opt.level >= 0 || strcmp(optarg, "none") == 0;
			break;
		default: return false;
		}
	}
	opt.store = good && optind == argc - 1 ? argv[optind] : NULL;
	return opt.store && opt.records >= BATCH_MIN && opt.days * DAY_US / opt.records >= 4;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct timespec t;
	double took, indexed;
	uint64_t now_us, began_ns;

	if (!parse(argc, argv) || secret_init() < 0) {
		fprintf(stderr, "usage: b_fill STORE [--records N, at least %d] [--tenants T] [--days D] [--zipf S] "
			"[--principals P] [--tools K]\n\t[--failures PART] [--seed S] [--level none|metadata|request|"
			"request_response] [--hour H] [--lean]\n", BATCH_MIN);
		return 2;
	}
	find_programs();
	log_open(STDERR_FILENO, LOG_FORMAT_TEXT, LOG_LEVEL_ERR);
	clock_gettime(CLOCK_MONOTONIC, &t);
	began_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	now_us = clock_wall_us();
	if (opt.hour > 0)
		now_us -= (now_us - opt.hour * (DAY_US / 24)) % DAY_US;
	fill.random = opt.seed;
	clock_fake(now_us - opt.days * DAY_US - DAY_US / 24, clock_mono_us());
	open_store(&err);
	set_up();
	plan();
	run();
	took = seconds(began_ns);
	while (fill.made < fill.indexes)
		job("index", make_index, true);
	app_close(&fill.app);
	indexed = seconds(began_ns);
	json_t *said = json_pack("{s:I, s:f, s:f, s:o}", "records", (json_int_t)fill.n, "seconds", indexed, "rows_seconds", took,
		"planted", all_planted());
	json_dumpf(said, stdout, JSON_REAL_PRECISION(4));
	putchar('\n');
	json_decref(said);
	return 0;
}
