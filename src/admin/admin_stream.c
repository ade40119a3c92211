/* Commands that answer in parts: the body is asked again while it has more to say and somebody listens, with a pause when
 * there is nothing new or the listener is slow.  What is read is recorded once, before the first part (AUDIT A-304). */
#include "config.h"

#include "admin_stream.h"

#include "base/mem.h"
#include "ev/ev.h"

#define IDLE_US 250000                  /* until a feed that follows looks again */
#define SLOW_US 20000                   /* until a full listener is asked again */

static void drop_timer(struct adm_run *run)
{
	list_unlink(&run->streams);
	ev_timer_free(&run->timer);
}

void adm_stream_end(struct adm_run *run)
{
	if (run->timer)
		drop_timer(run);
}

static void go_on(void *arg)
{
	struct adm_run *run = arg;
	int room = run->sink->room(run->arg), rc = room < 0 ? 0 : adm_role_check(run, &run->err);

	if (room < 0 || rc < 0) /* a role that a reload took away ends what it reads, too */
		adm_stream_done(run, rc);
	else if (room == 0 || adm_stream_body(run) < 0)         /* a busy pool is tried again as well */
		ev_timer_start(run->timer, SLOW_US);
}

void adm_stream_part(struct adm_run *run, int rc)
{
	struct admin *a = run->c.admin;

	if (rc == 0 && a->closed)
		rc = err_set(&run->err, ERR_CANCELLED, "", "the server is stopping");
	if (rc < 0 || run->c.more == ADM_NO_MORE) {
		adm_stream_done(run, rc);
		return;
	}
	if (run->out.text.len > 0)
		run->sink->part(run->arg, &run->out.text);
	str_reset(&run->out.text);
	if (!run->timer) {
		run->timer = ev_timer_new(a->env.loop, go_on, run);
		list_push_back(&a->streams, &run->streams);
	}
	ev_timer_start(run->timer, run->c.more == ADM_MORE_LATER ? IDLE_US : 0);
}

void adm_streams_close(struct admin *a)
{
	LIST_FOREACH_SAFE(n, tmp, &a->streams) {
		struct adm_run *run = CONTAINER_OF(n, struct adm_run, streams);

		if (!ev_timer_armed(run->timer))
			continue;               /* its body runs, and comes to adm_stream_part() */
		adm_stream_done(run, err_set(&run->err, ERR_CANCELLED, "", "the server is stopping"));
	}
}
