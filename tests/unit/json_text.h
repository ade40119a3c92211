#ifndef TESTS_JSON_TEXT_H
#define TESTS_JSON_TEXT_H

/* Values from texts that are JSON for sure, and the heads of schemas in older dialects. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

#define S2019 "\"$schema\":\"https://json-schema.org/draft/2019-09/schema\""
#define S7 "\"$schema\":\"http://json-schema.org/draft-07/schema#\""
#define S4 "\"$schema\":\"http://json-schema.org/draft-04/schema#\""

static inline json_t *parse(const char *text)
{
	json_t *v = NULL;
	struct err e;

	if (jx_parse(text, strlen(text), &v, &e) != 0)
		fail_msg("%s: %s: %s", text, e.where, e.msg);
	return v;
}

#endif
