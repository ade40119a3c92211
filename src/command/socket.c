/* Where commands come from: the owner's socket, where the peer's uid says who asks, and other machines, where a key
 * does that has a role.  One command per line, answers in order. */
#include "config.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "command/command.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/gate.h"
#include "net/listen.h"
#include "net/stream.h"
#include "net/tls.h"
#include "tenant/tenant.h"

#include "command_int.h"

#define CONNECTIONS_MAX 64
#define ADMIN_BUSY_RETRY_MS 1000
#define WORD_MAX 32
#define PART_QUEUED_MAX (256u << 10)    /* bytes that a slow peer of a stream has not read yet (SCALE SC-509) */

#define KEY_LINE_MAX 256
/* of a peer without any role: it is refused in any case, and buffers nothing much */
#define STRANGER_LINE_MAX (64u << 10)

struct command_socket {
	struct command_remote remote;     /* address NULL: a Unix socket */
	struct commands *admin;
	struct ev_loop *loop;
	struct listener *listener;
	struct list conns;
	struct map *keyless;            /* source -> how many of its connections have not shown a key, as a pointer */
};

struct conn {
	struct list node;               /* in command_socket.conns; on its own once the socket is closed */
	struct command_socket *sock;        /* NULL then */
	struct stream *stream;          /* NULL: the peer is gone */
	struct actor who;
	uint32_t *gids;                 /* who.gids */
	struct gate_pass pass;
	struct addr peer;               /* of another machine */
	struct ev_timer *due;           /* runs while a line is */
	char key[ADMIN_KEY_HASH_SIZE], name[CONF_KEY_NAME_MAX + 1], from[ADDR_TEXT_SIZE];       /* those of who */
	size_t line_max, searched;      /* bytes of a line; of this one, those that have no newline */
	bool stranger;                  /* without any role when it connected */
	bool keyless;                   /* the key is what is due */
	bool busy;                      /* a command runs: its reply() is the last user */
	struct command_call *running;   /* it */
	bool more;                      /* further lines are documents of it, or of one that has failed */
	bool eof;
};

/* --- how many connections one may have: of those whom nobody knows yet, by where they come from */

static bool keyless_enter(struct command_socket *s, const struct addr *from)
{
	uint8_t key[16] = { 0 };        /* of another family there is one source */
	uintptr_t n;

	(void)addr_source(from, key);
	n = (uintptr_t)map_get(s->keyless, key, sizeof(key));
	if (n >= ADMIN_SHARE_MAX) {
		metric_inc(METRIC_admin_connections_refused);
		return false;
	}
	(void)map_set(s->keyless, key, sizeof(key), (void *)(n + 1)); /* a number */
	return true;
}

static void keyless_leave(struct command_socket *s, const struct addr *from)
{
	uint8_t key[16] = { 0 };        /* of another family there is one source */
	uintptr_t n;

	(void)addr_source(from, key);
	n = (uintptr_t)map_get(s->keyless, key, sizeof(key));
	if (n > 1)
		(void)map_set(s->keyless, key, sizeof(key), (void *)(n - 1)); /* a number */
	else
		(void)map_del(s->keyless, key, sizeof(key)); /* the last */
}

static bool is_same_peer(const struct conn *a, const struct conn *b)
{
	if (a->stranger || b->stranger)
		return a->stranger && b->stranger;
	if (a->who.key || b->who.key)
		return a->who.key && b->who.key && strcmp(a->who.key, b->who.key) == 0;
	return a->who.uid == b->who.uid;
}

/* It is one of conns.  ERR_BUSY: the others of its user or key are as many as there may be (SEC S-801). */
static int check_share(const struct conn *c, struct err *err)
{
	char who[ACTOR_SIZE];
	unsigned others = 0;

	LIST_FOREACH(n, &c->sock->conns) {
		const struct conn *other = CONTAINER_OF(n, struct conn, node);

		others += other != c && is_same_peer(c, other);
	}
	if (others < ADMIN_SHARE_MAX)
		return 0;
	metric_inc(METRIC_admin_connections_refused);
	(void)err_set(err, ERR_BUSY, "", "%s has %u connections for commands, which is the limit",
		      c->stranger ? "whoever has no role" : actor_text(&c->who, who), others);
	err_hint(err, "try again when one of the other commands has ended");
	err->retry_ms = ADMIN_BUSY_RETRY_MS;
	return ERR_BUSY;
}

/* --- connections */

/* It has left its socket, for good. */
static void leave_sock(struct conn *c)
{
	if (c->keyless)
		keyless_leave(c->sock, &c->peer);
	if (c->sock->remote.address)
		gate_leave(&c->pass);
}

static void conn_free(struct conn *c)
{
	list_unlink(&c->node);
	if (c->sock) {
		leave_sock(c);
		listen_conn_gone(c->sock->listener);
	}
	ev_timer_free(&c->due);
	free(c->gids);
	free(c);
}

static bool is_named(const struct commands *a, uint32_t gid)
{
	for (size_t i = 0; i < a->env.nroles; i++)
		if (a->env.roles[i].by_group && a->env.roles[i].id == gid)
			return true;
	return false;
}

/* Of its groups those that have a role; free *ret. */
static size_t groups_of(const struct commands *a, const uint32_t *gid, size_t n, uint32_t **ret)
{
	size_t kept = 0;

	*ret = mem_calloc(n, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		if (is_named(a, gid[i]))
			(*ret)[kept++] = gid[i];
	return kept;
}

/* The groups of a Unix peer when it connected, those that a role names: sorted by nothing, *ret is malloc()ed. */
static size_t peer_groups(const struct commands *a, int fd, uint32_t **ret)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	gid_t *all = NULL;
	size_t n = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return 0;
	len = 0;
	/* The first asks how many; its own group stands before the further ones. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) < 0 && errno != ERANGE)
		len = 0;
	all = mem_alloc(sizeof(*all) + len);
	all[0] = peer.gid;
	if (len > 0 && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, all + 1, &len) < 0)
		len = 0;
	n = groups_of(a, all, 1 + len / sizeof(*all), ret);
	free(all);
	return n;
}

/* The peer is served no more; a command under way ends by itself. */
static void conn_end(struct conn *c)
{
	stream_finish(&c->stream);
	if (!c->busy)
		conn_free(c);
}

/* The same, and what it waits for from its peer will not come. */
static void leave(struct conn *c)
{
	struct command_call *running = c->running;

	conn_end(c);
	if (running)
		command_hang_up(running);
}

void command_send_reply(struct stream *to, const struct str *rows, const struct err *err)
{
	struct str out = STR_SECRET_INIT;

	if (rows && rows->len > 0)
		str_put(&out, rows->p, rows->len);
	if (err)
		reply_error(&out, err);
	else
		str_puts(&out, "{\"done\":true}\n");
	stream_write_answer(to, out.p, out.len);
	str_wipe(&out);                 /* rows may be a new key, or a visit's token */
}

static void await_line(struct conn *c)
{
	ev_timer_start(c->due, (c->keyless ? ADMIN_KEY_MS : ADMIN_IDLE_MS) * 1000ull);
}

/* --- parts of a long answer: the next one when little of the last is still on its way */

static void take_part(void *arg, const struct str *rows)
{
	struct conn *c = arg;

	if (c->stream)
		stream_write_answer(c->stream, rows->p, rows->len);
}

static int has_room(void *arg)
{
	const struct conn *c = arg;

	if (!c->stream || c->eof)
		return -1;
	return stream_queued(c->stream) < PART_QUEUED_MAX;
}

static const struct command_sink sink = { .part = take_part, .room = has_room };

static void replied(void *arg, const struct str *rows, const struct err *err)
{
	struct conn *c = arg;

	c->busy = false;
	c->running = NULL;
	if (!c->stream) {
		conn_free(c);
		return;
	}
	command_send_reply(c->stream, err ? NULL : rows, err);
	if (c->eof) {
		conn_end(c);
		return;
	}
	await_line(c);
	stream_pause(c->stream, false);
	stream_kick(c->stream);
}

/* --- files that the peer has opened for his command */

static void files_free(struct path_lent *files, size_t n)
{
	while (n > 0) {
		close(files[--n].fd);
		free(files[n].path);
	}
	free(files);
}

/* Nothing that a read could wait for: the thread that looks at it is the server's.  And nothing without a name, which
 * is gone when the command is. */
static bool may_lend(int fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0 && fstatfs(fd, &fs) == 0 &&
	       fs.f_type != FUSE_SUPER_MAGIC;
}

/* One descriptor for each path of the line. */
static int take_files(struct conn *c, const json_t *list, struct command_req *req, struct err *err)
{
	size_t n = json_array_size(list);
	int fd;

	if (n == 0)
		return 0;
	if (n > STREAM_FDS_MAX) {
		metric_inc(METRIC_admin_files_refused);
		return err_set(err, ERR_LIMIT, "files", "a command has at most %d files", STREAM_FDS_MAX);
	}
	req->files = mem_calloc(n, sizeof(*req->files));
	for (size_t i = 0; i < n; i++) {
		const char *path = json_string_value(json_array_get(list, i));

		if (!path || stream_fds(c->stream, &fd, 1) == 0)
			return err_set(err, ERR_INVALID, "files", "files are paths, with a descriptor for each");
		req->files[req->nfiles++] = (struct path_lent){ mem_strdup(path), fd };
		if (!may_lend(fd))
			return err_set(err, ERR_INVALID, "files", "%s is no regular file of this machine", path);
	}
	return 0;
}

static int parse_line(const char *text, size_t len, json_t **ret, const char **ret_command, json_t **ret_args,
		      bool *ret_more, struct err *err)
{
	static const char *const known[] = { "command", "args", "files", "more" };
	int rc = jx_parse(text, len, ret, err);

	if (rc < 0)
		return rc;
	if (!json_is_object(*ret))
		return err_set(err, ERR_INVALID, "", "a request must be an object with command and args");
	rc = jx_only(*ret, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(*ret, "", "command", JX_REQUIRED, ret_command, err);
	if (rc == 0)
		rc = jx_get_object(*ret, "", "args", JX_REQUIRED, ret_args, err);
	if (rc == 0)
		rc = jx_get_bool(*ret, "", "more", JX_OPTIONAL, ret_more, err);
	return rc;
}

static void take_line(struct conn *c, const char *text, size_t len)
{
	json_t *doc = NULL, *args = NULL;
	const char *command = "";
	struct command_req req = { .who = c->who, .sink = &sink };
	char noun[WORD_MAX];
	struct err err = { 0 };
	int rc = parse_line(text, len, &doc, &command, &args, &req.more, &err);
	size_t n = strcspn(command, " ");

	if (rc == 0 && n >= sizeof(noun))
		rc = err_set(&err, ERR_NOT_FOUND, "", "no such command");
	if (rc == 0)
		rc = take_files(c, json_object_get(doc, "files"), &req, &err);
	if (rc < 0) {
		files_free(req.files, req.nfiles);
		command_send_reply(c->stream, NULL, &err);
		await_line(c);
		jx_wipe(&doc);
		return;
	}
	memcpy(noun, command, n);
	noun[n] = '\0';
	req.noun = noun;
	req.verb = command[n] ? command + n + 1 : NULL;
	req.cmd = command_find(c->sock->admin->env.tables, noun, req.verb);
	req.args = args;
	json_incref(args);              /* the tree's only reference goes to the command */
	(void)json_object_del(doc, "args");
	c->busy = true;
	c->more = req.more;
	if (!c->more)
		ev_timer_stop(c->due);
	else
		await_line(c);
	/* Of a stream the peer's end must be seen when it is silent, and of what waits for somebody else or can be cancelled,
	 * too. */
	stream_pause(c->stream, !c->more && (!req.cmd || (!req.cmd->stream && !req.cmd->ungather && !req.cmd->cancel)));
	c->running = command_run(c->sock->admin, &req, replied, c);
	if (c->running && c->running->elsewhere)
		stream_pause(c->stream, false);
	jx_wipe(&doc);
}

/* --- documents that come behind their command */

static int parse_piece(const char *text, size_t len, json_t **ret, json_t **ret_documents, bool *ret_more,
		       struct err *err)
{
	static const char *const known[] = { "documents", "more" };
	int rc = jx_parse(text, len, ret, err);

	if (rc == 0 && !json_is_object(*ret))
		rc = err_set(err, ERR_INVALID, "", "a piece must be an object with documents");
	if (rc == 0)
		rc = jx_only(*ret, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_array(*ret, "", "documents", JX_REQUIRED, ret_documents, err);
	if (rc == 0)
		rc = jx_get_bool(*ret, "", "more", JX_OPTIONAL, ret_more, err);
	return rc;
}

/* Nothing tells where a line that is no piece would have its place: whoever sent it is served no more. */
static void take_piece(struct conn *c, const char *text, size_t len)
{
	json_t *doc = NULL, *documents = NULL;
	bool more = false;
	struct err err;
	int rc = parse_piece(text, len, &doc, &documents, &more, &err);

	c->more = more;
	if (rc < 0) {
		ev_timer_stop(c->due);
		command_send_reply(c->stream, NULL, &err);
		leave(c);
	} else if (more) {
		await_line(c);
	} else if (c->busy) {
		ev_timer_stop(c->due);
		stream_pause(c->stream, true);
	}
	if (rc == 0 && c->busy)
		command_piece(c->running, documents, more);
	jx_wipe(&doc);
}

/* --- keys from other machines */

void admin_key_make(char ret_text[ADMIN_KEY_SIZE], char ret_hash[ADMIN_KEY_HASH_SIZE])
{
	uint8_t digest[DIGEST_SIZE];

	memcpy(ret_text, ADMIN_KEY_PREFIX, sizeof(ADMIN_KEY_PREFIX) - 1);
	id_random_text(ret_text + sizeof(ADMIN_KEY_PREFIX) - 1, ADMIN_KEY_SIZE - sizeof(ADMIN_KEY_PREFIX));
	digest_sha256(ret_text, ADMIN_KEY_SIZE - 1, digest);
	text_hex(digest, sizeof(digest), ret_hash);
}

static void send_away(struct conn *c, enum cred_refusal why)
{
	cred_refused(c->sock->remote.tenants, &(struct cred_source){ c->from, AUDIT_TCP }, why);
	conn_end(c);
}

/* No line came in time.  A command under way, such as a stream, has no such deadline. */
static void on_due(void *arg)
{
	struct conn *c = arg;
	struct err err;

	if (c->keyless) {
		send_away(c, CRED_LATE);
		return;
	}
	metric_inc(METRIC_admin_connections_idle);
	(void)err_set(&err, ERR_TIMEOUT, "", "no command came within %d s", ADMIN_IDLE_MS / 1000);
	command_send_reply(c->stream, NULL, &err);
	leave(c);
}

/* The role that a key has by its hash, or NULL. */
static const struct conf_role *role_of_key(const struct commands *a, const char *hash)
{
	for (size_t i = 0; i < a->env.nroles; i++)
		if (a->env.roles[i].key && strcmp(a->env.roles[i].key, hash) == 0)
			return &a->env.roles[i];
	return NULL;
}

/* The key is 43 random characters: its plain digest tells nobody what it is, and the time to find it nothing either. */
static void take_key(struct conn *c, const char *line, size_t len)
{
	static const char prefix[] = "Authorization: Bearer ";
	const size_t n = sizeof(prefix) - 1;
	const struct conf_role *role;
	uint8_t digest[DIGEST_SIZE];
	struct err err;

	if (len <= n || memcmp(line, prefix, n) != 0) {
		send_away(c, CRED_MALFORMED);
		return;
	}
	digest_sha256(line + n, len - n, digest);
	text_hex(digest, sizeof(digest), c->key);
	role = role_of_key(c->sock->admin, c->key);
	if (!role) {
		send_away(c, CRED_UNKNOWN);
		return;
	}
	c->keyless = false;
	keyless_leave(c->sock, &c->peer);
	gate_known(&c->pass);
	(void)snprintf(c->name, sizeof(c->name), "%s", role->name);
	c->who = (struct actor){ .uid = UINT32_MAX, .pid = -1, .key = c->key, .name = c->name, .from = c->from };
	if (check_share(c, &err) < 0) {
		command_send_reply(c->stream, NULL, &err);
		conn_end(c);
		return;
	}
	c->line_max = ADMIN_LINE_MAX;
	stream_in_max(c->stream, c->line_max + 2);
	await_line(c);
}

static size_t conn_data(void *arg, const char *p, size_t len)
{
	struct conn *c = arg;
	size_t text_len = 0;
	ssize_t n;

	if (c->busy && !c->more)
		return 0;               /* a stream: what comes now is for later */
	n = line_next(p, len, c->searched, c->line_max, &text_len);
	if (n != 0 && c->keyless) {
		c->searched = 0;
		if (n < 0)
			send_away(c, CRED_MALFORMED);
		else
			take_key(c, p, text_len);
		return n < 0 ? 0 : (size_t)n;
	}
	if (n == 0) {
		c->searched = len;
		return 0;
	}
	c->searched = 0;
	if (n < 0) {
		struct err err;

		(void)err_set(&err, ERR_LIMIT, "", "a request has at most %zu bytes", c->line_max);
		command_send_reply(c->stream, NULL, &err);
		conn_end(c);
		return 0;
	}
	if (c->more)
		take_piece(c, p, text_len);
	else
		take_line(c, p, text_len);
	return (size_t)n;
}

static void conn_ended(void *arg, enum stream_end why)
{
	struct conn *c = arg;

	c->eof = true;
	if (c->running)
		command_hang_up(c->running);
	if (why == STREAM_EOF && c->busy)
		return;                         /* the reply can still be written */
	if (why == STREAM_EOF)
		stream_finish(&c->stream);
	else
		stream_close(&c->stream);
	if (!c->busy)
		conn_free(c);
}

/* At once and without a stream, which would outlive the connection's place until its peer has read. */
static void turn_away(struct conn *c, const struct accepted *a, const struct err *err)
{
	struct str out = STR_INIT;

	reply_error(&out, err);
	(void)send(a->fd, out.p, out.len, MSG_DONTWAIT | MSG_NOSIGNAL); /* a new socket has room */
	str_fini(&out);
	listen_drop(a);
	conn_free(c);
}

static void accepted(void *arg, const struct accepted *a)
{
	static const struct stream_ops ops = { .data = conn_data, .ended = conn_ended };
	struct command_socket *s = arg;
	struct conn *c = mem_zalloc(sizeof(*c));
	struct err err;

	c->sock = s;
	list_push_back(&s->conns, &c->node);
	c->who = (struct actor){ .uid = (uint32_t)a->uid, .pid = a->pid };
	c->who.ngids = peer_groups(s->admin, a->fd, &c->gids);
	c->who.gids = c->gids;
	c->stranger = !actor_is_somebody(s->admin, &c->who);
	if (check_share(c, &err) < 0) {
		turn_away(c, a, &err);
		return;
	}
	c->line_max = c->stranger ? STRANGER_LINE_MAX : ADMIN_LINE_MAX;
	c->stream = stream_new(s->loop, a->fd, a->fd, c->line_max + 2, &ops, c);
	stream_wipe(c->stream);
	if (!c->stranger)
		stream_take_fds(c->stream);
	c->due = ev_timer_new(s->loop, on_due, c);
	await_line(c);
}

static void remote_accepted(void *arg, const struct accepted *a)
{
	static const struct stream_ops ops = { .data = conn_data, .ended = conn_ended };
	struct command_socket *s = arg;
	struct conn *c = mem_zalloc(sizeof(*c));

	c->sock = s;
	c->pass = a->pass;
	c->peer = a->peer;
	c->keyless = true;
	(void)snprintf(c->from, sizeof(c->from), "%s", a->from);
	c->line_max = KEY_LINE_MAX;
	c->stream = stream_new(s->loop, a->fd, a->fd, c->line_max + 2, &ops, c);
	stream_wipe(c->stream);
	stream_tls(c->stream, a->tls);
	c->due = ev_timer_new(s->loop, on_due, c);
	await_line(c);
	list_push_back(&s->conns, &c->node);
}

static bool enter(void *arg, struct accepted *a)
{
	struct command_socket *s = arg;
	uint32_t wait_ms;

	if (!keyless_enter(s, &a->peer))
		return false;
	if (gate_enter(s->remote.gate, &a->peer, false, &a->pass, &wait_ms) == GATE_OPEN)
		return true;
	keyless_leave(s, &a->peer);
	return false;
}

static void not_entered(void *arg, struct accepted *a)
{
	keyless_leave(arg, &a->peer);
	gate_leave(&a->pass);
}

int command_remote_open(struct commands *a, struct ev_loop *loop, const struct command_remote *r,
			struct command_socket **ret, struct err *err)
{
	struct command_socket *s = mem_zalloc(sizeof(*s));
	int rc;

	s->admin = a;
	s->loop = loop;
	s->remote = *r;
	list_init(&s->conns);
	s->keyless = map_new();
	rc = listen_tcp(loop, r->address, CONNECTIONS_MAX, remote_accepted, s, &s->listener, err);
	if (rc < 0) {
		map_free(&s->keyless);
		free(s);
		return rc;
	}
	listen_tls(s->listener, &(struct listen_door){ r->tls, enter, not_entered, s });
	*ret = s;
	return 0;
}

const char *command_remote_address(const struct command_socket *s)
{
	return listen_address(s->listener);
}

int command_socket_open(struct commands *a, struct ev_loop *loop, const char *path, unsigned mode,
			struct command_socket **ret, struct err *err)
{
	struct command_socket *s = mem_zalloc(sizeof(*s));
	int rc;

	s->admin = a;
	s->loop = loop;
	list_init(&s->conns);
	s->keyless = map_new();
	rc = listen_unix(loop, path, mode, CONNECTIONS_MAX, accepted, s, &s->listener, err);
	if (rc < 0) {
		map_free(&s->keyless);
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void command_socket_close(struct command_socket **sp)
{
	struct command_socket *s = sp ? *sp : NULL;

	if (!s)
		return;
	*sp = NULL;
	LIST_FOREACH_SAFE(n, tmp, &s->conns) {
		struct conn *c = CONTAINER_OF(n, struct conn, node);

		list_unlink(&c->node);
		leave_sock(c);
		c->sock = NULL;
		ev_timer_free(&c->due);
		stream_close(&c->stream);
		if (c->running && c->more)
			command_hang_up(c->running);
		if (!c->busy) {
			free(c->gids);
			free(c);
		}
	}
	listen_close(&s->listener);
	map_free(&s->keyless);
	free(s);
}
