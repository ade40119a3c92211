/* The list of roles: who may administer or audit. */
#include "config.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

#define KEY_CHARS 64                    /* SHA-256 in hex */

static const char *const names[CONF_ROLE_COUNT] = {
	[CONF_ADMIN] = "admin", [CONF_OPERATOR] = "operator", [CONF_AUDITOR] = "auditor",
		[CONF_TENANT_AUDITOR] = "tenant-auditor",
	[CONF_TENANT_ADMIN] = "tenant-admin", [CONF_APPROVER] = "approver", [CONF_SECOND] = "second",
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
	return conf_err(err, at, "role",
			"must be one of admin, operator, auditor, tenant-auditor, tenant-admin, approver, second, is \"%s\"", name);
}

static int read_key(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	static const char hex[] = "0123456789abcdef";
	const char *key = NULL, *name = NULL;

	if (jx_get_string(obj, at, "key", JX_REQUIRED, &key, err) < 0 ||
	    jx_get_string(obj, at, "name", JX_REQUIRED, &name, err) < 0)
		return conf_named(err);
	if (strlen(key) != KEY_CHARS || strspn(key, hex) != KEY_CHARS) {
		(void)conf_err(err, at, "key", "must be %d hex digits in lower case, not the key itself", KEY_CHARS);
		err_hint(err, "toolcrib admin-key NAME makes a key and says what stands here");
		return ERR_INVALID;
	}
	if (!text_entity_name(name, strlen(name)) || strlen(name) > CONF_KEY_NAME_MAX)
		return conf_err(err, at, "name",
				"\"%s\" is no name of at most %d bytes: lower-case letters, digits, _ . -", name,
				CONF_KEY_NAME_MAX);
	r->key = mem_strdup(key);
	r->name = mem_strdup(name);
	return 0;
}

/* One of uid, gid, group and key. */
static int read_whose(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	const bool by_uid = json_object_get(obj, "uid") != NULL, by_gid = json_object_get(obj, "gid") != NULL;
	const bool by_key = json_object_get(obj, "key") != NULL;
	const char *name = NULL;
	const struct group *group;
	int64_t id = 0;

	if (jx_get_string(obj, at, "group", JX_OPTIONAL, &name, err) < 0)
		return conf_named(err);
	if (by_uid + by_gid + (name != NULL) + by_key != 1)
		return conf_err(err, at, "uid", "say whose role it is: one of uid, gid and group, or of key");
	if (by_key)
		return read_key(obj, at, r, err);
	if (json_object_get(obj, "name"))
		return conf_err(err, at, "name", "only a key has a name");
	if (!name && jx_get_int(obj, at, by_uid ? "uid" : "gid", JX_REQUIRED, 0, UINT32_MAX - 1, &id, err) < 0)
		return conf_named(err);
	r->by_group = !by_uid;
	r->id = (uint32_t)id;
	if (!name)
		return 0;
	group = getgrnam(name);
	if (!group)
		return conf_err(err, at, "group", "this machine has no group \"%s\"", name);
	r->id = group->gr_gid;
	return 0;
}

/* What rules of approvals name a person by; other roles have no groups. */
static int read_groups(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	json_t *groups = NULL, *item;
	size_t i;

	if (jx_get_array(obj, at, "groups", JX_OPTIONAL, &groups, err) < 0)
		return conf_named(err);
	if (groups && r->kind != CONF_APPROVER)
		return conf_err(err, at, "groups", "only an approver has groups");
	if (json_array_size(groups) > CONF_ROLE_GROUPS_MAX)
		return conf_err(err, at, "groups", "must be at most %d groups", CONF_ROLE_GROUPS_MAX);
	r->groups = mem_calloc(json_array_size(groups) + 1, sizeof(*r->groups));
	json_array_foreach(groups, i, item) {
		const char *name = json_string_value(item);

		if (!name || !text_entity_name(name, json_string_length(item)))
			return conf_err(err, at, "groups", "must be names: lower-case letters, digits, _ . -");
		r->groups[r->ngroups++] = mem_strdup(name);
	}
	return 0;
}

/* An approver is a person; who it is among the callers of tools can be said of every person (HA-04). */
static int read_person(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	const char *principal = NULL;
	size_t n;

	if (jx_get_string(obj, at, "principal", JX_OPTIONAL, &principal, err) < 0)
		return conf_named(err);
	if (r->kind == CONF_APPROVER && !r->person)
		return conf_err(err, at, "person", "say who the approver is");
	if (principal && !r->person)
		return conf_err(err, at, "principal", "say which person calls tools as this principal");
	n = principal ? strcspn(principal, "/") : 0;
	if (principal && (!text_entity_name(principal, n) || principal[n] != '/' || principal[n + 1] == '\0'))
		return conf_err(err, at, "principal", "\"%s\" must be TENANT/NAME", principal);
	r->principal = mem_strdup0(principal);
	return read_groups(obj, at, r, err);
}

static int read_role(const json_t *obj, const char *at, struct conf_role *r, struct err *err)
{
	static const char *const known[] = { "role", "uid", "gid", "group", "key", "name", "person", "tenant", "groups",
					     "principal" };
	const char *tenant = NULL, *person = NULL;
	bool of_tenant;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with role, and uid or another that says whose");
	if (jx_only(obj, at, known, NELEMS(known), err) < 0 || read_kind(obj, at, &r->kind, err) < 0 ||
	    read_whose(obj, at, r, err) < 0 || jx_get_string(obj, at, "tenant", JX_OPTIONAL, &tenant, err) < 0 ||
	    jx_get_string(obj, at, "person", JX_OPTIONAL, &person, err) < 0)
		return conf_named(err);
	if (person && !text_entity_name(person, strlen(person)))
		return conf_err(err, at, "person", "\"%s\" is no name: lower-case letters, digits, _ . -", person);
	if (person && r->by_group)
		return conf_err(err, at, "person", "a group is no person: name the user ids");
	r->person = mem_strdup0(person);
	if (tenant && !text_entity_name(tenant, strlen(tenant)))
		return conf_err(err, at, "tenant", "\"%s\" is no name: lower-case letters, digits, _ . -", tenant);
	of_tenant = r->kind == CONF_TENANT_AUDITOR || r->kind == CONF_TENANT_ADMIN;
	if (of_tenant && !tenant)
		return conf_err(err, at, "tenant", "the role %s needs the tenant that it is for", names[r->kind]);
	if (tenant && !of_tenant && r->kind != CONF_APPROVER)
		return conf_err(err, at, "tenant", "only the roles tenant-auditor, tenant-admin and approver have a tenant");
	r->tenant = tenant ? mem_strdup(tenant) : NULL;
	return read_person(obj, at, r, err);
}

/* A user id, or a key by what records call it, is one person's (HARDENING F-15). */
static int check_persons(const struct conf *c, const char *at, struct err *err)
{
	const struct conf_role *r = &c->roles[c->nroles - 1];

	for (const struct conf_role *o = c->roles; o < r && r->person; o++) {
		bool same = r->key && o->key ? strcmp(r->name, o->name) == 0 : !r->key && !o->key && !o->by_group && r->id == o->id;

		if (same && o->person && strcmp(o->person, r->person) != 0)
			return conf_err(err, at, "person", "the same one is %s in another line", o->person);
	}
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
		if (rc == 0)
			rc = check_persons(c, at, err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Who comes by a Unix socket by his user id calls tools as whom its listener says. */
void conf_roles_join(struct conf *c)
{
	for (size_t i = 0; i < c->nroles; i++) {
		struct conf_role *r = &c->roles[i];

		for (size_t k = 0; r->person && !r->key && k < c->nlisteners; k++) {
			const struct conf_listener *l = &c->listeners[k];

			for (size_t n = 0; n < l->nuids; n++) {
				if (l->uids[n].uid != r->id)
					continue;
				r->callers = mem_realloc(r->callers, (r->ncallers + 1) * sizeof(*r->callers));
				r->callers[r->ncallers++] = mem_printf("%s/%s", l->uids[n].tenant,
					l->uids[n].principal ? l->uids[n].principal : "default");
			}
		}
	}
}

void conf_roles_take(struct conf *c, struct conf *next)
{
	struct conf_role *roles = c->roles;
	size_t n = c->nroles;

	c->roles = next->roles;
	c->nroles = next->nroles;
	next->roles = roles;
	next->nroles = n;
}

void conf_roles_free(struct conf *c)
{
	for (size_t i = 0; i < c->nroles; i++) {
		free(c->roles[i].tenant);
		free(c->roles[i].key);
		free(c->roles[i].name);
		free(c->roles[i].person);
		free(c->roles[i].principal);
		for (size_t k = 0; k < c->roles[i].ngroups; k++)
			free(c->roles[i].groups[k]);
		free(c->roles[i].groups);
		for (size_t k = 0; k < c->roles[i].ncallers; k++)
			free(c->roles[i].callers[k]);
		free(c->roles[i].callers);
	}
	free(c->roles);
	c->roles = NULL;
	c->nroles = 0;
}

void conf_roles_sample(struct str *out)
{
	str_puts(out,
		 "\n# Who may give commands, by user id or by group; they reach the server by admin.socket, or, with a "
		 "key that\n"
		 "# toolcrib admin-key made, by admin.listen.  Root always may.  The user of the server, as which "
		 "tools run, may\n"
		 "# until a user or a group here has the role admin; from then on only by its own uid.  role: admin, "
		 "operator\n"
		 "# (no keys, no definitions), auditor (reads, changes nothing), tenant-auditor (reads one tenant's "
		 "audit),\n"
		 "# tenant-admin (one tenant's keys and grants), second (reads, and agrees to what administrators ask for) or\n"
		 "# approver (agrees to calls whose definition asks for that, by his groups; of one tenant when it is named;\n"
		 "# never to those of his own principal).  Lines with the same\n"
		 "# person are one administrator, who agrees to nothing that he asked for himself.  Reloadable.\n"
		 "#roles:\n"
		 "#  - {role: admin, uid: 1000, person: anna}\n"
		 "#  - {role: operator, gid: 2000}              # or group: NAME\n"
		 "#  - {role: auditor, uid: 1001}\n"
		 "#  - {role: tenant-auditor, uid: 1002, tenant: acme}\n"
		 "#  - {role: approver, uid: 1003, person: controller-1, groups: [finance], principal: acme/controller-1}\n"
		 "#  - {role: operator, key: c04c2e0a2b1b5c1b5f7d4e6f8a9b0c1d2e3f405162738495a6b7c8d9eaf0b1c2, name: "
		 "ci}\n");
}
