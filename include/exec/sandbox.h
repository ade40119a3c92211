#ifndef EXEC_SANDBOX_H
#define EXEC_SANDBOX_H

#include "backend/handler.h"
#include "sandbox/policy.h"

/* The block `sandbox` of what starts a process, an exec tool or an upstream, and what the server makes of it.
 *
 * exec_sandbox_bind() compiles the block (any thread).  Before a process is started, exec_sandbox_check() compares what
 * it must reach with what this machine has, and exec_sandbox_fill() writes the launcher's instructions; struct sandbox
 * (sandbox/sandbox.h) is what the server says of all its tools.  exec_sandbox_show() says the same in texts, for the
 * record of a call. */

struct sandbox;

struct exec_sandbox {
	const char *const *read, *const *write;         /* NULL-terminated */
	enum sandbox_net net;
	const uint16_t *connect_ports, *bind_ports; size_t nconnect, nbind;
	bool udp;
	uint64_t memory_bytes, cpu_s, processes;
	struct sandbox_level require;                       /* beside what the server requires */
};

/* handler: has the member `sandbox`, or gets the defaults. */
int exec_sandbox_bind(const json_t *handler, struct arena *mem, struct exec_sandbox *ret, struct err *err) MUST_CHECK;
/* Which layers a process gets: the best ones that leave it the network that it asks for. */
void exec_sandbox_show(const struct exec_sandbox *c, const struct sandbox *server, struct backend_sandbox *ret);
/* ERR_DENIED: the process must not be started; the message says what to do. */
int exec_sandbox_check(const struct exec_sandbox *c, const struct sandbox *server, struct err *err) MUST_CHECK;
/* Everything of *ret that is about confinement; texts are borrowed from both. */
void exec_sandbox_fill(const struct exec_sandbox *c, const struct sandbox *server, struct sandbox_policy *ret);

#endif
