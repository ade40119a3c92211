/* The lines between the server and a verifier that it has started, both ways (auditor/told.h). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "auditor/told.h"

static void set_text(char *ret, size_t size, const char *text)
{
	text_printable(text, strlen(text), ret, size);
}

/* Of the sum, in their order. */
static const struct { const char *name; size_t at; } counts[] = {
	{ "at", offsetof(struct told, at_us) }, { "since", offsetof(struct told, since_us) },
	{ "logs", offsetof(struct told, logs) }, { "records", offsetof(struct told, records) },
	{ "again", offsetof(struct told, again) }, { "older", offsetof(struct told, older) },
	{ "bad", offsetof(struct told, bad) }, { "gaps", offsetof(struct told, gaps) },
	{ "shut", offsetof(struct told, shut) }, { "oldest", offsetof(struct told, oldest_us) },
};

static uint64_t *count_at(const struct told *t, size_t i)
{
	return (uint64_t *)(void *)((char *)(uintptr_t)t + counts[i].at);
}

const char *told_result(const struct told *t)
{
	return *t->message ? "FAILED" : t->bad ? "DAMAGED" : t->gaps ? "INCOMPLETE" : "INTACT";
}

/* --- saying it */

/* Where the next one goes; NULL: nowhere. */
static struct told_found *place_for(struct told *t, bool gap)
{
	if (t->nfound < TOLD_FOUND_MAX)
		return &t->found[t->nfound++];
	for (size_t i = t->nfound; !gap && i > 0; i--)
		if (t->found[i - 1].gap)
			return &t->found[i - 1];
	return NULL;
}

void told_add(struct told *t, const struct audit_finding *f)
{
	const bool gap = f->gap || !audit_finding_bad(f->code);
	struct told_found *to = place_for(t, gap);

	if (!to)
		return;
	*to = (struct told_found){ .code = f->code, .gap = gap, .from = f->from < 0 ? -1 : f->from,
					  .to = f->from < 0 ? -1 : f->to };
	set_text(to->log, sizeof(to->log), f->origin ? f->origin : "");
	set_text(to->detail, sizeof(to->detail), f->detail ? f->detail : audit_finding_text(f->code));
}

static void put_line(json_t *line, struct str *to)
{
	jx_write(line, to);
	str_putc(to, '\n');
	json_decref(line);
}

static json_t *sum_of(const struct told *t)
{
	json_t *sum = json_object();

	for (size_t i = 0; i < NELEMS(counts); i++)
		(void)json_object_set_new(sum, counts[i].name, json_integer((json_int_t)*count_at(t, i)));
	return json_pack("{s:o}", "sum", sum);
}

void told_write(const struct told *t, struct str *to)
{
	for (size_t i = 0; i < t->nfound; i++) {
		const struct told_found *f = &t->found[i];

		put_line(json_pack("{s:s, s:b, s:s, s:I, s:I, s:s}", "finding", audit_finding_name(f->code), "gap", f->gap,
				   "log", f->log, "from", (json_int_t)f->from, "to", (json_int_t)f->to, "detail", f->detail), to);
	}
	put_line(*t->message ? json_pack("{s:{s:s, s:s}}", "failed", "message", t->message, "hint", t->hint) : sum_of(t), to);
}

/* --- hearing it */

static int get_text(const json_t *from, const char *name, char *ret, size_t size, struct err *err)
{
	const char *text = "";
	int rc = jx_get_string(from, "", name, JX_REQUIRED, &text, err);

	if (rc == 0)
		set_text(ret, size, text);
	return rc;
}

static int get_code(const json_t *from, enum audit_finding_code *ret, struct err *err)
{
	const char *name = "";
	int code = 0, rc = jx_get_string(from, "", "finding", JX_REQUIRED, &name, err);

	while (rc == 0 && code < AUDIT_FINDING_COUNT && strcmp(audit_finding_name((enum audit_finding_code)code), name) != 0)
		code++;
	if (rc == 0 && code == AUDIT_FINDING_COUNT)
		return err_set(err, ERR_INVALID, "/finding", "there is no such finding");
	*ret = (enum audit_finding_code)code;
	return rc;
}

static int take_found(struct told *t, const json_t *line, struct err *err)
{
	static const char *const known[] = { "finding", "gap", "log", "from", "to", "detail" };
	struct told_found f = { .gap = false };
	int rc = jx_only(line, "", known, NELEMS(known), err);

	if (rc == 0)
		rc = get_code(line, &f.code, err);
	if (rc == 0)
		rc = jx_get_bool(line, "", "gap", JX_REQUIRED, &f.gap, err);
	if (rc == 0)
		rc = get_text(line, "log", f.log, sizeof(f.log), err);
	if (rc == 0)
		rc = jx_get_int(line, "", "from", JX_REQUIRED, -1, INT64_MAX, &f.from, err);
	if (rc == 0)
		rc = jx_get_int(line, "", "to", JX_REQUIRED, f.from, INT64_MAX, &f.to, err);
	if (rc == 0)
		rc = get_text(line, "detail", f.detail, sizeof(f.detail), err);
	if (rc == 0 && t->nfound == TOLD_FOUND_MAX)
		rc = err_set(err, ERR_LIMIT, "/finding", "more than %d findings", TOLD_FOUND_MAX);
	if (rc == 0)
		t->found[t->nfound++] = f;
	return rc;
}

static int take_sum(struct told *t, const json_t *sum, struct err *err)
{
	const char *known[NELEMS(counts)];
	struct told got = *t;
	size_t nbad = 0;
	int rc;

	for (size_t i = 0; i < NELEMS(counts); i++)
		known[i] = counts[i].name;
	rc = jx_only(sum, "/sum", known, NELEMS(known), err);
	for (size_t i = 0; rc == 0 && i < NELEMS(counts); i++) {
		int64_t n = 0;

		rc = jx_get_int(sum, "/sum", counts[i].name, JX_REQUIRED, 0, INT64_MAX, &n, err);
		*count_at(&got, i) = (uint64_t)n;
	}
	for (size_t i = 0; i < got.nfound; i++)
		nbad += !got.found[i].gap;
	if (rc == 0 && (nbad > 0) != (got.bad > 0))
		rc = err_set(err, ERR_INVALID, "/sum", "it does not count what was found");
	if (rc < 0)
		return rc;
	*t = got;
	t->ended = true;
	return 0;
}

static int take_failed(struct told *t, const json_t *failed, struct err *err)
{
	static const char *const known[] = { "message", "hint" };
	int rc = jx_only(failed, "/failed", known, NELEMS(known), err);

	if (rc == 0)
		rc = get_text(failed, "message", t->message, sizeof(t->message), err);
	if (rc == 0)
		rc = get_text(failed, "hint", t->hint, sizeof(t->hint), err);
	if (rc == 0 && !*t->message)
		rc = err_set(err, ERR_INVALID, "/failed/message", "is empty");
	t->ended = rc == 0;
	return rc;
}

/* An object with this one member, which is an object too. */
static const json_t *only_of(const json_t *line, const char *name)
{
	const json_t *in = json_object_get(line, name);

	return json_object_size(line) == 1 && json_is_object(in) ? in : NULL;
}

int told_take(struct told *t, const char *line, size_t len, struct err *err)
{
	const json_t *sum, *failed;
	json_t *root = NULL;
	int rc;

	if (len >= TOLD_LINE_MAX)
		return err_set(err, ERR_LIMIT, "", "a line has at most %d bytes", TOLD_LINE_MAX - 1);
	if (t->ended)
		return err_set(err, ERR_INVALID, "", "there is more behind the end");
	rc = jx_parse(line, len, &root, err);
	if (rc < 0)
		return rc;
	sum = only_of(root, "sum");
	failed = only_of(root, "failed");
	if (!json_is_object(root))
		rc = err_set(err, ERR_INVALID, "", "a line is an object");
	else
		rc = sum ? take_sum(t, sum, err) : failed ? take_failed(t, failed, err) : take_found(t, root, err);
	json_decref(root);
	return rc;
}

int told_read(const char *p, size_t len, struct told *ret, struct err *err)
{
	const char *end = p + len;
	int rc = 0;

	*ret = (struct told){ .nfound = 0 };
	while (rc == 0 && p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		rc = nl ? told_take(ret, p, (size_t)(nl - p), err) : err_set(err, ERR_INVALID, "", "the last line is cut off");
		p = nl ? nl + 1 : end;
	}
	return rc < 0 || ret->ended ? rc : err_set(err, ERR_INVALID, "", "its end is missing");
}

/* --- what it is asked */

void verifier_ask_write(const struct verifier_ask *ask, struct str *to)
{
	put_line(json_pack("{s:s, s:s, s:i, s:i, s:I, s:s*}", "store", ask->store, "folder", ask->folder, "landlock",
			   (int)ask->landlock, "scrub", (int)ask->scrub, "young", (json_int_t)ask->young_s, "archive",
			   ask->archive), to);
}

int verifier_ask_parse(const char *line, size_t len, struct verifier_ask *ret, struct err *err)
{
	int64_t landlock = 0, scrub = 0, young = 0;
	const char *store = "", *folder = "", *archive = NULL;
	json_t *root = NULL;
	int rc = jx_parse(line, len, &root, err);

	if (rc == 0 && !json_is_object(root))
		rc = err_set(err, ERR_INVALID, "", "a line is an object");
	if (rc == 0)
		rc = jx_get_string(root, "", "store", JX_REQUIRED, &store, err);
	if (rc == 0)
		rc = jx_get_string(root, "", "folder", JX_REQUIRED, &folder, err);
	if (rc == 0)
		rc = jx_get_int(root, "", "landlock", JX_REQUIRED, 0, UINT8_MAX, &landlock, err);
	if (rc == 0)
		rc = jx_get_int(root, "", "scrub", JX_REQUIRED, 0, UINT8_MAX, &scrub, err);
	if (rc == 0)
		rc = jx_get_int(root, "", "young", JX_REQUIRED, 0, INT32_MAX, &young, err);
	if (rc == 0)
		rc = jx_get_string(root, "", "archive", JX_OPTIONAL, &archive, err);
	if (rc == 0)
		*ret = (struct verifier_ask){ mem_strdup(store), mem_strdup(folder), (unsigned)landlock, (unsigned)scrub,
					    (uint64_t)young, archive ? mem_strdup(archive) : NULL };
	json_decref(root);
	return rc;
}

void verifier_ask_fini(struct verifier_ask *ask)
{
	free(ask->store);
	free(ask->folder);
	free(ask->archive);
	*ask = (struct verifier_ask){ .store = NULL };
}
