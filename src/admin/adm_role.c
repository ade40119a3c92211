/* The one place where authority is decided: what each role may do, and who has which. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf.h"

#include "admin_int.h"

#define BIT(authority) (1u << (authority))

/* Payloads are for auditors alone, and auditors change nothing (SEC S-318, AUDIT A-1102). */
static const unsigned may_do[CONF_ROLE_COUNT] = {
	[CONF_ADMIN] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_OPERATE) | BIT(ADM_OWNER),
	[CONF_OPERATOR] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_OPERATE),
	[CONF_AUDITOR] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_PAYLOAD),
	[CONF_TENANT_AUDITOR] = BIT(ADM_AUDIT) | BIT(ADM_PAYLOAD),
};

/* The owner of the store, root, the CLI that holds the store, and the server itself. */
static bool is_owner(const struct admin *a, const struct adm_who *who)
{
	return who->embedded || who->system || who->uid == 0 || who->uid == a->env.owner_uid;
}

bool adm_may(const struct admin *a, const struct adm_who *who, enum adm_role authority, const char *tenant)
{
	if (who->system || (is_owner(a, who) && (may_do[CONF_ADMIN] & BIT(authority))))
		return true;
	for (size_t i = 0; i < a->env.nroles; i++) {
		const struct conf_role *r = &a->env.roles[i];

		if (r->uid == who->uid && (may_do[r->kind] & BIT(authority)) &&
		    (!r->tenant || (tenant && strcmp(r->tenant, tenant) == 0)))
			return true;
	}
	return false;
}

/* What somebody is, for the refusal; NULL: nothing. */
static const struct conf_role *role_of(const struct admin *a, const struct adm_who *who)
{
	for (size_t i = 0; i < a->env.nroles; i++)
		if (a->env.roles[i].uid == who->uid)
			return &a->env.roles[i];
	return NULL;
}

int adm_role_check(const struct adm_run *run, struct err *err)
{
	static const char *const needed[] = { [ADM_READ] = "admin, operator or auditor", [ADM_AUDIT] = "admin, operator or auditor",
		[ADM_PAYLOAD] = "auditor", [ADM_OPERATE] = "admin or operator", [ADM_OWNER] = "admin" };
	const struct adm_who *who = &run->c.who;
	const struct adm_cmd *cmd = run->cmd;
	const json_t *tenant = json_object_get(run->args, "tenant");
	const struct conf_role *role = role_of(run->c.admin, who);

	if (adm_may(run->c.admin, who, cmd->role, json_string_value(tenant)))
		return 0;
	if (!role && !is_owner(run->c.admin, who))
		return err_set(err, ERR_DENIED, "", "uid %u is no administrator of this store", who->uid);
	(void)err_set(err, ERR_DENIED, "", "uid %u has the role %s, and %s%s%s needs %s", who->uid,
		      role ? conf_role_name(role->kind) : conf_role_name(CONF_ADMIN), cmd->noun, cmd->verb ? " " : "",
		      cmd->verb ? cmd->verb : "", needed[cmd->role]);
	if (role && role->tenant && cmd->role == ADM_AUDIT)
		err_hint(err, "this role reads one tenant's audit: --tenant %s", role->tenant);
	return ERR_DENIED;
}
