/* The block `task` of a tool: may a call of it outlast its request, and how (TK-20).  define.c calls it; pure. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "registry_int.h"

/* A duration of `task`; absent: *ret stays. */
static int read_span(const json_t *task, const char *name, uint64_t min, uint64_t max, const char *range, uint64_t *ret,
		     struct err *err)
{
	const char *text = NULL;
	char at[32];
	uint64_t ms = 0;
	int rc = jx_get_string(task, "/task", name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (min == 0 && strcmp(text, "never") == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	(void)snprintf(at, sizeof(at), "/task/%s", name);       /* fits */
	if (strcmp(text, "0s") != 0 && text_duration_ms(text, &ms) < 0) {
		rc = err_set(err, ERR_INVALID, at, "%.40s is no duration", text);
		err_hint(err, "write it with its unit, as in 500ms, 10s, 24h");
		return rc;
	}
	if (ms < min || ms > max)
		return err_set(err, ERR_INVALID, at, "must be from %s, is %.40s", range, text);
	*ret = ms;
	return 0;
}

static int read_support(const json_t *task, enum reg_task_support *ret, struct err *err)
{
	static const char *const words[] = { [REG_TASK_FORBIDDEN] = "forbidden", [REG_TASK_OPTIONAL] = "optional",
					     [REG_TASK_REQUIRED] = "required" };
	const char *text = NULL;
	int rc = jx_get_string(task, "/task", "support", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	for (size_t i = 0; i < NELEMS(words); i++)
		if (strcmp(words[i], text) == 0) {
			*ret = (enum reg_task_support)i;
			return 0;
		}
	return err_set(err, ERR_INVALID, "/task/support", "must be forbidden, optional or required, is %.40s", text);
}

/* TK-21; "before" is what happens without the word too, but then nobody waits for a question. */
static int read_asks(const json_t *task, struct reg_task *ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(task, "/task", "asks", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	ret->asks_inside = strcmp(text, "inside") == 0;
	if (!ret->asks_inside && strcmp(text, "before") != 0)
		return err_set(err, ERR_INVALID, "/task/asks", "must be before or inside, is %.40s", text);
	ret->grace_ms = ret->asks_inside ? 0 : REG_TASK_ASK_GRACE_MS;
	return 0;
}

/* TK-64 */
static int read_drive(const json_t *task, bool far, bool *ret, struct err *err)
{
	int rc = jx_get_bool(task, "/task", "drive", JX_OPTIONAL, ret, err);

	return rc == 0 && *ret && !far ? err_set(err, ERR_INVALID, "/task/drive", "belongs to tools of upstreams") : rc;
}

/* TK-35.  A run that nobody saw the end of may have done its work: only who says that twice is as once has another. */
static int read_crash(const json_t *doc, const json_t *task, bool far, bool *ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(task, "/task", "crash", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text || strcmp(text, "fail") == 0)
		return rc;
	if (strcmp(text, "rerun") != 0)
		return err_set(err, ERR_INVALID, "/task/crash", "must be fail or rerun, is %.40s", text);
	if (far)
		return err_set(err, ERR_INVALID, "/task/crash", "rerun is not for tools of upstreams");
	if (!json_is_true(json_object_get(json_object_get(doc, "annotations"), "idempotentHint"))) {
		rc = err_set(err, ERR_INVALID, "/task/crash", "rerun is for tools that say idempotentHint: true");
		err_hint(err, "say so in annotations, if a second run with the same arguments changes nothing more");
		return rc;
	}
	*ret = true;
	return 0;
}

/* TK-20; what goes on elsewhere is a task when it does, others when they are long. */
int define_task(const json_t *doc, struct reg_compiled *ret, struct err *err)
{
	static const char *const known[] = { "support", "after", "asks", "ttl", "poll", "timeout", "drive",
		"crash" };
	const char *type = json_string_value(json_object_get(json_object_get(doc, "handler"), "type"));
	const bool far = type && strcmp(type, "mcp") == 0;
	struct reg_task *t = &ret->task;
	json_t *task = NULL;
	int rc = jx_get_object(doc, "", "task", JX_OPTIONAL, &task, err);

	*t = (struct reg_task){ .ttl_ms = REG_TASK_TTL_MS, .poll_ms = REG_TASK_POLL_MS, .timeout_ms = ret->timeout_ms,
				.support = far ? REG_TASK_OPTIONAL : REG_TASK_FORBIDDEN };
	if (rc == 0 && task)
		rc = jx_only(task, "/task", known, NELEMS(known), err);
	if (rc == 0 && task)
		rc = read_support(task, &t->support, err);
	t->after_ms = far ? UINT64_MAX : t->support == REG_TASK_REQUIRED ? 0 : REG_TASK_AFTER_MS;
	if (rc == 0 && task)
		rc = read_span(task, "after", 0, REG_TIMEOUT_MAX_MS, "0s to 1h, or never", &t->after_ms, err);
	if (rc == 0 && task)
		rc = read_asks(task, t, err);
	if (rc == 0 && task)
		rc = read_span(task, "ttl", REG_TASK_TTL_MIN_MS, REG_TASK_TTL_MAX_MS, "1m to 30d", &t->ttl_ms, err);
	if (rc == 0 && task)
		rc = read_span(task, "poll", REG_TASK_POLL_MIN_MS, REG_TASK_POLL_MAX_MS, "100ms to 5m", &t->poll_ms, err);
	if (rc == 0 && task)
		rc = read_span(task, "timeout", REG_TIMEOUT_MIN_MS, REG_TASK_TIMEOUT_MAX_MS, "1s to 7d", &t->timeout_ms, err);
	if (rc == 0 && task)
		rc = read_drive(task, far, &t->drive, err);
	if (rc == 0 && task)
		rc = read_crash(doc, task, far, &t->rerun, err);
	return rc;
}
