/* The words of findings: name, text and class of each code, for verifiers and for those who print what they found. */

#include "config.h"

#include "audit/finding.h"

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
