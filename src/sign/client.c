/* Asking a signer, and not believing it: what it sends is checked before it is stored. */

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "sign/client.h"
#include "tlog/signer.h"

static const char *kind_of(const struct sign_msg *req)
{
	static const char *const kinds[SIGN_OP_COUNT] = {
		[SIGN_HELLO] = "greet", [SIGN_CREATE] = "create keys", [SIGN_OPEN] = "begin a log", [SIGN_LOGS] = "list logs",
		[SIGN_SIGN] = "sign", [SIGN_ROTATE] = "begin an epoch",
		[SIGN_SUCCEED] = "let a log go on", [SIGN_PAST] = "name an epoch",
	};

	return req->op < SIGN_OP_COUNT && kinds[req->op] ? kinds[req->op] : "?";
}

/* Whether the reply has what its kind must have. */
static bool is_reply_to(const struct sign_msg *req, const struct sign_msg *reply)
{
	bool wants_who = req->op == SIGN_HELLO || req->op == SIGN_CREATE || req->op == SIGN_ROTATE ||
		req->op == SIGN_PAST;

	bool signs = req->op == SIGN_SIGN || req->op == SIGN_ROTATE;

	return reply->op == req->op && (reply->who != NULL) == wants_who && reply->npair == (signs ? req->nhead : 0) &&
	       (req->op == SIGN_LOGS || reply->nhead == 0);
}

int sign_call(int fd, uint64_t until_us, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	int rc = sign_msg_write(fd, until_us, req, err);

	if (rc == 0)
		rc = sign_msg_read(fd, until_us, reply, err);
	if (rc == 0)
		rc = err_set(err, ERR_UNREACHABLE, "signer", "the signer ended");
	if (rc < 0)
		return err_wrap(err, "%s", kind_of(req));
	rc = 0;
	if (reply->op == SIGN_ERROR)
		rc = err_set(err, ERR_DENIED, "signer", "the signer refuses to %s: %s", kind_of(req), reply->text);
	else if (!is_reply_to(req, reply))
		rc = err_set(err, ERR_INVALID, "signer", "the signer's reply is to something else");
	if (rc < 0)
		sign_msg_fini(reply);
	return rc;
}

static int keys_of(const struct sign_who *who, const char *origin, struct note_key *ret_log, struct note_key *ret_epoch)
{
	int rc = note_key_set(ret_log, origin, who->log_key);

	return rc < 0 ? rc : epoch_key_set(ret_epoch, who->instance, who->epoch, who->epoch_key);
}

static void print_head(const struct sign_head *head, struct str *ret)
{
	struct checkpoint cp = { .size = head->size };

	snprintf(cp.origin, sizeof(cp.origin), "%s", head->origin);
	memcpy(cp.root, head->root, TREE_HASH);
	checkpoint_print(&cp, ret);
}

int sign_check_pair(const struct sign_who *who, const struct sign_head *head, const struct sign_pair *pair, bool deep,
		    struct err *err)
{
	struct note_key log, epoch;
	struct str text = STR_INIT;
	int rc = 0;

	print_head(head, &text);
	if (pair->verdict == SIGN_UNKNOWN)
		rc = err_set(err, ERR_CONFLICT, head->origin, "the signer does not know this log");
	else if (pair->verdict != SIGN_SIGNED)
		rc = err_set(err, ERR_CORRUPT, head->origin, "the log contradicts what the signer has signed before");
	else if (keys_of(who, head->origin, &log, &epoch) < 0 ||
		 (deep && (!sign_check(log.public, text.p, text.len, pair->log) ||
			   !sign_check(epoch.public, text.p, text.len, pair->epoch))))
		rc = err_set(err, ERR_INVALID, head->origin, "the signer's signatures are not by its keys");
	str_fini(&text);
	return rc;
}

void sign_note(const struct sign_who *who, const struct sign_head *head, const struct sign_pair *pair, struct str *ret)
{
	struct note_key log, epoch;
	size_t len;

	print_head(head, ret);
	len = ret->len;
	if (keys_of(who, head->origin, &log, &epoch) < 0)
		return;
	note_add(ret, len, &log, pair->log);
	note_add(ret, len, &epoch, pair->epoch);
}

int sign_connect(const char *path, int *ret_fd, struct err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(sun.sun_path))
		return err_set(err, ERR_LIMIT, path, "the path of a socket has at most %zu bytes", sizeof(sun.sun_path) - 1);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	/* Not blocking: one that hangs has a full queue some day. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) != 0) {
		int rc = err_set(err, ERR_UNREACHABLE, path, "no signer at %s: %s", path, strerror(errno));

		if (fd >= 0)
			close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}
