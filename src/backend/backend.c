/* Which handler a block is for, and the head that every run begins with. */
#include "config.h"

#include "backend_int.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "json/json.h"

static int unknown_type(const char *type, const char *const *names, size_t n, struct err *err)
{
	const char *near = text_nearest(type, names, n);
	struct str known = STR_INIT;

	(void)err_set(err, ERR_INVALID, "/type", "unknown handler type %.40s", type);
	for (size_t i = 0; i < n; i++)
		str_printf(&known, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", names[i]);
	if (near)
		err_hint(err, "did you mean %s?", near);
	else
		err_hint(err, "%s are known", str_text(&known));
	str_fini(&known);
	return ERR_INVALID;
}

int backend_bind(const struct backend_ops *const *table, const json_t *handler, struct arena *mem,
		 const struct backend_ops **ret_ops, const void **ret_plan, struct err *err)
{
	const char *names[BACKEND_TABLE_MAX];
	const char *type = NULL;
	size_t n = 0;

	if (!json_is_object(handler))
		return err_set(err, ERR_INVALID, "", "must be an object, is %s", jx_type_name(handler));
	int rc = jx_get_string(handler, "", "type", JX_REQUIRED, &type, err);
	if (rc < 0)
		return rc;
	for (const struct backend_ops *const *ops = table; *ops && n < NELEMS(names); ops++) {
		names[n++] = (*ops)->name;
		if (!text_eq(type, strlen(type), (*ops)->name))
			continue;
		rc = (*ops)->bind(handler, mem, ret_plan, err);
		if (rc == 0)
			*ret_ops = *ops;
		return rc;
	}
	return unknown_type(type, names, n, err);
}

void be_op_init(struct backend_op *op, const struct backend_env *env, const struct backend_sink *sink,
		void *arg)
{
	op->loop = env->loop;
	op->sink = *sink;
	op->arg = arg;
}

void be_op_text(struct backend_op *op, const char *p, size_t len)
{
	struct backend_result res = { .content = json_array() };

	json_array_append_new(res.content, content_text(p, len));
	op->sink.result(op->arg, &res);
}

int be_cancel_err(enum cancel_why why, struct err *err)
{
	switch (why) {
	case CANCEL_BY_CLIENT:
		return err_set(err, ERR_CANCELLED, "", "cancelled by the client");
	case CANCEL_DEADLINE:
		return err_set(err, ERR_TIMEOUT, "", "the tool did not finish in time");
	case CANCEL_REVOKED:
		return err_set(err, ERR_CANCELLED, "", "cancelled: the credential is no longer valid");
	case CANCEL_STOPPED:
		return err_set(err, ERR_CANCELLED, "", "cancelled by an administrator");
	case CANCEL_SHUTDOWN:
		return err_set(err, ERR_CANCELLED, "", "cancelled: the server is shutting down");
	}
	return err_set(err, ERR_INTERNAL, "", "unknown reason to cancel: %d", (int)why);
}

void backend_unwatch(struct backend_watch **wp)
{
	struct backend_watch *w = *wp;

	*wp = NULL;
	if (w)
		w->end(w);
}

int be_bind_full(const char *at, struct err *err)
{
	return err_set(err, ERR_LIMIT, at, "the handler block is too large");
}

int be_get_word(const json_t *obj, const char *name, const char *const *words, size_t n, unsigned *ret,
		struct err *err)
{
	const char *word = NULL;
	char at[80];

	int rc = jx_get_string(obj, "", name, JX_OPTIONAL, &word, err);
	if (rc < 0 || !word)
		return rc;
	for (unsigned i = 0; i < n; i++) {
		if (strcmp(word, words[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	struct str list = STR_INIT;
	for (size_t i = 0; i < n; i++)
		str_printf(&list, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i]);
	snprintf(at, sizeof(at), "/%s", name);
	rc = err_set(err, ERR_INVALID, at, "must be %s, is %.40s", str_text(&list), word);
	str_fini(&list);
	const char *near = text_nearest(word, words, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return rc;
}
