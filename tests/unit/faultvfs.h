#ifndef TESTS_FAULTVFS_H
#define TESTS_FAULTVFS_H

/*
 * A disk that can be told to hang, to be full, to fail a flush: a SQLite VFS over the system's own, made
 * the default by faultvfs_install().  Only the database file and its log are affected.  Any thread may
 * set a fault while another is in the store.
 */

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ev/ev.h"

enum fault { FAULT_NONE, FAULT_HANG, FAULT_FULL, FAULT_SYNC };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum fault fault;
	unsigned hanging;       /* threads that hang now */
	bool pass;              /* one of them may go on, and the next one hangs */
	unsigned syncs, writes; /* flushes; writes of the log */
	sqlite3_vfs *real, vfs;
	sqlite3_io_methods methods;
} fault_disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

struct fault_file {
	sqlite3_file base;
	sqlite3_file *real;
	bool counted, is_log;   /* its syncs; those of keys.db are not */
};

static inline sqlite3_file *fault_real(sqlite3_file *f)
{
	return ((struct fault_file *)(void *)f)->real;
}

static inline void fault_set(enum fault fault)
{
	pthread_mutex_lock(&fault_disk.lock);
	fault_disk.fault = fault;
	pthread_cond_broadcast(&fault_disk.changed);
	pthread_mutex_unlock(&fault_disk.lock);
}

/* One turn, which shows the writer what was submitted; then until a thread hangs in the disk. */
static inline void fault_wait_hanging(struct ev_loop *loop)
{
	const bool no_wait = true;

	(void)ev_loop_run_until(loop, &no_wait, 0);
	pthread_mutex_lock(&fault_disk.lock);
	while (!fault_disk.hanging)
		pthread_cond_wait(&fault_disk.changed, &fault_disk.lock);
	pthread_mutex_unlock(&fault_disk.lock);
}

static inline bool fault_hangs(void)
{
	bool hangs;

	pthread_mutex_lock(&fault_disk.lock);
	hangs = fault_disk.hanging && !fault_disk.pass;
	pthread_mutex_unlock(&fault_disk.lock);
	return hangs;
}

/* While it hangs: this flush is done, the next one hangs. */
static inline void fault_pass(void)
{
	pthread_mutex_lock(&fault_disk.lock);
	fault_disk.pass = true;
	pthread_cond_broadcast(&fault_disk.changed);
	pthread_mutex_unlock(&fault_disk.lock);
}

static inline unsigned fault_syncs(void)
{
	unsigned n;

	pthread_mutex_lock(&fault_disk.lock);
	n = fault_disk.syncs;
	pthread_mutex_unlock(&fault_disk.lock);
	return n;
}

static int fault_close(sqlite3_file *f)
{
	int rc = fault_real(f)->pMethods->xClose(fault_real(f));

	free(fault_real(f));
	return rc;
}

static int fault_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	return fault_real(f)->pMethods->xRead(fault_real(f), p, n, at);
}

static int fault_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	bool full;

	pthread_mutex_lock(&fault_disk.lock);
	full = fault_disk.fault == FAULT_FULL;
	fault_disk.writes += ((struct fault_file *)(void *)f)->is_log && ((struct fault_file *)(void *)f)->counted;
	pthread_mutex_unlock(&fault_disk.lock);
	return full ? SQLITE_FULL : fault_real(f)->pMethods->xWrite(fault_real(f), p, n, at);
}

static int fault_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	return fault_real(f)->pMethods->xTruncate(fault_real(f), n);
}

static int fault_sync(sqlite3_file *f, int flags)
{
	bool fail;

	pthread_mutex_lock(&fault_disk.lock);
	fault_disk.syncs += ((struct fault_file *)(void *)f)->counted;
	fault_disk.hanging++;
	while (fault_disk.fault == FAULT_HANG && !fault_disk.pass) {
		pthread_cond_broadcast(&fault_disk.changed);
		pthread_cond_wait(&fault_disk.changed, &fault_disk.lock);
	}
	fault_disk.pass = false;
	fault_disk.hanging--;
	fail = fault_disk.fault == FAULT_SYNC;
	pthread_mutex_unlock(&fault_disk.lock);
	return fail ? SQLITE_IOERR_FSYNC : fault_real(f)->pMethods->xSync(fault_real(f), flags);
}

static int fault_size(sqlite3_file *f, sqlite3_int64 *n)
{
	return fault_real(f)->pMethods->xFileSize(fault_real(f), n);
}

static int fault_lock(sqlite3_file *f, int level)
{
	return fault_real(f)->pMethods->xLock(fault_real(f), level);
}

static int fault_unlock(sqlite3_file *f, int level)
{
	return fault_real(f)->pMethods->xUnlock(fault_real(f), level);
}

static int fault_reserved(sqlite3_file *f, int *ret)
{
	return fault_real(f)->pMethods->xCheckReservedLock(fault_real(f), ret);
}

static int fault_control(sqlite3_file *f, int op, void *arg)
{
	return fault_real(f)->pMethods->xFileControl(fault_real(f), op, arg);
}

static int fault_sector(sqlite3_file *f)
{
	return fault_real(f)->pMethods->xSectorSize(fault_real(f));
}

static int fault_traits(sqlite3_file *f)
{
	return fault_real(f)->pMethods->xDeviceCharacteristics(fault_real(f));
}

static int fault_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
	return fault_real(f)->pMethods->xShmMap(fault_real(f), page, size, extend, ret);
}

static int fault_shm_lock(sqlite3_file *f, int from, int n, int flags)
{
	return fault_real(f)->pMethods->xShmLock(fault_real(f), from, n, flags);
}

static void fault_shm_barrier(sqlite3_file *f)
{
	fault_real(f)->pMethods->xShmBarrier(fault_real(f));
}

static int fault_shm_unmap(sqlite3_file *f, int drop)
{
	return fault_real(f)->pMethods->xShmUnmap(fault_real(f), drop);
}

static int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	struct fault_file *file = (struct fault_file *)(void *)f;
	int rc;

	file->base.pMethods = NULL;
	file->counted = !name || !strstr(name, "keys.db");
	file->is_log = flags & SQLITE_OPEN_WAL;
	file->real = calloc(1, (size_t)fault_disk.real->szOsFile);
	rc = fault_disk.real->xOpen(fault_disk.real, name, file->real, flags, ret_flags);
	if (file->real->pMethods)
		file->base.pMethods = &fault_disk.methods;
	else
		free(file->real);
	return rc;
}

static inline void faultvfs_install(void)
{
	fault_disk.real = sqlite3_vfs_find(NULL);
	fault_disk.vfs = *fault_disk.real;
	fault_disk.vfs.zName = "fault";
	fault_disk.vfs.szOsFile = sizeof(struct fault_file);
	fault_disk.vfs.xOpen = fault_open;
	fault_disk.methods = (sqlite3_io_methods){
		.iVersion = 2, .xClose = fault_close, .xRead = fault_read, .xWrite = fault_write, .xTruncate = fault_truncate,
		.xSync = fault_sync, .xFileSize = fault_size, .xLock = fault_lock, .xUnlock = fault_unlock,
		.xCheckReservedLock = fault_reserved, .xFileControl = fault_control, .xSectorSize = fault_sector,
		.xDeviceCharacteristics = fault_traits, .xShmMap = fault_shm_map, .xShmLock = fault_shm_lock,
		.xShmBarrier = fault_shm_barrier, .xShmUnmap = fault_shm_unmap,
	};
	sqlite3_vfs_register(&fault_disk.vfs, 1);
}

#endif
