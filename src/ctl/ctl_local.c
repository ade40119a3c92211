/* The commands that run in this program and nowhere else: before there is a store, around one, or without any. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/app.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/owner.h"
#include "json/json.h"
#include "keeping/keeping.h"
#include "setup/setup.h"

#include "ctl_int.h"

static void put_row(json_t *row, struct str *rows)
{
	str_puts(rows, "{\"row\":");
	jx_write(row, rows);
	str_puts(rows, "}\n");
	json_decref(row);
}

static int run_init(const struct ctl_line *line, struct str *rows, struct err *err)
{
	char *store = NULL, *sock, *log = NULL, *epoch = NULL;
	struct db_owner *owner = NULL;
	struct db_card card;
	int rc = ctl_store(&line->opt, &store, err);

	if (rc == 0)
		rc = setup_store(store, line->args, err);
	if (rc == 0)
		rc = db_owner_take(store, &owner, &card, err);
	if (rc == 1)
		rc = err_set(err, ERR_CONFLICT, store, "process %lld has started on the new store",
			     (long long)card.pid);
	if (rc == 0)
		rc = app_first_keys(store, owner, &log, &epoch, err);
	if (rc == 0) {
		sock = app_admin_socket(store);
		put_row(json_pack("{s:s, s:s, s:s, s:s}", "store", store, "admin_socket", sock, "log_key", log,
				  "epoch_key", epoch), rows);
		free(sock);
	}
	free(log);
	free(epoch);
	free(store);
	return rc;
}

static int run_migrate(const struct ctl_line *line, struct str *rows, struct err *err)
{
	const char *term = getenv("TERM");
	const json_t *a = line->args;
	struct setup_migrate_way way = { json_is_true(json_object_get(a, "dry-run")), json_is_true(json_object_get(a, "fold")),
		json_is_true(json_object_get(a, "no-copy")), json_is_true(json_object_get(a, "drop-copy")),
		isatty(STDERR_FILENO) && !line->opt.quiet && !(term && strcmp(term, "dumb") == 0) };
	char *store = NULL;
	int rc = ctl_store(&line->opt, &store, err);

	rc = rc < 0 ? rc : ctl_store_check(store, err);
	rc = rc < 0 ? rc : setup_migrate(store, &way, rows, err);
	free(store);
	return rc;
}

static int run_store(const struct ctl_line *line, struct str *rows, struct err *err)
{
	const json_t *a = line->args;
	const char *owner = json_string_value(json_object_get(a, "database-owner"));
	const struct setup_move_way way = {
		.to = json_string_value(json_object_get(a, "to")), .from = json_string_value(json_object_get(a, "from")),
		.keys = json_string_value(json_object_get(a, "keys-database")), .owner = owner ? owner : SETUP_DATABASE_OWNER,
		.no_standby = json_is_true(json_object_get(a, "no-standby")), .copy = json_is_true(json_object_get(a, "copy")),
		.again = json_is_true(json_object_get(a, "again")), .shown = isatty(STDERR_FILENO) && !line->opt.quiet };
	char *store = NULL;
	int rc = ctl_store(&line->opt, &store, err);

	rc = rc < 0 ? rc : setup_move(store, &way, rows, err);
	free(store);
	return rc;
}

static int run_fsck(const struct ctl_line *line, struct str *rows, struct err *err)
{
	const char **named = ctl_texts(json_object_get(line->args, "quarantine"));
	char *store = NULL;
	int rc = ctl_store(&line->opt, &store, err);

	rc = rc < 0 ? rc : ctl_store_check(store, err);
	if (rc == 0 && named[0])
		rc = setup_start_once(store, named, false, err);
	rc = rc < 0 ? rc : setup_fsck(store, rows, err);
	free(store);
	free(named);
	return rc;
}

static int run_keys(const struct ctl_line *line, struct str *rows, struct err *err)
{
	char *store = NULL;
	int rc = ctl_store(&line->opt, &store, err);

	rc = rc < 0 ? rc : ctl_store_check(store, err);
	rc = rc < 0 ? rc : escrow_run(store, line->args, rows, err);
	free(store);
	return rc;
}

/* --- doctor */

#define ASK_MS 5000                     /* a server that says nothing for so long hangs */

static int ask_server(void *arg, const char *socket, const char *noun, json_t **ret, struct err *err)
{
	struct ctl_wire w = { .fd = -1, .wait_ms = ASK_MS };
	struct str rows = STR_INIT;
	json_t *args = json_object(), *root = NULL;
	const char *nl;
	int rc = ctl_remote_connect(socket, &w.fd, err);

	(void)arg;
	if (rc == 0)
		rc = ctl_remote_run(&w, command_find(app_commands, noun, NULL), args, NULL, &rows, err);
	nl = rc == 0 ? strchr(str_text(&rows), '\n') : NULL;
	if (rc == 0)
		rc = nl ? jx_parse(rows.p, (size_t)(nl - rows.p), &root, err) : err_set(err, ERR_INTERNAL, "", "it says nothing");
	if (rc == 0)
		*ret = json_incref(json_object_get(root, "row"));
	json_decref(root);
	json_decref(args);
	str_fini(&rows);
	return rc;
}

static int run_doctor(const struct ctl_line *line, struct str *rows, struct err *err)
{
	(void)err;
	setup_doctor(&(struct setup_doctor_opt){ .config = json_string_value(json_object_get(line->args, "config")),
		.store = line->opt.store, .ask = ask_server }, rows);
	return 0;
}

static int run_completion(const struct ctl_line *line, struct str *rows, struct err *err)
{
	return ctl_complete(app_commands, json_string_value(json_object_get(line->args, "shell")), rows, err);
}

static int run_admin_key(const struct ctl_line *line, struct str *rows, struct err *err)
{
	const char *name = json_string_value(json_object_get(line->args, "name"));
	char text[ADMIN_KEY_SIZE], hash[ADMIN_KEY_HASH_SIZE];

	if (!text_entity_name(name, strlen(name)) || strlen(name) > CONF_KEY_NAME_MAX)
		return err_set(err, ERR_INVALID, "name",
			       "\"%s\" is no name of at most %d bytes: lower-case letters, digits, _ . -", name,
			       CONF_KEY_NAME_MAX);
	admin_key_make(text, hash);
	put_row(json_pack("{s:s, s:s, s:s}", "key", text, "name", name, "hash", hash), rows);
	secret_wipe(text, sizeof(text));
	return 0;
}

static const struct local {
	const char *noun;
	bool text;                      /* says text for people, not rows */
	int (*run)(const struct ctl_line *line, struct str *rows, struct err *err);
} locals[] = {
	{ "init", false, run_init },
	{ "admin-key", false, run_admin_key },
	{ "doctor", false, run_doctor },
	{ "fsck", false, run_fsck },
	{ "keys", false, run_keys },
	{ "migrate", false, run_migrate },
	{ "store", false, run_store },
	{ "help", true, ctl_help_run },
	{ "completion", true, run_completion },
};

int ctl_local_run(const struct ctl_line *line, struct str *rows, bool *ret_text, struct err *err)
{
	if (line->opt.remote && line->cmd->role == ADM_OWNER)
		return err_set(err, ERR_INVALID, "", "%s works where the store is, not over --remote", line->cmd->noun);
	*ret_text = !line->cmd->columns;
	if (line->cmd->here)
		return line->cmd->here(line->args, rows, err);
	for (size_t i = 0; i < NELEMS(locals); i++) {
		if (strcmp(locals[i].noun, line->cmd->noun) != 0)
			continue;
		*ret_text = locals[i].text;
		return locals[i].run(line, rows, err);
	}
	return err_set(err, ERR_INTERNAL, "", "%s has no code in this program", line->cmd->noun);
}
