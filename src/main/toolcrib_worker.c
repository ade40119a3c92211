/* toolcrib-worker: a process of the server for work that can run away (HARDENING 1.4).  The table is all that it can
 * do; whoever adds a row links the objects of its body, and no more: each worker has its own copy of what they need. */
#include "config.h"

#include "base/mem.h"
#include "base/served.h"
#include "handlers/handlers.h"
#include "worker/serve.h"

static const struct worker_work table[] = {
	{ SQL_WORK, sql_work },
};

static int serve(void)
{
	return worker_serve(table, NELEMS(table));
}

int main(int argc, char **argv)
{
	static const struct served worker = {
		.name = "toolcrib-worker", .page = "toolcribd(8), Workers", .serve = serve,
		.does = "Runs queries of tools for toolcribd, which starts it and speaks to it over descriptor 0.",
	};

	return served_main(&worker, argc, argv);
}
