/*
 * Subjects of tokens without a row, as many of a tenant as are remembered.  Each stands in records by a name of its own,
 * which stays in the store for as long as they do: so there is an end to how many a tenant's issuer can bring in a day.
 * When there are too many the new ones are refused, never those who have come of late.
 */

#include "config.h"

#include "tenant/tenant.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "tenant_int.h"

struct subject {
	struct list node;               /* subjects.order */
	int64_t id;                     /* negative, as principal_id */
	uint64_t last_us;                /* when it came last; monotonic */
};

struct ten_subjects {
	struct map *by_id;              /* struct subject */
	struct list order;              /* who has not come for longest first */
};

static struct ten_subjects *subjects_of(struct tenants *t, int64_t tenant_id)
{
	struct ten_subjects *s = map_get_u64(t->subjects, (uint64_t)tenant_id);

	if (s)
		return s;
	s = mem_zalloc(sizeof *s);
	s->by_id = map_new();
	list_init(&s->order);
	(void)map_set_u64(t->subjects, (uint64_t)tenant_id, s); /* there was none */
	return s;
}

static void forget(struct ten_subjects *s, struct subject *one)
{
	list_unlink(&one->node);
	(void)map_del_u64(s->by_id, (uint64_t)one->id); /* one is in hand */
	free(one);
}

void ten_subjects_free(struct ten_subjects **s)
{
	if (!s || !*s)
		return;
	LIST_FOREACH_SAFE(n, tmp, &(*s)->order)
		forget(*s, CONTAINER_OF(n, struct subject, node));
	map_free(&(*s)->by_id);
	free(*s);
	*s = NULL;
}

/* Let go who has rested, so that one more has a place. */
static int make_room(struct ten_subjects *s, const struct tenant_image *img, uint64_t now, struct err *err)
{
	struct subject *oldest;
	uint64_t rests_us;

	if (map_count(s->by_id) < TENANT_SUBJECTS_MAX)
		return 0;
	oldest = CONTAINER_OF(s->order.next, struct subject, node);
	rests_us = now - oldest->last_us;
	if (rests_us >= TENANT_SUBJECT_REST_US) {
		forget(s, oldest);
		return 0;
	}
	metric_inc(METRIC_token_subjects_refused);
	(void)err_set(err, ERR_BUSY, "sub", "tenant %s had tokens of %d subjects within a day, which is the limit: "
		      "come again later", img->name, TENANT_SUBJECTS_MAX);
	err_hint(err, "for more let principal_claim name principals of the tenant");
	if (err)
		err->retry_ms = (uint32_t)((TENANT_SUBJECT_REST_US - rests_us + 999) / 1000);   /* a day at most */
	return ERR_BUSY;
}

int ten_subject_meet(struct tenants *t, const struct tenant_image *img, int64_t id, struct err *err)
{
	struct ten_subjects *s = subjects_of(t, img->tenant.id);
	struct subject *one = map_get_u64(s->by_id, (uint64_t)id);
	uint64_t now = clock_mono_us();
	int rc;

	if (!one) {
		rc = make_room(s, img, now, err);
		if (rc < 0)
			return rc;
		one = mem_zalloc(sizeof *one);
		list_init(&one->node);
		one->id = id;
		(void)map_set_u64(s->by_id, (uint64_t)id, one); /* new */
	}
	one->last_us = now;
	list_unlink(&one->node);
	list_push_back(&s->order, &one->node);
	return 0;
}
