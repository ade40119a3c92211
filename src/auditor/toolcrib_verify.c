/* toolcrib-verify: reads a store, or a copy of one, that nobody vouches for.  No server, no owner, nothing written. */

#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "keys/commit.h"
#include "auditor/evidence.h"
#include "auditor/mark.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/served.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/segment.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"
#include "json/json.h"
#include "tlog/proof.h"
#include "units/units.h"
#include "verify/verify.h"

/* The numbers of toolcrib(8). */
enum { EXIT_INTACT = 0, EXIT_USAGE = 2, EXIT_UNREADABLE = 3, EXIT_DAMAGED = 4, EXIT_INCOMPLETE = 5 };
enum { OPT_VERSION = 256, OPT_BUNDLE, OPT_WITH_BUNDLE, OPT_KEY, OPT_SIGNER, OPT_ANCHOR, OPT_ANCHOR_AGE,
	OPT_PAYLOAD_KEYS, OPT_PROOF, OPT_OPENING, OPT_MARK, OPT_MARK_KEY, OPT_MARK_EVERY, OPT_RESUME, OPT_PROGRESS,
	OPT_SCRUB, OPT_SCRUB_MAX, OPT_THREADS };
enum { TEXT_SHOWN = 1024 };             /* bytes of a text that are printed, and a NUL */
#define PROGRESS_US 200000              /* between two lines of it */
#define PROGRESS_JSON_US 1000000
#define SEGMENT_SUFFIX ".tcs"
#define MEMORY_LEAST (128ull << 20)     /* that SQLite may have at least */

static const char usage[] =
	"usage: toolcrib-verify [--quiet | --verbose] [--key KEY] [--signer-state FILE] [--anchor FILE]\n"
	"                       [--anchor-max-age TIME] [--with-bundle FILE] [--keys DIR] [--progress json]\n"
	"                       [--threads N]\n"
	"                       [--mark FILE [--mark-key FILE] [--mark-every TIME] [--scrub 1/N] [--scrub-max TIME]\n"
	"                       [--resume]] STORE | FILE | URL\n"
	"       toolcrib-verify [--quiet] [--key KEY] [--progress json] FILE.tcs...\n"
	"       toolcrib-verify [--quiet] [--key KEY] --bundle FILE\n"
	"       toolcrib-verify [--quiet] --key KEY --proof FILE [--opening FILE]\n"
	"       toolcrib-verify --version | --help\n";

static const char help[] =
	"\nReads every record of a toolcrib store and checks that none was changed, removed or added.\n\n"
	"  STORE | FILE     the store's directory, or its toolcrib.db, or a copy of that\n"
	"  URL              a store on PostgreSQL: postgresql:host=pg1 dbname=toolcrib user=toolcrib_audit\n"
	"  FILE.tcs...      sealed files, by themselves, and whether they join\n"
	"  -q, --quiet      the last line only\n"
	"  -v, --verbose    first how fast this machine hashes, and how fast the store was read\n"
	"      --key KEY           a key that you have pinned, or a file with such keys; repeatable\n"
	"      --signer-state FILE what the signer remembers: its file state, or its directory\n"
	"      --anchor FILE       a checkpoint that was taken away earlier; repeatable\n"
	"      --keys DIR       open what is kept of calls with keys.db and the key files of this directory\n"
	"      --anchor-max-age TIME  say so when none was taken for that long, such as 7d\n"
	"      --mark FILE         read only what is new since the run that made this file; made when it is missing\n"
	"      --mark-key FILE     the key that seals it (FILE.key beside it)\n"
	"      --mark-every TIME   keep there how far it is, for --resume (5s)\n"
	"      --scrub 1/N         with --mark: also the Nth part of the old records that was read longest ago\n"
	"      --scrub-max TIME    with --mark: say so when some were not read for that long, such as 60d\n"
	"      --resume            with --mark: go on with a run that was cut off\n"
	"      --threads N         so many read records at once; as many as there are processors\n"
	"      --progress json     how far it is, for programs: a line of JSON each second on standard error\n"
	"      --bundle FILE       a bundle of records that were pruned or handed out, without the store\n"
	"      --proof FILE        a proof that one record is in a log, and what that record says\n"
	"      --opening FILE      with --proof: what audit payload --opening said, with --json\n"
	"      --with-bundle FILE  the store, and whether a bundle's, or sealed file's, records are those that it had\n"
	"      --version    print the version\n"
	"  -h, --help       print this\n\n"
	"Exit status: 0 intact, 4 damaged, 5 intact as far as could be seen, 3 unreadable, or no key pinned, 2 usage.\n"
	"See toolcrib-verify(8).\n";

/* Texts of the store may hold anything: control characters are shown, not sent to the terminal, and long ones cut. */
static void print_text(const char *text, FILE *to)
{
	char clean[TEXT_SHOWN];

	text_printable(text, strlen(text), clean, sizeof(clean));
	fputs(clean, to);
}

/* What is printed of findings and of the way there; the line of progress stands on the terminal until something
 * else does. */
struct show {
	bool quiet, verbose, tty, json; /* tty: standard error is one; json: progress is for programs */
	bool standing;
	uint64_t begun_us, shown_us;
	uint64_t records, total;        /* as they were said last */
	struct mark *mark;              /* or NULL */
};

static void print_json(const struct show *s, bool kept)
{
	uint64_t past = clock_mono_us() - s->begun_us;

	fprintf(stderr, "{\"records\":%" PRIu64 ",\"of\":%" PRIu64 ",\"per_s\":%" PRIu64 ",\"kept\":%s}\n", s->records,
		s->total, past ? (uint64_t)((double)s->records * 1e6 / (double)past) : 0, kept ? "true" : "false");
}

static void print_line(struct show *s, uint64_t now)
{
	uint64_t past = now - s->begun_us;
	double per_s = past ? (double)s->records * 1e6 / (double)past : 0;

	s->standing = true;
	fprintf(stderr, "\r\33[K%" PRIu64 " of %" PRIu64 " records", s->records, s->total);
	if (per_s > 0 && s->total >= s->records)
		fprintf(stderr, ", %.0f/s, %.0f s left", per_s, (double)(s->total - s->records) / per_s);
	fflush(stderr);
}

static void progress(void *arg, uint64_t records, uint64_t total)
{
	struct show *s = arg;
	uint64_t now = clock_mono_us();

	if (!s->begun_us)
		s->begun_us = now;
	s->records = records;
	s->total = total;
	if (s->shown_us && now - s->shown_us < (s->json ? PROGRESS_JSON_US : PROGRESS_US))
		return;
	s->shown_us = now;
	if (s->json)
		print_json(s, false);
	else
		print_line(s, now);
}

static void clear_progress(struct show *s)
{
	if (s->standing)
		fputs("\r\33[K", stderr);
	s->standing = false;
}

static void found(void *arg, const struct audit_finding *f)
{
	struct show *s = arg;

	if (s->mark)
		mark_found(s->mark, f);
	if (s->quiet)
		return;
	clear_progress(s);
	printf("%s ", audit_finding_name(f->code));
	print_text(f->origin ? f->origin : "-", stdout);
	if (f->from >= 0)
		printf(" %" PRId64, f->from);
	if (f->from >= 0 && f->to != f->from)
		printf("-%" PRId64, f->to);
	fputs(": ", stdout);
	print_text(f->detail ? f->detail : audit_finding_text(f->code), stdout);
	putchar('\n');
}

static int fail(const struct err *err)
{
	fputs("toolcrib-verify: ", stderr);
	print_text(err->where, stderr);
	fputs(*err->where ? ": " : "", stderr);
	print_text(err->msg, stderr);
	putc('\n', stderr);
	if (*err->hint) {
		fputs("hint: ", stderr);
		print_text(err->hint, stderr);
		putc('\n', stderr);
	}
	return EXIT_UNREADABLE;
}

/* unpinned: nobody but the store itself says whose it is, and that is no word of its own. */
static int finish(const struct audit_coverage *sum, bool unpinned)
{
	unpinned = unpinned && sum->bad == 0;
	printf("%s %" PRIu64 " records of %" PRIu64 " logs: %" PRIu64 " bad, %" PRIu64 " gaps\n",
	       sum->bad ? "DAMAGED" : unpinned ? "UNPINNED" : sum->gaps ? "INCOMPLETE" : "INTACT", sum->records, sum->logs,
	       sum->bad, sum->gaps);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "toolcrib-verify: standard output: %s\n", strerror(errno));
		return EXIT_UNREADABLE;
	}
	if (unpinned)
		fputs("toolcrib-verify: no key is pinned: whoever wrote the store may have signed it\n"
		      "hint: give --key what toolcrib audit keys printed when the store was made\n", stderr);
	return sum->bad ? EXIT_DAMAGED : unpinned ? EXIT_UNREADABLE : sum->gaps ? EXIT_INCOMPLETE : EXIT_INTACT;
}

static int read_bundle(const char *path, const struct audit_evidence *with, struct show *show, struct audit_bundle *ret,
		       struct audit_coverage *sum, struct err *err)
{
	FILE *f = NULL;
	int rc = path_open_stream(path, &f, err);

	if (rc < 0)
		return rc;
	rc = audit_bundle_verify(f, with, found, show, ret, sum, err);
	fclose(f);
	return rc;
}

static int verify_bundle(const char *path, const struct audit_evidence *with, struct show *show)
{
	struct audit_coverage sum;
	struct audit_bundle b;
	struct err err = { 0 };

	if (read_bundle(path, with, show, &b, &sum, &err) < 0)
		return fail(&err);
	fputs("bundle of ", stdout);
	print_text(*b.origin ? b.origin : "-", stdout);
	printf(", records %" PRId64 "-%" PRId64 "\n", b.from, b.to - 1);
	return finish(&sum, false);     /* a gap says so */
}

static bool is_url(const char *at)
{
	return strncmp(at, "postgresql:", strlen("postgresql:")) == 0;
}

/* By its name, so that what is left of one is not taken for a store, or by what it says. */
static bool is_segment(const char *path)
{
	const size_t len = strlen(path), n = strlen(SEGMENT_SUFFIX);

	return (len > n && strcmp(path + len - n, SEGMENT_SUFFIX) == 0) || (!is_url(path) && db_is_segment(path));
}

/* What a sealed file has, as a bundle of these records. */
static int read_segment(const char *path, struct show *show, struct audit_bundle *ret, struct audit_coverage *sum,
			struct err *err)
{
	struct audit_segment s;
	int rc = audit_segment_verify(path, NULL, found, show, &s, sum, err);

	*ret = (struct audit_bundle){ .from = s.from, .to = s.to };
	(void)snprintf(ret->origin, sizeof(ret->origin), "%s", s.origin);
	memcpy(ret->root, s.root, sizeof(ret->root));
	return rc;
}

/* The bundle by itself, then beside the store. */
static int join_bundle(struct db *db, const char *path, struct show *show, struct audit_coverage *sum, struct err *err)
{
	struct audit_coverage own;
	struct audit_bundle b;
	int rc = is_segment(path) ? read_segment(path, show, &b, &own, err) : read_bundle(path, NULL, show, &b, &own, err);

	if (rc == 0 && own.bad == 0)
		rc = audit_bundle_join(db, &b, found, show, &own, err);
	sum->records += own.records;
	sum->bad += own.bad;
	sum->gaps += own.gaps;
	return rc;
}

/* --- sealed files by themselves */

static void print_segment(const struct audit_segment *s)
{
	char first[40], last[40], digest[2 * DIGEST_SIZE + 1];

	fputs("sealed file of ", stdout);
	print_text(s->origin, stdout);
	printf(", records %" PRId64 "-%" PRId64, s->from, s->to - 1);
	if (s->first_us)
		printf(", from %s to %s", clock_format_utc(s->first_us, first, sizeof(first)),
		       clock_format_utc(s->last_us, last, sizeof(last)));
	text_hex(s->digest, sizeof(s->digest), digest);
	printf("\nits digest is %s\n", digest);
}

static int verify_segment(const char *path, const struct audit_evidence *with, struct show *show,
			  struct audit_segment *ret, struct audit_coverage *all, struct err *err)
{
	struct audit_coverage sum;
	int rc = audit_segment_verify(path, with, found, show, ret, &sum, err);

	clear_progress(show);
	if (rc < 0)
		return rc;
	if (*ret->origin && !show->quiet)
		print_segment(ret);
	all->records += sum.records;
	all->bad += sum.bad;
	all->gaps += sum.gaps;
	all->shut += sum.shut;
	return 0;
}

static int verify_segments(char **path, size_t n, const struct audit_evidence *keys, struct show *show)
{
	const struct audit_evidence with = { .key = keys->key, .nkey = keys->nkey,
		.progress = show->tty || show->json ? progress : NULL };
	struct audit_segment *v = mem_calloc(n, sizeof(*v));
	struct audit_coverage all = { 0 };
	struct err err = { 0 };
	size_t read = 0;
	int status = EXIT_INTACT;

	db_memory_max(MEMORY_LEAST);
	for (size_t i = 0; i < n; i++) {
		if (verify_segment(path[i], &with, show, &v[read], &all, &err) < 0)
			status = fail(&err);
		else
			read++;
	}
	audit_segment_join(v, read, found, show, &all);
	free(v);
	if (status != EXIT_INTACT && all.bad == 0)
		return status;
	if (!show->quiet) {
		fputs(n > 1 ? "whether calls pair, clocks and the registry were not looked at"
		      : "alone: whether calls pair, clocks, the registry and the records around it were not looked at", stdout);
		if (all.shut)
			printf("; %" PRIu64 " kept values not opened", all.shut);
		putchar('\n');
	}
	return finish(&all, false);     /* a gap says so */
}

/* --- a proof, and what its record commits to; verify.py prints the same */

enum { OPENINGS_MAX = 16 << 20 };
static const struct { enum audit_column col; const char *unit; } units[] = {
	{ COL_N_REQ, "bytes" }, { COL_N_RES, "bytes" }, { COL_N_STO, "bytes" }, { COL_DUR, "us" }, { COL_CPU, "us" },
	{ COL_RSS, "KiB" },
};

/* The name of a number, or its unit, or NULL. */
static const char *name_of(enum audit_column col, int64_t n)
{
	int v = n < 0 || n > INT32_MAX ? -1 : (int)n;

	for (size_t i = 0; i < NELEMS(units); i++)
		if (units[i].col == col)
			return units[i].unit;
	return v < 0 ? NULL : col == COL_KIND ? audit_kind_name(v) : col == COL_OUTCOME ? audit_outcome_name(v) :
		col == COL_TPORT ? audit_tport_name(v) : NULL;
}

static void print_hex(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", p[i]);
}

/* Each commitment behind what it is of. */
static void print_commitments(const struct audit_value *v)
{
	struct audit_cm all[AUDIT_COMMITS_MAX];
	size_t n = 0;

	if (!audit_cm_read(v->p, v->len, all, &n))
		print_hex(v->p, v->len);
	for (size_t i = 0; i < n; i++) {
		const char *name = audit_ctag_name(all[i].ctag);

		printf("%s%s ", i ? ", " : "", name ? name : "unknown");
		print_hex(all[i].commitment, DIGEST_SIZE);
	}
}

/* Texts of ext, by their tags. */
static const struct { unsigned tag; const char *name; } texts[] = {
	{ AUDIT_TAG_GROUND, "ground" }, { AUDIT_TAG_TICKET, "ticket" }, { AUDIT_TAG_APPROVER, "approver" },
	{ AUDIT_TAG_REASON, "reason" }, { AUDIT_TAG_COMMAND, "command" }, { AUDIT_TAG_RESULT, "result" },
	{ AUDIT_TAG_DECISION, "decision" },
};

static void print_field(unsigned tag, const uint8_t *p, size_t len)
{
	const char *name = NULL;

	for (size_t i = 0; i < NELEMS(texts); i++)
		if (texts[i].tag == tag && text_utf8_valid((const char *)p, len) && !memchr(p, 0, len))
			name = texts[i].name;
	printf("%04x ", tag);
	if (name) {
		char *text = mem_strndup((const char *)p, len);

		printf("%s ", name);
		print_text(text, stdout);
		free(text);
	} else {
		print_hex(p, len);
	}
}

/* A line for each field; what is none, as the bytes that it is. */
static void print_fields(const struct audit_value *v)
{
	const uint8_t *p = v->p;
	size_t at = 0;

	while (v->len - at >= 6 && audit_get_be(p + at + 2, 4) <= v->len - at - 6) {
		size_t len = audit_get_be(p + at + 2, 4);

		fputs(at ? "\n  ext " : "", stdout);
		print_field((unsigned)audit_get_be(p + at, 2), p + at + 6, len);
		at += 6 + len;
	}
	if (at < v->len) {
		fputs(at ? "\n  ext " : "", stdout);
		print_hex(p + at, v->len - at);
	}
}

static void print_column(enum audit_column col, const struct audit_value *v)
{
	const char *more = v->p ? NULL : name_of(col, v->n);
	char text[64];

	printf("  %s ", audit_columns[col].name);
	if (col == COL_TS) {
		fputs(clock_format_utc((uint64_t)v->n, text, sizeof(text)), stdout);
	} else if (audit_columns[col].form == FORM_INT) {
		printf("%" PRId64 "%s%s", v->n, more ? " " : "", more ? more : "");
	} else if (col == COL_CALL || col == COL_PREV) {
		fputs(id_format(v->p, text), stdout);
	} else if (col == COL_CM) {
		print_commitments(v);
	} else if (col == COL_EXT) {
		print_fields(v);
	} else if (audit_columns[col].form == FORM_BLOB) {
		print_hex(v->p, v->len);
	} else {
		char *all = mem_strndup(v->p, v->len);

		print_text(all, stdout);
		free(all);
	}
	putchar('\n');
}

static void print_proved(const struct audit_proved *p, bool quiet)
{
	printf("PROVED record %" PRIu64 " of ", p->index);
	print_text(p->origin, stdout);
	printf(", in a log of %" PRIu64 "\n", p->size);
	for (unsigned col = 0; col < COL_COUNT && !quiet; col++)
		if (p->row.v[col].present)
			print_column((enum audit_column)col, &p->row.v[col]);
}

static int no_opening(struct err *err)
{
	return err_set(err, ERR_INVALID, "", "a line that audit payload --opening does not say");
}

/* A row of audit payload --opening: 1, it opens what the record commits to; 0, it is of something else. */
static int check_opening(const struct audit_proved *p, const char *line, size_t len, struct err *err)
{
	const char *value, *bytes, *hex, *name;
	uint8_t opening[DIGEST_SIZE], *p_value = NULL;
	json_t *row = NULL;
	int64_t index, ctag;
	size_t n = 0;
	int rc = jx_parse(line, len, &row, err);
	bool good;

	index = json_integer_value(json_object_get(row, "index"));
	ctag = json_integer_value(json_object_get(row, "ctag"));
	value = json_string_value(json_object_get(row, "value"));
	bytes = json_string_value(json_object_get(row, "bytes"));
	hex = json_string_value(json_object_get(row, "opening"));
	if (rc < 0 || !json_is_integer(json_object_get(row, "index"))) {
		json_decref(row);
		return no_opening(err);
	}
	if (index < 0 || (uint64_t)index != p->index || !hex || !value) {
		json_decref(row);
		return 0;
	}
	n = bytes ? strlen(bytes) : strlen(value);
	p_value = mem_alloc(n + 1);
	memcpy(p_value, value, bytes ? 0 : n);
	good = ctag > 0 && ctag <= UINT16_MAX && text_unhex(hex, strlen(hex), opening, sizeof(opening)) == 0 &&
	       (!bytes || text_unbase64(bytes, n, p_value, n, &n) == 0);
	name = audit_ctag_name((unsigned)(ctag & UINT16_MAX));
	if (!good) {
		rc = no_opening(err);
	} else if (!audit_proof_opens(p, (unsigned)ctag, opening, p_value, n)) {
		rc = err_set(err, ERR_INVALID, "", "this is not what the record commits to as its %s", name ? name : "value");
	} else {
		printf("OPENED %s: ", name ? name : "unknown");
		print_text(value, stdout);
		putchar('\n');
		rc = 1;
	}
	free(p_value);
	json_decref(row);
	return rc;
}

/* How many of the file's openings are of the record. */
static int check_openings(const struct audit_proved *p, const char *path, size_t *ret, struct err *err)
{
	struct str text = STR_INIT;
	int rc = path_read(path, OPENINGS_MAX, &text, err);
	const char *line = str_text(&text);

	while (rc >= 0 && *line) {
		size_t len = strcspn(line, "\n");

		rc = check_opening(p, line, len, err);
		*ret += rc > 0;
		line += len + (line[len] == '\n');
	}
	str_fini(&text);
	return rc < 0 ? rc : 0;
}

static int verify_proof(const char *path, const char *openings, const struct audit_evidence *with, bool quiet)
{
	struct audit_proved proved = { .record = NULL };
	struct str text = STR_INIT;
	struct err err = { 0 };
	size_t opened = 0;
	int rc = path_read(path, PROOF_TEXT_MAX, &text, &err), status = EXIT_UNREADABLE;

	if (rc == 0) {
		rc = audit_proof_check(str_text(&text), text.len, with, &proved, &err);
		status = EXIT_DAMAGED;
	}
	if (rc == 0)
		print_proved(&proved, quiet);
	if (rc == 0 && openings)
		rc = check_openings(&proved, openings, &opened, &err);
	if (rc == 0)
		status = openings && opened == 0 ? EXIT_INCOMPLETE : EXIT_INTACT;
	else
		(void)fail(&err);
	if (status == EXIT_INCOMPLETE)
		fprintf(stderr, "toolcrib-verify: nothing opens what record %" PRIu64 " commits to\n", proved.index);
	free(proved.record);
	str_fini(&text);
	return status;
}

/* --- a store */

struct verify_opt {
	const char *bundle, *opening, *keys;
	bool is_bundle, is_proof, is_segment;   /* what the last word is, if no store */
	struct show show;
	struct evidence *with;
	const char *mark, *mark_key;
	uint64_t mark_every_us, scrub_max_us;
	unsigned scrub;
	bool resume;
	unsigned threads;               /* 0: as many as there are processors */
};

/* In one line: what was looked at, and what not. */
static void print_coverage(const struct audit_coverage *sum)
{
	printf("%" PRIu64 " checkpoints of %" PRIu64 " epochs, the first key %s", sum->notes, sum->epochs,
	       sum->pinned ? "as pinned" : "not pinned: it is the store's own");
	if (sum->running)
		printf("; %" PRIu64 " calls running", sum->running);
	if (sum->shut)
		printf("; %" PRIu64 " kept values and names not opened", sum->shut);
	if (sum->vouched_us) {
		char time[40];

		printf("; old versions, settings, holds and tenants of logs not vouched for before %s",
		       clock_format_utc(sum->vouched_us, time, sizeof(time)));
	}
	if (sum->names) {
		printf("; names of %" PRIu64 " principals not verified, for lack of keys or of a record: ", sum->names);
		print_text(sum->named, stdout);
	}
	putchar('\n');
}

/* A store sorts and counts in memory as much as it has; one that only says it has much must not take it. */
static void limit_memory(const char *path)
{
	struct stat st = { 0 };

	if (stat(path, &st) == 0)
		db_memory_max(MEMORY_LEAST + (uint64_t)st.st_blocks * 512 / 4);
}

enum { HASHED_BYTES = 600, HASHED_TIMES = 20000 };       /* a record of the default level; some ten milliseconds */

/* SC-703: what verifying costs at least.  Some 300 MB/s is a processor without instructions for it. */
static void print_speed(void)
{
	uint8_t piece[HASHED_BYTES] = { 0 };
	uint64_t begun = clock_mono_us(), past;

	for (unsigned i = 0; i < HASHED_TIMES; i++)
		digest_sha256(piece, sizeof(piece), piece);
	past = clock_mono_us() - begun;
	printf("SHA-256: %.0f MB/s, %.2f us for %d bytes\n", (double)HASHED_BYTES * HASHED_TIMES / (double)(past ? past : 1),
	       (double)past / HASHED_TIMES, HASHED_BYTES);
}

static void print_rate(const struct audit_coverage *sum, uint64_t past_us)
{
	printf("%" PRIu64 " records in %.1f s, %.0f/s\n", sum->records, (double)past_us / 1e6,
	       (double)sum->records * 1e6 / (double)(past_us ? past_us : 1));
}

/* --- with a mark */

/* 1,204,113 */
static void print_count(uint64_t n)
{
	char digits[32];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);

	for (int i = 0; i < len; i++)
		printf("%s%c", i > 0 && (len - i) % 3 == 0 ? "," : "", digits[i]);
}

static void print_age(uint64_t us)
{
	static const struct { uint64_t s; const char *name; } spans[] = {
		{ 86400, "day" }, { 3600, "hour" }, { 60, "minute" },
	};
	uint64_t s = us / 1000000, n;
	size_t i = 0;

	while (i < NELEMS(spans) && s < spans[i].s)
		i++;
	if (i == NELEMS(spans)) {
		fputs("less than a minute", stdout);
		return;
	}
	n = s / spans[i].s;
	printf("%" PRIu64 " %s%s", n, spans[i].name, n == 1 ? "" : "s");
}

static void print_since(uint64_t made_us, uint64_t oldest_us, const struct audit_coverage *sum)
{
	uint64_t scrubbed = sum->again < sum->older ? sum->again : sum->older;
	char time[40];

	fputs("verified ", stdout);
	print_count(sum->records - sum->again);
	printf(" new records since the mark of %.16sZ; ", clock_format_utc(made_us, time, sizeof(time)));
	print_count(sum->older - scrubbed);
	if (sum->again) {
		fputs(" older ones were not read again, ", stdout);
		print_count(sum->again);
		fputs(" were (oldest reading: ", stdout);
	} else {
		fputs(" older ones were not read again (oldest reading: ", stdout);
	}
	print_age(oldest_us);
	fputs(")\n", stdout);
}

/* SC-706: what was not read for too long is not checked. */
static void check_age(struct verify_opt *o, uint64_t oldest_us, struct audit_coverage *sum)
{
	if (o->scrub_max_us == 0 || oldest_us <= o->scrub_max_us)
		return;
	sum->gaps++;
	found(&o->show, &(struct audit_finding){ .code = AUDIT_FINDING_NOT_CHECKED, .from = -1, .to = -1,
		.detail = "some records, or the indexes, were not read for longer than --scrub-max" });
}

static void kept(void *arg)
{
	const struct show *s = arg;

	if (s->json)
		print_json(s, true);
}

static int verify_since(struct db *db, const struct audit_evidence *with, struct verify_opt *o,
			struct audit_coverage *sum, struct err *err)
{
	struct mark_run run = { o->resume, o->mark_every_us, o->scrub, found, kept, &o->show, 0 };
	const struct verify_marking *marking = mark_begin(o->show.mark, &run);
	uint64_t oldest_us;
	int rc;

	if (o->resume && !run.resume)
		fputs("toolcrib-verify: no run was cut off, so this one begins anew\n", stderr);
	rc = audit_verify_marked(db, with, marking, found, &o->show, sum, err);
	clear_progress(&o->show);
	if (rc == 0)
		rc = mark_end(o->show.mark, sum, &oldest_us, err);
	if (rc == 0)
		check_age(o, oldest_us, sum);
	if (rc == 0 && sum->bad > 0)
		fputs("toolcrib-verify: the mark stays what it was: the store is damaged\n", stderr);
	if (rc == 0 && run.made_us && !o->show.quiet)
		print_since(run.made_us, oldest_us, sum);
	return rc;
}

static unsigned processors(void)
{
	const unsigned n = cpu_count();

	return n > UNITS_THREADS_MAX ? UNITS_THREADS_MAX : n;
}

static int verify_store(struct db *db, struct verify_opt *o, struct audit_coverage *sum, struct err *err)
{
	struct audit_evidence with = *evidence_get(o->with);
	int rc;

	with.threads = o->threads ? o->threads : processors();
	with.progress = o->show.tty || o->show.json ? progress : NULL;
	if (o->show.mark)
		rc = verify_since(db, &with, o, sum, err);
	else
		rc = audit_verify_with(db, 0, &with, found, &o->show, sum, err);
	clear_progress(&o->show);
	if (rc == 0 && o->bundle && !sum->foreign)
		rc = join_bundle(db, o->bundle, &o->show, sum, err);
	return rc;
}

/* What a folder says of a server is not followed: whoever has made it would say whom this program asks. */
static int open_store(const char *at, struct db **ret, struct err *err)
{
	const struct db_server server = { .url = at };
	struct stat st;
	char *path, *served;
	int rc;

	if (is_url(at))
		return db_open_server(&server, DB_READER, ret, err);
	path = stat(at, &st) == 0 && S_ISDIR(st.st_mode) ? path_join(at, DB_FILE) : mem_strdup(at);
	served = path_join(at, DB_SERVED);
	limit_memory(path);
	rc = db_open(path, DB_READER, false, ret, err);
	if (rc < 0 && !path_exists(path) && path_exists(served))
		err_hint(err, "its store is on PostgreSQL: say the address, which its file " DB_SERVED
			 " has, and a role that may read");
	free(served);
	free(path);
	return rc;
}

static int verify(const char *at, struct verify_opt *o)
{
	struct audit_coverage sum;
	struct db *db = NULL;
	struct err err = { 0 };
	uint64_t begun;
	int rc;

	if (o->show.verbose)
		print_speed();
	begun = clock_mono_us();
	rc = open_store(at, &db, &err);
	if (rc == 0)
		rc = verify_store(db, o, &sum, &err);
	db_close(&db);
	if (rc < 0)
		return fail(&err);
	if (o->show.verbose)
		print_rate(&sum, clock_mono_us() - begun);
	if (!o->show.quiet)
		print_coverage(&sum);
	return finish(&sum, !sum.pinned);
}

static int verify_at(const char *at, struct verify_opt *o)
{
	struct err err = { 0 };
	int status;

	if (o->mark && mark_open(o->mark, o->mark_key, is_url(at) ? NULL : at, &o->show.mark, &err) < 0)
		return fail(&err);
	status = verify(at, o);
	mark_free(&o->show.mark);
	return status;
}

/* An option that brings evidence; false: it does not. */
static bool take_evidence(struct evidence *e, int c, const char *value, int *ret_rc, struct err *err)
{
	switch (c) {
	case OPT_KEY: *ret_rc = evidence_key(e, value, err); return true;
	case OPT_SIGNER: *ret_rc = evidence_signer(e, value, err); return true;
	case OPT_ANCHOR: *ret_rc = evidence_anchor(e, value, err); return true;
	case OPT_ANCHOR_AGE: *ret_rc = evidence_anchor_age(e, value, err); return true;
	default: return false;
	}
}

static bool take_every(struct verify_opt *o, const char *value)
{
	uint64_t ms = 0;

	if (text_duration_ms(value, &ms) < 0)
		return false;
	o->mark_every_us = ms * 1000;
	return true;
}

/* 1/30 */
static bool take_scrub(struct verify_opt *o, const char *value)
{
	uint64_t part = 0;

	if (strncmp(value, "1/", 2) != 0 || text_u64(value + 2, strlen(value + 2), &part) < 0)
		return false;
	if (part == 0 || part > MARK_SCRUB_MAX)
		return false;
	o->scrub = (unsigned)part;
	return true;
}

static bool take_threads(struct verify_opt *o, const char *value)
{
	uint64_t n = 0;

	if (text_u64(value, strlen(value), &n) < 0 || n == 0 || n > UNITS_THREADS_MAX)
		return false;
	o->threads = (unsigned)n;
	return true;
}

static bool take_scrub_max(struct verify_opt *o, const char *value)
{
	uint64_t ms = 0;

	if (text_duration_ms(value, &ms) < 0 || ms == 0)
		return false;
	o->scrub_max_us = ms * 1000;
	return true;
}

/* Any other option; false: there is none such, or it cannot be that. */
static bool take_word(struct verify_opt *o, int c, const char *value)
{
	switch (c) {
	case 'q': o->show.quiet = true; return true;
	case 'v': o->show.verbose = true; return true;
	case OPT_BUNDLE: o->is_bundle = true; return true;
	case OPT_PROOF: o->is_proof = true; return true;
	case OPT_OPENING: o->opening = value; return true;
	case OPT_PAYLOAD_KEYS: o->keys = value; return true;
	case OPT_WITH_BUNDLE: o->bundle = value; return true;
	case OPT_MARK: o->mark = value; return true;
	case OPT_MARK_KEY: o->mark_key = value; return true;
	case OPT_RESUME: o->resume = true; return true;
	case OPT_MARK_EVERY: return take_every(o, value);
	case OPT_SCRUB: return take_scrub(o, value);
	case OPT_SCRUB_MAX: return take_scrub_max(o, value);
	case OPT_THREADS: return take_threads(o, value);
	case OPT_PROGRESS: o->show.json = true; return strcmp(value, "json") == 0;
	default: return false;
	}
}

/* Options that need others, or do not go with them. */
static bool fits(const struct verify_opt *o)
{
	const struct audit_evidence *with = evidence_get(o->with);
	bool store = !o->is_bundle && !o->is_proof;

	if (o->is_segment && (!store || o->bundle || o->mark || o->show.verbose || with->signer || with->nanchor > 0 ||
			      with->anchor_age_s || with->keys || with->keys_wrong || o->threads))
		return false;

	return !(o->show.quiet && o->show.verbose) && !(o->is_bundle && o->bundle) &&
	       !(o->is_proof && (o->is_bundle || o->bundle || with->nkey == 0)) &&
	       (!o->opening || o->is_proof) && (store || !(o->mark || o->show.json || o->threads)) &&
	       (o->mark || !(o->mark_key || o->resume || o->scrub || o->scrub_max_us || o->mark_every_us != MARK_KEEP_US));
}

static int run(int argc, char **argv, struct verify_opt *o)
{
	static const struct option options[] = {
		{ "quiet", no_argument, NULL, 'q' }, { "verbose", no_argument, NULL, 'v' }, { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION }, { "bundle", no_argument, NULL, OPT_BUNDLE },
		{ "key", required_argument, NULL, OPT_KEY }, { "signer-state", required_argument, NULL, OPT_SIGNER },
		{ "anchor", required_argument, NULL, OPT_ANCHOR }, { "anchor-max-age", required_argument, NULL, OPT_ANCHOR_AGE },
		{ "with-bundle", required_argument, NULL, OPT_WITH_BUNDLE },
		{ "keys", required_argument, NULL, OPT_PAYLOAD_KEYS }, { "proof", no_argument, NULL, OPT_PROOF },
		{ "opening", required_argument, NULL, OPT_OPENING }, { "mark", required_argument, NULL, OPT_MARK },
		{ "mark-key", required_argument, NULL, OPT_MARK_KEY }, { "mark-every", required_argument, NULL, OPT_MARK_EVERY },
		{ "resume", no_argument, NULL, OPT_RESUME }, { "progress", required_argument, NULL, OPT_PROGRESS },
		{ "scrub", required_argument, NULL, OPT_SCRUB }, { "scrub-max", required_argument, NULL, OPT_SCRUB_MAX },
		{ "threads", required_argument, NULL, OPT_THREADS }, { 0 },
	};
	struct err err = { 0 };
	int rc = 0;

	for (int c; (c = getopt_long(argc, argv, "qvh", options, NULL)) != -1;) {
		if (c == 'h') {
			printf("%s%s", usage, help);
			return EXIT_INTACT;
		}
		if (c == OPT_VERSION) {
			served_put_version("toolcrib-verify");
			return EXIT_INTACT;
		}
		if (take_evidence(o->with, c, optarg, &rc, &err)) {
			if (rc < 0)
				return fail(&err);
		} else if (!take_word(o, c, optarg)) {
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (o->keys && evidence_payload_keys(o->with, o->keys, argc > optind && is_url(argv[optind]), &err) < 0)
		return fail(&err);
	o->is_segment = argc > optind && !o->is_bundle && !o->is_proof;
	for (int i = optind; i < argc; i++)
		o->is_segment = o->is_segment && is_segment(argv[i]);
	if (argc == optind || (argc - optind > 1 && !o->is_segment) || !fits(o)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (o->is_segment)
		return verify_segments(argv + optind, (size_t)(argc - optind), evidence_get(o->with), &o->show);
	if (o->is_proof)
		return verify_proof(argv[optind], o->opening, evidence_get(o->with), o->show.quiet);
	return o->is_bundle ? verify_bundle(argv[optind], evidence_get(o->with), &o->show) : verify_at(argv[optind], o);
}

int main(int argc, char **argv)
{
	struct verify_opt o = { .show = { .tty = isatty(STDERR_FILENO) }, .mark_every_us = MARK_KEEP_US };
	int status;

	if (secret_init() < 0)
		return EXIT_UNREADABLE;
	o.with = evidence_new();
	status = run(argc, argv, &o);
	evidence_free(&o.with);
	return status;
}
