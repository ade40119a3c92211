/* Prints the tables that say who may do what, a line each, for tests/integ/test_access_matrix.py:
 *
 *   command NOUN VERB
 *   method NAME <TAB> legacy|modern|both <TAB> the words of scope that give the right to it, or nothing
 */

#include "config.h"

#include <stdio.h>

#include "command/command.h"
#include "app/app.h"
#include "method_int.h"
#include "tenant/scope.h"

int main(void)
{
	char need[SCOPE_NEED_SIZE];

	for (const struct command *cmd = NULL; (cmd = command_next(app_commands, cmd)) != NULL;)
		printf("command %s%s%s\n", cmd->noun, cmd->verb ? " " : "", cmd->verb ? cmd->verb : "");
	for (const struct mcp_method *m = mcp_methods; m->name; m++) {
		bool modern = m->revs & 1u << REV_R5, legacy = m->revs & ~(1u << REV_R5);

		printf("method %s\t%s\t%s\n", m->name, modern && legacy ? "both" : modern ? "modern" : "legacy",
		       m->right & SCOPE_ANYONE ? "" : scope_need(m->right, need));
	}
	return 0;
}
