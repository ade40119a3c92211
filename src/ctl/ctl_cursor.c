/* How far an export has come: a file that is read before, and replaced after each part that was written. */

#include "config.h"

#include "ctl_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "json/json.h"

#define CURSOR_MAX (16u << 20)
#define CURSOR_MODE 0600

struct ctl_cursor {
	char *path;
	json_t *next;                   /* origin -> index */
	bool moved;
};

static int parse_cursor(const char *path, const struct str *text, json_t **ret, struct err *err)
{
	const char *origin;
	json_t *next;
	int rc = jx_parse(str_text(text), text->len, ret, err);

	if (rc == 0 && !json_is_object(*ret))
		rc = err_set(err, ERR_INVALID, "", "must be an object");
	json_object_foreach(rc == 0 ? *ret : NULL, origin, next)
		if (!json_is_integer(next) || json_integer_value(next) < 0)
			rc = err_set(err, ERR_INVALID, "", "%s: must be an index", origin);
	if (rc == 0)
		return 0;
	(void)err_wrap(err, "%s is no cursor", path);
	return rc;
}

int ctl_cursor_read(struct ctl_line *line, struct ctl_cursor **ret, struct err *err)
{
	const struct adm_arg *arg = line->cmd->args;
	struct ctl_cursor *c;
	struct str text = STR_INIT;
	const char *path;
	int rc = 0;

	while (arg->name && arg->type != ARG_CURSOR)
		arg++;
	path = arg->name ? json_string_value(json_object_get(line->args, arg->name)) : NULL;
	*ret = NULL;
	if (!path)
		return 0;
	c = mem_zalloc(sizeof *c);
	c->path = mem_strdup(path);
	if (path_exists(path)) {
		rc = path_read(path, CURSOR_MAX, &text, err);
		if (rc == 0)
			rc = parse_cursor(path, &text, &c->next, err);
	}
	str_fini(&text);
	if (rc < 0) {
		ctl_cursor_free(&c);
		return rc;
	}
	if (!c->next)
		c->next = json_object();
	(void)json_object_set(line->args, arg->name, c->next);
	*ret = c;
	return 0;
}

void ctl_cursor_note(struct ctl_cursor *c, const json_t *record)
{
	const char *origin = json_string_value(json_object_get(record, "log"));
	const json_t *index = json_object_get(record, "index");

	if (!origin || !json_is_integer(index))
		return;
	(void)json_object_set_new(c->next, origin, json_integer(json_integer_value(index) + 1));
	c->moved = true;
}

int ctl_cursor_write(struct ctl_cursor *c, struct err *err)
{
	struct str text = STR_INIT;
	int rc;

	if (!c->moved)
		return 0;
	jx_write(c->next, &text);
	str_putc(&text, '\n');
	rc = path_replace(c->path, CURSOR_MODE, text.p, text.len, err);
	str_fini(&text);
	c->moved = rc < 0;
	return rc;
}

void ctl_cursor_free(struct ctl_cursor **cp)
{
	if (!*cp)
		return;
	free((*cp)->path);
	json_decref((*cp)->next);
	free(*cp);
	*cp = NULL;
}
