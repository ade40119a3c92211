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

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "db/db.h"
#include "verify/evidence.h"
#include "verify/verify.h"

/* The numbers of toolcrib(8). */
enum { EXIT_INTACT = 0, EXIT_USAGE = 2, EXIT_UNREADABLE = 3, EXIT_DAMAGED = 4, EXIT_INCOMPLETE = 5 };
enum { OPT_VERSION = 256, OPT_BUNDLE, OPT_WITH_BUNDLE, OPT_KEY, OPT_SIGNER, OPT_ANCHOR, OPT_ANCHOR_AGE,
	OPT_PAYLOAD_KEYS };
#define PROGRESS_US 200000              /* between two lines of it */

static const char usage[] =
	"usage: toolcrib-verify [--quiet] [--key KEY] [--signer-state FILE] [--anchor FILE]\n"
	"                       [--anchor-max-age TIME] [--with-bundle FILE] [--keys DIR] STORE | FILE\n"
	"       toolcrib-verify [--quiet] [--key KEY] --bundle FILE\n       toolcrib-verify --version | --help\n";

static const char help[] =
	"\nReads every record of a toolcrib store and checks that none was changed, removed or added.\n\n"
	"  STORE | FILE     the store's directory, or its toolcrib.db, or a copy of that\n"
	"  -q, --quiet      the last line only\n"
	"      --key KEY           a key that you have pinned, or a file with such keys; repeatable\n"
	"      --signer-state FILE what the signer remembers: its file state, or its directory\n"
	"      --anchor FILE       a checkpoint that was taken away earlier; repeatable\n"
	"      --keys DIR       open what is kept of calls with keys.db and the key files of this directory\n"
	"      --anchor-max-age TIME  say so when none was taken for that long, such as 7d\n"
	"      --bundle FILE       a bundle of records that were pruned or handed out, without the store\n"
	"      --with-bundle FILE  the store, and whether the bundle's records are those that it had\n"
	"      --version    print the version\n"
	"  -h, --help       print this\n\n"
	"Exit status: 0 intact, 4 damaged, 5 intact as far as could be seen, 3 unreadable, 2 usage.\n"
	"See toolcrib-verify(8).\n";

/* Texts of the store may hold anything: control characters are shown, not sent to the terminal. */
static void print_text(const char *text)
{
	size_t size = 4 * strlen(text) + 1;
	char *clean = mem_alloc(size);

	text_printable(text, strlen(text), clean, size);
	fputs(clean, stdout);
	free(clean);
}

/* What is printed of findings and of the way there; the line of progress stands on the terminal until something
 * else does. */
struct show {
	bool quiet, tty;                /* tty: standard error is one */
	bool standing;
	uint64_t begun_us, shown_us;
};

static void progress(void *arg, uint64_t records, uint64_t total)
{
	struct show *s = arg;
	uint64_t now = clock_mono_us(), past;
	double per_s;

	if (!s->begun_us)
		s->begun_us = now;
	if (s->shown_us && now - s->shown_us < PROGRESS_US)
		return;
	s->shown_us = now;
	s->standing = true;
	past = now - s->begun_us;
	per_s = past ? (double)records * 1e6 / (double)past : 0;
	fprintf(stderr, "\r\33[K%" PRIu64 " of %" PRIu64 " records", records, total);
	if (per_s > 0 && total >= records)
		fprintf(stderr, ", %.0f/s, %.0f s left", per_s, (double)(total - records) / per_s);
	fflush(stderr);
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

	if (s->quiet)
		return;
	clear_progress(s);
	printf("%s ", audit_finding_name(f->code));
	print_text(f->origin ? f->origin : "-");
	if (f->from >= 0)
		printf(" %" PRId64, f->from);
	if (f->from >= 0 && f->to != f->from)
		printf("-%" PRId64, f->to);
	fputs(": ", stdout);
	print_text(f->detail ? f->detail : audit_finding_text(f->code));
	putchar('\n');
}

static int fail(const struct err *err)
{
	fprintf(stderr, "toolcrib-verify: %s%s%s\n", err->where, *err->where ? ": " : "", err->msg);
	return EXIT_UNREADABLE;
}

static int finish(const struct audit_coverage *sum)
{
	printf("%s %" PRIu64 " records of %" PRIu64 " logs: %" PRIu64 " bad, %" PRIu64 " gaps\n",
	       sum->bad ? "DAMAGED" : sum->gaps ? "INCOMPLETE" : "INTACT", sum->records, sum->logs, sum->bad, sum->gaps);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "toolcrib-verify: standard output: %s\n", strerror(errno));
		return EXIT_UNREADABLE;
	}
	return sum->bad ? EXIT_DAMAGED : sum->gaps ? EXIT_INCOMPLETE : EXIT_INTACT;
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
	printf("bundle of %s, records %" PRId64 "-%" PRId64 "\n", *b.origin ? b.origin : "-", b.from, b.to - 1);
	return finish(&sum);
}

/* The bundle by itself, then beside the store. */
static int join_bundle(struct db *db, const char *path, struct show *show, struct audit_coverage *sum, struct err *err)
{
	struct audit_coverage own;
	struct audit_bundle b;
	int rc = read_bundle(path, NULL, show, &b, &own, err);

	if (rc == 0 && own.bad == 0)
		rc = audit_bundle_join(db, &b, found, show, &own, err);
	sum->records += own.records;
	sum->bad += own.bad;
	sum->gaps += own.gaps;
	return rc;
}

struct verify_opt {
	const char *bundle;
	struct show show;
	struct evidence *with;
};

/* In one line: what was looked at, and what not. */
static void print_coverage(const struct audit_coverage *sum)
{
	printf("%" PRIu64 " checkpoints of %" PRIu64 " epochs, the first key %s", sum->notes, sum->epochs,
	       sum->pinned ? "as pinned" : "not pinned: it is the store's own");
	if (sum->running)
		printf("; %" PRIu64 " calls running", sum->running);
	if (sum->names) {
		printf("; names of %" PRIu64 " principals not verified, for lack of keys or of a record: ", sum->names);
		print_text(sum->named);
	}
	putchar('\n');
}

static int verify(const char *path, struct verify_opt *o)
{
	struct audit_evidence with = *evidence_get(o->with);
	struct audit_coverage sum;
	struct db *db = NULL;
	struct err err = { 0 };
	int rc = db_open(path, DB_READER, false, &db, &err);

	with.progress = o->show.tty ? progress : NULL;
	if (rc == 0)
		rc = audit_verify_with(db, 0, &with, found, &o->show, &sum, &err);
	clear_progress(&o->show);
	if (rc == 0 && o->bundle)
		rc = join_bundle(db, o->bundle, &o->show, &sum, &err);
	db_close(&db);
	if (rc < 0)
		return fail(&err);
	if (!o->show.quiet)
		print_coverage(&sum);
	return finish(&sum);
}

static int verify_at(const char *at, struct verify_opt *o)
{
	struct str path = STR_INIT;
	struct stat st;
	int status;

	str_puts(&path, at);
	if (stat(at, &st) == 0 && S_ISDIR(st.st_mode))
		str_puts(&path, "/toolcrib.db");
	status = verify(str_text(&path), o);
	str_fini(&path);
	return status;
}

/* An option that brings evidence; false: it does not. */
static bool take_evidence(struct evidence *e, int c, const char *value, int *ret_rc, struct err *err)
{
	switch (c) {
	case OPT_KEY: *ret_rc = evidence_key(e, value, err); return true;
	case OPT_SIGNER: *ret_rc = evidence_signer(e, value, err); return true;
	case OPT_ANCHOR: *ret_rc = evidence_anchor(e, value, err); return true;
	case OPT_PAYLOAD_KEYS: *ret_rc = evidence_payload_keys(e, value, err); return true;
	case OPT_ANCHOR_AGE: *ret_rc = evidence_anchor_age(e, value, err); return true;
	default: return false;
	}
}

static int run(int argc, char **argv, struct verify_opt *o)
{
	static const struct option options[] = {
		{ "quiet", no_argument, NULL, 'q' }, { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION }, { "bundle", no_argument, NULL, OPT_BUNDLE },
		{ "key", required_argument, NULL, OPT_KEY }, { "signer-state", required_argument, NULL, OPT_SIGNER },
		{ "anchor", required_argument, NULL, OPT_ANCHOR }, { "anchor-max-age", required_argument, NULL, OPT_ANCHOR_AGE },
		{ "with-bundle", required_argument, NULL, OPT_WITH_BUNDLE },
		{ "keys", required_argument, NULL, OPT_PAYLOAD_KEYS }, { 0 },
	};
	struct err err = { 0 };
	bool bundle = false;
	int rc = 0;

	for (int c; (c = getopt_long(argc, argv, "qh", options, NULL)) != -1;) {
		switch (c) {
		case 'q':
			o->show.quiet = true;
			break;
		case 'h':
			printf("%s%s", usage, help);
			return EXIT_INTACT;
		case OPT_VERSION:
			puts("toolcrib-verify " PACKAGE_VERSION);
			return EXIT_INTACT;
		case OPT_BUNDLE:
			bundle = true;
			break;
		case OPT_WITH_BUNDLE:
			o->bundle = optarg;
			break;
		default:
			if (take_evidence(o->with, c, optarg, &rc, &err)) {
				if (rc < 0)
					return fail(&err);
				break;
			}
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 1 || (bundle && o->bundle)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	return bundle ? verify_bundle(argv[optind], evidence_get(o->with), &o->show) : verify_at(argv[optind], o);
}

int main(int argc, char **argv)
{
	struct verify_opt o = { .show = { .tty = isatty(STDERR_FILENO) } };
	int status;

	if (secret_init() < 0)
		return EXIT_UNREADABLE;
	o.with = evidence_new();
	status = run(argc, argv, &o);
	evidence_free(&o.with);
	return status;
}
