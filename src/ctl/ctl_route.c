/* Which road a command takes: the given socket, the socket on the owner's card, or this process as the owner. */

#include "config.h"

#include "ctl_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/owner.h"

#define OWNER_WAIT_MS 10000             /* for another command at work, or a server that starts or stops */
#define OWNER_RETRY_MS 20

int ctl_store(const struct ctl_opt *opt, char **ret, struct err *err)
{
	if (!opt->store)
		return path_default_store(ret, err);
	if (!*opt->store)
		return err_set(err, ERR_INVALID, "", "--store needs a directory");
	*ret = path_absolute(opt->store);
	return 0;
}

/* db_owner_take() leaves its lock file wherever it is pointed to: look first. */
int ctl_store_check(const char *store, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	struct stat st;
	int rc = 0, e;

	if (stat(file, &st) != 0) {
		e = errno;
		rc = err_set(err, ERR_UNREACHABLE, store, "no store in %s: %s", store, strerror(e));
		if (e == ENOENT || e == ENOTDIR)
			err_hint(err, "toolcrib init creates one; --store DIR or TOOLCRIB_STORE names another");
	}
	free(file);
	return rc;
}

static void wait_a_moment(void)
{
	struct timespec moment = { 0, OWNER_RETRY_MS * 1000000L };

	(void)nanosleep(&moment, NULL);
}

/* Become the owner (*ret_owner) or connect to it (*ret_fd). */
static int find_road(const char *store, struct db_owner **ret_owner, int *ret_fd, struct err *err)
{
	uint64_t deadline_us = clock_mono_us() + UINT64_C(1000) * OWNER_WAIT_MS;
	struct db_card card;
	int rc;

	for (;;) {
		memset(&card, 0, sizeof card);
		rc = db_owner_take(store, ret_owner, &card, err);
		if (rc <= 0)
			return rc;
		/* A socket that is not there yet, or no more: its owner starts or ends. */
		rc = card.admin_sock[0] ? ctl_remote_connect(card.admin_sock, ret_fd, err) : ERR_BUSY;
		if (rc == 0 || rc == ERR_DENIED)
			return rc;
		if (clock_mono_us() >= deadline_us)
			break;
		wait_a_moment();
	}
	if (rc == ERR_UNREACHABLE)
		return rc;
	(void)err_set(err, ERR_UNREACHABLE, store, "another command (process %lld) holds the store",
		      (long long)card.pid);
	err_hint(err, "wait until it has ended, then try again");
	return ERR_UNREACHABLE;
}

static int run_by_store(const char *store, const struct adm_cmd *cmd, const json_t *args, const struct ctl_sink *sink,
			struct str *rows, bool *ret_reached, struct err *err)
{
	struct db_owner *owner = NULL;
	int fd = -1;
	int rc = ctl_store_check(store, err);

	if (rc == 0)
		rc = find_road(store, &owner, &fd, err);
	if (rc < 0)
		return rc;
	if (owner)
		return ctl_embed_run(store, owner, cmd, args, sink, rows, ret_reached, err);
	*ret_reached = true;
	return ctl_remote_run(&(struct ctl_wire){ .fd = fd }, cmd, args, sink, rows, err);
}

/* For commands that can do without: a store that this user may use. */
static bool has_store(const struct ctl_opt *opt)
{
	char *store = NULL, *file;
	struct err ignored;
	bool has;

	if (opt->socket || opt->remote)
		return true;
	if (ctl_store(opt, &store, &ignored) < 0)
		return false;
	file = path_join(store, DB_FILE);
	has = access(file, R_OK | W_OK) == 0;
	free(file);
	free(store);
	return has;
}

int ctl_run(const struct ctl_opt *opt, const struct adm_cmd *cmd, const json_t *args, const struct ctl_sink *sink,
	    struct str *rows, bool *ret_reached, struct err *err)
{
	char *store = NULL;
	int fd = -1, rc;

	*ret_reached = false;
	if (cmd->storeless || (cmd->store_if_any && !has_store(opt)))
		return ctl_embed_run(NULL, NULL, cmd, args, sink, rows, ret_reached, err);
	if (opt->remote) {
		struct ctl_wire w;

		rc = ctl_tls_connect(opt, &w, err);
		*ret_reached = rc == 0;
		return rc < 0 ? rc : ctl_remote_run(&w, cmd, args, sink, rows, err);
	}
	if (opt->socket) {
		rc = ctl_remote_connect(opt->socket, &fd, err);
		*ret_reached = rc == 0;
		return rc < 0 ? rc : ctl_remote_run(&(struct ctl_wire){ .fd = fd }, cmd, args, sink, rows, err);
	}
	rc = ctl_store(opt, &store, err);
	if (rc == 0)
		rc = run_by_store(store, cmd, args, sink, rows, ret_reached, err);
	free(store);
	return rc;
}
