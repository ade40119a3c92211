/* A question as bytes, from the server to a reporter: one JSON object with all members of struct report_ask that are
 * not found in the store. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "report/question.h"

#include "report_int.h"

/* Texts of a fixed size, and numbers. */
static const struct { const char *name; size_t at, size; } texts[] = {
	{ "tenant", offsetof(struct report_ask, tenant), sizeof(((struct report_ask *)0)->tenant) },
	{ "tool", offsetof(struct report_ask, tool), sizeof(((struct report_ask *)0)->tool) },
	{ "principal", offsetof(struct report_ask, principal), sizeof(((struct report_ask *)0)->principal) },
	{ "key", offsetof(struct report_ask, key), sizeof(((struct report_ask *)0)->key) },
	{ "text", offsetof(struct report_ask, text), sizeof(((struct report_ask *)0)->text) },
};
static const struct { const char *name; size_t at; } numbers[] = {
	{ "since", offsetof(struct report_ask, since_us) },
	{ "until", offsetof(struct report_ask, until_us) },
	{ "kind", offsetof(struct report_ask, kind) },
	{ "number", offsetof(struct report_ask, number) },
	{ "limit", offsetof(struct report_ask, limit) }, { "look", offsetof(struct report_ask, look) },
	{ "step", offsetof(struct report_ask, step_us) },
	{ "newest", offsetof(struct report_ask, newest) },
	{ "rate", offsetof(struct report_ask, rate) },
	{ "lag", offsetof(struct report_ask, lag_us) },
	{ "to", offsetof(struct report_ask, to) },
};

static char *text_at(const struct report_ask *ask, size_t i)
{
	return (char *)(uintptr_t)ask + texts[i].at;
}

static int64_t *number_at(const struct report_ask *ask, size_t i)
{
	return (int64_t *)(void *)((char *)(uintptr_t)ask + numbers[i].at);     /* signed or not: the same bits */
}

void report_question(const struct report_ask *ask, const struct report_bounds *bounds, struct str *out)
{
	json_t *q = json_pack("{s:s, s:s, s:i, s:s, s:s, s:i, s:b, s:b, s:O*, s:I, s:I, s:i, s:s, s:s, s:i}",
			      "noun", ask->report->noun, "verb", ask->report->verb,
			      "way", (int)(ask->way - ask->report->way), "line", ask->line, "store", ask->store,
			      "outcome", ask->outcome, "as_text", ask->as_text, "follow", ask->follow, "cursor", ask->cursor,
			      "memory", (json_int_t)bounds->memory, "temp", (json_int_t)bounds->temp,
			      "class", (int)bounds->class, "scratch", bounds->scratch, "archive", bounds->archive,
			      "landlock", (int)bounds->landlock);
	char key[2 * SIGN_PUBLIC_SIZE + 1], digest[2 * DIGEST_SIZE + 1];

	for (size_t i = 0; i < NELEMS(texts); i++) {
		json_t *text = json_string(text_at(ask, i));

		/* A name that was cut within a character is too long for any. */
		(void)json_object_set_new(q, texts[i].name, text ? text : json_string("\xef\xbf\xbd"));
	}
	for (size_t i = 0; i < NELEMS(numbers); i++)
		(void)json_object_set_new(q, numbers[i].name, json_integer(*number_at(ask, i)));
	text_hex(ask->log_key, sizeof(ask->log_key), key);
	if (ask->has_key)
		(void)json_object_set_new(q, "log_key", json_string(key));
	text_hex(ask->question, sizeof(ask->question), digest);
	(void)json_object_set_new(q, "question", json_string(digest));
	if (ask->after)
		(void)json_object_set_new(q, "after", json_string(ask->after));
	jx_write(q, out);
	json_decref(q);
}

static int get_texts(const json_t *q, struct report_ask *ret, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < NELEMS(texts); i++) {
		const char *text = "";

		rc = jx_get_string(q, "", texts[i].name, JX_REQUIRED, &text, err);
		if (rc == 0 && strlen(text) >= texts[i].size)
			rc = err_set(err, ERR_INVALID, texts[i].name, "too long");
		if (rc == 0)
			memcpy(text_at(ret, i), text, strlen(text) + 1);
	}
	return rc;
}

static int get_bounds(const json_t *q, struct report_bounds *ret, struct err *err)
{
	int64_t memory = 0, temp = 0, class = 0, landlock = 0;
	const char *scratch = NULL, *archive = NULL;
	int rc = jx_get_int(q, "", "memory", JX_REQUIRED, 1, INT64_MAX, &memory, err);

	if (rc == 0)
		rc = jx_get_int(q, "", "temp", JX_REQUIRED, 1, INT64_MAX, &temp, err);
	if (rc == 0)
		rc = jx_get_int(q, "", "class", JX_REQUIRED, SERVED_IDLE, SERVED_PAGE, &class, err);
	if (rc == 0)
		rc = jx_get_int(q, "", "landlock", JX_REQUIRED, 0, UINT8_MAX, &landlock, err);
	if (rc == 0)
		rc = jx_get_string(q, "", "scratch", JX_REQUIRED, &scratch, err);
	if (rc == 0)
		rc = jx_get_string(q, "", "archive", JX_REQUIRED, &archive, err);
	if (rc == 0)
		*ret = (struct report_bounds){ (uint64_t)memory, (uint64_t)temp, (enum served_class)class,
					       mem_strdup(scratch), mem_strdup(archive), (unsigned)landlock };
	return rc;
}

/* Which report, and which way of it. */
static int get_report(const json_t *q, struct report_ask *ret, struct err *err)
{
	const char *noun = "", *verb = "";
	int64_t way = 0;
	int rc = jx_get_string(q, "", "noun", JX_REQUIRED, &noun, err);

	if (rc == 0)
		rc = jx_get_string(q, "", "verb", JX_REQUIRED, &verb, err);
	if (rc == 0)
		rc = jx_get_int(q, "", "way", JX_REQUIRED, 0, REPORT_WAYS - 1, &way, err);
	if (rc < 0)
		return rc;
	ret->report = report_find(noun, verb);
	if (!ret->report || !ret->report->way[way].sql)
		return err_set(err, ERR_INVALID, "verb", "there is no such report");
	ret->way = &ret->report->way[way];
	return 0;
}

static int get_rest(const json_t *q, struct report_ask *ret, struct err *err)
{
	const char *line = "", *store = "", *key = NULL, *after = NULL, *digest = "";
	int64_t outcome = 0;
	json_t *cursor = NULL;
	int rc = jx_get_string(q, "", "line", JX_REQUIRED, &line, err);

	if (rc == 0)
		rc = jx_get_string(q, "", "store", JX_REQUIRED, &store, err);
	if (rc == 0)
		rc = jx_get_string(q, "", "log_key", JX_OPTIONAL, &key, err);
	if (rc == 0)
		rc = jx_get_string(q, "", "after", JX_OPTIONAL, &after, err);
	if (rc == 0)
		rc = jx_get_string(q, "", "question", JX_REQUIRED, &digest, err);
	if (rc == 0)
		rc = text_unhex(digest, strlen(digest), ret->question, sizeof(ret->question));
	if (rc == 0)
		rc = jx_get_int(q, "", "outcome", JX_REQUIRED, -1, INT16_MAX, &outcome, err);
	if (rc == 0)
		rc = jx_get_bool(q, "", "as_text", JX_REQUIRED, &ret->as_text, err);
	if (rc == 0)
		rc = jx_get_bool(q, "", "follow", JX_REQUIRED, &ret->follow, err);
	if (rc == 0)
		rc = jx_get_object(q, "", "cursor", JX_OPTIONAL, &cursor, err);
	if (rc == 0 && key)
		rc = text_unhex(key, strlen(key), ret->log_key, sizeof(ret->log_key));
	if (rc < 0)
		return rc;
	ret->outcome = (int)outcome;
	ret->has_key = key != NULL;
	ret->cursor = json_incref(cursor);
	ret->after = after ? mem_strdup(after) : NULL;
	ret->line = mem_strdup(line);
	ret->store = mem_strdup(store);
	return 0;
}

int report_question_parse(const char *p, size_t len, struct report_ask *ret, struct report_bounds *ret_bounds,
			  struct err *err)
{
	json_t *q = NULL;
	int rc = jx_parse(p, len, &q, err);

	*ret = (struct report_ask){ .outcome = -1, .population = -1 };
	ret_bounds->scratch = ret_bounds->archive = NULL;
	if (rc == 0 && !json_is_object(q))
		rc = err_set(err, ERR_INVALID, "", "a question is an object");
	if (rc == 0)
		rc = get_report(q, ret, err);
	if (rc == 0)
		rc = get_texts(q, ret, err);
	for (size_t i = 0; rc == 0 && i < NELEMS(numbers); i++)
		rc = jx_get_int(q, "", numbers[i].name, JX_REQUIRED, INT64_MIN, INT64_MAX, number_at(ret, i), err);
	if (rc == 0)
		rc = get_rest(q, ret, err);
	if (rc == 0)
		rc = get_bounds(q, ret_bounds, err);
	json_decref(q);
	return rc;
}
