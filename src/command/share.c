/* A store that other nodes share, on PostgreSQL: what the configuration may say beside it, and what other nodes have
 * changed, shown here (CLUSTER 6).  That is read on the writer's thread, as commands of this one are, and shown on the
 * loop as those are, with a notice to exactly the listeners that it concerns.  All of the registry is read, whatever
 * has changed: a node hears that something has, not what. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "assent/assent.h"
#include "audit/audit.h"
#include "audit/shared.h"
#include "base/log.h"
#include "base/mem.h"
#include "command/share.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/server.h"
#include "keys/keys.h"
#include "keys/vault.h"
#include "mcp/mcp.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "command_int.h"

struct sharing {
	struct commands *a;
	int64_t version;
	int64_t *id; size_t n, cap;     /* tenants that are known here: those that are gone say so */
	struct tenant_image **image; size_t nimage;
	struct reg_change *change;
	struct vault *vault;
};

static void sharing_free(struct sharing *s)
{
	for (size_t i = 0; i < s->nimage; i++)
		tenant_image_free(&s->image[i]);
	reg_change_free(&s->change);
	vault_close(&s->vault);
	free(s->image);
	free(s->id);
	free(s);
}

static void put_id(struct sharing *s, int64_t id)
{
	if (s->n == s->cap)
		s->id = mem_realloc(s->id, (s->cap = s->cap ? 2 * s->cap : 16) * sizeof(*s->id));
	s->id[s->n++] = id;
}

static void put_known(void *arg, const struct tenant *t)
{
	put_id(arg, t->id);
}

static int by_id(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int put_listed(struct sharing *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_IDS);
	int rc;

	while ((rc = db_step(st, err)) == 1)
		put_id(s, db_col_i64(st, 0));
	db_stmt_put(&st);
	if (s->n > 1)
		qsort(s->id, s->n, sizeof(*s->id), by_id);
	return rc;
}

static int share_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sharing *s = arg;
	int rc = audit_shared_logs(logs, db, err);

	if (audit_logs_keys(logs))              /* one that another node has destroyed is not written with */
		keys_abandon(audit_logs_keys(logs));
	if (rc == 0)
		rc = put_listed(s, db, err);
	s->image = mem_calloc(s->n ? s->n : 1, sizeof(*s->image));
	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		if (i > 0 && s->id[i] == s->id[i - 1])
			continue;
		rc = tenant_image_load(db, s->id[i], &s->image[s->nimage], err);
		s->nimage += rc == 0;
	}
	if (rc == 0)
		rc = vault_open(&(struct keyfile_place){ s->a->env.store, s->a->env.master }, db, &s->vault, err);
	return rc < 0 ? rc : reg_change_all(db, &s->change, err);
}

/* The lists of a tenant that differ from what its listeners have seen. */
static void tell(struct sharing *s, struct reg_snapshot *const *was, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct reg_snapshot *is = reg_acquire(s->a->env.registry, was[i]->tenant_id);
		struct reg_news news = { .tenant_id = was[i]->tenant_id };
		bool any = false;

		for (size_t f = 0; f < REG_FAMILIES; f++) {
			news.generation[f] = is->generation[f];
			news.differs[f] = is->generation[f] != was[i]->generation[f];
			any |= news.differs[f];
		}
		if (any && s->a->env.mcp)
			(void)mcp_changed(s->a->env.mcp, &news, "another node");
		reg_release(s->a->env.registry, &is);
	}
}

static void show(struct sharing *s)
{
	struct commands *a = s->a;
	const size_t n = s->nimage;
	struct reg_snapshot **was = mem_calloc(n ? n : 1, sizeof(struct reg_snapshot *));

	for (size_t i = 0; i < n; i++) {
		was[i] = reg_acquire(a->env.registry, tenant_image_id(s->image[i]));
		tenants_apply(a->env.tenants, &s->image[i]);
	}
	s->nimage = 0;
	vault_take(a->env.vault, &s->vault);
	reg_apply(a->env.registry, &s->change, NULL, NULL);
	if (a->env.mcp)
		mcp_recheck(a->env.mcp, 0);
	if (a->env.assents)
		assents_look(a->env.assents);
	tell(s, was, n);
	for (size_t i = 0; i < n; i++)
		reg_release(a->env.registry, &was[i]);
	free(was);
}

static void share_done(void *arg, int rc, const struct err *err)
{
	struct sharing *s = arg;
	struct commands *a = s->a;
	const int64_t version = s->version;

	if (rc == 0 && !a->closed)
		show(s);
	else if (rc < 0)
		log_warn(NULL, "what another node has changed could not be read why=\"%s\"", err->msg);
	sharing_free(s);
	if (!a->closed)
		writer_share_applied(a->env.writer, rc == 0 ? version : 0);
	commands_unref(a);
}

static void changed(void *arg, int64_t version)
{
	static const struct writer_job job = { .name = "changes of other nodes", .run = share_run, .volatile_only = true,
					       .patient = true, .done = share_done };
	struct commands *a = arg;
	struct sharing *s = mem_zalloc(sizeof(*s));

	s->a = a;
	s->version = version;
	if (!a->closed)
		tenants_each(a->env.tenants, put_known, s);
	if (!a->closed && writer_submit(a->env.writer, &job, s) == 0) {
		commands_ref(a);
		return;
	}
	sharing_free(s);
	if (!a->closed)
		writer_share_applied(a->env.writer, 0);
}

void commands_share(struct commands *a)
{
	writer_share_start(a->env.writer, changed, a);
}

/* --- the configuration (CLUSTER K-006): what a store on PostgreSQL does not do yet is refused by name */

int commands_share_check(const struct conf *conf, struct err *err)
{
	const struct { const char *key; bool set; } not_there[] = {
		{ "backup.to", conf->backup_to }, { "audit.archive", conf->audit_archive },
		{ "console.listen", conf->console_listen }, { "sinks", conf->nsinks > 0 },
	};

	if (!conf->database_url && (conf->database_keys_url || conf->node))
		return err_set(err, ERR_INVALID, conf->node ? "node" : "database.keys_url", "it goes with database.url");
	if (!conf->database_url)
		return 0;
	if (conf->node && !writer_node_is_name(conf->node))
		return err_set(err, ERR_INVALID, "node", "%s is no name of a node: a-z, 0-9 and -, at most %d", conf->node,
			       WRITER_NODE_SIZE - 1);
	for (size_t i = 0; i < NELEMS(not_there); i++) {
		if (!not_there[i].set)
			continue;
		(void)err_set(err, ERR_INVALID, not_there[i].key, "a store on PostgreSQL does not do that yet: %s",
			      not_there[i].key);
		err_hint(err, "take the key away, or keep the store in files: without database.url");
		return ERR_INVALID;
	}
	return db_server_check(conf->database_url, conf->database_keys_url, err);
}
