/* stdio: one peer on two descriptors, known before its first line (MCP S-10).  The program has moved stdout to a
 * private descriptor before anything could write to it (MCP S-02). */

#include "config.h"

#include "transport_int.h"

#include <stdlib.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "ev/ev.h"

struct tr_stdio {
	struct transport base;
	struct transport_env env;
	struct line_home home;
};

int tr_stdio_open(const struct transport_env *env, int in_fd, int out_fd, struct principal *who,
		  void (*ended)(void *arg), void *arg, struct transport **ret, struct err *err)
{
	struct tr_stdio *t = mem_zalloc(sizeof(*t));

	(void)err;      /* nothing here can fail; the face is that of every way in */
	t->env = *env;
	t->home = (struct line_home){ .env = &t->env, .tport = AUDIT_STDIO, .ended = ended, .arg = arg };
	list_init(&t->home.peers);
	line_peer_new(&t->home, &(struct line_way){ in_fd, out_fd, NULL, "stdio", NULL }, who);
	*ret = &t->base;
	return 0;
}

static void stdio_free(void *arg)
{
	free(arg);
}

void tr_stdio_close(struct transport **t)
{
	if (!*t)
		return;
	struct tr_stdio *s = CONTAINER_OF(*t, struct tr_stdio, base);

	s->home.ended = NULL;
	line_peers_close(&s->home);
	ev_defer(s->env.loop, stdio_free, s);
	*t = NULL;
}
