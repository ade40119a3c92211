/* Fuzz target: the networks of a key.  The first line are the networks, the second an address.  Each network holds its own
 * address, what is no address is in none, and a longer list holds no less. */

#include "config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "fuzz.h"
#include "tenant/cidr.h"

/* "CLIENT via PROXY" is the client's. */
static bool is_address(const char *from)
{
	char *text = mem_strndup(from, strcspn(from, " "));
	uint8_t bytes[16];
	bool is = strcmp(text, "unix") == 0 || strcmp(text, "stdio") == 0 || inet_pton(AF_INET, text, bytes) == 1 ||
		  inet_pton(AF_INET6, text, bytes) == 1;

	free(text);
	return is;
}

/* all: what the whole list says. */
static void check_one(const struct cidrs *all, const char *network, const char *from)
{
	char *address = mem_strndup(network, strcspn(network, "/"));
	struct cidrs *one = NULL;

	FUZZ_CHECK(cidrs_parse(network, strlen(network), &one, NULL) == 0);
	FUZZ_CHECK(cidrs_hold(one, address) && cidrs_hold(all, address));
	FUZZ_CHECK(!cidrs_hold(one, from) || cidrs_hold(all, from));
	cidrs_free(&one);
	free(address);
}

static void check_all(const struct cidrs *all, const char *networks, const char *from)
{
	int n = 0;

	for (const char *p = networks + strspn(networks, " "); *p; n++) {
		const char *end = strchrnul(p, ' ');
		char *one = mem_strndup(p, (size_t)(end - p));

		check_one(all, one, from);
		free(one);
		p = end + strspn(end, " ");
	}
	FUZZ_CHECK(n <= CIDRS_MAX);
	FUZZ_CHECK(!cidrs_hold(all, from) || (n > 0 && is_address(from)));
}

FUZZ_TARGET(cidr)
{
	const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
	size_t len = newline ? (size_t)(newline - data) : size;
	char *exact = mem_alloc(len ? len : 1);         /* with no byte behind it */
	char *networks = mem_strndup((const char *)data, len);
	char *from = newline ? mem_strndup((const char *)newline + 1, size - len - 1) : mem_strdup("192.0.2.1");
	struct cidrs *all = NULL;
	struct err err = { 0 };
	int rc;

	if (len)
		memcpy(exact, data, len);
	rc = cidrs_parse(exact, len, &all, &err);
	if (rc < 0) {
		FUZZ_CHECK(all == NULL && (rc == ERR_INVALID || rc == ERR_LIMIT) && strcmp(err.where, "cidr") == 0 && err.msg[0]);
	} else {
		FUZZ_CHECK(strlen(networks) == len);
		check_all(all, networks, from);
	}
	cidrs_free(&all);
	free(exact);
	free(networks);
	free(from);
	return 0;
}
