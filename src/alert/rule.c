/* The rules as a table (include/alert/alerts.def).  Any thread. */
#include "config.h"

#include <string.h>

#include "base/mem.h"

#include "alert_int.h"

enum { ITSELF, ACK };

static const struct rule {
	const char *name;
	enum alert_severity severity;
	int ends;
	unsigned rest_s;
	const char *from, *help;
} rules[ALERT_RULES] = {
#define ALERT(name, severity, ends, rest, from, help) { #name, ALERT_##severity, ends, rest, from, help },
#include "alert/alerts.def"
};
static const char *const severities[ALERT_SEVERITIES] = { [ALERT_INFO] = "info", [ALERT_WARN] = "warn",
							  [ALERT_PAGE] = "page" };

const char *alert_rule_name(enum alert_rule rule)
{
	return rules[rule].name;
}

int alert_rule_find(const char *name, enum alert_rule *ret)
{
	for (size_t i = 0; i < NELEMS(rules); i++) {
		if (strcmp(rules[i].name, name) != 0)
			continue;
		*ret = (enum alert_rule)i;
		return 0;
	}
	return ERR_NOT_FOUND;
}

const char *alert_severity_name(enum alert_severity severity)
{
	return severities[severity];
}

enum alert_severity alert_rule_severity(enum alert_rule rule)
{
	return rules[rule].severity;
}

uint64_t alert_rule_rest_us(enum alert_rule rule)
{
	return rules[rule].ends == ACK ? UINT64_MAX : rules[rule].rest_s * UINT64_C(1000000);
}

const char *alert_rule_help(enum alert_rule rule, const char **ret_from)
{
	*ret_from = rules[rule].from;
	return rules[rule].help;
}
