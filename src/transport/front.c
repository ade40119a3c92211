/* The front of TCP and HTTP listeners: the gate that all share, the proxies that each of them lists. */

#include "config.h"

#include "transport_int.h"

#include <stdio.h>
#include <unistd.h>

#include "conf/conf.h"

int front_open(struct front *f, const struct transport_env *env, const struct conf_listener *c, struct err *err)
{
	f->gate = env->gate;
	f->nproxies = 0;
	for (size_t i = 0; i < c->nproxies; i++) {
		if (!addr_block_parse(c->proxies[i], &f->proxies[f->nproxies++]))
			return err_set(err, ERR_INVALID, c->address, "\"%s\" is no address of a proxy: 10.0.0.1 or 10.0.0.0/8", c->proxies[i]);
	}
	return 0;
}

bool front_is_proxy(const struct front *f, const struct addr *a)
{
	for (size_t i = 0; i < f->nproxies; i++) {
		if (addr_block_has(&f->proxies[i], a))
			return true;
	}
	return false;
}

bool front_knock(void *front, struct accepted *a)
{
	const struct front *f = front;
	uint32_t wait_ms;

	return gate_enter(f->gate, &a->peer, front_is_proxy(f, &a->peer), &a->pass, &wait_ms) == GATE_OPEN;
}

bool front_enter(const struct front *f, struct listener *l, const struct accepted *a, bool http, struct gate_pass *ret)
{
	char text[160];
	uint32_t wait_ms;

	if (a->tls) {                   /* it has knocked */
		*ret = a->pass;
		return true;
	}
	if (gate_enter(f->gate, &a->peer, front_is_proxy(f, &a->peer), ret, &wait_ms) == GATE_OPEN)
		return true;
	if (http) {
		const char *status = wait_ms ? "429 Too Many Requests" : "503 Service Unavailable";
		int n = snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nRetry-After: %u\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
				 status, wait_ms ? (wait_ms + 999) / 1000 : 1);

		/* A socket that has no room for it at its very beginning has no reader either. */
		(void)!write(a->fd, text, (size_t)n);
	}
	close(a->fd);
	listen_conn_gone(l);
	return false;
}
