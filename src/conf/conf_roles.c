/* The list of roles: who may administer or audit beside the owner of the store. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

static const char *const names[CONF_ROLE_COUNT] = {
	[CONF_ADMIN] = "admin", [CONF_OPERATOR] = "operator", [CONF_AUDITOR] = "auditor", [CONF_TENANT_AUDITOR] = "tenant-auditor",
};

const char *conf_role_name(enum conf_role_kind kind)
{
	return names[kind];
}

static int read_kind(const json_t *obj, const char *at, enum conf_role_kind *ret, struct err *err)
{
	const char *name = NULL;
	int rc = jx_get_string(obj, at, "role", JX_REQUIRED, &name, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < NELEMS(names); i++) {
		if (strcmp(names[i], name) == 0) {
			*ret = (enum conf_role_kind)i;
			return 0;
		}
	}
	return conf_err(err, at, "role", "must be one of admin, operator, auditor, tenant-auditor, is \"%s\"", name);
}

static int read_role(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	static const char *const known[] = { "role", "uid", "tenant" };
	const char *tenant = NULL;
	int64_t uid = 0;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with role and uid");
	if (jx_only(obj, at, known, NELEMS(known), err) < 0 || read_kind(obj, at, &r->kind, err) < 0 ||
	    jx_get_int(obj, at, "uid", JX_REQUIRED, 0, UINT32_MAX - 1, &uid, err) < 0 ||
	    jx_get_string(obj, at, "tenant", JX_OPTIONAL, &tenant, err) < 0)
		return conf_named(err);
	r->uid = (uint32_t)uid;
	if (tenant && !text_entity_name(tenant, strlen(tenant)))
		return conf_err(err, at, "tenant", "\"%s\" is no name: lower-case letters, digits, _ . -", tenant);
	if ((tenant != NULL) != (r->kind == CONF_TENANT_AUDITOR))
		return conf_err(err, at, "tenant", "%s", tenant ? "only the role tenant-auditor has a tenant" :
				"the role tenant-auditor needs the tenant whose audit it may read");
	r->tenant = tenant ? mem_strdup(tenant) : NULL;
	return 0;
}

int conf_roles_read(const json_t *list, struct conf *c, struct err *err)
{
	json_t *item;
	size_t i;
	int rc = 0;

	if (!json_is_array(list) || json_array_size(list) > CONF_ROLES_MAX)
		return err_set(err, ERR_INVALID, "/roles", "must be a list of at most %d roles", CONF_ROLES_MAX);
	c->roles = mem_calloc(json_array_size(list) + 1, sizeof(*c->roles));
	json_array_foreach(list, i, item) {
		char *at = mem_printf("/roles/%zu", i);

		rc = read_role(item, at, &c->roles[c->nroles++], err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

bool conf_roles_equal(const struct conf *a, const struct conf *b)
{
	if (a->nroles != b->nroles)
		return false;
	for (size_t i = 0; i < a->nroles; i++) {
		const struct conf_role *x = &a->roles[i], *y = &b->roles[i];

		if (x->kind != y->kind || x->uid != y->uid || strcmp(x->tenant ? x->tenant : "", y->tenant ? y->tenant : "") != 0)
			return false;
	}
	return true;
}

void conf_roles_free(struct conf *c)
{
	for (size_t i = 0; i < c->nroles; i++)
		free(c->roles[i].tenant);
	free(c->roles);
	c->roles = NULL;
	c->nroles = 0;
}

void conf_roles_sample(struct str *out)
{
	str_puts(out,
		 "\n# Who may give commands beside root and the owner of the store, by user id; they reach the server by\n"
		 "# admin.socket.  role: admin, operator (no keys, no definitions), auditor (reads, changes nothing) or\n"
		 "# tenant-auditor (reads one tenant's audit).  Needs a restart.\n"
		 "#roles:\n"
		 "#  - {role: auditor, uid: 1001}\n"
		 "#  - {role: tenant-auditor, uid: 1002, tenant: acme}\n");
}
