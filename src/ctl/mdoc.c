/* Prints the COMMANDS list of toolcrib(8) as the table says it, for contrib/check-man-table.sh. */

#include "config.h"

#include "app/app.h"

#include "ctl_int.h"

int main(void)
{
	struct str out = STR_INIT;

	ctl_man_commands(app_commands, &out);
	fputs(str_text(&out), stdout);
	str_fini(&out);
	return fflush(stdout) == 0 ? 0 : 1;
}
