/* What a policy decision point answers, read so that all but one clear form refuses (PD-03): nothing is guessed, and
 * what is not understood denies.  pdp.c asks; the functions are pure, any thread. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "net/url.h"

#include "pdp_int.h"

#define MAX_AGE_MOST_S 31536000

static void none(struct pdp_meaning *m, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void none(struct pdp_meaning *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(m->why, sizeof(m->why), fmt, ap);
	va_end(ap);
	m->word = PDP_NONE;
}

/* "application/json", perhaps with parameters. */
static bool is_json(const char *type)
{
	static const char json[] = "application/json";
	const size_t n = strlen(json);

	return type && strncasecmp(type, json, n) == 0 && (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

/* Obligations are to be fulfilled or the request refused, and none is known here. */
static bool has_obligations(const json_t *context)
{
	const json_t *o = json_object_get(context, "obligations");

	if (!o || (json_is_array(o) && json_array_size(o) == 0) || (json_is_object(o) && json_object_size(o) == 0))
		return false;
	return true;
}

/* An answer that repeats what was asked repeats it as it was: else it is the answer to another question. */
static bool is_of(const json_t *answer, const struct pdp_sent *sent)
{
	static const char *const names[] = { "subject", "action", "resource" };
	json_t *asked = NULL;
	bool same = true;
	size_t i = 0;

	while (i < NELEMS(names) && !json_object_get(answer, names[i]))
		i++;
	if (i == NELEMS(names))
		return true;
	if (jx_parse(sent->text, sent->len, &asked, NULL) < 0)
		return false;
	for (; i < NELEMS(names); i++) {
		const json_t *said = json_object_get(answer, names[i]);

		same = same && (!said || jx_equal(said, json_object_get(asked, names[i])));
	}
	json_decref(asked);
	return same;
}

/* A text of theirs, as far as it fits, and as people may see it. */
static void copy_text(const char *p, size_t len, char *ret, size_t size)
{
	(void)text_printable(p, len, ret, size);
}

static void take_reason(const json_t *answer, const char *pointer, struct pdp_meaning *ret)
{
	const json_t *v = pointer ? jx_at(answer, pointer) : NULL;

	if (json_is_string(v))
		copy_text(json_string_value(v), json_string_length(v), ret->reason, sizeof(ret->reason));
}

static void take_context(const json_t *context, struct pdp_meaning *ret)
{
	struct str text = STR_INIT;

	if (context) {
		jx_write(context, &text);
		copy_text(str_text(&text), text.len, ret->why, sizeof(ret->why));
	}
	str_fini(&text);
}

static void read_decision(const json_t *answer, const struct pdp_sent *sent, struct pdp_meaning *ret)
{
	const json_t *decision = json_object_get(answer, "decision"), *context = json_object_get(answer, "context");

	if (!json_is_object(answer)) {
		none(ret, "its answer is no object");
	} else if (!decision) {
		none(ret, "its answer has no decision");
	} else if (!json_is_boolean(decision)) {
		none(ret, "its decision is a %s, not true or false", jx_type_name(decision));
	} else if (context && !json_is_object(context)) {
		none(ret, "the context of its answer is no object");
	} else if (!is_of(answer, sent)) {
		none(ret, "its answer is about something else than was asked");
	} else if (json_is_false(decision)) {
		ret->word = PDP_DENY;
		take_context(context, ret);
		take_reason(answer, sent->reason, ret);
	} else if (has_obligations(context)) {
		none(ret, "it allows with obligations, and none is understood here");
	} else {
		ret->word = PDP_ALLOW;
		take_context(context, ret);
	}
}

/* --- how long it may be used again (PD-05) */

/* The next directive, cut at commas outside of quotes.  False: there is none. */
static bool next_directive(const char **p, const char **ret, size_t *ret_len)
{
	const char *at = *p;
	bool quoted = false;

	at += strspn(at, " \t,");
	if (*at == '\0')
		return false;
	*ret = at;
	for (; *at && (quoted || *at != ','); at++)
		if (*at == '"')
			quoted = !quoted;
	*ret_len = (size_t)(at - *ret);
	while (*ret_len > 0 && ((*ret)[*ret_len - 1] == ' ' || (*ret)[*ret_len - 1] == '\t'))
		--*ret_len;
	*p = at;
	return true;
}

static bool is_directive(const char *d, size_t len, const char *name)
{
	const size_t n = strlen(name);

	return len >= n && strncasecmp(d, name, n) == 0 && (len == n || d[n] == '=');
}

/* For how many seconds a Cache-Control, with this Age or NULL, lets its answer be used again; 0 = not at all. */
static uint64_t max_age(const char *cache_control, const char *age)
{
	static const char name[] = "max-age";
	const size_t n = strlen(name);
	const char *d, *p = cache_control ? cache_control : "";
	uint64_t seconds = 0, old = 0, said;
	bool found = false;
	size_t len;

	while (next_directive(&p, &d, &len)) {
		if (is_directive(d, len, "no-store") || is_directive(d, len, "no-cache"))
			return 0;
		if (!is_directive(d, len, name))
			continue;
		if (found || len <= n + 1 || text_u64(d + n + 1, len - n - 1, &said) < 0)
			return 0;       /* twice, or no number: whoever wrote it means nothing that can be relied on */
		found = true;
		seconds = said < MAX_AGE_MOST_S ? said : MAX_AGE_MOST_S;
	}
	if (age && text_u64(age, strlen(age), &old) < 0)
		return 0;
	return seconds > old ? seconds - old : 0;
}

/* --- the whole of it */

void pdp_read_answer(const struct pdp_reply *r, const struct pdp_sent *sent, struct pdp_meaning *ret)
{
	json_t *answer = NULL;
	struct err err;

	*ret = (struct pdp_meaning){ .word = PDP_NONE };
	if (r->status != 200)
		none(ret, "it answers with status %d", r->status);
	else if (!is_json(r->type))
		none(ret, "its answer is no application/json");
	else if (r->len > PDP_ANSWER_MAX)
		none(ret, "its answer has more than %d bytes", PDP_ANSWER_MAX);
	else if (r->id && strcmp(r->id, sent->id) != 0)
		none(ret, "its answer is to another request, as its X-Request-ID says");
	else if (jx_parse(r->body, r->len, &answer, &err) < 0)
		none(ret, "its answer is no JSON: %s, %s", err.where, err.msg);
	else
		read_decision(answer, sent, ret);
	if (ret->word != PDP_NONE)
		ret->max_age_s = max_age(r->cache, r->age);
	json_decref(answer);
}

/* --- where it is asked (PD-06) */

static int is_same_server(const char *endpoint, const char *url, struct err *err)
{
	struct url a, b;

	int rc = url_parse(url, strlen(url), "url", &a, err);

	rc = rc ? rc : url_parse(endpoint, strlen(endpoint), "access_evaluation_endpoint", &b, err);
	if (rc < 0)
		return rc;
	if (!b.tls || strcmp(a.host, b.host) != 0 || a.port != b.port)
		return err_set(err, ERR_INVALID, "", "its access_evaluation_endpoint is on another server");
	return 0;
}

int pdp_read_metadata(const char *body, size_t len, const char *url, struct str *ret_endpoint, struct err *err)
{
	const char *point = NULL, *endpoint = NULL;
	json_t *doc = NULL;
	int rc = jx_parse(body, len, &doc, err);

	if (rc == 0 && !json_is_object(doc))
		rc = err_set(err, ERR_INVALID, "", "it is no object");
	if (rc == 0)
		rc = jx_get_string(doc, "", "policy_decision_point", JX_REQUIRED, &point, err);
	if (rc == 0 && strcmp(point, url) != 0)
		rc = err_set(err, ERR_INVALID, "", "its policy_decision_point is %.120s", point);
	if (rc == 0)
		rc = jx_get_string(doc, "", "access_evaluation_endpoint", JX_REQUIRED, &endpoint, err);
	if (rc == 0)
		rc = is_same_server(endpoint, url, err);
	if (rc == 0)
		str_puts(ret_endpoint, endpoint);
	json_decref(doc);
	return rc;
}
