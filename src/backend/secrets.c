/* The secrets that a run has in use: opened once by name, wiped at its end.  Finding them in what the run says is
 * mask.c's matter. */
#include "config.h"

#include "secrets_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"

struct open_secrets *open_secrets_new(const struct secret_source *from)
{
	struct open_secrets *s = mem_zalloc(sizeof(*s));

	s->from = from;
	return s;
}

static void used_fini(struct used_secret *u)
{
	for (size_t i = 0; i < u->nforms; i++) {
		secret_wipe(u->form[i].p, u->form[i].len);
		free(u->form[i].p);
	}
	secret_free(u->value);
	free(u->name);
}

void open_secrets_free(struct open_secrets **s)
{
	if (!s || !*s)
		return;
	for (size_t i = 0; i < (*s)->n; i++)
		used_fini(&(*s)->used[i]);
	free((*s)->used);
	free(*s);
	*s = NULL;
}

bool open_secrets_any(const struct open_secrets *s)
{
	return s && s->n > 0;
}

static int open_value(struct open_secrets *s, const char *name, struct used_secret *u, struct err *err)
{
	struct err why;

	int rc = s && s->from ? s->from->open(s->from->arg, name, &u->value, &u->len, &why) : ERR_NOT_FOUND;
	if (rc == ERR_NOT_FOUND)
		return err_set(err, ERR_TOOL, "", "the secret %.64s, which this tool needs, is not set; nothing has run", name);
	if (rc < 0)
		return err_set(err, ERR_TOOL, "", "the secret %.64s cannot be opened: %s; nothing has run", name, why.msg);
	u->name = mem_strdup(name);
	secret_forms(u);
	return 0;
}

int open_secrets_get(struct open_secrets *s, const char *name, const char **ret, size_t *ret_len, struct err *err)
{
	size_t i = 0;

	while (s && i < s->n && strcmp(s->used[i].name, name) != 0)
		i++;
	if (i == OPEN_SECRETS_MAX)
		return err_set(err, ERR_LIMIT, "", "the tool uses more than %d secrets", OPEN_SECRETS_MAX);
	if (!s || i == s->n) {
		struct used_secret u = { .name = NULL };
		int rc = open_value(s, name, &u, err);
		if (rc < 0)
			return rc;
		s->used = mem_realloc(s->used, (s->n + 1) * sizeof(*s->used));
		s->used[s->n++] = u;
	}
	*ret = s->used[i].value;
	*ret_len = s->used[i].len;
	return 0;
}
