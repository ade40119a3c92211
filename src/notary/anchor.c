/* Checkpoints taken outside (AUDIT ): a line in the log, a file, a command that gets the note on its
 * standard input and whose output is the receipt.  Both happen beside the beats: nothing waits for them. */

#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "sandbox/policy.h"
#include "writer/writer.h"

#include "notary_int.h"

enum {
	KIND_FILE = 1, KIND_COMMAND = 2, KIND_OBJECT = 3,       /* as verifiers know them */
	COMMAND_MS = 30000,             /* how long a command may take */
	RECEIPT_MAX = 4096,             /* bytes of its output that are kept */
	COMMAND_FILES = 64,
};

/* A checkpoint on its way out. */
struct anchoring {
	struct notary *n;
	struct str note;
	uint64_t size;
	struct ev_child *child;
	struct ev_timer *timer;
	int fd[3];
	int rc;
	struct err err;
};

/* What goes to the writer. */
struct receipt_job {
	int kind;
	uint64_t size;
	struct str note, receipt;
};

/* --- the record */

static int receipt_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct receipt_job *job = arg;
	static const char *const names[] = { [KIND_FILE] = "file", [KIND_COMMAND] = "command", [KIND_OBJECT] = "object" };
	struct db_stmt *st = db_stmt_get(db, SQL_ANCHOR_INSERT);
	uint8_t hash[DIGEST_SIZE], time[8];
	struct audit_field fields[] = {
		{ AUDIT_TAG_TIMES, time, sizeof(time) }, { AUDIT_TAG_NOTE, hash, sizeof(hash) },
		{ AUDIT_TAG_RECEIPT, job->receipt.p, job->receipt.len },
	};
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, AUDIT_ANCHOR_RECEIPT, 0);
	db_bind_i64(st, 1, job->kind);
	db_bind_i64(st, 2, (int64_t)job->size);
	db_bind_blob(st, 3, job->note.p, job->note.len);
	if (job->receipt.len > 0)
		db_bind_blob(st, 4, job->receipt.p, job->receipt.len);
	else
		db_bind_null(st, 4);
	db_bind_i64(st, 5, (int64_t)ev.time_us);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	digest_sha256(job->note.p, job->note.len, hash);
	audit_put_be(time, ev.time_us, sizeof(time));
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = names[job->kind];
	ev.field = fields;
	ev.nfield = job->receipt.len > 0 ? 3 : 2;
	return audit_append(logs, db, &ev, NULL, err);
}

static void receipt_free(struct receipt_job *job)
{
	str_fini(&job->note);
	str_fini(&job->receipt);
	free(job);
}

static void receipt_done(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_warn(NULL, "a receipt was not recorded why=\"%s\"", err->msg);
	else
		metric_set(METRIC_anchor_time, (int64_t)(clock_wall_us() / 1000000));
	receipt_free(arg);
}

static void submit(struct notary *n, int kind, const struct notary_object *o, size_t receipt_len)
{
	static const struct writer_job what = { .name = "anchor", .run = receipt_run, .done = receipt_done };
	struct receipt_job *job = mem_zalloc(sizeof(*job));

	job->kind = kind;
	job->size = o->size;
	str_put(&job->note, o->note, o->note_len);
	str_put(&job->receipt, o->receipt, receipt_len);
	if (n->stopping || writer_submit(n->writer, &what, job) < 0)
		receipt_free(job);
}

static void record(struct anchoring *a, int kind, const char *receipt, size_t len)
{
	submit(a->n, kind, &(struct notary_object){ a->size, a->note.p, a->note.len, receipt }, len);
}

void notary_object(struct notary *n, const struct notary_object *o)
{
	if (n)
		submit(n, KIND_OBJECT, o, strlen(o->receipt));
}

/* --- the end */

static void anchoring_free(void *arg)
{
	struct anchoring *a = arg;

	for (size_t i = 0; i < NELEMS(a->fd); i++)
		if (a->fd[i] >= 0)
			close(a->fd[i]);
	ev_timer_free(&a->timer);
	str_fini(&a->note);
	free(a);
}

static void finish(struct anchoring *a)
{
	a->n->anchoring = NULL;
	ev_defer(a->n->loop, anchoring_free, a);
}

/* --- the command */

static void on_late(void *arg)
{
	struct anchoring *a = arg;

	log_warn(NULL, "anchor.cmd takes too long and is ended");
	ev_child_stop(a->child, 0);
}

/* What a pipe holds is more than a receipt may have: it is read at the end. */
static void ended(void *arg, int status, const char *refused)
{
	struct anchoring *a = arg;
	char receipt[RECEIPT_MAX];
	ssize_t n = read(a->fd[1], receipt, sizeof(receipt));

	if (refused || status != 0)
		log_warn(NULL, "anchor.cmd failed status=%d why=\"%s\"", status, refused ? refused : "");
	else
		record(a, KIND_COMMAND, receipt, n > 0 ? (size_t)n : 0);
	finish(a);
}

static int start_command(struct anchoring *a, struct err *err)
{
	static const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
	const char *const argv[] = { a->n->anchor_cmd, NULL };
	const struct sandbox_policy policy = { .program = a->n->anchor_cmd, .argv = argv, .env = env, .cwd = "/",
		.file_bytes = UINT64_C(1) << 30, .open_files = COMMAND_FILES, .net = SANDBOX_NET_ANY };
	const struct ev_child_req req = { .policy = &policy, .ended = ended, .arg = a };
	int rc = ev_child_start(a->n->loop, &req, a->fd, &a->child, err);

	if (rc < 0)
		return rc;
	/* A note is smaller than what a pipe takes at once. */
	if (write(a->fd[0], a->note.p, a->note.len) != (ssize_t)a->note.len)
		log_warn(NULL, "anchor.cmd does not read the checkpoint");
	close(a->fd[0]);
	a->fd[0] = -1;
	a->timer = ev_timer_new(a->n->loop, on_late, a);
	ev_timer_start(a->timer, COMMAND_MS * 1000ull);
	return 0;
}

static void command_or_end(struct anchoring *a)
{
	struct err err;

	if (a->n->anchor_cmd && !a->n->no_commands && !a->n->stopping) {
		if (start_command(a, &err) == 0)
			return;
		log_warn(NULL, "anchor.cmd cannot be started why=\"%s\"", err.msg);
	}
	finish(a);
}

/* --- the file, on the lane */

static void file_body(void *arg)
{
	struct anchoring *a = arg;
	int fd = -1;

	a->rc = path_open(a->n->anchor_file, PATH_APPEND, SIZE_MAX, &fd, &a->err);
	if (a->rc < 0)
		return;
	if (write(fd, a->note.p, a->note.len) != (ssize_t)a->note.len || fsync(fd) != 0)
		a->rc = err_set(&a->err, ERR_IO, a->n->anchor_file, "%s: %s", a->n->anchor_file, strerror(errno));
	close(fd);
}

static void file_done(void *arg)
{
	struct anchoring *a = arg;

	if (a->rc < 0)
		log_warn(NULL, "a checkpoint was not written to anchor.file why=\"%s\"", a->err.msg);
	else
		record(a, KIND_FILE, NULL, 0);
	command_or_end(a);
}

/* --- anchoring */

static void log_line(const struct audit_head *head)
{
	uint8_t root[TREE_HASH];
	char text[64];

	tree_root(&head->tree, root);
	text_base64(root, sizeof(root), text);
	log_info(NULL, "checkpoint origin=%s size=%llu root=%s", head->origin, (unsigned long long)head->tree.size, text);
}

void notary_anchor(struct notary *n, const struct round *r)
{
	const size_t last = r->beat.nhead - 1;
	uint64_t now = ev_now_us(n->loop);
	struct anchoring *a;

	log_line(&r->beat.head[last]);
	if (n->anchoring || n->stopping || (!n->anchor_file && !n->anchor_cmd) ||
	    (n->anchored_us && now - n->anchored_us < n->anchor_every_s * 1000000ull))
		return;
	n->anchored_us = now;
	n->anchoring = a = mem_zalloc(sizeof(*a));
	a->n = n;
	a->size = r->beat.head[last].tree.size;
	a->fd[0] = a->fd[1] = a->fd[2] = -1;
	str_put(&a->note, r->note[last].p, r->note[last].len);
	str_putc(&a->note, '\n');
	if (!n->anchor_file || ev_work(n->loop, EV_LANE_SIGN, file_body, file_done, a) < 0)
		command_or_end(a);
}

void notary_anchor_wait(struct notary *n)
{
	bool never = false;

	while (n->anchoring)            /* bounded by COMMAND_MS, or at the disk */
		(void)ev_loop_run_until(n->loop, &never, ANCHOR_POLL_MS);
}

void notary_no_commands(struct notary *n)
{
	/* Its receipt is lost, what it did is not. */
	if (n->anchoring && n->anchoring->child)
		ev_child_stop(n->anchoring->child, 0);
	n->no_commands = true;
	notary_anchor_wait(n);
}
