/* All commands there are: their tables in the order in which help and toolcrib(8) list them.  The one place that knows every room of
 * commands; the frame and the program toolcrib are handed the list. */
#include "config.h"

#include "app/app.h"

#include "admin/admin.h"

const struct adm_cmd *const app_commands[] = {
	admin_table,
	NULL,
};
