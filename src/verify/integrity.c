/* The check of the file and its indexes beside the reading of records: a thread with a connection of its own. */

#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"
#include "db/db.h"

#include "verify_int.h"

struct verify_aside {
	struct db *db;                  /* this thread's alone; NULL: it was done at once */
	pthread_t thread;
	bool summed;
	int rc;
	struct err err;
};

static void *look(void *arg)
{
	struct verify_aside *a = arg;

	a->rc = verify_index(a->db, &a->summed, &a->err);
	return NULL;
}

/* Signals are the first thread's. */
static bool start(struct verify_aside *a)
{
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&a->thread, NULL, look, a) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

struct verify_aside *verify_aside_start(struct verify *v, bool summed)
{
	struct verify_aside *a = mem_zalloc(sizeof *a);

	if (summed && db_open_beside(v->db, &a->db, &a->err) == 0 && start(a))
		return a;
	db_close(&a->db);
	a->rc = summed ? verify_index(v->db, &a->summed, &a->err) : db_check_integrity(v->db, &a->err);
	return a;
}

int verify_aside_end(struct verify *v, struct verify_aside **ap, struct err *err)
{
	struct verify_aside *a = *ap;
	int rc;

	*ap = NULL;
	if (a->db)
		(void)pthread_join(a->thread, NULL);
	db_close(&a->db);
	rc = a->rc;
	v->sum->indexes_summed = a->summed;
	if (rc == ERR_CORRUPT)
		verify_tell_store(v, AUDIT_FINDING_INDEX, NULL, a->err.msg);
	else if (rc < 0 && err)
		*err = a->err;
	free(a);
	return rc == ERR_CORRUPT ? 0 : rc;
}
