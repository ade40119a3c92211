/* The one place where authority is decided: what each role may do, and who has which. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "command/visit.h"
#include "conf/conf.h"

#include "command_int.h"

#define BIT(authority) (1u << (authority))

/* Payloads are for auditors alone, and auditors change nothing (SEC S-318, AUDIT A-1102). */
static const unsigned may_do[CONF_ROLE_COUNT] = {
	[CONF_ADMIN] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_OPERATE) | BIT(ADM_OWNER) | BIT(ADM_AGREE) | BIT(ADM_ASSENTS) |
		BIT(ADM_RECALL) | BIT(ADM_ANY),
	[CONF_OPERATOR] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_OPERATE) | BIT(ADM_ASSENTS) | BIT(ADM_ANY),
	[CONF_AUDITOR] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_PAYLOAD) | BIT(ADM_ASSENTS) | BIT(ADM_ANY),
	[CONF_TENANT_AUDITOR] = BIT(ADM_AUDIT) | BIT(ADM_PAYLOAD) | BIT(ADM_ANY),       /* and what `seen` says */
	[CONF_TENANT_ADMIN] = BIT(ADM_ANY),     /* and what `own` says */
	[CONF_APPROVER] = BIT(ADM_ASSENTS) | BIT(ADM_RECALL) | BIT(ADM_APPROVE) | BIT(ADM_ANY), /* which, say rules (HA-04) */
	[CONF_SECOND] = BIT(ADM_READ) | BIT(ADM_AUDIT) | BIT(ADM_AGREE) | BIT(ADM_ASSENTS) | BIT(ADM_ANY),
};

/* Without a user or a group that is an administrator by name, the store's owner is the one there is. */
bool commands_owner_rules(const struct commands *a)
{
	for (size_t i = 0; i < a->env.nroles; i++)
		if (a->env.roles[i].kind == CONF_ADMIN && !a->env.roles[i].key)
			return false;
	return true;
}

/* Is it the user of the service, and perhaps one of its tools?  They share its groups, too (SEC S-318). */
static bool is_service(const struct commands *a, const struct actor *who)
{
	return !who->embedded && !who->system && !who->key && who->uid == a->env.owner_uid && !commands_owner_rules(a);
}

static bool has_role(const struct commands *a, const struct actor *who, const struct conf_role *r)
{
	if (who->key || r->key)
		return who->key && r->key && strcmp(who->key, r->key) == 0;
	if (!r->by_group)
		return r->id == who->uid;
	if (is_service(a, who))
		return false;
	for (size_t i = 0; i < who->ngids; i++)
		if (who->gids[i] == r->id)
			return true;
	return false;
}

/* Root, the CLI that holds the store, the server itself, and the owner of the store while nobody is named. */
static bool is_owner(const struct commands *a, const struct actor *who)
{
	return who->embedded || who->system ||
	       (!who->key && (who->uid == 0 || (who->uid == a->env.owner_uid && !is_service(a, who))));
}

const char *actor_text(const struct actor *who, char ret[ACTOR_SIZE])
{
	if (who->key)
		(void)snprintf(ret, ACTOR_SIZE, "key %s", who->name);
	else if (who->system)
		(void)snprintf(ret, ACTOR_SIZE, "system");
	else
		(void)snprintf(ret, ACTOR_SIZE, "uid %u", who->uid);
	return ret;
}

void commands_set_roles(struct commands *a, const struct conf_role *roles, size_t n)
{
	a->env.roles = roles;
	a->env.nroles = n;
}

bool actor_may(const struct commands *a, const struct actor *who, enum authority authority, const char *tenant)
{
	if (who->visit && visit_is_over(who->visit))
		return false;
	if (who->system || (is_owner(a, who) && (may_do[CONF_ADMIN] & BIT(authority))))
		return true;
	for (size_t i = 0; i < a->env.nroles; i++) {
		const struct conf_role *r = &a->env.roles[i];

		if (has_role(a, who, r) && (may_do[r->kind] & BIT(authority)) &&
		    (!r->tenant || r->kind == CONF_APPROVER || authority == ADM_ANY || (tenant && strcmp(r->tenant, tenant) == 0)))
			return true;
	}
	return false;
}

/* What somebody is, for the refusal; NULL: nothing. */
static const struct conf_role *role_of(const struct commands *a, const struct actor *who)
{
	for (size_t i = 0; i < a->env.nroles; i++)
		if (has_role(a, who, &a->env.roles[i]))
			return &a->env.roles[i];
	return NULL;
}

const char *actor_approver(const struct commands *a, const struct actor *who)
{
	/* Who holds the store, root, and the user that tools may run as are no persons of the list. */
	if (who->embedded || who->system || (!who->key && (who->uid == 0 || who->uid == a->env.owner_uid)))
		return NULL;
	for (size_t i = 0; i < a->env.nroles; i++)
		if (a->env.roles[i].kind == CONF_APPROVER && has_role(a, who, &a->env.roles[i]))
			return a->env.roles[i].person;
	return NULL;
}

bool actor_is_somebody(const struct commands *a, const struct actor *who)
{
	return is_owner(a, who) || role_of(a, who);
}

/* Whoever manages or audits a tenant may run what is about it, by its name alone: whether there are others is not
 * looked at. */
static bool is_of_tenant(const struct commands *a, const struct actor *who, enum conf_role_kind kind, const char *of)
{
	for (size_t i = 0; i < a->env.nroles; i++) {
		const struct conf_role *r = &a->env.roles[i];

		if (r->kind == kind && has_role(a, who, r) && text_eq(of, strcspn(of, "/"), r->tenant))
			return true;
	}
	return false;
}

static bool may_by_name(const struct command_run *run, enum conf_role_kind kind, const char *arg)
{
	const char *of = arg ? json_string_value(json_object_get(run->args, arg)) : NULL;

	return of && is_of_tenant(run->c.admin, &run->c.who, kind, of);
}

bool actor_manages(const struct commands *a, const struct actor *who, const char *tenant)
{
	return !(who->visit && visit_is_over(who->visit)) && is_of_tenant(a, who, CONF_TENANT_ADMIN, tenant);
}

bool actor_may_run(const struct commands *a, const struct actor *who, const struct command *cmd, const char *tenant)
{
	if (actor_may(a, who, cmd->role, tenant))
		return true;
	return tenant && !(who->visit && visit_is_over(who->visit)) &&
		((cmd->own && is_of_tenant(a, who, CONF_TENANT_ADMIN, tenant)) ||
		 (cmd->seen && is_of_tenant(a, who, CONF_TENANT_AUDITOR, tenant)));
}

void command_roles(const struct command *cmd, struct str *out)
{
	const char *between = "";

	for (int kind = 0; kind < CONF_ROLE_COUNT; kind++) {
		bool may = (may_do[kind] & BIT(cmd->role)) || (kind == CONF_TENANT_ADMIN && cmd->own) ||
			(kind == CONF_TENANT_AUDITOR && cmd->seen);

		if (!may)
			continue;
		str_printf(out, "%s%s", between, conf_role_name((enum conf_role_kind)kind));
		between = ", ";
	}
}

static int refuse_stranger(const struct command_run *run, const char *whom, struct err *err)
{
	(void)err_set(err, ERR_DENIED, "", "%s is no administrator of this store", whom);
	if (is_service(run->c.admin, &run->c.who))
		err_hint(err, "the list of roles names the administrators; the user of the server is one only by its uid: "
			"toolcribd.yaml(5)");
	return ERR_DENIED;
}

int actor_check(const struct command_run *run, struct err *err)
{
	const struct actor *who = &run->c.who;
	const struct command *cmd = run->cmd;
	const json_t *tenant = json_object_get(run->args, "tenant");
	const struct conf_role *role = role_of(run->c.admin, who);
	struct str roles = STR_INIT;
	char whom[ACTOR_SIZE];

	(void)actor_text(who, whom);
	if (who->visit && visit_is_over(who->visit))
		return err_set(err, ERR_DENIED, "visit", "this visit has ended");
	if (actor_may(run->c.admin, who, cmd->role, json_string_value(tenant)) ||
	    may_by_name(run, CONF_TENANT_ADMIN, cmd->own) || may_by_name(run, CONF_TENANT_AUDITOR, cmd->seen))
		return 0;
	if (!actor_is_somebody(run->c.admin, who))
		return refuse_stranger(run, whom, err);
	command_roles(cmd, &roles);
	(void)err_set(err, ERR_DENIED, "", "%s has the role %s, and %s%s%s needs one of these: %s", whom,
		      role ? conf_role_name(role->kind) : conf_role_name(CONF_ADMIN), cmd->noun, cmd->verb ? " " : "",
		      cmd->verb ? cmd->verb : "", str_text(&roles));
	str_fini(&roles);
	if (cmd->role == ADM_PAYLOAD && !(role && role->tenant))
		err_hint(err, "who reads payloads is an auditor by the list of roles: toolcribd.yaml(5)");
	if (role && role->kind == CONF_TENANT_AUDITOR && (cmd->role == ADM_AUDIT || cmd->role == ADM_PAYLOAD || cmd->seen))
		err_hint(err, "this role reads one tenant's audit: --tenant %s", role->tenant);
	if (role && role->kind == CONF_TENANT_ADMIN && cmd->own)
		err_hint(err, "this role manages one tenant, which the command has to name: %s", role->tenant);
	return ERR_DENIED;
}
