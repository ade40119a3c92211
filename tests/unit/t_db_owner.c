/* The lock of the store and the owner's card (AUDIT A-602). */

#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "db/owner.h"

#include "tmpdir.h"
#include "suite.h"

static int set_up(void **state)
{
	*state = tmpdir_make();
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	tmpdir_remove(*state);
	return 0;
}

static void who_looks_takes_nothing(void **state)
{
	struct db_owner *one = NULL;
	struct db_card card = { .pid = 5 }, seen = { 0 };
	struct err err;

	assert_int_equal(db_owner_look(*state, &seen, &err), 0);
	assert_int_equal(db_owner_take(*state, &one, &seen, &err), 0);
	assert_int_equal(db_owner_show(one, &card, &err), 0);
	assert_int_equal(db_owner_look(*state, &seen, &err), 1);
	assert_int_equal(seen.pid, 5);
	db_owner_drop(&one);
	assert_int_equal(db_owner_look(*state, &seen, &err), 0);
}

static void one_owner_at_a_time(void **state)
{
	struct db_owner *one = NULL, *two = NULL;
	struct db_card card;
	struct err err;

	assert_int_equal(db_owner_take(*state, &one, &card, &err), 0);
	assert_int_equal(db_owner_take(*state, &two, &card, &err), 1);
	assert_null(two);
	assert_int_equal(card.pid, getpid());
	assert_string_equal(card.command_socket, "");
	db_owner_drop(&one);
	assert_null(one);
	assert_int_equal(db_owner_take(*state, &two, &card, &err), 0);
	db_owner_drop(&two);
}

static void card_tells_the_sockets(void **state)
{
	struct db_card card = { .pid = 4711, .command_socket = "/run/toolcrib/admin.sock", .mcp_sock = "/run/toolcrib/mcp.sock" };
	struct db_owner *one = NULL, *two = NULL;
	struct db_card seen;
	struct err err;

	assert_int_equal(db_owner_take(*state, &one, &seen, &err), 0);
	assert_int_equal(db_owner_show(one, &card, &err), 0);
	assert_int_equal(db_owner_take(*state, &two, &seen, &err), 1);
	assert_int_equal(seen.pid, 4711);
	assert_string_equal(seen.command_socket, card.command_socket);
	assert_string_equal(seen.mcp_sock, card.mcp_sock);
	memset(card.command_socket, 'a', sizeof card.command_socket - 1);
	memset(card.mcp_sock, 'm', sizeof card.mcp_sock - 1);
	assert_int_equal(db_owner_show(one, &card, &err), 0);
	assert_int_equal(db_owner_take(*state, &two, &seen, &err), 1);
	assert_string_equal(seen.command_socket, card.command_socket);
	assert_string_equal(seen.mcp_sock, card.mcp_sock);
	db_owner_drop(&one);
}

static void half_a_card_says_nothing(void **state)
{
	struct db_owner *one = NULL, *two = NULL;
	struct db_card seen;
	char path[600];
	struct err err;

	assert_int_equal(db_owner_take(*state, &one, &seen, &err), 0);
	assert_int_equal(truncate(tmpdir_path(*state, DB_LOCK, path, sizeof path), 5), 0);
	assert_int_equal(db_owner_take(*state, &two, &seen, &err), 1);
	assert_int_equal(seen.pid, 0);
	assert_string_equal(seen.command_socket, "");
	db_owner_drop(&one);
}

/* The lock dies with its owner, however that dies. */
static void killed_owner_frees_the_store(void **state)
{
	struct db_owner *one = NULL;
	struct db_card card;
	struct err err;
	int ready[2], status;
	pid_t child;
	char c;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		c = db_owner_take(*state, &one, &card, &err) == 0 ? 'y' : 'n';
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(1);
	}
	assert_true(child > 0);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	assert_int_equal(db_owner_take(*state, &one, &card, &err), 1);
	assert_int_equal(card.pid, child);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(db_owner_take(*state, &one, &card, &err), 0);
	db_owner_drop(&one);
	close(ready[0]);
	close(ready[1]);
}

static void missing_store_says_what_to_do(void **state)
{
	struct db_owner *one = NULL;
	struct db_card card;
	struct err err;
	char path[600];

	assert_int_equal(db_owner_take(tmpdir_path(*state, "none", path, sizeof path), &one, &card, &err), ERR_UNREACHABLE);
	assert_string_equal(err.hint, "run: toolcrib init");
	assert_null(one);
}

/* Trap 20; only root can see this one. */
/* A server killed while it starts a tool: the child holds the lock until its exec. */
static void lock_left_with_a_child_of_the_dead_is_waited_out(void **state)
{
	struct db_owner *o = NULL;
	struct db_card card;
	struct err err;
	int hold[2], status;
	pid_t owner;

	assert_int_equal(pipe(hold), 0);
	owner = fork();
	if (owner == 0) {
		if (db_owner_take(*state, &o, &card, &err) != 0)
			_exit(1);
		if (fork() == 0) {      /* until nobody holds the pipe, and a moment more */
			char byte;

			close(hold[1]);
			_exit(read(hold[0], &byte, 1) == 0 && poll(NULL, 0, 50) == 0 ? 0 : 1);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(owner, &status, 0), owner);
	assert_int_equal(status, 0);
	close(hold[1]);
	assert_int_equal(db_owner_take(*state, &o, &card, &err), 0);
	db_owner_drop(&o);
	close(hold[0]);
}

static void root_does_not_own_anothers_store(void **state)
{
	struct db_owner *one = NULL;
	struct db_card card;
	struct stat st;
	struct err err;
	char path[600];

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(*state, 65534, 65534), 0);
	assert_int_equal(db_owner_take(*state, &one, &card, &err), ERR_DENIED);
	assert_int_not_equal(stat(tmpdir_path(*state, DB_LOCK, path, sizeof path), &st), 0);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(db_owner_take(*state, &one, &card, &err), ERR_DENIED);
	assert_null(one);
	assert_int_equal(chown(*state, 0, 0), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

SINGLE_THREAD_SUITE(owner)
{
	const struct CMUnitTest tests[] = {
		T(one_owner_at_a_time), T(who_looks_takes_nothing), T(card_tells_the_sockets), T(half_a_card_says_nothing), T(killed_owner_frees_the_store),
		T(lock_left_with_a_child_of_the_dead_is_waited_out),
		T(missing_store_says_what_to_do), T(root_does_not_own_anothers_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
