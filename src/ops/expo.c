/* The text of metrics: the table of base/metrics.def, what base/tally.h counts, what every process tells.  scrape.c has
 * it made, on a lane of the pool; nothing here waits for anything slow. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/tally.h"
#include "base/text.h"
#include "ev/ev.h"

#include "ops_int.h"

/* --- the process (OP-106) */

void ops_process_open(struct ops_process *ret)
{
	ret->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ret->fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void ops_process_close(struct ops_process *p)
{
	if (p->statm >= 0)
		close(p->statm);
	if (p->fds >= 0)
		close(p->fds);
	*p = (struct ops_process){ -1, -1 };
}

static void put_u64(struct str *ret, enum metric_format f, const char *name, const char *help, uint64_t value)
{
	metric_head(ret, f, name, METRIC_GAUGE, help);
	str_printf(ret, "%s %" PRIu64 "\n", name, value);
}

static bool see_memory(int statm, uint64_t *ret_all, uint64_t *ret_resident)
{
	char text[128];
	const ssize_t n = statm < 0 ? -1 : pread(statm, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	if (sscanf(text, "%" SCNu64 " %" SCNu64, ret_all, ret_resident) != 2)
		return false;
	*ret_all *= (uint64_t)sysconf(_SC_PAGESIZE);
	*ret_resident *= (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

uint64_t ops_process_resident(const struct ops_process *p)
{
	uint64_t all, resident;

	return see_memory(p->statm, &all, &resident) ? resident : 0;
}

static void put_memory(struct str *ret, enum metric_format f, int statm)
{
	uint64_t all, resident;

	if (!see_memory(statm, &all, &resident))
		return;
	put_u64(ret, f, "process_virtual_memory_bytes", "Virtual memory size in bytes", all);
	put_u64(ret, f, "process_resident_memory_bytes", "Resident memory size in bytes", resident);
}

/* How many the directory names, without itself and without "." and "..".  Two texts may be made at once, and the server
 * opens no file any more: they share the descriptor, and its position. */
static bool count_descriptors(int fds, uint64_t *ret)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const int own = fds < 0 ? -1 : fcntl(fds, F_DUPFD_CLOEXEC, 0);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	uint64_t n = 0;

	if (!dir) {
		if (own >= 0)
			close(own);
		return false;
	}
	pthread_mutex_lock(&lock);
	rewinddir(dir);
	while (readdir(dir))
		n++;
	pthread_mutex_unlock(&lock);
	closedir(dir);
	*ret = n > 3 ? n - 3 : 0;
	return true;
}

static void put_descriptors(struct str *ret, enum metric_format f, int fds)
{
	struct rlimit limit;
	uint64_t n;

	if (count_descriptors(fds, &n))
		put_u64(ret, f, "process_open_fds", "Number of open file descriptors", n);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		put_u64(ret, f, "process_max_fds", "Maximum number of open file descriptors", (uint64_t)limit.rlim_cur);
}

/* Names and helps as all clients of Prometheus have them. */
static void put_process(struct str *ret, enum metric_format f, const struct ops_env *env)
{
	struct rusage use;

	if (getrusage(RUSAGE_SELF, &use) == 0) {
		uint64_t us = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
			(uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);

		metric_head(ret, f, "process_cpu_seconds", METRIC_COUNTER, "Total user and system CPU time spent in seconds");
		str_printf(ret, "process_cpu_seconds_total %" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
	}
	put_memory(ret, f, env->process.statm);
	put_descriptors(ret, f, env->process.fds);
	metric_head(ret, f, "process_start_time_seconds", METRIC_GAUGE,
		    "Start time of the process since unix epoch in seconds");
	str_printf(ret, "process_start_time_seconds %" PRIu64 ".%06" PRIu64 "\n", env->started_us / 1000000,
		   env->started_us % 1000000);
}

/* --- counts with labels (OP-107 to OP-109) */

_Static_assert(TALLY_OUTCOMES == AUDIT_OUTCOME_COUNT, "a count for each outcome");

static const struct family {
	enum tally_kind kind;
	const char *label;
	struct { const char *name, *help; } calls, in[TALLY_PLACES], duration;   /* name NULL: it has none */
} families[] = {
	{ TALLY_TENANT, "tenant",
	  { METRIC_PREFIX "calls", "Calls of tools, prompts and resources by how they ended, refused ones too" },
	  { { METRIC_PREFIX "tenant_calls_running", "Calls that have begun and have not been answered" },
	    { METRIC_PREFIX "tenant_calls_waiting", "Calls that wait for a slot" } },
	  { METRIC_PREFIX "call_duration_seconds", "How long calls took that began, up to their answer" } },
	{ TALLY_TOOL, "tool",
	  { METRIC_PREFIX "tool_calls", "Calls of a tool by how they ended, those of it that were refused too" },
	  { { NULL, NULL } },
	  { METRIC_PREFIX "tool_duration_seconds", "How long calls of a tool took that began, up to their answer" } },
	{ TALLY_COMMIT, NULL, { NULL, NULL }, { { NULL, NULL } },
	  { METRIC_PREFIX "writer_commit_duration_seconds", "How long transactions of the writer took, flush included" } },
	{ TALLY_TURN, NULL, { NULL, NULL }, { { NULL, NULL } },
	  { METRIC_PREFIX "loop_turn_duration_seconds", "How long turns of the loop took in which something was done" } },
	{ TALLY_UPSTREAM, "upstream", { NULL, NULL }, { { NULL, NULL } },
	  { METRIC_PREFIX "upstream_duration_seconds",
	    "How long requests of calls to an upstream took, but those in which it asked a person" } },
	{ TALLY_METHOD, "mcp_method_name",
	  { NULL, NULL },
	  { { NULL, NULL } },
	  { "mcp_server_operation_duration_seconds", "How long requests of MCP took, up to their answer" } },
};

/* A slot as it is now, and its label as it is written: "tenant=\"acme\"", or nothing where none is named. */
struct slot { struct tally_view v; size_t at; struct str label; };

static bool is_used(const struct tally_view *v)
{
	uint64_t n = v->in[TALLY_RUNNING] + v->in[TALLY_WAITING];

	for (size_t i = 0; i < NELEMS(v->outcome); i++)
		n += v->outcome[i];
	for (size_t i = 0; i < NELEMS(v->bucket); i++)
		n += v->bucket[i];
	return n > 0;
}

/* The next slot; *it is 0 at first.  That of all others is the last, if anything was counted there. */
static bool next_slot(const struct family *fam, size_t nslots, size_t *it, struct slot *ret)
{
	const bool named = tally_is_bounded(fam->kind);

	if (*it > nslots)
		return false;
	ret->at = *it < nslots ? *it : TALLY_OTHERS;
	++*it;
	tally_see(fam->kind, ret->at, &ret->v);
	if (named && ret->at == TALLY_OTHERS && !is_used(&ret->v))
		return false;
	str_reset(&ret->label);
	if (named) {
		str_puts(&ret->label, fam->label);
		str_puts(&ret->label, "=\"");
		metric_put_label(&ret->label, ret->v.name);
		str_putc(&ret->label, '"');
	}
	return true;
}

/* "NAMEend{label,more="value"} " */
static void put_series(struct str *ret, const char *name, const char *end, const struct str *label, const char *more,
		       const char *value)
{
	str_puts(ret, name);
	str_puts(ret, end);
	if (label->len > 0 || more) {
		str_putc(ret, '{');
		str_put(ret, label->p, label->len);
		if (label->len > 0 && more)
			str_putc(ret, ',');
		if (more) {
			str_puts(ret, more);
			str_puts(ret, "=\"");
			str_puts(ret, value);
			str_putc(ret, '"');
		}
		str_putc(ret, '}');
	}
	str_putc(ret, ' ');
}

static void put_calls(struct str *ret, enum metric_format f, const struct family *fam, size_t nslots)
{
	struct slot s = { .label = STR_INIT };

	metric_head(ret, f, fam->calls.name, METRIC_COUNTER, fam->calls.help);
	for (size_t it = 0; next_slot(fam, nslots, &it, &s);) {
		for (int i = 0; i < AUDIT_OUTCOME_COUNT; i++) {
			put_series(ret, fam->calls.name, "_total", &s.label, "outcome", audit_outcome_name(i));
			str_put_u64(ret, s.v.outcome[i]);
			str_putc(ret, '\n');
		}
	}
	str_fini(&s.label);
}

static void put_place(struct str *ret, enum metric_format f, const struct family *fam, size_t nslots, int place)
{
	struct slot s = { .label = STR_INIT };

	metric_head(ret, f, fam->in[place].name, METRIC_GAUGE, fam->in[place].help);
	for (size_t it = 0; next_slot(fam, nslots, &it, &s);) {
		put_series(ret, fam->in[place].name, "", &s.label, NULL, NULL);
		str_put_u64(ret, s.v.in[place]);
		str_putc(ret, '\n');
	}
	str_fini(&s.label);
}

static void put_seconds(struct str *ret, uint64_t us)
{
	str_printf(ret, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void put_exemplar(struct str *ret, const struct family *fam, size_t at, size_t bucket)
{
	struct tally_mark mark;
	char trace[2 * sizeof(mark.trace) + 1], call[ID_TEXT_SIZE];

	if (!tally_see_mark(fam->kind, at, bucket, &mark))
		return;
	text_hex(mark.trace, sizeof(mark.trace), trace);
	str_printf(ret, " # {trace_id=\"%s\",call=\"%s\"} ", trace, id_format(mark.call, call));
	put_seconds(ret, mark.us);
	str_putc(ret, ' ');
	put_seconds(ret, mark.wall_us);
}

static void put_histogram(struct str *ret, enum metric_format f, const struct family *fam, const struct slot *s)
{
	const char *const *bounds;
	const size_t n = tally_bounds(fam->kind, &bounds);
	uint64_t sum = 0;

	for (size_t i = 0; i <= n; i++) {
		sum += s->v.bucket[i];
		put_series(ret, fam->duration.name, "_bucket", &s->label, "le", i < n ? bounds[i] : "+Inf");
		str_put_u64(ret, sum);
		if (f == METRIC_OPENMETRICS)
			put_exemplar(ret, fam, s->at, i);
		str_putc(ret, '\n');
	}
	put_series(ret, fam->duration.name, "_count", &s->label, NULL, NULL);
	str_put_u64(ret, sum);
	str_putc(ret, '\n');
	put_series(ret, fam->duration.name, "_sum", &s->label, NULL, NULL);
	put_seconds(ret, s->v.sum_us);
	str_putc(ret, '\n');
}

static void put_family(struct str *ret, enum metric_format f, const struct family *fam)
{
	const size_t nslots = tally_slots(fam->kind);
	struct slot s = { .label = STR_INIT };

	if (fam->calls.name)
		put_calls(ret, f, fam, nslots);
	for (int place = 0; place < TALLY_PLACES && fam->in[place].name; place++)
		put_place(ret, f, fam, nslots, place);
	metric_head(ret, f, fam->duration.name, METRIC_HISTOGRAM, fam->duration.help);
	for (size_t it = 0; next_slot(fam, nslots, &it, &s);)
		put_histogram(ret, f, fam, &s);
	str_fini(&s.label);
}

/* --- what the process has in tables of its own */

static const struct { unsigned code; const char *name; } kinds[] = {
#define KIND(sym, number, text) { number, text },
	AUDIT_KINDS(KIND)
#undef KIND
};
_Static_assert((int)AUDIT_EPOCH_START < TALLY_RECORD_CODES, "a count for each kind; they stand in order");

static void put_records(struct str *ret, enum metric_format f)
{
	metric_head(ret, f, METRIC_PREFIX "records", METRIC_COUNTER, "Records committed to the audit, by kind");
	for (size_t i = 0; i < NELEMS(kinds); i++)
		str_printf(ret, METRIC_PREFIX "records_total{kind=\"%s\"} %" PRIu64 "\n", kinds[i].name,
			   tally_records(kinds[i].code));
}

static void put_lanes(struct str *ret, enum metric_format f, struct ev_loop *loop)
{
	metric_head(ret, f, METRIC_PREFIX "pool_jobs_waiting", METRIC_GAUGE,
		    "Jobs that wait for a thread of the pool, by its lane");
	for (int lane = 0; lane < EV_LANES; lane++)
		str_printf(ret, METRIC_PREFIX "pool_jobs_waiting{lane=\"%s\"} %zu\n", ev_lane_name((enum ev_lane)lane),
			   ev_lane_waiting(loop, (enum ev_lane)lane));
}

/* --- the store */

/* What a file has on its disk is another figure: one that was cut has less, and one with holes. */
static void put_files(struct str *ret, enum metric_format f, const char *store, const char *const *files)
{
	struct stat st;

	metric_head(ret, f, METRIC_PREFIX "store_bytes", METRIC_GAUGE,
		    "Size of a file of the store, without those of sealed months");
	for (; *files; files++) {
		char *path = path_join(store, *files);

		if (stat(path, &st) == 0)
			str_printf(ret, METRIC_PREFIX "store_bytes{file=\"%s\"} %" PRIu64 "\n", *files,
				   (uint64_t)st.st_size);
		free(path);
	}
}

static void put_refusing(struct str *ret, enum metric_format f, enum writer_why why)
{
	metric_head(ret, f, METRIC_PREFIX "audit_refusing", METRIC_GAUGE,
		    "Whether calls are refused for want of records, by the reason: 1, else 0");
	for (enum writer_why i = WRITER_TAKES + 1; i < WRITER_WHYS; i++)
		str_printf(ret, METRIC_PREFIX "audit_refusing{reason=\"%s\"} %d\n", writer_why_name(i), i == why);
}

/* --- what the loop has seen */

/* Of tenants that have slots: who is counted under the label other has no quota of that name. */
static void put_quotas(struct str *ret, enum metric_format f, const struct ops_seen *seen)
{
	static const char *const of[OPS_QUOTAS] = { "calls", "bytes", "audit" };

	metric_head(ret, f, METRIC_PREFIX "quota_used_ratio", METRIC_GAUGE,
		    "What part of a quota of today a tenant has used; above 1 it is refused what it asks");
	for (size_t i = 0; i < seen->nquotas; i++) {
		for (size_t q = 0; q < OPS_QUOTAS; q++) {
			if (seen->quota[i][q] < 0)
				continue;
			str_puts(ret, METRIC_PREFIX "quota_used_ratio{tenant=\"");
			metric_put_label(ret, tally_name(TALLY_TENANT, i));
			str_printf(ret, "\",of=\"%s\"} %.6f\n", of[q], seen->quota[i][q]);
		}
	}
}

static void put_upstreams(struct str *ret, enum metric_format f, const struct ops_seen *seen)
{
	metric_head(ret, f, METRIC_PREFIX "upstream_up", METRIC_GAUGE,
		    "Whether no link to an upstream has broken, or could not be opened, since one was ready: 1, else 0");
	for (size_t i = 0; i < seen->nupstreams; i++) {
		str_puts(ret, METRIC_PREFIX "upstream_up{upstream=\"");
		metric_put_label(ret, seen->upstream[i].name);
		str_printf(ret, "\"} %d\n", seen->upstream[i].up);
	}
	if (seen->others > 0)
		str_printf(ret, METRIC_PREFIX "upstream_up{upstream=\"" TALLY_OTHER "\"} %d\n", seen->others_down == 0);
}

static void put_alerts(struct str *ret, enum metric_format f, const struct ops_seen *seen)
{
	metric_head(ret, f, METRIC_PREFIX "alerts", METRIC_GAUGE,
		    "Alerts that are open, acknowledged ones too, by rule and severity");
	for (size_t i = 0; i < seen->nalerts; i++)
		str_printf(ret, METRIC_PREFIX "alerts{rule=\"%s\",severity=\"%s\"} %u\n", seen->alert[i].rule,
			   seen->alert[i].severity, seen->alert[i].n);
}

void ops_expose(const struct ops_env *env, const struct ops_seen *seen, enum metric_format f, struct str *ret)
{
	metric_head(ret, f, METRIC_PREFIX "build", METRIC_INFO, "Which toolcrib this is");
	str_puts(ret, METRIC_PREFIX "build_info{version=\"");
	metric_put_label(ret, env->version);
	str_puts(ret, "\",sqlite=\"");
	metric_put_label(ret, env->engine);
	str_puts(ret, "\"} 1\n");
	put_u64(ret, f, METRIC_PREFIX "ready", "Whether /readyz says that calls may come: 1, else 0", seen->ready);
	put_process(ret, f, env);
	metric_expose(ret, f);
	put_records(ret, f);
	put_lanes(ret, f, env->loop);
	if (env->store)
		put_files(ret, f, env->store, env->files);
	put_refusing(ret, f, seen->why);
	put_quotas(ret, f, seen);
	put_upstreams(ret, f, seen);
	if (env->alerts)
		put_alerts(ret, f, seen);
	str_put(ret, str_text(&seen->more), seen->more.len);
	for (size_t i = 0; i < NELEMS(families); i++)
		put_family(ret, f, &families[i]);
	if (f == METRIC_OPENMETRICS)
		str_puts(ret, METRIC_EOF);
}
