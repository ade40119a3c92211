/* A store that was put back to before what its signer has signed (OPERATE OP-512, decision 0104): what is lost, log by
 * log, and going on without it once a person has given it up.  The signer closes the name of each such log and begins
 * the next; the records of that are written with the start.  Called by guard.c, while nobody else uses the store. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "tlog/signer.h"

#include "notary_int.h"

enum {
	NAMES_MAX = 80,                 /* bytes of names in a hint; more: all */
	PAST_MAX = 100000,              /* epochs that a store may have lost: centuries, or as many starts */
};
#define ALL LOST "all"

struct behind {
	struct notary *n;
	bool unsaid;                    /* a person has to say so */
	bool missing;                   /* the first one is a log that the store lacks */
	struct str names;               /* what there is to say, a space before each */
};

static int note_number(void *arg, const struct succession *s, struct err *err)
{
	(void)err;
	map_set_z(arg, s->origin, (void *)(uintptr_t)s->n);
	return 0;
}

struct behind *behind_new(struct notary *n, struct db *db, struct err *err)
{
	struct behind *b = mem_zalloc(sizeof(*b));

	b->n = n;
	str_init(&b->names, 0);
	free(n->given);
	n->given = NULL;
	n->ngiven = 0;
	if (succession_each(db, note_number, b->n->numbers, err) < 0)
		behind_free(&b);
	return b;
}

void behind_free(struct behind **bp)
{
	struct behind *b = *bp;

	*bp = NULL;
	if (!b)
		return;
	str_fini(&b->names);
	free(b);
}

static uint64_t number_of(const struct notary *n, const char *origin)
{
	return (uint64_t)(uintptr_t)map_get_z(n->numbers, origin);
}

void notary_name(const struct notary *n, const char *origin, char ret[NOTE_NAME_MAX + 1])
{
	succession_name(origin, number_of(n, origin), ret);
}

/* --- what is lost */

/* "lost:acme:120-133", "lost:system:40-41" */
static void name_lost(const struct succession *s, char *ret, size_t size)
{
	const char *t = strstr(s->origin, "/t/");

	snprintf(ret, size, LOST "%s:%" PRIu64 "-%" PRIu64, t ? t + 3 : "system", s->size, s->lost - 1);
}

static bool is_given_up(const struct notary *n, const char *name)
{
	for (size_t i = 0; n->adopt && n->adopt[i]; i++)
		if (strcmp(n->adopt[i], name) == 0 || strcmp(n->adopt[i], ALL) == 0)
			return true;
	return false;
}

static void add(struct behind *b, const struct succession *s)
{
	struct notary *n = b->n;
	char name[NOTE_NAME_MAX + 64];

	name_lost(s, name, sizeof(name));
	log_warn(NULL, "records that the signer has signed are missing lost=%s", name);
	b->unsaid |= !is_given_up(n, name);
	str_printf(&b->names, " %s", name);
	n->given = mem_realloc(n->given, (n->ngiven + 1) * sizeof(*n->given));
	n->given[n->ngiven++] = *s;
}

bool behind_look(struct behind *b, const char *origin, uint64_t size)
{
	const uint64_t number = number_of(b->n, origin);
	struct succession s = { .size = size };
	const struct base *newest = NULL;
	char name[NOTE_NAME_MAX + 1];
	struct base *base;
	uint64_t k = number;

	for (;; k++) {
		succession_name(origin, k, name);
		base = notary_base(b->n, name);
		if (!base)
			break;
		base->seen = true;
		newest = base;
		if (base->size >= s.lost) {
			s.lost = base->size;
			memcpy(s.lost_root, base->root, TREE_HASH);
		}
	}
	if (!newest || (k - 1 == number && newest->size <= size))
		return false;
	snprintf(s.origin, sizeof(s.origin), "%s", origin);
	s.n = k;
	s.lost = s.lost > size ? s.lost : size;
	add(b, &s);
	return true;
}

/* Who died between the signer's answer and the store's commit finds the name there, as it was begun. */
void behind_root(struct behind *b, const uint8_t root[TREE_HASH])
{
	struct succession *s = &b->n->given[b->n->ngiven - 1];
	const uint64_t number = number_of(b->n, s->origin);
	char name[NOTE_NAME_MAX + 1];
	const struct base *last;

	memcpy(s->root, root, TREE_HASH);
	succession_name(s->origin, s->n - 1, name);
	last = notary_base(b->n, name);
	if (s->n - 1 > number && last->size == s->size && (s->size == 0 || memcmp(last->root, root, TREE_HASH) == 0))
		s->n--;
}

/* A-T14: a log that the signer knows cannot go. */
static void look_for_missing(struct behind *b)
{
	const struct tree empty = { 0 };
	uint8_t root[TREE_HASH];
	const void *name;
	void *value;
	size_t len;

	tree_root(&empty, root);
	for (size_t it = 0; map_next(b->n->bases, &it, &name, &len, &value);) {
		const struct base *base = value;
		char origin[NOTE_NAME_MAX + 1];
		uint64_t number;

		if (base->seen || base->size == 0)
			continue;
		snprintf(origin, sizeof(origin), "%.*s", (int)len, (const char *)name);
		origin[succession_split(origin, &number)] = '\0';
		if (number < number_of(b->n, origin))
			continue;       /* it is closed, and the store knows */
		b->missing |= b->n->ngiven == 0;
		if (behind_look(b, origin, 0))
			behind_root(b, root);
	}
}

static int refuse(const struct behind *b, struct err *err)
{
	const struct succession *s = &b->n->given[0];
	const char *names = str_text(&b->names);

	if (b->missing)
		(void)err_set(err, ERR_CORRUPT, s->origin, "LOG_MISSING: the signer has signed the log %s, which the store lacks",
			      s->origin);
	else
		(void)err_set(err, ERR_CORRUPT, s->origin,
			      "SIGNER_AHEAD: the signer has signed %" PRIu64 " records of %s, and the store has fewer", s->lost,
			      s->origin);
	err_hint(err, HINT_TOGETHER "; without what is lost, for ever: toolcrib audit adopt%s",
		 strlen(names) <= NAMES_MAX ? names : " " ALL);
	return ERR_CORRUPT;
}

/* --- going on */

static void learn(struct notary *n, const struct sign_head *h)
{
	struct base *b = notary_base(n, h->origin);

	if (!b) {
		b = mem_zalloc(sizeof(*b));
		map_set_z(n->bases, h->origin, b);
	}
	b->size = h->size;
	memcpy(b->root, h->root, TREE_HASH);
}

static int ask(struct notary *n, struct sign_head *head, size_t nhead, struct err *err)
{
	struct sign_msg req = { .op = SIGN_SUCCEED, .head = head, .nhead = nhead }, reply = { 0 };
	int rc = sign_call(n->fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);

	for (size_t i = 0; rc == 0 && i < nhead; i++)
		learn(n, &head[i]);
	sign_msg_fini(&reply);
	for (size_t i = 0; i < nhead; i++)
		free(head[i].origin);
	return rc;
}

static int succeed(struct notary *n, struct err *err)
{
	enum { HEADS = 64 };            /* of one request: a frame holds as many whatever their names */
	struct sign_head head[HEADS] = { { 0 } };
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at < n->ngiven) {
		size_t nhead = 0;

		for (; at < n->ngiven && nhead < HEADS; at++, nhead++) {
			const struct succession *s = &n->given[at];
			char name[NOTE_NAME_MAX + 1];

			succession_name(s->origin, s->n, name);
			head[nhead] = (struct sign_head){ .origin = mem_strdup(name), .size = s->size };
			memcpy(head[nhead].root, s->root, TREE_HASH);
		}
		rc = ask(n, head, nhead, err);
	}
	return rc;
}

static int follows(const struct sign_who *who, const uint8_t before[SIGN_PUBLIC_SIZE], struct err *err)
{
	uint8_t text[EPOCH_CERT_TEXT];

	epoch_cert_text(who->epoch, who->epoch_key, text);
	if (sign_check(before, text, sizeof(text), who->cert))
		return 0;
	return err_set(err, ERR_CORRUPT, "signer", "the epoch %" PRIu64 " of the signer does not follow from the one before",
		       who->epoch);
}

/* The chain of keys goes on unbroken, though the checkpoints of these epochs are lost. */
static int ask_past(struct notary *n, struct err *err)
{
	const uint8_t *before = n->stored.public;
	int rc = 0;

	free(n->past);
	n->past = NULL;
	n->npast = 0;
	if (n->who->epoch - n->stored.n > PAST_MAX)
		return err_set(err, ERR_LIMIT, n->place, "the signer (%s) is more than %d epochs ahead", n->place, PAST_MAX);
	n->past = mem_calloc(n->who->epoch - n->stored.n, sizeof(*n->past));
	for (uint64_t e = n->stored.n + 1; rc == 0 && e < n->who->epoch; e++) {
		struct sign_msg req = { .op = SIGN_PAST, .number = e }, reply = { 0 };

		rc = sign_call(n->fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);
		if (rc == 0 && reply.who->epoch != e)
			rc = err_set(err, ERR_INVALID, n->place, "the signer has told another epoch than it was asked for");
		if (rc == 0)
			rc = follows(reply.who, before, err);
		if (rc == 0) {
			n->past[n->npast] = *reply.who;
			n->past[n->npast].instance = NULL;
			before = n->past[n->npast++].epoch_key;
		}
		sign_msg_fini(&reply);
	}
	return rc < 0 ? rc : follows(n->who, before, err);
}

int behind_end(struct behind *b, struct err *err)
{
	struct notary *n = b->n;
	const bool epochs = n->epochs_lost;
	int rc = 0;

	n->epochs_lost = false;
	look_for_missing(b);
	if (n->ngiven == 0)
		return epochs ? notary_epoch_ahead(n, err) : 0;
	if (b->unsaid)
		return refuse(b, err);
	if (epochs)
		rc = ask_past(n, err);
	for (size_t i = 0; i < n->ngiven; i++) {
		n->given[i].epoch_from = n->stored.n + 1;
		n->given[i].epoch_to = n->stored.n + n->npast;
	}
	return rc < 0 ? rc : succeed(n, err);
}

int notary_begun(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;
	int rc = 0;

	for (size_t i = 0; i < n->ngiven && rc == 0; i++) {
		rc = succession_add(logs, db, &n->given[i], err);
		(void)note_number(n->numbers, &n->given[i], err);
	}
	for (size_t i = 0; i < n->npast && rc == 0; i++) {
		const struct sign_who *who = &n->past[i];

		rc = audit_epoch_begin(logs, db, who->epoch, who->epoch_key, who->cert, err);
		n->stored.n = who->epoch;
		memcpy(n->stored.public, who->epoch_key, SIGN_PUBLIC_SIZE);
	}
	n->ngiven = n->npast = 0;
	return rc;
}
