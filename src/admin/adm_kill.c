/* The kill switch (SEC S-315): what one command blocks at once, by whatever it is named. */
#include "config.h"

#include "call/call.h"
#include "mcp/mcp.h"

#include "adm_commands.h"
#include "admin_int.h"

void adm_put_out(struct adm_call *c, const struct call_where *where, bool kill, struct mcp_ended *ret)
{
	const struct admin_env *env = &c->admin->env;

	*ret = (struct mcp_ended){ 0 };
	if (env->mcp)
		mcp_end_where(env->mcp, where, kill, ret);
	else if (kill)
		ret->calls = call_cancel_where(env->calls, where, CANCEL_REVOKED);
}
