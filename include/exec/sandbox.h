#ifndef EXEC_SANDBOX_H
#define EXEC_SANDBOX_H

#include "backend/handler.h"

#include "sandbox/policy.h"

/* The block `sandbox` of a handler that starts a process, and what the server makes of it. */

struct run_cage;

struct be_cage {
	const char *const *read, *const *write;         /* NULL-terminated */
	enum run_net net;
	const uint16_t *connect_ports, *bind_ports; size_t nconnect, nbind;
	bool udp;
	uint64_t memory_bytes, cpu_s, processes;
	struct run_level require;                       /* beside what the server requires */
};

/* handler: has the member `sandbox`, or gets the defaults. */
int be_cage_bind(const json_t *handler, struct arena *mem, struct be_cage *ret, struct err *err) MUST_CHECK;
/* Which layers a process gets: the best ones that leave it the network that it asks for. */
struct run_level be_cage_level(const struct be_cage *c, const struct run_cage *server);
void be_cage_show(const struct be_cage *c, const struct run_cage *server, struct backend_cage *ret);
/* ERR_DENIED: the process must not be started; the message says what to do. */
int be_cage_check(const struct be_cage *c, const struct run_cage *server, struct err *err) MUST_CHECK;
/* Everything of *ret that is about confinement; texts are borrowed from both. */
void be_cage_fill(const struct be_cage *c, const struct run_cage *server, struct run_policy *ret);

#endif
