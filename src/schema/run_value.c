/* The rules for values by themselves: constants, numbers, strings. */
#include "config.h"

#include "run_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define NUMBER_SHOWN 60         /* characters of a bound */
#define PATTERN_SHOWN 160

bool run_constants(struct run *r, const struct constants *set, const json_t *v, const struct spot *at)
{
	size_t steps = set->n / 16;
	uint64_t h;

	if (set->strings) {
		const char *p = json_string_value(v);

		if (p && schema_find_name(&set->index, set->texts, sizeof *set->texts, p, json_string_length(v)))
			return true;
		return run_fail_constant(r, at, set, v);
	}
	if (!(set->types & schema_type_bits(v)))
		return run_fail_constant(r, at, set, v);
	h = schema_hash(v, &steps);
	if (!run_pay(r, steps))
		return false;
	for (size_t i = 0; i < set->n; i++)
		if (set->hashes[i] == h && schema_constant_equal(&set->values[i], v))
			return true;
	return run_fail_constant(r, at, set, v);
}

static bool fail_bound(struct run *r, const struct spot *at, const char *keyword, const char *must,
		       const struct bound *b, const json_t *v)
{
	struct str text = STR_INIT;

	if (run_is_over(r))
		return false;
	jx_write_number(b->n, &text);
	(void)run_fail_scalar(r, at, keyword, v, "%s %.*s%s", must, NUMBER_SHOWN, str_text(&text),
			      text.len > NUMBER_SHOWN ? "..." : "");
	str_fini(&text);
	return false;
}

bool run_number(struct run *r, const struct num_rules *rules, const json_t *v, const struct spot *at)
{
	struct jx_number n = jx_number(v);
	bool ok = true;

	if (rules->min.set && jx_compare(n, rules->min.n) < 0)
		ok = fail_bound(r, at, "minimum", "must be at least", &rules->min, v);
	if (rules->max.set && jx_compare(n, rules->max.n) > 0)
		ok = fail_bound(r, at, "maximum", "must be at most", &rules->max, v);
	if (rules->above.set && jx_compare(n, rules->above.n) <= 0)
		ok = fail_bound(r, at, "exclusiveMinimum", "must be greater than", &rules->above, v);
	if (rules->below.set && jx_compare(n, rules->below.n) >= 0)
		ok = fail_bound(r, at, "exclusiveMaximum", "must be less than", &rules->below, v);
	if (rules->step.set && !run_is_multiple(r, n, &rules->by))
		ok = fail_bound(r, at, "multipleOf", "must be a multiple of", &rules->step, v);
	return ok;
}

bool run_match(struct run *r, const struct regex *re, const char *p, size_t len, const struct spot *at)
{
	size_t steps = 0;
	int rc = regex_match(re, p, len, &r->room, &steps);

	if (rc < 0)
		run_note_match(r, at);
	return run_pay(r, steps) && rc == 1;
}

/* contentEncoding and contentMediaType, together: what is encoded is what is looked at. */
static bool has_content(struct run *r, const struct str_rules *rules, const char *p, size_t len)
{
	char *bytes = NULL;
	struct err ignored;
	bool ok;

	if (!run_pay(r, len / 8))
		return false;
	if (rules->base64 && (!text_base64_valid(p, len) || !rules->json))
		return text_base64_valid(p, len);
	if (rules->base64) {
		bytes = mem_alloc(len + 1);
		if (text_unbase64(p, len, bytes, len + 1, &len) != 0)
			len = 0;
	}
	ok = jx_scan(bytes ? bytes : p, len, NULL, 0, &ignored) == 0;
	free(bytes);
	return ok;
}

static bool has_format(struct run *r, const struct format *f, const char *p, size_t len)
{
	size_t steps = 0;
	bool ok = format_check(f, p, len, &r->room, &steps);

	return run_pay(r, steps) && ok;
}

bool run_string(struct run *r, const struct str_rules *rules, const json_t *v, const struct spot *at)
{
	const char *p = json_string_value(v);
	size_t len = json_string_length(v), count;
	bool ok = true;

	if (rules->min > 0 || rules->max < len) {
		if (!run_pay(r, len / 64))
			return false;
		count = text_utf8_count(p, len);
		if (count < rules->min)
			ok = run_fail_scalar(r, at, "minLength", v, "must have at least %zu character%s", rules->min,
				      rules->min == 1 ? "" : "s");
		if (count > rules->max)
			ok = run_fail_scalar(r, at, "maxLength", v, "must have at most %zu character%s", rules->max,
				      rules->max == 1 ? "" : "s");
	}
	if (rules->pattern && !run_match(r, rules->pattern, p, len, at))
		ok = run_fail_scalar(r, at, "pattern", v, "must match the pattern %.*s", PATTERN_SHOWN, regex_source(rules->pattern));
	if (rules->format && !has_format(r, rules->format, p, len))
		ok = run_fail_scalar(r, at, "format", v, "must be %s", format_words(rules->format));
	if ((rules->base64 || rules->json) && !has_content(r, rules, p, len))
		ok = run_fail(r, at, rules->base64 ? "contentEncoding" : "contentMediaType", "must be %s%s",
			      rules->json ? "JSON" : "base64", rules->base64 && rules->json ? " in base64" : "");
	return ok;
}

