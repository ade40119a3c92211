/* toolcrib-console: pages of the console for browsers (CONSOLE D1, C-202).  The server starts it and hands over what it
 * needs; then it can open no file, make no socket, start nothing, and ends with the server.  One thread, one loop. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "base/served.h"
#include "console/console.h"
#include "ev/ev.h"
#include "sandbox/filter.h"

#include "console_int.h"

#define FILES_MAX (CON_CONNS + CONSOLE_FDS + 32)        /* sockets, and what the loop has */
#define FILE_BYTES 0                    /* it writes none */

static int confine(struct err *err)
{
	/* No code but that which is there; what is open is enough. */
	static const struct filter_row rows[] = {
		{ SYS_mmap, FILTER_REFUSE, 0, { 2, FILTER_HAS, PROT_EXEC, PROT_EXEC }, { 0 } },
		{ SYS_mprotect, FILTER_REFUSE, 0, { 2, FILTER_HAS, PROT_EXEC, PROT_EXEC }, { 0 } },
		{ SYS_socketpair, FILTER_REFUSE, 0, { 0 }, { 0 } },
	};
	const struct filter list = { .groups = FILTER_CORE, .rows = rows, .nrows = NELEMS(rows) };

	if (SANITIZED || !filter_available())
		return 0;
	return filter_put_on(&list, NULL, err);
}

/* The one message. */
static bool take_over(char ret_name[CONSOLE_NAME_MAX], int ret[CONSOLE_FDS])
{
	union { struct cmsghdr head; char room[CMSG_SPACE(CONSOLE_FDS * sizeof(int))]; } control;
	struct iovec text = { ret_name, CONSOLE_NAME_MAX };
	struct msghdr m = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(STDIN_FILENO, &m, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(CONSOLE_FDS * sizeof(int)) ||
	    ret_name[n - 1] != '\0' || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return false;
	memcpy(ret, CMSG_DATA(c), CONSOLE_FDS * sizeof(int));
	return true;
}

/* A byte of the server asks whether this loop still turns, and goes back; else it is gone, or wants this to end. */
static void on_server(void *arg, bool readable, bool writable)
{
	char byte;
	const ssize_t n = recv(STDIN_FILENO, &byte, 1, MSG_DONTWAIT);

	(void)readable;
	(void)writable;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1 || send(STDIN_FILENO, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		ev_loop_stop(arg);
}

static const struct route *const tables[] = { start_routes, sheet_routes, question_routes, report_routes,
	stream_routes, pack_routes, NULL };

static int run(const char *name, const int fds[CONSOLE_FDS])
{
	static struct ev_loop *loop;    /* for the life of the process, and so is all that hangs on it */
	static struct doors *doors;
	static struct ev_io *server;
	struct err err;
	bool fine;

	loop = ev_loop_new();
	doors = doors_new(loop, fds + 1, CONSOLE_DOORS);
	server = ev_io_new(loop, STDIN_FILENO, on_server, loop);
	fine = front_open(loop, fds[0], name, doors, tables) && confine(&err) == 0;
	ev_io_want(server, true, false);
	if (fine)
		ev_loop_run(loop);
	return fine ? SERVED_DONE : SERVED_FAILED;      /* what is open ends with the process */
}

static int serve(void)
{
	char name[CONSOLE_NAME_MAX];
	int fds[CONSOLE_FDS];

	if (!served_shut(FILES_MAX) || secret_init() != 0 || !served_bound(CON_MEMORY, FILE_BYTES))
		return SERVED_FAILED;
	if (!take_over(name, fds))
		return SERVED_FAILED;
	served_step_back(SERVED_PAGE);
	(void)page_asset(NULL, NULL);
	return run(name, fds);
}

/* --- toolcrib-console --routes: what each address gives, for the matrix of who may ask for it (CONSOLE 8) */

static void print_name(void *arg, const char *name, const char *title)
{
	size_t *n = arg;

	(void)title;
	printf("%saudit %s", (*n)++ ? ", " : "", name);
}

static void print_route(const struct route *r, const char *report)
{
	static const char *const classes[] = { "seen", "open", "form" };
	const char *at = report ? strstr(r->path, ":report") : NULL, *of = at ? strstr(r->commands,
		ROUTE_REPORTS) : NULL;

	printf("%s\t", r->method);
	if (at)
		printf("%.*s%s%s\t", (int)(at - r->path), r->path, report, at + strlen(":report"));
	else
		printf("%s\t", r->path);
	printf("%s\t", classes[r->class]);
	if (r->commands && !report && strcmp(r->commands, ROUTE_REPORTS) == 0)
		reports_each(strstr(r->path, ":tenant"), print_name, &(size_t){ 0 });
	else if (of)
		printf("%saudit %s", strcmp(report, "calls") == 0 && of > r->commands ? "audit stats, " : "", report);
	else
		printf("%s", r->commands ? r->commands : "-");
	printf("\t%s\n", r->params ? r->params : "-");
}

static void print_report(void *arg, const char *name, const char *title)
{
	(void)title;
	print_route(arg, name);
}

static int print_routes(void)
{
	for (const struct route *const *table = tables; *table; table++) {
		for (const struct route *r = *table; r->method; r++) {
			if (strstr(r->path, ":report"))
				reports_each(strstr(r->path, ":tenant"), print_report, (void *)(uintptr_t)r);
			else
				print_route(r, NULL);
		}
	}
	return SERVED_DONE;
}

int main(int argc, char **argv)
{
	static const struct served console = {
		.name = "toolcrib-console", .page = "toolcribd(8), Console", .serve = serve,
		.does = "Shows the audit to browsers for toolcribd, which starts it and gives it all that it has over descriptor 0.",
	};

	if (argc == 2 && strcmp(argv[1], "--routes") == 0)
		return print_routes();
	return served_main(&console, argc, argv);
}
