/* Many calls at once: which they are, and their cancelling. */

#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "call_int.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

/* Would a cancel still make a difference? */
static bool is_running(const struct call *c)
{
	if (c->cancelled)
		return false;
	return c->state == CALL_QUEUED || c->state == CALL_AUDIT_BEGIN || c->state == CALL_RUN || c->state == CALL_ASKING;
}

static bool concerns(const struct call_where *w, const struct call *c)
{
	return (!w->tenant_id || c->who->tenant_id == w->tenant_id) &&
		(!w->principal_id || c->who->principal_id == w->principal_id) &&
		(!w->cred_id || c->who->cred_id == w->cred_id) &&
		(!w->tool || (c->tool && strcmp(c->tool->full_name, w->tool) == 0));
}

void call_say_cancelled(struct call *c)
{
	struct call_trouble *t = call_trouble(c);

	switch (c->why) {
	case CANCEL_BY_CLIENT:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled");
		break;
	case CANCEL_REVOKED:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled: the credential is no longer valid");
		break;
	case CANCEL_STOPPED:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled by an administrator");
		break;
	case CANCEL_SHUTDOWN:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled: the server is stopping");
		break;
	case CANCEL_DEADLINE:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled: it took too long");
		break;
	}
}

size_t call_cancel_where(struct call_engine *eng, const struct call_where *where, enum cancel_why why)
{
	size_t n = 0;

	/* An end is never reported from here, so no call leaves the list. */
	LIST_FOREACH(link, &eng->calls) {
		struct call *c = CONTAINER_OF(link, struct call, all);

		if (!concerns(where, c) || !is_running(c))
			continue;
		call_cancel(c, why);
		n++;
	}
	return n;
}

void call_engine_cancel_all(struct call_engine *eng, enum cancel_why why)
{
	(void)call_cancel_where(eng, &(struct call_where){ 0 }, why);
}
