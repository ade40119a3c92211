/* The connection to the signer: made, greeted, and compared with what the store knows of it. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/helper.h"
#include "tlog/signer.h"

#include "notary_int.h"

int notary_connect(struct notary *n, struct err *err)
{
	if (n->socket)
		return sign_connect(n->socket, &n->fd, err);
	return ev_helper_start(n->loop, LAUNCHER_SIGN, (const char *const[]){ "--dir", n->dir, NULL }, &n->fd,
			       &n->helper, err);
}

void notary_disconnect(struct notary *n, uint32_t wait_ms)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	n->greeted = false;
	ev_helper_end(&n->helper, wait_ms);
}

/* --- the greeting */

static void take_who(struct notary *n, struct sign_msg *reply)
{
	if (n->who)
		free(n->who->instance);
	free(n->who);
	n->who = reply->who;
	reply->who = NULL;
}

static int lost_keys(const struct notary *n, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, n->place, "the signer (%s) has no keys, and the store was signed before", n->place);
	err_hint(err, "put the signer's directory back, or name it as signer.dir or signer.socket");
	return ERR_CORRUPT;
}

static int check_next_epoch(const struct notary *n, struct err *err)
{
	uint8_t text[EPOCH_CERT_TEXT];

	epoch_cert_text(n->who->epoch, n->who->epoch_key, text);
	if (sign_check(n->stored.public, text, sizeof(text), n->who->cert))
		return 0;
	return err_set(err, ERR_CORRUPT, n->place, "the epoch %" PRIu64 " of the signer (%s) does not follow from the store's",
		       n->who->epoch, n->place);
}

/* Whether this is the signer of this store, and neither of the two was put back (AUDIT ). */
static int check_who(const struct notary *n, const char *instance, struct err *err)
{
	const struct sign_who *who = n->who;

	if (strcmp(who->instance, instance) != 0)
		return err_set(err, ERR_CONFLICT, n->place, "the signer (%s) signs for another store", n->place);
	if (!n->known && who->epoch == 0)
		return 0;
	if (!n->known || who->epoch > n->stored.n + 1)
		return err_set(err, ERR_CORRUPT, n->place, "SIGNER_AHEAD: the signer (%s) is in epoch %" PRIu64
			       ", of which the store knows nothing: the store was put back to an earlier state", n->place, who->epoch);
	if (who->epoch < n->stored.n)
		return err_set(err, ERR_CORRUPT, n->place, "the signer (%s) is in epoch %" PRIu64 " and the store in %" PRIu64
			       ": the signer was put back to an earlier state", n->place, who->epoch, n->stored.n);
	if (who->epoch > n->stored.n)
		return check_next_epoch(n, err);
	if (memcmp(who->epoch_key, n->stored.public, SIGN_PUBLIC_SIZE) != 0)
		return err_set(err, ERR_CONFLICT, n->place, "the signer (%s) has another key than the store names", n->place);
	return 0;
}

static void learn(struct notary *n, const struct sign_head *h)
{
	struct base *b = map_get_z(n->bases, h->origin);

	if (!b) {
		b = mem_zalloc(sizeof(*b));
		map_set_z(n->bases, h->origin, b);
	}
	/* What a lost reply has left open is told by the list. */
	if (b->size != h->size)
		b->has_tree = false;
	b->size = h->size;
	memcpy(b->root, h->root, TREE_HASH);
}

static int list_logs(struct notary *n, uint64_t until_us, struct err *err)
{
	struct sign_msg req = { .op = SIGN_LOGS }, reply = { 0 };
	int rc;

	do {
		rc = sign_call(n->fd, until_us, &req, &reply, err);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < reply.nhead; i++)
			learn(n, &reply.head[i]);
		req.number += reply.nhead;
		rc = reply.nhead > 0;
		sign_msg_fini(&reply);
	} while (rc == 1);
	return 0;
}

int notary_greet(struct notary *n, const char *instance, struct err *err)
{
	uint64_t until_us = clock_mono_us() + GREET_MS * 1000ull;
	struct sign_msg req = { .op = SIGN_HELLO, .number = 1 }, reply = { 0 };
	int rc = sign_call(n->fd, until_us, &req, &reply, err);

	if (rc == 0 && !*reply.who->instance) {
		if (n->known)
			rc = lost_keys(n, err);
		sign_msg_fini(&reply);
		if (rc == 0) {
			req = (struct sign_msg){ .op = SIGN_CREATE, .text = mem_strdup(instance) };
			rc = sign_call(n->fd, until_us, &req, &reply, err);
			free(req.text);
		}
	}
	if (rc == 0) {
		take_who(n, &reply);
		sign_msg_fini(&reply);
		rc = check_who(n, instance, err);
	}
	if (rc == 0)
		rc = list_logs(n, until_us, err);
	n->greeted = rc == 0;
	return rc;
}
