/* Type s3: bundles of ranges of a log (bundle/bundle.h), each an object that verifies without this server.  A range is
 * covered by a checkpoint; that of the system's log follows as an object of its own, each anchor.every, and is an
 * anchor (OP-353).  An object is asked for by HEAD, put where there is none, and asked for again: it counts
 * when what is there has the root of the tree that ours has, and is locked as the configuration says.  A server that
 * takes an object and does not lock it is no place for evidence.  Loop thread, but for make_bundle(). */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/checkpoint.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "db/db.h"
#include "net/fetch.h"
#include "net/hook.h"
#include "tlog/tree.h"

#include "sink_int.h"

#define HALVES_MAX 17                   /* from SEGMENT_RECORDS_MAX to one record */
#define SKEW_US (UINT64_C(15) * 60 * 1000000)   /* that S3 takes */
#define DAY_US (UINT64_C(86400) * 1000000)
#define HEX_SIZE (2 * DIGEST_SIZE + 1)

enum s3_step { S3_ASKS, S3_PUTS, S3_LOOKS };
enum { KEPT_ROOT, KEPT_MODE, KEPT_UNTIL, KEPT_DATE, KEPT_ETAG, KEPT_VERSION };

/* What is put. */
struct s3_object {
	char *path;                     /* behind the URL */
	const char *type;
	struct str body;                /* of a note; a bundle is the batch's */
	uint64_t size;                  /* of a note: records below it */
	char root[HEX_SIZE], sha256[HEX_SIZE];  /* the root of the log that far; of the body */
};

struct s3 {
	struct hook *hook;
	enum s3_step step;
	struct s3_object bundle, note;  /* of the batch, the lane's while they are made; note.body: empty, there is none */
	struct s3_object *now;          /* which of them is under way */
	uint64_t until_us;              /* what this put is locked until */
	uint64_t noted_us;              /* when the last note was taken; monotonic, 0 = none yet */
};

/* --- what is due */

/* In `segment.age` since the last one, or a start, or as soon as there are enough. */
static bool ready(const struct sink *s, size_t at)
{
	const struct sink_place *place = &s->place[at];
	const uint64_t now = clock_mono_us();

	if (now < place->rest_us)
		return false;
	return s->all->log[at].size - place->next >= (int64_t)s->conf->segment_records ||
	       place->taken_us == 0 || now - place->taken_us >= s->conf->segment_ms * 1000;
}

static bool note_due(const struct sink *s)
{
	const struct s3 *o = s->own;

	return o->noted_us == 0 || clock_mono_us() - o->noted_us >= s->all->env.conf->anchor_every_s * UINT64_C(1000000);
}

/* --- a bundle (on the reading lane) */

static int note_first(void *sink, const struct report_carried *r, struct err *err)
{
	struct sink *s = sink;

	(void)err;
	memcpy(s->batch.uid, r->uid, sizeof(s->batch.uid));
	s->batch.ts_us = r->ts_us;
	return 1;
}

static int read_file(FILE *f, struct str *ret, struct err *err)
{
	char buf[16384];
	size_t n;

	rewind(f);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		str_put(ret, buf, n);
	return ferror(f) ? err_set(err, ERR_IO, "", "the bundle cannot be read: %s", strerror(errno)) : 0;
}

/* 1: it is larger than an object may be. */
static int write_bundle(struct sink *s, struct db *db, const struct audit_bundle_req *req, struct err *err)
{
	struct s3 *o = s->own;
	struct audit_bundle bundle;
	const int fd = path_nameless(s->all->env.store);
	FILE *f = fd >= 0 ? fdopen(fd, "w+") : NULL;
	int rc;

	if (!f) {
		rc = err_set(err, ERR_IO, "", "the bundle cannot be written: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = audit_bundle_write_to(db, req, f, &bundle, err);
	if (rc == 0 && req->to - req->from > 1 && (uint64_t)ftell(f) > s->conf->segment_bytes)
		rc = 1;
	if (rc == 0)
		rc = read_file(f, &s->batch.body, err);
	if (rc == 0) {
		text_hex(bundle.root, sizeof(bundle.root), o->bundle.root);
		text_hex(bundle.sha256, sizeof(bundle.sha256), o->bundle.sha256);
	}
	fclose(f);
	return rc;
}

/* As RFC 3986 has it, but for the strokes between the parts of a key. */
static void put_escaped(struct str *out, const char *p)
{
	for (; *p; p++) {
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/", *p))
			str_putc(out, *p);
		else
			str_printf(out, "%%%02X", (unsigned)(unsigned char)*p);
	}
}

static void name_it(struct s3_object *it, const char *origin, char *name)
{
	struct str path = STR_INIT;

	str_putc(&path, '/');
	put_escaped(&path, origin);
	str_puts(&path, name);
	free(name);
	free(it->path);
	it->path = str_take(&path);
}

/* The checkpoint that signs what the bundle ends with: that of the system's log takes all logs along. */
static int make_note(struct sink *s, struct db *db, const struct report_carry *of, const struct tree *tree,
		     struct err *err)
{
	struct s3_object *it = &((struct s3 *)s->own)->note;
	struct db_stmt *st = db_stmt_get(db, SQL_CP_GET_BEFORE);
	uint8_t root[TREE_HASH], digest[DIGEST_SIZE];
	const char *text;
	size_t len;
	int rc;

	db_bind_i64(st, 1, of->log);
	db_bind_i64(st, 2, (int64_t)tree->size);
	rc = db_step(st, err);
	if (rc == 1 && (uint64_t)db_col_i64(st, 0) == tree->size) {
		text = db_col_blob(st, 3, &len);
		str_put(&it->body, text, len);
	}
	db_stmt_put(&st);
	tree_root(tree, root);
	text_hex(root, sizeof(root), it->root);
	digest_sha256(it->body.p, it->body.len, digest);
	text_hex(digest, sizeof(digest), it->sha256);
	it->size = tree->size;
	name_it(it, of->origin, mem_printf("/checkpoint/%012" PRIu64, tree->size));
	return rc < 0 ? rc : 0;
}

static int make_bundle(struct sink *s, struct db *db, struct report_carrier *carrier, struct report_carry *of,
		       struct err *err)
{
	struct s3 *o = s->own;
	struct sink_batch *b = &s->batch;
	struct audit_bundle_req req = { .log = of->log, .origin = of->origin };
	struct tree signed_tree;
	const char *slash = strstr(of->origin, "/t/");
	char *query;
	int64_t next;
	int rc;

	b->to = b->from;
	str_reset(&o->note.body);
	of->most_rows = 1;
	rc = report_carry(carrier, of, note_first, s, &next, err);
	rc = rc ? rc : audit_cp_find(db, of->log, (uint64_t)of->to, &signed_tree, err);
	if (rc < 0)
		return rc;
	req.from = of->first < 0 ? of->to : of->first;
	req.to = rc == 1 ? (int64_t)signed_tree.size : 0;
	if (req.to - req.from > (int64_t)s->conf->segment_records)
		req.to = req.from + s->conf->segment_records;
	if (req.to <= req.from)
		return 0;
	/* What verifiers expect of a bundle, of whoever made it; of the system's log nothing stands behind it. */
	query = mem_printf("audit bundle %s", slash ? slash + 3 : "");
	req.query = query;
	rc = 1;
	for (unsigned i = 0; rc == 1 && i <= HALVES_MAX; i++) {
		req.to -= i > 0 ? (req.to - req.from) / 2 : 0;
		rc = write_bundle(s, db, &req, err);
	}
	free(query);
	if (rc < 0)
		return rc;
	b->pruned = (uint64_t)(req.from - b->from);
	b->n = (size_t)(req.to - req.from);
	b->to = req.to;
	name_it(&o->bundle, of->origin,
		mem_printf("/records/%012" PRId64 "-%012" PRId64 ".tar", req.from, req.to - 1));
	return of->tenant_id == 0 && note_due(s) && req.to == (int64_t)signed_tree.size ?
		       make_note(s, db, of, &signed_tree, err) : 0;
}

/* --- requests */

/* Without strokes at its end. */
static int url_length(const struct conf_sink *conf)
{
	size_t len = strlen(conf->url);

	while (len > 0 && conf->url[len - 1] == '/')
		len--;
	return (int)len;
}

static const char *mode_of(const struct sink *s)
{
	return s->conf->lock_governance ? "GOVERNANCE" : "COMPLIANCE";
}

static const struct str *body_of(const struct sink *s, const struct s3_object *it)
{
	const struct s3 *o = s->own;

	return it == &o->bundle ? &s->batch.body : &it->body;
}

static void ask(struct sink *s, enum s3_step step)
{
	/* SHA-256 of nothing. */
	static const struct fetch_header empty = {
		"x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" };
	struct s3 *o = s->own;

	o->step = step;
	hook_send(o->hook, &(struct hook_message){ .id = "", .method = "HEAD", .path = o->now->path, .headers = &empty,
			.nheaders = 1, .keep = { [KEPT_ROOT] = "x-amz-meta-root", [KEPT_MODE] = "x-amz-object-lock-mode",
				  [KEPT_UNTIL] = "x-amz-object-lock-retain-until-date", [KEPT_DATE] = "date",
				  [KEPT_ETAG] = "etag", [KEPT_VERSION] = "x-amz-version-id" } });
}

static void put(struct sink *s)
{
	struct s3 *o = s->own;
	const struct s3_object *it = o->now;
	const struct str *body = body_of(s, it);
	uint8_t md5[DIGEST_MD5_SIZE];
	char md5_text[32], until[40];
	struct fetch_header headers[HOOK_HEADERS_MAX] = { { "if-none-match", "*" }, { "x-amz-content-sha256", it->sha256 },
							  { "x-amz-meta-root", it->root }, { "x-amz-meta-sha256", it->sha256 } };
	size_t n = 4;

	o->step = S3_PUTS;
	if (s->conf->lock_days > 0) {
		digest_md5(body->p, body->len, md5);
		text_base64(md5, sizeof(md5), md5_text);
		o->until_us = (clock_wall_us() / 1000000 + (uint64_t)s->conf->lock_days * 86400) * 1000000;
		headers[n++] = (struct fetch_header){ "content-md5", md5_text };
		headers[n++] = (struct fetch_header){ "x-amz-object-lock-mode", mode_of(s) };
		(void)clock_format_utc(o->until_us, until, sizeof(until));
		headers[n++] = (struct fetch_header){ "x-amz-object-lock-retain-until-date", until };
	}
	hook_send(o->hook, &(struct hook_message){ .id = "", .method = "PUT", .path = it->path, .type = it->type,
			.body = body->p, .len = body->len, .headers = headers, .nheaders = n,
			.keep = { [KEPT_DATE] = "date" } });
}

/* --- answers */

static void failed(struct sink *s, const struct hook_answer *a)
{
	const uint64_t now = clock_wall_us();
	uint64_t theirs = now;
	char why[128];

	if (a->status == 403 && a->kept[KEPT_DATE])
		(void)clock_parse_http(a->kept[KEPT_DATE], now, &theirs);
	(void)snprintf(why, sizeof(why), "%.80s%s", a->why,
		       theirs > now + SKEW_US || now > theirs + SKEW_US ? ": the clocks differ by more than 15 minutes" : "");
	s->all->on->failed(s, why, a->mend ? SINK_MEND : a->after_us);
}

/* An object that was here before was locked then: it has only to be so still. */
static bool is_locked(const struct sink *s, const struct hook_answer *a)
{
	const struct s3 *o = s->own;
	const uint64_t now = clock_wall_us(), least = o->step == S3_LOOKS ? o->until_us - DAY_US : now;
	uint64_t until = 0;

	return a->kept[KEPT_MODE] && strcmp(a->kept[KEPT_MODE], mode_of(s)) == 0 && a->kept[KEPT_UNTIL] &&
	       clock_parse(a->kept[KEPT_UNTIL], now, &until) == 0 && until > least;
}

/* OP-353: what is known of it there is its receipt. */
static void record(const struct sink *s, const struct hook_answer *a)
{
	const struct s3_object *it = &((const struct s3 *)s->own)->note;
	const struct sinks_env *env = &s->all->env;
	const char *tag = a->kept[KEPT_ETAG], *version = a->kept[KEPT_VERSION];
	char *receipt = mem_printf("%.*s%.500s etag=%.200s version=%.200s", url_length(s->conf), s->conf->url, it->path,
				   tag ? tag : "", version ? version : "");

	env->anchored(env->arg, it->size, &it->body, receipt);
	free(receipt);
}

static void kept(struct sink *s, const struct hook_answer *a)
{
	struct s3 *o = s->own;

	if (o->now == &o->bundle && o->note.body.len > 0) {
		o->now = &o->note;
		ask(s, S3_ASKS);
		return;
	}
	if (o->now == &o->note) {
		o->noted_us = clock_mono_us();
		if (!s->all->closing)
			record(s, a);
	}
	s->all->on->taken(s);
}

static void look(struct sink *s, const struct hook_answer *a)
{
	const struct s3_object *it = ((const struct s3 *)s->own)->now;
	char why[200];

	if (!a->kept[KEPT_ROOT] || strcmp(a->kept[KEPT_ROOT], it->root) != 0) {
		(void)snprintf(why, sizeof(why), "another object has the name of ours: %.150s", it->path);
		s->all->on->failed(s, why, SINK_MEND);
	} else if (s->conf->lock_days > 0 && !is_locked(s, a)) {
		(void)snprintf(why, sizeof(why),
			       "not locked: the bucket takes objects without the lock %s that the configuration asks for", mode_of(s));
		s->all->on->failed(s, why, SINK_MEND);
	} else {
		kept(s, a);
	}
}

static void on_done(void *arg, const struct hook_answer *a)
{
	struct sink *s = arg;
	const struct s3 *o = s->own;

	if (o->step == S3_PUTS && (a->taken || a->status == 412))       /* somebody was quicker: us, in a time before */
		ask(s, S3_LOOKS);
	else if (o->step == S3_ASKS && a->status == 404)
		put(s);
	else if (o->step == S3_LOOKS && a->status == 404)
		s->all->on->failed(s, "it took an object and does not have it", 0);
	else if (o->step == S3_PUTS || !a->taken)
		failed(s, a);
	else
		look(s, a);
}

static void send_object(struct sink *s, const struct sink_batch *b)
{
	struct s3 *o = s->own;

	(void)b;
	o->now = &o->bundle;
	ask(s, S3_ASKS);
}

/* --- life */

static struct hook_conf place(const struct conf_sink *conf, char **ret_url)
{
	*ret_url = mem_strndup(conf->url, (size_t)url_length(conf));
	return (struct hook_conf){ .url = *ret_url, .ca = conf->ca, .aws_region = conf->region,
				   .aws_key_file = conf->secret_file };
}

static int check_s3(const struct conf_sink *conf, struct err *err)
{
	char *url;
	const struct hook_conf at = place(conf, &url);
	int rc = hook_check(&at, err);

	free(url);
	return rc < 0 ? sink_fault(conf, err) : 0;
}

static int open_s3(struct sink *s, struct err *err)
{
	struct s3 *o = mem_zalloc(sizeof(*o));
	char scope[CONF_SINK_NAME_MAX + sizeof("sink:")], *url;
	const struct hook_conf at = place(s->conf, &url);
	int rc;

	s->own = o;
	o->bundle.type = "application/x-tar";
	o->note.type = "text/plain; charset=utf-8";
	(void)snprintf(scope, sizeof(scope), "sink:%s", s->conf->name);
	rc = hook_open(s->all->env.fetcher, &at, scope, on_done, s, &o->hook, err);
	free(url);
	return rc < 0 ? sink_fault(s->conf, err) : 0;
}

static void close_s3(struct sink *s)
{
	struct s3 *o = s->own;

	hook_close(&o->hook);
	free(o->bundle.path);
	free(o->note.path);
	str_fini(&o->note.body);
	free(o);
}

const struct sink_type sink_s3 = { check_s3, open_s3, send_object, close_s3, NULL, ready, make_bundle };
