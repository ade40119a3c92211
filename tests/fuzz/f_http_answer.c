/* Fuzz target: answers to http tools.  The first byte chooses status and result, a line is the Content-Type, the rest
 * the body.  Whatever a server says, a result is content that MCP knows, of a size that follows from the answer's. */

#include "config.h"

#include <string.h>

#include "../../src/handlers/http_int.h"
#include "backend/secrets.h"
#include "base/mem.h"
#include "fuzz.h"
#include "json/json.h"

static void check_result(const struct http_answer *a, const struct backend_result *res)
{
	size_t i, bytes = 0;
	json_t *block;

	FUZZ_CHECK(content_check_all(res->content, "", NULL) == 0);
	FUZZ_CHECK(json_array_size(res->content) == 1);
	FUZZ_CHECK(res->has_xstat && res->xstat == a->status);
	FUZZ_CHECK(res->is_error == (a->status < 200 || a->status > 299));
	json_array_foreach(res->content, i, block)
		bytes += json_string_length(json_object_get(block, "text"));
	FUZZ_CHECK(!res->is_error || bytes <= HTTP_EXCERPT_MAX + 300);
	FUZZ_CHECK(bytes <= 2 * a->len + 300);
}

FUZZ_TARGET(http_answer)
{
	static const int statuses[] = { 200, 204, 302, 404, 500, 999 };
	static const uint8_t call_id[16] = { 1 };

	if (size == 0)
		return 0;
	const char *body = memchr(data + 1, '\n', size - 1);
	size_t type_len = body ? (size_t)(body - (const char *)data) - 1 : size - 1;
	char *type = mem_strndup((const char *)data + 1, type_len);
	struct http_plan plan = { .result = (enum http_result_kind)(data[0] % 3), .pointer = "/a" };
	const struct http_answer a = { statuses[data[0] / 3 % NELEMS(statuses)], type, data[0] >= 0xf0, body ? body + 1 : "",
				       body ? size - type_len - 2 : 0 };
	struct open_secrets *secrets = open_secrets_new(NULL);
	const struct backend_req req = { .call_id = call_id, .secrets = secrets };
	struct backend_result res;
	struct err err;

	if (http_map(&plan, &req, &a, &res, &err) < 0) {
		FUZZ_CHECK(err.code == ERR_TOOL && err.msg[0]);
	} else {
		check_result(&a, &res);
		json_decref(res.content);
		json_decref(res.structured);
	}
	open_secrets_free(&secrets);
	free(type);
	return 0;
}
