/* The tables rec and pay and the views of toolcrib-audit(7) for any SQLite that has a store open: the code of this room
 * as an extension that can be loaded (SCALE D3, toolcrib-audit(7) OPENING THE FILE).  It is linked with no SQLite: what
 * it calls is that of the program that loads it.  Thread: that of the connection. */
#include "config.h"

#include <stddef.h>

#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#include "db/db.h"
#include "db/vtab.h"
#include "forms/forms.h"

enum { OLDEST = 3038000 };

/* The name follows from that of the file: its letters. */
__attribute__((visibility("default")))
int sqlite3_toolcribrec_init(sqlite3 *native, char **ret_said, const sqlite3_api_routines *api);

int sqlite3_toolcribrec_init(sqlite3 *native, char **ret_said, const sqlite3_api_routines *api)
{
	struct err err = { 0 };
	struct db *db = NULL;
	int rc;

	SQLITE_EXTENSION_INIT2(api);
	if (sqlite3_libversion_number() < OLDEST) {     /* it has not all that is called */
		*ret_said = sqlite3_mprintf("toolcrib_rec: this program's SQLite is %s; it takes 3.38", sqlite3_libversion());
		return SQLITE_ERROR;
	}
	rc = db_guest_new(native, &db, &err);
	if (rc == 0)
		rc = forms_see(db, &err);
	if (rc == 0)
		return SQLITE_OK;
	db_guest_free(&db);
	*ret_said = sqlite3_mprintf("toolcrib_rec: %s", err.msg);
	return SQLITE_ERROR;
}
