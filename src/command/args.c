/* Arguments: one check against the command's row for both roads, and getters for the handlers.  Documents that come in
 * pieces are kept as text until the command ends, few of them in memory, many in a nameless file beside the store. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"

#include "command_int.h"

#define ARG_TEXT_MAX (64u << 10)
#define ARG_REPEATED_MAX 1000
#define NAMES_MAX 32

int command_arg_check(const struct command_arg *arg, const char *text, struct err *err)
{
	struct text_rate rate;
	uint64_t n;

	switch (arg->type) {
	case ARG_UINT:
		if (text_u64(text, strlen(text), &n) == 0 && n <= UINT32_MAX)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no number", arg->name, text);
	case ARG_DURATION:
		if (text_duration_ms(text, &n) == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no duration like 10s, 5m, 12h, 90d", arg->name, text);
	case ARG_RATE:
		if (text_rate(text, &rate) == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no rate like 10/s, 60/min, 5000/day", arg->name, text);
	case ARG_TIME:
		if (clock_parse(text, clock_wall_us(), &n) == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no time like 1h (ago), 2026-07-28, 2026-07-28T10:00:00Z",
			       arg->name, text);
	case ARG_YESNO:
		if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: say yes or no", arg->name);
	case ARG_PATH:
	case ARG_PATH_READ:
	case ARG_PATH_NEW:
	case ARG_PATH_KEPT:
		if (*text)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: the path is empty", arg->name);
	case ARG_TEXT:
	case ARG_JSON:
	case ARG_FLAG:
	case ARG_FILE:
	case ARG_KEYVALUES:
	case ARG_SECRET:
	case ARG_CURSOR:
	case ARG_COMMAND:
		break;
	}
	return 0;
}

static int bad_type(const struct command_arg *arg, const char *must, const json_t *value, struct err *err)
{
	return err_set(err, ERR_INVALID, arg->name, "%s must be %s, is %s", arg->name, must, jx_type_name(value));
}

static int check_text(const struct command_arg *arg, const json_t *value, struct err *err)
{
	if (!json_is_string(value))
		return bad_type(arg, "a string", value, err);
	if (strlen(json_string_value(value)) != json_string_length(value))
		return err_set(err, ERR_INVALID, arg->name, "%s has a NUL inside", arg->name);
	if (json_string_length(value) > ARG_TEXT_MAX && arg->type != ARG_JSON && arg->type != ARG_SECRET)
		return err_set(err, ERR_LIMIT, arg->name, "%s is longer than %u bytes", arg->name, ARG_TEXT_MAX);
	if (command_arg_check(arg, json_string_value(value), err) < 0)
		return ERR_INVALID;
	/* The program makes it so; any other that speaks to the socket must not mean a place of the server's, or its input. */
	if (command_arg_is_path(arg) && *json_string_value(value) != '/')
		return err_set(err, ERR_INVALID, arg->name, "%s: the path must be absolute", arg->name);
	return 0;
}

static int check_value(const struct command_arg *arg, bool pieces, const json_t *value, struct err *err)
{
	const json_t *item;
	const char *key;
	size_t i;

	if (arg->type == ARG_FLAG)
		return json_is_boolean(value) ? 0 : bad_type(arg, "true or false", value, err);
	if (arg->type == ARG_JSON || arg->type == ARG_CURSOR)
		return json_is_object(value) ? 0 : bad_type(arg, "an object", value, err);
	if (arg->type == ARG_KEYVALUES) {
		json_t *v;

		if (!json_is_object(value))
			return bad_type(arg, "an object of texts", value, err);
		json_object_foreach((json_t *)(uintptr_t)value, key, v)
			if (!json_is_string(v))
				return err_set(err, ERR_INVALID, arg->name, "%s must be a text", key);
		return 0;
	}
	if (arg->type == ARG_FILE || arg->repeated) {
		if (!json_is_array(value) || json_array_size(value) == 0)
			return bad_type(arg, "a list of at least one", value, err);
		if (json_array_size(value) > ARG_REPEATED_MAX && !pieces)
			return err_set(err, ERR_LIMIT, arg->name, "%s: at most %d at once", arg->name, ARG_REPEATED_MAX);
		if (arg->type == ARG_FILE)
			return 0;
		json_array_foreach(value, i, item)
			if (check_text(arg, item, err) < 0)
				return ERR_INVALID;
		return 0;
	}
	return check_text(arg, value, err);
}

/* What the CLI has read from files has another name there. */
static const char *member_of(const struct command_arg *arg)
{
	return arg->type == ARG_FILE ? "documents" : arg->type == ARG_SECRET ? "value" : arg->name;
}

int command_args_check(const struct command *cmd, const json_t *args, struct err *err)
{
	const char *known[NAMES_MAX];
	size_t n = 0;

	for (const struct command_arg *arg = cmd->args; arg && arg->name && n < NELEMS(known); arg++)
		known[n++] = member_of(arg);
	if (!json_is_object(args))
		return err_set(err, ERR_INVALID, "", "arguments must be an object");
	if (jx_only(args, "", known, n, err) < 0)
		return ERR_INVALID;
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		const json_t *value = json_object_get(args, member_of(arg));

		if (!value && arg->required)
			return err_set(err, ERR_INVALID, arg->name, "%s is missing", arg->name);
		if (value && check_value(arg, cmd->pieces && arg->type == ARG_FILE, value, err) < 0)
			return ERR_INVALID;
	}
	return 0;
}

/* The arguments, of the thread that has them alone. */
static const json_t *args_of(const struct command_call *c)
{
	const struct command_run *run = command_run_of(c);

	assert(run->owned && pthread_equal(run->owner, pthread_self()));
	return c->args;
}

const json_t *arg_json(const struct command_call *c, const char *name)
{
	return json_object_get(args_of(c), name);
}

const char *arg_text(const struct command_call *c, const char *name)
{
	return json_string_value(arg_json(c, name));
}

void arg_copy(const struct command_call *c, const char *name, char *ret, size_t size)
{
	const char *text = arg_text(c, name);

	(void)snprintf(ret, size, "%s", text ? text : "");
}

bool arg_is_known(const struct command_call *c, const char *name)
{
	const struct command_arg *arg = command_run_of(c)->cmd->args;

	while (arg && arg->name && strcmp(arg->name, name) != 0)
		arg++;
	return arg && arg->name;
}

bool arg_given(const struct command_call *c, const char *name)
{
	return arg_json(c, name) != NULL;
}

bool arg_flag(const struct command_call *c, const char *name)
{
	const json_t *value = arg_json(c, name);

	return json_is_true(value) || (json_is_string(value) && strcmp(json_string_value(value), "yes") == 0);
}

uint32_t arg_uint(const struct command_call *c, const char *name, uint32_t def)
{
	const char *text = arg_text(c, name);
	uint64_t n = def;

	if (text)
		(void)text_u64(text, strlen(text), &n); /* was checked */
	return (uint32_t)n;
}

uint64_t arg_duration_ms(const struct command_call *c, const char *name, uint64_t def)
{
	const char *text = arg_text(c, name);
	uint64_t ms = def;

	if (text)
		(void)text_duration_ms(text, &ms);      /* was checked */
	return ms;
}

struct text_rate arg_rate(const struct command_call *c, const char *name)
{
	const char *text = arg_text(c, name);
	struct text_rate rate = { 0, 0 };

	if (text)
		(void)text_rate(text, &rate);           /* was checked */
	return rate;
}

uint64_t arg_time(const struct command_call *c, const char *name)
{
	const char *text = arg_text(c, name);
	uint64_t us = 0;

	if (text)
		(void)clock_parse(text, clock_wall_us(), &us);  /* was checked */
	return us;
}

size_t arg_count(const struct command_call *c, const char *name)
{
	const json_t *value = arg_json(c, name);

	return json_is_array(value) ? json_array_size(value) : value != NULL;
}

const char *arg_nth(const struct command_call *c, const char *name, size_t i)
{
	const json_t *value = arg_json(c, name);

	return json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
}

int arg_split(const char *text, char ret_tenant[64], char ret_name[64], struct err *err)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : 0;

	if (!slash || !text_entity_name(text, n) || !text_entity_name(slash + 1, strlen(slash + 1))) {
		(void)err_set(err, ERR_INVALID, "", "\"%s\" is no TENANT/NAME", text);
		err_hint(err, "names are lower-case letters, digits and _ . -, for example acme/build-bot");
		return ERR_INVALID;
	}
	memcpy(ret_tenant, text, n);
	ret_tenant[n] = '\0';
	memcpy(ret_name, slash + 1, strlen(slash + 1) + 1);
	return 0;
}

void *command_priv(struct command_call *c, size_t n)
{
	c->priv = mem_zalloc(n);
	if (!c->free_priv)
		c->free_priv = free;
	return c->priv;
}

int arg_reason(const struct command_call *c, const char *name, char *ret, size_t size, struct err *err)
{
	const char *text = arg_text(c, name);

	if (text && (!*text || strlen(text) >= size))
		return err_set(err, ERR_INVALID, name, "%s has 1 to %zu bytes", name, size - 1);
	arg_copy(c, name, ret, size);
	return 0;
}

int command_reason_check(struct command_call *c, struct err *err)
{
	const char *reason = arg_text(c, "reason");

	if (reason && strlen(reason) > COMMAND_REASON_MAX)
		return err_set(err, ERR_LIMIT, "reason", "reason: longer than %d bytes", COMMAND_REASON_MAX);
	return 0;
}

/* --- documents in pieces: taken on the loop; read one by one when all are there, by whoever runs the command */

#define IN_MEMORY_MAX (1u << 20)        /* bytes of texts; of more, all lie in the file */
#define DOCUMENTS_MAX (1u << 20)        /* of a command */
#define TEXTS_MAX (1ull << 30)          /* bytes, of all commands under way together */
static size_t documents_max = DOCUMENTS_MAX;
static uint64_t texts_max = TEXTS_MAX;

struct place { uint64_t at; uint32_t len; };

struct command_pieces {
	struct commands *admin;         /* a reference */
	struct place *doc; size_t n, cap;
	struct str text;                /* what is not in the file */
	uint64_t written;               /* bytes of the file */
	int fd;                         /* -1: there is none yet */
	struct digest *digest;
};

void command_pieces_bound(size_t documents, uint64_t texts)
{
	documents_max = documents < DOCUMENTS_MAX ? documents : DOCUMENTS_MAX;
	texts_max = texts < TEXTS_MAX ? texts : TEXTS_MAX;
}

static struct command_pieces *pieces_new(struct commands *admin)
{
	struct command_pieces *p = mem_zalloc(sizeof(*p));

	p->admin = admin;
	p->fd = -1;
	p->digest = digest_new();
	return p;
}

void command_pieces_free(struct command_pieces **pp)
{
	struct command_pieces *p = pp ? *pp : NULL;
	uint8_t sum[DIGEST_SIZE];

	if (!p)
		return;
	*pp = NULL;
	if (p->fd >= 0)
		close(p->fd);
	if (p->digest)
		digest_end(&p->digest, sum);
	p->admin->texts -= p->written + p->text.len;
	str_fini(&p->text);
	free(p->doc);
	free(p);
}

static int cannot(const char *what, struct err *err)
{
	int e = errno;

	return err_set(err, ERR_IO, "", "the documents cannot be %s beside the store: %s", what, strerror(e));
}

/* Move what is in memory to the end of the file. */
static int spill(struct command_pieces *p, struct err *err)
{
	size_t done = 0;

	if (p->fd < 0)
		p->fd = path_nameless(p->admin->env.store);
	if (p->fd < 0)
		return cannot("kept", err);
	while (done < p->text.len) {
		ssize_t n = pwrite(p->fd, p->text.p + done, p->text.len - done, (off_t)(p->written + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return cannot("kept", err);
		done += (size_t)n;
	}
	p->written += done;
	str_reset(&p->text);
	return 0;
}

static int too_many(struct err *err)
{
	metric_inc(METRIC_admin_documents_refused);
	err_hint(err, "apply them in several runs, one after the other");
	return ERR_LIMIT;
}

static int add(struct command_pieces *p, const json_t *document, struct str *canon, struct err *err)
{
	size_t before = p->text.len;

	if (p->n >= documents_max) {
		(void)err_set(err, ERR_LIMIT, "documents", "a command has at most %zu documents", documents_max);
		return too_many(err);
	}
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 64;
		p->doc = mem_realloc(p->doc, p->cap * sizeof(*p->doc));
	}
	jx_write(document, &p->text);
	p->admin->texts += p->text.len - before;
	if (p->admin->texts > texts_max) {
		(void)err_set(err, ERR_LIMIT, "documents", "the documents of all commands under way have at most %" PRIu64
			      " bytes together", texts_max);
		return too_many(err);
	}
	p->doc[p->n++] = (struct place){ p->written + before, (uint32_t)(p->text.len - before) };
	str_reset(canon);
	jx_write_canon(document, canon);
	str_putc(canon, '\n');
	digest_put(p->digest, canon->p, canon->len);
	return 0;
}

/* A secret is named in a document, and its value belongs into none (SEC S-344): what stands in one all the same is kept
 * nowhere, so that it is refused by the names of its members.  NULL: it is no secret. */
static json_t *without_value(const json_t *document)
{
	const char *kind = json_string_value(json_object_get(document, "kind"));
	json_t *bare, *value;
	const char *name;
	void *next;

	if (!kind || strcmp(kind, "secret") != 0)
		return NULL;
	bare = json_copy((json_t *)(uintptr_t)document);        /* which is only read */
	json_object_foreach_safe(bare, next, name, value)
		if (strcmp(name, "kind") != 0 && strcmp(name, "name") != 0)
			(void)json_object_set_new(bare, name, json_null());
	return bare;
}

static int take(struct command_pieces *p, const json_t *documents, struct err *err)
{
	struct str canon = STR_INIT;
	const json_t *document;
	size_t i;
	int rc = 0;

	json_array_foreach(documents, i, document) {
		json_t *bare = without_value(document);

		rc = add(p, bare ? bare : document, &canon, err);
		json_decref(bare);
		if (rc < 0)
			break;
	}
	str_fini(&canon);
	if (rc < 0)
		return rc;
	return p->fd >= 0 || p->text.len > IN_MEMORY_MAX ? spill(p, err) : 0;
}

int command_pieces_take(struct command_run *run, const json_t *documents, bool more)
{
	int rc;

	if (!run->pieces)
		run->pieces = pieces_new(run->c.admin);
	rc = take(run->pieces, documents, &run->err);
	if (!more)
		digest_end(&run->pieces->digest, run->documents);
	return rc;
}

size_t command_documents(const struct command_call *c)
{
	const struct command_pieces *p = command_run_of(c)->pieces;

	return p ? p->n : 0;
}

static int read_at(const struct command_pieces *p, const struct place *at, char *ret, struct err *err)
{
	size_t done = 0;

	if (p->fd < 0) {
		memcpy(ret, p->text.p + at->at, at->len);
		return 0;
	}
	while (done < at->len) {
		ssize_t n = pread(p->fd, ret + done, at->len - done, (off_t)(at->at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n == 0 ? EIO : errno;
			return cannot("read", err);
		}
		done += (size_t)n;
	}
	return 0;
}

int command_document(const struct command_call *c, size_t i, json_t **ret, struct err *err)
{
	const struct command_pieces *p = command_run_of(c)->pieces;
	char *text = mem_alloc(p->doc[i].len);
	int rc = read_at(p, &p->doc[i], text, err);

	if (rc == 0)
		rc = jx_parse(text, p->doc[i].len, ret, err);
	free(text);
	return rc;
}
