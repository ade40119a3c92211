/* Where the files of a server stand. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/app.h"

#include "suite.h"

static void long_path_moves_the_socket(void **state)
{
	char store[200];
	char *path;

	(void)state;
	memset(store, 'a', sizeof(store));
	store[0] = '/';
	store[96] = '\0';                       /* + "/admin.sock" = 107 */
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/run/user/1", 1), 0);
	path = app_admin_socket(store);
	assert_int_equal(strlen(path), 107);
	assert_int_equal(strncmp(path, store, 96), 0);
	free(path);
	store[96] = 'a';
	store[97] = '\0';
	path = app_admin_socket(store);
	assert_int_equal(strncmp(path, "/run/user/1/toolcrib-", 21), 0);
	free(path);
}

SUITE(paths)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(long_path_moves_the_socket) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
