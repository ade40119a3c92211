/* Make an honest store of any size: tenants, keys and tools by the commands, records by src/audit as the writer's
 * transactions, checkpoints by a signer of its own; days pass on a fake clock.
 *
 *	tests/bench/b_fill STORE [--records N] [--tenants T] [--days D] [--zipf S] [--principals P] [--tools K]
 *			[--failures F] [--seed S] [--level none|metadata|request|request_response] [--hour H] [--lean]
 *			[--blocks THREADS]
 *	tests/bench/b_fill STORE --more [--records N] [--days D] …
 *
 * --hour: the days end at that hour of the day (1 to 24, UTC), the last time that it was, and not now: what is counted
 * by days and nights is then the same whenever it is made.  --lean: without the indexes of rows that a store of an earlier
 * release has, as one whose records are soon in blocks.  --blocks: records of calls are in blocks and chapters at once, which
 * so many threads make; what there is is the same for each number.  --more: N other records in a store that it made before,
 * over D days behind its last one, of the tenants, principals and tools that are there, and nothing planted among them.
 * Rare things are planted in the log of the first tenant, fill00000; one JSON object says where, and how fast it went.
 * How much of everything there is follows from the seed; salts, keys and the names of principals do not. */

#include "config.h"

#include <getopt.h>
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
#include "base/path.h"
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

#include "fill.h"

#define BEAT_US (2 * S_US)              /* more than from one checkpoint to the next */
#define TENANTS_MAX 10000
#define PEOPLE_MAX 1000
#define TOOLS_MAX 1000
#define WAIT_MS 3600000

struct fill_opt opt = { NULL, 100000, 10, 30, 20, 25, 1, 0, 0, 1.0, 0.02, AUDIT_METADATA, false, false };
struct fill fill;

void fill_die(const char *what, const struct err *err)
{
	fprintf(stderr, "b_fill: %s: %s%s%s\n", what, err->where, *err->where ? ": " : "", err->msg);
	exit(1);
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
	fill_die(what, &fill.err);
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

void fill_job(const char *what, fill_job_fn *run, enum fill_how how)
{
	const struct writer_job j = { .name = "fill", .run = run, .patient = true, .volatile_only = how != FILL_RECORDS,
		.between = how == FILL_BETWEEN,
		.done = on_job };

	fill.done = false;
	if (writer_submit(fill.app->writer, &j, NULL) < 0)
		(void)err_set(&fill.err, ERR_BUSY, "", "the writer takes nothing"), fill_die(what, &fill.err);
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
		const char *name = i < opt.tools ? fill.tool[i] : "rare";

		json_array_append_new(documents, json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:s}}", "name", name,
			"description", "A tool of the bench.", "inputSchema", "type", "object", "handler", "type", "builtin",
			"function", "echo"));
	}
}

/* That lives as long as the calls are made with it: one that ended would make each of them a finding. */
static void make_key(size_t tenant, const char *who)
{
	char *principal = mem_printf("%s/%s", fill.tenant[tenant].name, who);
	char *life = mem_printf("%ud", (unsigned)opt.days + 2);
	json_t *args = json_pack("{s:s}", "principal", principal);

	if (opt.days + 2 > KEY_DAYS)
		(void)json_object_set_new(args, "ttl", json_string(life));
	command("key", "create", args);
	free(life);
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
	struct person *others = fill.person + opt.people, *p = strcmp(who, "seldom") == 0 ? &others[SELDOM] :
		strcmp(who, "gone") == 0 ? &others[GONE] : strcmp(who, "elsewhere") == 0 ? &others[ELSEWHERE] : NULL;

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
	static const char *const makes[] = { "CREATE INDEX ", "CREATE UNIQUE INDEX " };

	for (size_t k = 0; k < NELEMS(makes); k++)
		for (int step = 0; step < db_schema_version(); step++)
			for (const char *p = sql_sqlite[step].text; (p = strstr(p, makes[k])) && fill.indexes < INDEXES_MAX;) {
				const size_t len = strcspn(p += strlen(makes[k]), ";");

				/* Of the file: "rec" is all forms to whoever sees them. */
				if (strncmp(p, "rec_", 4) == 0 && strncmp(p, "rec_order ", 10) != 0)
					fill.index[fill.indexes++] = mem_printf("%smain.%.*s", makes[k], (int)len, p);
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

static void make_all(void)
{
	json_t *documents = json_array();

	write_tools(documents);
	command("tool", "add", json_pack("{s:o}", "documents", documents));
	for (uint64_t i = 0; i < opt.tenants; i++) {
		command("tenant", "add", json_pack("{s:s}", "name", fill.tenant[i].name));
		if (i < 2)
			command("grant", "add", json_pack("{s:s, s:[s]}", "tenant", fill.tenant[i].name, "tool", "*"));
	}
	make_people();
}

static void set_up(void)
{
	fill.tenant = mem_calloc(opt.tenants, sizeof(*fill.tenant));
	fill.person = mem_calloc(opt.people + OTHERS, sizeof(*fill.person));
	fill.tool = mem_calloc(opt.tools, sizeof(*fill.tool));
	fill.tdef = mem_calloc(opt.tools, sizeof(*fill.tdef));
	fill.tenant_share = fill_shares(opt.tenants);
	fill.person_share = fill_shares(opt.people);
	fill.tool_share = fill_shares(opt.tools);
	for (uint64_t i = 0; i < opt.tools; i++)
		(void)snprintf(fill.tool[i], sizeof(fill.tool[i]), "tool_%03u", (unsigned)i);
	for (uint64_t i = 0; i < opt.tenants; i++)
		(void)snprintf(fill.tenant[i].name, sizeof(fill.tenant[i].name), "fill%05u", (unsigned)i);
	if (!opt.more)
		make_all();
	fill_job("look", look, FILL_ROWS);
}

/* --- filling */

static int append_said(struct db *db, struct audit_logs *logs, const struct said *s, int64_t *ret_idx, struct err *err)
{
	struct audit_receipt receipt;
	int rc = audit_append(logs, db, &s->ev, &receipt, err);

	if (rc == 0 && ret_idx)
		*ret_idx = receipt.idx;
	return rc;
}

static int fill_batch(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const uint64_t until = fill.begun + fill.batch;
	struct said s;
	struct call c;
	int64_t idx = 0;
	int rc = 0;

	(void)arg;
	while (rc == 0 && fill.n < until) {
		fill_draw(&c);
		fill_say(&c, &s);
		rc = append_said(db, logs, &s, &idx, err);
		fill_at(&c, idx);
		if (rc == 0 && fill_records(&c) > 1) {
			fill_say_end(&c, &s);
			rc = append_said(db, logs, &s, NULL, err);
		}
	}
	return rc;
}

static void one_batch(void)
{
	fill.begun = fill.n;
	fill.begun_us = clock_wall_us();
	fill.begun_mono_us = clock_mono_us();
	clock_step((fill.batch + 2) * fill.step_us);    /* the last call may end behind the batch */
	if (opt.threads > 0)
		fill_blocks_batch();
	else
		fill_job("records", fill_batch, FILL_RECORDS);
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
	fill_job("audit.fail", append_fail, FILL_RECORDS);
	fill.app->clock.offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	command("key", "revoke", json_pack("{s:[s]}", "accessor", fill.person[opt.people + GONE].cred));
	sign();
	clock_fake(clock_wall_us() - STEP_BACK_US, clock_mono_us());
	app_clock_check(fill.app);
	sign();
}

static void run(void)
{
	const uint64_t most = opt.threads > 0 ? BLOCKS_BATCH_MAX : BATCH_MAX, some = opt.records / (opt.threads > 0 ? 4 : 20);
	bool half = opt.more;

	fill.batch = some < BATCH_MIN ? BATCH_MIN : some > most ? most : some;
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

/* --- a store that is there */

static int64_t ask(sqlite3 *file, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t n = 0;

	if (sqlite3_prepare_v2(file, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

/* Who and what is there, and when its last record was: nobody has it open yet. */
static uint64_t look_back(void)
{
	char *path = path_join(opt.store, DB_FILE);
	struct err err = { 0 };
	sqlite3 *file = NULL;
	int64_t last = 0;

	if (sqlite3_open_v2(path, &file, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
		opt.tenants = (uint64_t)ask(file, "SELECT count(*) FROM tenant WHERE name GLOB 'fill[0-9]*'");
		opt.people = (uint64_t)ask(file, "SELECT count(*) FROM principal WHERE name GLOB 'agent[0-9]*'");
		opt.tools = (uint64_t)ask(file, "SELECT count(*) FROM tool WHERE name GLOB 'tool_[0-9]*'");
		last = ask(file, "SELECT max(t) FROM (SELECT max(ts_max) AS t FROM blk UNION ALL SELECT max(ts) FROM rec)");
	}
	sqlite3_close(file);
	free(path);
	if (opt.tenants == 0 || opt.tenants > TENANTS_MAX || opt.people == 0 || opt.people > PEOPLE_MAX || opt.tools == 0 ||
	    opt.tools > TOOLS_MAX || last <= 0) {
		(void)err_set(&err, ERR_NOT_FOUND, "", "is no store that b_fill made");
		fill_die(opt.store, &err);
	}
	return (uint64_t)last;
}

static void open_store(struct err *err)
{
	struct app_opt o = { .profile = APP_EMBEDDED, .store = opt.store };
	struct db_card card;

	if ((!opt.more && setup_store(opt.store, NULL, err) < 0) || db_owner_take(opt.store, &o.owner, &card, err) != 0 ||
	    app_start(&o, &fill.app, err) < 0)
		fill_die(opt.store, err);
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
		{ "lean", 0, NULL, 'i' }, { "blocks", 1, NULL, 'b' }, { "more", 0, NULL, 'm' }, { NULL, 0, NULL, 0 },
	};
	bool good = true;

	for (int k; good && (k = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		switch (k) {
		case 'n': good = number(optarg, UINT64_C(10000000000), &opt.records); break;
		case 't': good = number(optarg, TENANTS_MAX, &opt.tenants); break;
		case 'd': good = number(optarg, DAYS_MAX, &opt.days); break;
		case 'z': good = part(optarg, 10, &opt.zipf); break;
		case 'p': good = number(optarg, PEOPLE_MAX, &opt.people); break;
		case 'k': good = number(optarg, TOOLS_MAX, &opt.tools); break;
		case 'f': good = part(optarg, 1, &opt.failures); break;
		case 's': good = number(optarg, UINT64_MAX, &opt.seed); break;
		case 'h': good = number(optarg, 24, &opt.hour); break;
		case 'i': opt.lean = true; break;
		case 'm': opt.more = true; break;
		case 'b': good = number(optarg, THREADS_MAX, &opt.threads); break;
		case 'l':
			opt.level = strcmp(optarg, "none") == 0 ? -1 : audit_level_from_name(optarg);
			good = opt.level >= 0 || strcmp(optarg, "none") == 0;
			break;
		default: return false;
		}
	}
	opt.lean = opt.lean || opt.threads > 0 || opt.more;     /* the indexes that there are stay */
	opt.store = good && optind == argc - 1 ? argv[optind] : NULL;
	return opt.store && opt.records >= BATCH_MIN && opt.days * DAY_US / opt.records >= 4;
}

/* From when on it is, and what is drawn. */
static void begin_time(void)
{
	uint64_t now_us = clock_wall_us(), last_us;

	fill.random = opt.seed;
	if (opt.more) {
		last_us = look_back();
		fill.random += last_us;         /* others than were drawn before */
		clock_fake(last_us + S_US, clock_mono_us());
		return;
	}
	if (opt.hour > 0)
		now_us -= (now_us - opt.hour * (DAY_US / 24)) % DAY_US;
	clock_fake(now_us - opt.days * DAY_US - DAY_US / 24, clock_mono_us());
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct timespec t;
	double took, indexed;
	uint64_t began_ns;

	if (!parse(argc, argv) || secret_init() < 0) {
		fprintf(stderr, "usage: b_fill STORE [--records N, at least %d] [--tenants T] [--days D] [--zipf S] "
			"[--principals P] [--tools K]\n\t[--failures PART] [--seed S] [--level none|metadata|request|"
			"request_response] [--hour H] [--lean] [--blocks THREADS]\n"
			"       b_fill STORE --more [--records N] [--days D] [--zipf S] [--failures PART] [--seed S] [--level L] "
			"[--blocks THREADS]\n", BATCH_MIN);
		return 2;
	}
	find_programs();
	log_open(STDERR_FILENO, LOG_FORMAT_TEXT, LOG_LEVEL_ERR);
	clock_gettime(CLOCK_MONOTONIC, &t);
	began_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	begin_time();
	open_store(&err);
	set_up();
	if (!opt.more)
		fill_plan();
	if (opt.threads > 0)
		fill_blocks_begin();
	run();
	if (opt.threads > 0)
		fill_blocks_end();
	took = seconds(began_ns);
	while (fill.made < fill.indexes)
		fill_job("index", make_index, FILL_ROWS);
	app_close(&fill.app);
	indexed = seconds(began_ns);
	json_t *said = json_pack("{s:I, s:f, s:f, s:o}", "records", (json_int_t)fill.n, "seconds", indexed, "rows_seconds", took,
		"planted", opt.more ? json_object() : fill_all_planted());
	json_dumpf(said, stdout, JSON_REAL_PRECISION(4));
	putchar('\n');
	json_decref(said);
	return 0;
}
