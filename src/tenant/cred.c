/* Credentials: the one check of them for all transports, and the rules that a key has for the arguments of calls.
 * Loop thread; rules are parsed on any. */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "json/json.h"
#include "tenant/scope.h"
#include "tenant/arg_rule.h"
#include "tenant/tenant.h"

#include "tenant_int.h"

/* --- Rules for the arguments of calls: lines to structs, structs over arguments. */

enum op { OP_EQUALS, OP_ONE_OF, OP_PREFIX, OP_RANGE, OP_COUNT };
static const char *const op_names[OP_COUNT] = { "equals", "one-of", "prefix", "range" };

struct rule {
	char *line;                     /* cut into glob and pointer */
	const char *glob, *pointer;
	enum op op;
	json_t *value;
};

struct arg_rules {
	unsigned refs;
	size_t n;
	struct rule rule[ARG_RULES_MAX];
};

static int bad_rule(const char *rule, size_t len, const char *why, struct err *err)
{
	char text[80];

	text_printable(rule, len, text, sizeof(text));
	(void)err_set(err, ERR_INVALID, "arg-rule", "%s: %s", text, why);
	err_hint(err, "a rule reads: TOOL-GLOB /pointer equals|one-of|prefix|range JSON");
	return ERR_INVALID;
}

/* The next word of a line, cut off in place; NULL when nothing follows it. */
static char *cut_word(char **at)
{
	char *word = *at + strspn(*at, " "), *end = strchr(word, ' ');

	if (!end || end == word)
		return NULL;
	*end = '\0';
	*at = end + 1 + strspn(end + 1, " ");
	return word;
}

static bool is_bound(const json_t *v)
{
	return json_is_number(v) || json_is_null(v);
}

static const char *value_fault(enum op op, const json_t *value)
{
	switch (op) {
	case OP_EQUALS:
	case OP_COUNT:
		return NULL;
	case OP_ONE_OF:
		return json_is_array(value) && json_array_size(value) > 0 ? NULL : "one-of needs an array of values";
	case OP_PREFIX:
		return json_is_string(value) && json_string_length(value) > 0 ? NULL : "prefix needs a text in quotes";
	case OP_RANGE:
		return json_array_size(value) == 2 && is_bound(json_array_get(value, 0)) && is_bound(json_array_get(value, 1)) ?
			NULL : "range needs an array of two numbers; null is no end";
	}
	return NULL;
}

static int parse_rule(const char *text, size_t len, struct rule *ret, struct err *err)
{
	char *line = mem_strndup(text, len), *at = line, *op;
	const char *fault = NULL;
	struct err why;

	ret->line = line;
	if (memchr(text, '\0', len))
		return bad_rule(text, len, "has a NUL in it", err);
	ret->glob = cut_word(&at);
	ret->pointer = ret->glob ? cut_word(&at) : NULL;
	op = ret->pointer ? cut_word(&at) : NULL;
	if (!op)
		return bad_rule(text, len, "needs a pattern of tools, a pointer, what is asked of the value, and JSON", err);
	while (ret->op < OP_COUNT && strcmp(op_names[ret->op], op) != 0)
		ret->op++;
	if (ret->op == OP_COUNT)
		return bad_rule(op, strlen(op), "is none of equals, one-of, prefix, range", err);
	if (!jx_pointer_valid(ret->pointer))
		return bad_rule(ret->pointer, strlen(ret->pointer), "is no JSON pointer", err);
	if (jx_parse(at, strlen(at), &ret->value, &why) < 0)
		return bad_rule(at, strlen(at), why.msg, err);
	fault = value_fault(ret->op, ret->value);
	return fault ? bad_rule(at, strlen(at), fault, err) : 0;
}

static int add_rule(struct arg_rules *r, const char *line, size_t len, struct err *err)
{
	if (len > ARG_RULE_MAX)
		return err_set(err, ERR_LIMIT, "arg-rule", "a rule is longer than %d bytes", ARG_RULE_MAX);
	if (r->n == ARG_RULES_MAX)
		return err_set(err, ERR_LIMIT, "arg-rule", "there are more than %d rules", ARG_RULES_MAX);
	return parse_rule(line, len, &r->rule[r->n++], err);
}

int arg_rules_parse(const char *text, size_t len, struct arg_rules **ret, struct err *err)
{
	struct arg_rules *r = mem_zalloc(sizeof(*r));
	const char *p = text, *end = text + len;
	int rc = 0;

	r->refs = 1;
	while (rc == 0 && p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((newline ? newline : end) - p);

		if (n > 0)
			rc = add_rule(r, p, n, err);
		p += n + 1;
	}
	if (rc < 0 || r->n == 0)
		arg_rules_unref(&r);
	if (rc == 0)
		*ret = r;
	return rc;
}

/* NULL stays NULL */
void arg_rules_print(const struct arg_rules *r, struct str *out)
{
	for (size_t i = 0; r && i < r->n; i++) {
		str_printf(out, "%s%s %s %s ", i ? "\n" : "", r->rule[i].glob, r->rule[i].pointer, op_names[r->rule[i].op]);
		jx_write(r->rule[i].value, out);
	}
}

static struct arg_rules *arg_rules_ref(struct arg_rules *r)
{
	if (r)
		r->refs++;
	return r;
}

void arg_rules_unref(struct arg_rules **r)
{
	if (!r || !*r)
		return;
	assert((*r)->refs > 0);
	if (--(*r)->refs == 0) {
		for (size_t i = 0; i < (*r)->n; i++) {
			free((*r)->rule[i].line);
			json_decref((*r)->rule[i].value);
		}
		free(*r);
	}
	*r = NULL;
}

static bool begins(const json_t *v, const json_t *prefix)
{
	size_t len = json_string_length(prefix);

	return json_is_string(v) && json_string_length(v) >= len &&
	       memcmp(json_string_value(v), json_string_value(prefix), len) == 0;
}

static bool is_between(const json_t *v, const json_t *least, const json_t *most)
{
	return json_is_number(v) && (json_is_null(least) || jx_compare(jx_number(v), jx_number(least)) >= 0) &&
	       (json_is_null(most) || jx_compare(jx_number(v), jx_number(most)) <= 0);
}

static bool holds(const struct rule *r, const json_t *v)
{
	const json_t *one;
	size_t i;

	switch (r->op) {
	case OP_EQUALS:
		return jx_equal(v, r->value);
	case OP_ONE_OF:
		json_array_foreach(r->value, i, one)
			if (jx_equal(v, one))
				return true;
		return false;
	case OP_PREFIX:
		return begins(v, r->value);
	case OP_RANGE:
		return is_between(v, json_array_get(r->value, 0), json_array_get(r->value, 1));
	case OP_COUNT:
		break;
	}
	return false;
}

int arg_rules_check(const struct arg_rules *rules, const char *tool, const json_t *args, struct err *err)
{
	for (size_t i = 0; rules && i < rules->n; i++) {
		const struct rule *r = &rules->rule[i];
		const json_t *v;

		if (!text_glob(r->glob, tool))
			continue;
		v = args ? jx_at(args, r->pointer) : NULL;
		if (!v)
			return err_set(err, ERR_DENIED, r->pointer, "the key allows this tool only with a value at %s", r->pointer);
		if (!holds(r, v))
			return err_set(err, ERR_DENIED, r->pointer, "the key does not allow this value at %s", r->pointer);
	}
	return 0;
}

const char *cred_refusal_name(enum cred_refusal why)
{
	static const char *const names[CRED_REFUSAL_COUNT] = {
#define CRED_REFUSAL_NAME(sym, name) [CRED_##sym] = name,
		CRED_REFUSALS(CRED_REFUSAL_NAME)
#undef CRED_REFUSAL_NAME
	};

	return names[why];
}

void tenants_watch(struct tenants *t, const struct cred_watch *watch)
{
	t->watch = watch ? *watch : (struct cred_watch){ 0 };
}

static void note_use(struct tenants *t, struct tenant_cred *cred, const struct principal *who,
		     const struct cred_source *source)
{
	bool first = !cred->used;

	cred->used = true;
	cred->used_us = clock_turn_us();
	if (list_empty(&cred->dirty))
		list_push_back(&t->dirty, &cred->dirty);
	if (first && t->watch.used_first)
		t->watch.used_first(t->watch.arg, source, who);
}

/* cred: the key that was named, or NULL. */
static int refuse(struct tenants *t, const struct cred_source *source, const struct tenant_cred *cred,
		  enum cred_refusal why)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = source->from };

	metric_inc(METRIC_auth_failures);
	if (log_allow(&site))
		log_info(&ctx, "authentication failed key=%s reason=%s", cred ? cred->accessor : "unknown", cred_refusal_name(why));
	if (t->watch.refused)
		t->watch.refused(t->watch.arg, source, why, cred ? cred->home->tenant.id : 0, cred ? cred->accessor : NULL);
	return ERR_DENIED;
}

void cred_refused(struct tenants *t, const struct cred_source *source, enum cred_refusal why)
{
	(void)refuse(t, source, NULL, why);
}

/* Whom a proved secret stands for; old: the one that was replaced. */
static struct principal *principal_of(struct tenant_cred *cred, bool old)
{
	struct principal *who = cred->who[old];

	if (who)
		return who;
	who = tenant_principal_new(cred->home, tenant_principal(cred->home, cred->principal_id));
	who->cred_id = cred->id;
	who->authn = AUDIT_AUTHN_KEY;
	who->scopes = scopes_ref(cred->scopes);
	who->rules = arg_rules_ref(cred->rules);
	who->proof = tenant_proof(old ? cred->old_hash : cred->hash);
	memcpy(who->accessor, cred->accessor, sizeof(cred->accessor));
	cred->who[old] = who;
	return who;
}

/* --- Keys that were right */

/* SP-121: the hash that the text of a key had when it was right, so that it is decoded and hashed once.  Whoever is
 * found here is compared, and asked for standing, expiry and source, as anybody is; what is refused never stays.  The
 * place and the tag of a text are secret, so nobody can bring about that two of them meet. */

enum { MEMO_SETS = 512, MEMO_WAYS = 4 };        /* sets are a power of two */
enum { ACCESSOR_AT = 4, SECRET_AT = 17 };       /* in the text of a key, key.c */
static const uint64_t memo_us = 60u * 1000000;  /* unused for so long, it is forgotten */

struct memo_tag { uint64_t a, b; };             /* of a text as long as a key is */

struct cred_memo {
	uint8_t key[2][DIGEST_SHORT_KEY];
	struct memo_set {
		struct memo_tag tag[MEMO_WAYS];
		uint64_t used_us[MEMO_WAYS];            /* by the wall clock; 0 = nothing is here */
		uint8_t hash[MEMO_WAYS][32];
	} set[MEMO_SETS];
};

struct cred_memo *cred_memo_new(void)
{
	struct cred_memo *m = mem_zalloc(sizeof(*m));

	id_random(m->key, sizeof(m->key));
	return m;
}

void cred_memo_free(struct cred_memo **m)
{
	if (*m)
		secret_wipe(*m, sizeof(**m));
	free(*m);
	*m = NULL;
}

static struct memo_tag memo_tag(const struct cred_memo *m, const char *text, size_t len)
{
	return (struct memo_tag){ digest_short(m->key[0], text, len), digest_short(m->key[1], text, len) };
}

/* A clock that was set back makes all of them old. */
static bool memo_holds(const struct memo_set *s, unsigned way, uint64_t now_us)
{
	return s->used_us[way] != 0 && s->used_us[way] <= now_us && now_us - s->used_us[way] <= memo_us;
}

/* In constant time for texts that are not here, wherever they begin to differ.  -1: none. */
static int memo_find(struct memo_set *s, const struct memo_tag *tag, uint64_t now_us)
{
	int found = -1;

	for (unsigned i = 0; i < MEMO_WAYS; i++) {
		if (s->used_us[i] != 0 && !memo_holds(s, i, now_us)) {
			s->used_us[i] = 0;
			secret_wipe(s->hash[i], sizeof(s->hash[i]));
		}
		if (((s->tag[i].a ^ tag->a) | (s->tag[i].b ^ tag->b)) == 0 && s->used_us[i] != 0)
			found = (int)i;
	}
	return found;
}

/* It was right just now.  In a full set the longest unused goes. */
static void memo_put(struct memo_set *s, const struct memo_tag *tag, const uint8_t hash[32], uint64_t now_us)
{
	unsigned oldest = 0;

	for (unsigned i = 1; i < MEMO_WAYS; i++)
		if (s->used_us[i] < s->used_us[oldest])
			oldest = i;
	s->tag[oldest] = *tag;
	s->used_us[oldest] = now_us;
	memcpy(s->hash[oldest], hash, sizeof(s->hash[oldest]));
}

size_t tenants_remembered(const struct tenants *t)
{
	uint64_t now_us = clock_wall_us();
	size_t n = 0;

	for (unsigned i = 0; i < MEMO_SETS * MEMO_WAYS; i++)
		n += memo_holds(&t->memo->set[i / MEMO_WAYS], i % MEMO_WAYS, now_us);
	return n;
}

/* What was shown: whose name it has and what it hashes to. */
struct shown {
	struct memo_set *set;
	struct memo_tag tag;
	int way;                                /* in the set; -1: it was worked out */
	const char *accessor;                   /* NULL: it is no key */
	uint8_t hash[32];
};

static void read_key(struct tenants *t, const char *bearer, size_t len, uint64_t now_us, struct shown *ret)
{
	/* A well-formed stand-in: what is malformed or unknown costs the same work (SEC S-305, S-309). */
	static const char stand_in[KEY_TEXT_SIZE] = "tck_000000000000_0000000000000000000000000000000000000000000000000";
	const bool sized = len == KEY_TEXT_SIZE - 1;
	const char *secret = stand_in + SECRET_AT;

	ret->tag = memo_tag(t->memo, sized ? bearer : stand_in, KEY_TEXT_SIZE - 1);
	ret->set = &t->memo->set[ret->tag.a & (MEMO_SETS - 1)];
	ret->way = sized ? memo_find(ret->set, &ret->tag, now_us) : -1;
	ret->accessor = NULL;
	if (ret->way >= 0) {
		ret->accessor = bearer + ACCESSOR_AT;
		ret->set->used_us[ret->way] = now_us;
		memcpy(ret->hash, ret->set->hash[ret->way], sizeof(ret->hash));
		return;
	}
	(void)!key_parse(bearer, len, &ret->accessor, &secret);
	key_hash(t->pepper, secret, ret->hash);
}

/* Only what is right stays or comes in. */
static void remember(struct shown *s, bool right, uint64_t now_us)
{
	if (right && s->way < 0)
		memo_put(s->set, &s->tag, s->hash, now_us);
	if (!right && s->way >= 0) {
		s->set->used_us[s->way] = 0;
		secret_wipe(s->set->hash[s->way], sizeof(s->set->hash[s->way]));
	}
	secret_wipe(s->hash, sizeof(s->hash));
}

static int judge(struct tenants *t, const struct shown *shown, const struct cred_source *source, enum cred_refusal why,
		 struct principal **ret, struct err *err)
{
	struct tenant_cred *cred = shown->accessor ? map_get(t->creds, shown->accessor, KEY_ACCESSOR_SIZE - 1) : NULL;
	/* Both in any case: how long it takes does not say whether there is a second secret (S-310). */
	const bool now = secret_equal(shown->hash, cred ? cred->hash : t->dummy, sizeof(shown->hash));
	const bool old = secret_equal(shown->hash, cred ? cred->old_hash : t->dummy, sizeof(shown->hash));
	const struct tenant_shown key = { cred, tenant_proof(shown->hash), source->from };
	struct err standing;

	if (shown->accessor)
		why = cred ? CRED_WRONG : CRED_UNKNOWN;
	if (!cred || (!now && !old)) {
		(void)err_set(err, ERR_DENIED, "", "invalid credential");
		return refuse(t, source, cred, why);
	}
	if (tenant_standing(cred->home, tenant_principal(cred->home, cred->principal_id), &key, &why, &standing) < 0) {
		if (err)
			*err = standing;
		return refuse(t, source, cred, why);
	}
	*ret = principal_of(cred, !now);
	principal_ref(*ret);
	note_use(t, cred, *ret, source);
	return 0;
}

int cred_check(struct tenants *t, const char *bearer, size_t len, const struct cred_source *source,
	       struct principal **ret, struct err *err)
{
	const uint64_t now_us = clock_turn_us();
	struct shown shown;
	int rc;

	read_key(t, bearer, len, now_us, &shown);
	rc = judge(t, &shown, source, len == 0 ? CRED_MISSING : CRED_MALFORMED, ret, err);
	remember(&shown, rc == 0, now_us);
	return rc;
}
