/* Opening and closing the writer: its connection, its thread, the records of start and stop. */

#include "config.h"

#include "writer/writer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "audit/keep.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "keys/keys.h"

#include "writer_int.h"

/* Signals are the loop's. */
static int start_thread(struct writer *w, struct err *err)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, writer_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return err_set(err, ERR_INTERNAL, "writer", "cannot start a thread: %s", strerror(rc));
	(void)pthread_setname_np(w->thread, "writer");  /* for those who look with top */
	return 0;
}

static void writer_free(struct writer *w)
{
	audit_logs_close(&w->logs);
	db_close(&w->db);
	wqueue_free(&w->queue);
	ev_timer_free(&w->deadline);
	ev_timer_free(&w->space->watch);
	if (atomic_load(&w->courier->pending) == 0)
		free(w->courier);
	else
		w->courier->w = NULL;   /* the last post that arrives frees it */
	free(w->space);
	free(w->store);
	free(w);
}

static int open_store(struct writer *w, const struct keyfile_place *place, struct err *err)
{
	struct keys *keys = NULL;
	char *path = path_join(w->store, DB_FILE);
	int rc = db_open(path, DB_WRITER, false, &w->db, err);

	free(path);
	if (rc == 0)
		rc = db_migrate(w->db, err);
	if (rc == 0)
		rc = keys_open(place, &keys, err);
	if (rc == 0)
		rc = audit_logs_open(w->db, &w->logs, err);
	if (rc == 0)
		audit_logs_give_keys(w->logs, &keys);
	keys_close(&keys);
#ifdef BENCH_BUILD
	if (rc == 0 && getenv("TOOLCRIB_BENCH_NOSYNC"))
		rc = db_bench_no_sync(w->db, err);
#endif
	return rc;
}

int writer_open(struct ev_loop *loop, const struct keyfile_place *place, const char *mode, const struct writer_limits *limits,
		const struct writer_guard *guard, struct writer **ret, size_t *ret_recovered, struct err *err)
{
	struct writer *w = mem_zalloc(sizeof *w);
	struct clock_state clock;
	size_t recovered = 0;
	int rc;

	w->loop = loop;
	w->limits = *limits;
	if (guard)
		w->guard = *guard;
	w->store = mem_strdup(place->store);
	w->space = mem_zalloc(sizeof *w->space);
	w->space->watch = ev_timer_new(loop, writer_watch_room, w);
	ev_timer_start(w->space->watch, SPACE_WATCH_MS * 1000);
	w->queue = wqueue_new(limits->queue_max);
	w->courier = mem_zalloc(sizeof *w->courier);
	w->courier->w = w;
	w->deadline = ev_timer_new(loop, writer_on_deadline, w);
	list_init(&w->waiting);
	clock_state(&clock);
	writer_clock(w, clock.sync);
	rc = open_store(w, place, err);
	if (rc == 0)
		rc = writer_write_start(w, mode, &recovered, err);
	if (rc == 0)
		rc = audit_erase_replay(w->logs, w->db, err);
	if (rc == 0)
		rc = audit_erase_resume(w->logs, w->db, err);
	if (rc == 0)
		rc = start_thread(w, err);
	if (rc < 0) {
		writer_free(w);
		return rc;
	}
	if (ret_recovered)
		*ret_recovered = recovered;
	*ret = w;
	return 0;
}

void writer_clock(struct writer *w, enum clock_sync sync)
{
	atomic_store(&w->clock, sync);
}

int writer_close(struct writer **wp, uint32_t deadline_ms, struct err *err)
{
	struct writer *w = wp ? *wp : NULL;
	int failed;

	if (!w)
		return 0;
	*wp = NULL;
	w->closing = true;
	atomic_store(&w->close_by_us, clock_mono_us() + (uint64_t)deadline_ms * 1000);
	wqueue_close(w->queue);
	if (!wqueue_wait_exit(w->queue, deadline_ms + CLOSE_GRACE_MS)) {
		/* The thread hangs in the kernel and keeps all it needs; the process is about to end. */
		w->courier->w = NULL;
		return err_set(err, ERR_TIMEOUT, w->store, "the disk of the store does not answer; the stop is not recorded");
	}
	pthread_join(w->thread, NULL);
	writer_finish_all(w);
	failed = atomic_load(&w->failed);
	if (failed)
		err_set(err, (enum err_code)failed, w->store, "the store had failed; the stop is not recorded");
	writer_free(w);
	return failed;
}
