/*
 * Denied calls are recorded before they are answered (AUDIT A-205): one record each up to a rate per credential, then
 * a summary once a minute, so that a flood of refusals cannot fill the disk.
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "end_int.h"

enum { REFUSALS = REFUSE_INTERNAL + 1, REST_US = 60 * 1000 * 1000 };

static const char *const reason_names[REFUSALS] = {
	[REFUSE_NONE] = "standing", [REFUSE_UNKNOWN_TOOL] = "unknown_tool", [REFUSE_ARGUMENTS] = "schema",
	[REFUSE_RULES] = "arg-rule",
	[REFUSE_STATE] = "state", [REFUSE_PARAMS] = "params", [REFUSE_CAPABILITY] = "capability",
	[REFUSE_RATE] = "rate", [REFUSE_BUSY] = "busy", [REFUSE_CANCELLED] = "cancelled", [REFUSE_SANDBOX] = "sandbox",
	[REFUSE_SCOPE] = "scope", [REFUSE_POLICY] = "policy", [REFUSE_UNDECIDED] = "policy_unreachable",
	[REFUSE_APPROVAL] = "approval",
	[REFUSE_AUDIT] = "audit", [REFUSE_INTERNAL] = "definition",
};

int call_outcome_of(enum call_refusal refusal)
{
	switch (refusal) {
	case REFUSE_NONE:
	case REFUSE_UNKNOWN_TOOL:
	case REFUSE_SANDBOX:
	case REFUSE_SCOPE:
	case REFUSE_RULES:
	case REFUSE_POLICY:
	case REFUSE_UNDECIDED:
	case REFUSE_APPROVAL:
		return AUDIT_DENIED;
	case REFUSE_ARGUMENTS:
	case REFUSE_STATE:
	case REFUSE_PARAMS:
	case REFUSE_CAPABILITY:
		return AUDIT_INVALID;
	case REFUSE_RATE:
		return AUDIT_RATE_LIMITED;
	case REFUSE_BUSY:
	case REFUSE_AUDIT:
		return AUDIT_OVERLOAD;
	case REFUSE_CANCELLED:
		return AUDIT_CANCELLED;
	case REFUSE_INTERNAL:
		return AUDIT_ABORTED;
	}
	return AUDIT_UNKNOWN;
}

struct denied_by {                      /* one credential, or principal without one */
	struct principal *who;          /* counted */
	struct limit_bucket bucket;
	uint64_t last_us;
	uint64_t counts[REFUSALS];      /* not recorded one by one */
};

struct denied_key { int64_t cred_id, principal_id; };

struct denials {
	struct call_engine *eng;
	struct map *by;                 /* struct denied_key -> struct denied_by */
	struct ev_timer *timer;         /* armed while there are entries */
};

static void write_summary(struct denials *d, struct denied_by *by)
{
	struct audit_event ev;
	struct str text = STR_INIT;

	for (size_t i = 0; i < REFUSALS; i++)
		if (by->counts[i])
			str_printf(&text, "%s%s=%llu", text.len ? " " : "", reason_names[i],
				   (unsigned long long)by->counts[i]);
	if (text.len > 0) {
		audit_event_init(&ev, AUDIT_CALL_DENIED_SUMMARY, by->who->tenant_id);
		ev.cred = by->who->cred_id ? by->who->accessor : NULL;
		ev.prn = by->who->pseudonym;
		ev.detail = str_text(&text);
		if (writer_audit(d->eng->env.writer, &ev, NULL, NULL) < 0)
			log_err(NULL, "a summary of denied calls could not be recorded counts=\"%s\"", str_text(&text));
		memset(by->counts, 0, sizeof(by->counts));
	}
	str_fini(&text);
}

/* Write what is due; all: forget all entries, else those that have rested. */
static void sweep(struct denials *d, bool all)
{
	uint64_t now = ev_now_us(d->eng->env.loop);
	const void *key;
	size_t len;
	void *value;

	for (size_t it = 0; map_next(d->by, &it, &key, &len, &value);) {
		struct denied_by *by = value;

		write_summary(d, by);
		if (!all && now - by->last_us < REST_US)
			continue;
		(void)map_del(d->by, key, len); /* the value is in hand */
		principal_unref(&by->who);
		free(by);
	}
}

static void on_minute(void *arg)
{
	struct denials *d = arg;

	sweep(d, false);
	if (map_count(d->by) > 0)
		ev_timer_start(d->timer, (uint64_t)CALL_DENIED_SUMMARY_MS * 1000);
}

struct denials *denials_new(struct call_engine *eng)
{
	struct denials *d = mem_zalloc(sizeof(*d));

	d->eng = eng;
	d->by = map_new();
	d->timer = ev_timer_new(eng->env.loop, on_minute, d);
	return d;
}

void denials_free(struct denials **d)
{
	sweep(*d, true);
	ev_timer_free(&(*d)->timer);
	map_free(&(*d)->by);
	free(*d);
	*d = NULL;
}

static struct denied_by *entry_of(struct denials *d, struct principal *who)
{
	const struct denied_key key = { who->cred_id, who->principal_id };
	struct denied_by *by = map_get(d->by, &key, sizeof(key));

	if (by)
		return by;
	if (map_count(d->by) >= CALL_DENIED_CREDS_MAX)
		sweep(d, true);
	by = mem_zalloc(sizeof(*by));
	by->who = who;
	principal_ref(by->who);
	(void)map_set(d->by, &key, sizeof(key), by); /* there was none */
	if (!ev_timer_armed(d->timer))
		ev_timer_start(d->timer, (uint64_t)CALL_DENIED_SUMMARY_MS * 1000);
	return by;
}

bool call_may_record_denied(struct call_engine *eng, struct principal *who, enum call_refusal why)
{
	struct denied_by *by = entry_of(eng->denials, who);
	uint32_t retry_ms;

	by->last_us = ev_now_us(eng->env.loop);
	if (limit_bucket_take(&by->bucket, (struct text_rate){ CALL_DENIED_PER_S, 1 }, by->last_us, &retry_ms) == 0)
		return true;
	by->counts[why]++;
	return false;
}

