#ifndef FUZZ_TASKS_WORLD_H
#define FUZZ_TASKS_WORLD_H

#include "call/call.h"
#include "task/task.h"

/* Tasks behind the messages of f_rpc, in every state that there is: the real index, changes, questions and answers
 * (src/task, src/call/park.c) over rows in memory and a writer that writes nothing.  A round that is admitted runs at
 * once: it asks again until its third, and ends then.
 *
 * Some are the caller's, one of each state; others are of another principal and of another tenant. */

#define WORLD_FOREIGN "FOREIGN"         /* stands in all that is kept of them, and in no answer */

struct world;

/* full: every other item of the writer comes back as failed. */
struct world *world_open(struct ev_loop *loop, struct principal *who, bool full);
struct call_engine *world_calls(struct world *w);
struct tasks *world_tasks(struct world *w);
/* Turn the loop until everything has come back; rounds too that wait for their turn. */
void world_settle(struct world *w, bool turns);
/* What is true whatever came in; then all is freed. */
void world_close(struct world **w);

#endif
