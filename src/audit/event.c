/* Words of the format: names of kinds, outcomes, transports and findings; and the start of an event.  Any thread. */

#include "config.h"

#include <string.h>

#include "audit/audit.h"
#include "audit/finding.h"
#include "base/clock.h"
#include "base/mem.h"

static const char *const outcome_names[AUDIT_OUTCOME_COUNT] = {
	[AUDIT_OK] = "ok",
	[AUDIT_TOOL_ERROR] = "tool_error",
	[AUDIT_INVALID] = "invalid",
	[AUDIT_DENIED] = "denied",
	[AUDIT_RATE_LIMITED] = "rate_limited",
	[AUDIT_TIMEOUT] = "timeout",
	[AUDIT_CANCELLED] = "cancelled",
	[AUDIT_INPUT_REQUIRED] = "input_required",
	[AUDIT_CRASHED] = "crashed",
	[AUDIT_ABORTED] = "aborted",
	[AUDIT_OVERLOAD] = "overload",
	[AUDIT_UNKNOWN] = "unknown",
};

static const char *const tport_names[] = {
	[AUDIT_STDIO] = "stdio", [AUDIT_TCP] = "tcp", [AUDIT_UNIX] = "unix", [AUDIT_HTTP] = "http",
	[AUDIT_ADMIN_SOCKET] = "admin",
};

const char *audit_kind_name(int kind)
{
#define AUDIT_KIND_NAME(sym, code, name) case code: return name;
	switch (kind) {
	AUDIT_KINDS(AUDIT_KIND_NAME)
	}
#undef AUDIT_KIND_NAME
	return NULL;
}

const char *audit_outcome_name(int outcome)
{
	return outcome >= 0 && outcome < AUDIT_OUTCOME_COUNT ? outcome_names[outcome] : NULL;
}

int audit_outcome_from_name(const char *name)
{
	for (int i = 0; i < AUDIT_OUTCOME_COUNT; i++)
		if (strcmp(outcome_names[i], name) == 0)
			return i;
	return -1;
}

const char *audit_tport_name(int tport)
{
	return tport >= 0 && (size_t)tport < NELEMS(tport_names) ? tport_names[tport] : NULL;
}

void audit_event_init(struct audit_event *ev, enum audit_kind kind, int64_t tenant_id)
{
	*ev = (struct audit_event){
		.kind = kind,
		.tenant_id = tenant_id,
		.time_us = clock_wall_us(),
		.mono_us = clock_mono_us(),
		.n_req = -1,
		.n_res = -1,
	};
}

/* --- findings */

static const struct { const char *name, *text; bool bad; } codes[AUDIT_FINDING_COUNT] = {
#define FINDING_ROW(sym, is_bad, words) [AUDIT_FINDING_##sym] = { #sym, words, is_bad },
	AUDIT_FINDINGS(FINDING_ROW)
#undef FINDING_ROW
};

const char *audit_finding_name(enum audit_finding_code code)
{
	return codes[code].name;
}

const char *audit_finding_text(enum audit_finding_code code)
{
	return codes[code].text;
}

bool audit_finding_bad(enum audit_finding_code code)
{
	return codes[code].bad;
}
