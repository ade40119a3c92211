/* Tasks and approvals (TK-43, HA-03): what their records say in order, and their rows beside it (course/course.h). */

#include "config.h"

#include <string.h>

#include "course/course.h"

#include "verify_int.h"

static int tasks_begin(struct verify_log *c, struct err *err)
{
	(void)err;
	c->tasks = courses_new();
	return 0;
}

static void tasks_close(struct verify_log *c)
{
	courses_free(&c->tasks);
}

static int tasks_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	const struct audit_value *kind = &got->row.v[COL_KIND], *ext = &got->row.v[COL_EXT], *ts = &got->row.v[COL_TS];
	const struct course_record r = { (int)kind->n, got->row.v[COL_OUTCOME].n, got->idx, ts->present ? (uint64_t)ts->n : 0,
					 ext->present ? ext->p : NULL, ext->len };
	enum audit_finding_code code;

	(void)err;
	if (!courses_record(c->tasks, &r, c->head->min_idx > 0, &code))
		verify_tell_record(c, code, got->idx, got->idx);
	return 0;
}

static void found(void *arg, enum audit_finding_code code, int64_t idx, const char *detail)
{
	const struct verify_log *c = arg;

	verify_tell(c->v, &(struct audit_finding){ .code = code, .origin = c->head->origin, .from = idx, .to = idx,
						   .detail = detail });
}

static int tasks_end(struct verify_log *c, struct err *err)
{
	int rc;

	if (!c->head->tenant_id)
		return 0;
	rc = courses_rows(c->tasks, c->v->db, c->head->tenant_id, c->head->min_idx > 0, found, c, err);
	if (rc == 0 && courses_overflow(c->tasks))
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "more tasks and approvals than are kept in mind");
	return rc;
}

static void save(const struct verify_log *c, struct str *to)
{
	courses_save(c->tasks, to);
}

static void load(struct verify_log *c, struct unpack *in)
{
	courses_load(c->tasks, in);
}

const struct verify_step verify_tasks = {
	.name = "tasks", .begin = tasks_begin, .record = tasks_record, .end = tasks_end, .close = tasks_close,
	.form = 2, .save_log = save, .load_log = load,
};
