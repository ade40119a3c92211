/* Fuzz target: URLs, entries of allowed hosts, and URL templates with arguments.  The first line is the URL or the
 * template, the second an entry, the rest the arguments.  However they are chosen, what is expanded stays at the
 * definition's host, and what was allowed without resolving is about this host. */

#include "config.h"

#include <string.h>

#include "../../src/handlers/http_int.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"
#include "json/json.h"

#define MEMORY_MAX (1u << 20)

static void check_url(const char *text, size_t len)
{
	struct url u, again;
	struct err err;

	int rc = url_parse(text, len, "/at", &u, &err);
	if (rc < 0) {
		FUZZ_CHECK(strcmp(err.where, "/at") == 0 && err.msg[0]);
		return;
	}
	FUZZ_CHECK(u.port > 0 && u.target <= len && u.host[0]);
	FUZZ_CHECK(strpbrk(u.host, "/?#@\\ %[]\"") == NULL);
	FUZZ_CHECK(u.literal || strchr(u.host, ':') == NULL);
	for (size_t i = 0; i < len; i++)
		FUZZ_CHECK(text[i] > ' ' && text[i] < 0x7f);
	char *tail = mem_printf("%s://%s%s%s:%u%.*s", u.tls ? "https" : "http", strchr(u.host, ':') ? "[" : "", u.host,
				strchr(u.host, ':') ? "]" : "", u.port, (int)(len - u.target), text + u.target);
	if (strlen(tail) <= URL_MAX) {
		FUZZ_CHECK(url_parse(tail, strlen(tail), "", &again, NULL) == 0);
		FUZZ_CHECK(again.tls == u.tls && again.port == u.port && strcmp(again.host, u.host) == 0);
	}
	free(tail);
}

static void check_allow(const char *entry, const struct url *u, struct arena *mem)
{
	const struct fetch_policy none = { .private_ok = false };
	struct fetch_allow a;
	struct err err;

	if (fetch_allow_parse(entry, "/at", mem, &a, &err) < 0) {
		FUZZ_CHECK(strcmp(err.where, "/at") == 0 && err.msg[0]);
		return;
	}
	const struct fetch_policy p = { .allow = &a, .nallow = 1 };
	/* An entry only adds. */
	if (fetch_policy_url(&none, u, NULL) == 0)
		FUZZ_CHECK(fetch_policy_url(&p, u, NULL) == 0);
	if (a.host && (strcmp(a.host, u->host) != 0 || a.port != u->port))
		FUZZ_CHECK(fetch_policy_url(&none, u, NULL) == fetch_policy_url(&p, u, NULL));
}

static void check_expansion(const struct uri_tpl *t, const struct url *base, const char *args, size_t len)
{
	struct str out = STR_INIT;
	json_t *tree = NULL;
	struct url u;
	struct err err;

	if (jx_parse(args, len, &tree, NULL) < 0 || !json_is_object(tree)) {
		json_decref(tree);
		return;
	}
	const struct backend_req req = { .args = tree, .args_text = args, .args_len = len };
	if (uri_expand(t, &req, &out, &err) < 0)
		FUZZ_CHECK(err.code == ERR_TOOL && err.msg[0]);
	else if (url_parse(str_text(&out), out.len, "", &u, &err) == 0)
		FUZZ_CHECK(u.tls == base->tls && u.port == base->port && strcmp(u.host, base->host) == 0);
	str_fini(&out);
	json_decref(tree);
}

FUZZ_TARGET(url)
{
	char *text = mem_strndup((const char *)data, size), *entry = strchr(text, '\n'), *args = entry ? strchr(entry + 1, '\n') : NULL;
	struct arena *mem = arena_new(MEMORY_MAX);
	const struct uri_tpl *t = NULL;
	struct url base;
	struct err err;

	if (entry)
		*entry++ = '\0';
	if (args)
		*args++ = '\0';
	check_url(text, strlen(text));
	if (uri_compile(text, "/at", mem, &t, &base, &err) == 0) {
		if (entry)
			check_allow(entry, &base, mem);
		if (args)
			check_expansion(t, &base, args, strlen(args));
	} else {
		FUZZ_CHECK(strcmp(err.where, "/at") == 0 && err.msg[0]);
	}
	arena_free(&mem);
	free(text);
	return 0;
}
