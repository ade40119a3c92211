/* The list of listeners: a map each, with its TLS, and the rules that keep an open door from being left open by
 * mistake.  Addresses are checked by their text, files are named only; nothing is resolved, bound or opened here. */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

/* --- What a listener says of TLS */

/* Files by their paths, which are not opened here, and who a client's certificate stands for. */

#define SPKI_CHARS 64                   /* SHA-256 in hex */
#define VALUE_MAX 1024                  /* bytes of a URI or a name */

static const char *const by_names[] = { [CONF_BY_URI] = "uri", [CONF_BY_DNS] = "dns", [CONF_BY_SPKI] = "spki" };

static int read_path(const json_t *obj, const char *at, const char *name, bool required, char **ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, required ? JX_REQUIRED : JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (text[0] != '/')
		return conf_err(err, at, name, "\"%s\" must be an absolute path", text);
	*ret = mem_strdup(text);
	return 0;
}

static int check_value(const struct conf_client *c, const char *at, struct err *err)
{
	static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", hex[] = "0123456789abcdef";

	if (strlen(c->value) > VALUE_MAX)
		return conf_err(err, at, by_names[c->by], "at most %d bytes", VALUE_MAX);
	switch (c->by) {
	case CONF_BY_URI:
		if (!strchr(c->value, ':') || c->value[0] == ':')
			return conf_err(err, at, "uri", "\"%s\" is no URI: spiffe://example.org/ci", c->value);
		return 0;
	case CONF_BY_DNS:
		if (!*c->value || strpbrk(c->value, "*:/ ") || strpbrk(c->value, upper))
			return conf_err(err, at, "dns",
					"\"%s\" is no whole name in lower case; nothing stands for others", c->value);
		return 0;
	case CONF_BY_SPKI:
		if (strlen(c->value) != SPKI_CHARS || strspn(c->value, hex) != SPKI_CHARS) {
			int rc = conf_err(err, at, "spki",
					  "must be %d hex digits in lower case, SHA-256 of the public key", SPKI_CHARS);

			err_hint(err,
				 "openssl x509 -in CERT -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum");
			return rc;
		}
		return 0;
	}
	return 0;
}

static int conf_read_entity(const json_t *obj, const char *at, const char *name, char **ret, struct err *err);

static int read_client(const json_t *obj, const char *at, struct conf_client *c, struct err *err)
{
	static const char *const known[] = { "uri", "dns", "spki", "tenant", "principal" };
	size_t found = 0;
	int rc;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at,
			       "must be a map with uri, dns or spki, tenant and perhaps principal");
	rc = jx_only(obj, at, known, NELEMS(known), err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < NELEMS(by_names); i++) {
		const char *text = NULL;

		rc = jx_get_string(obj, at, by_names[i], JX_OPTIONAL, &text, err);
		if (rc < 0)
			return rc;
		if (!text)
			continue;
		free(c->value);
		c->by = (enum conf_client_by)i;
		c->value = mem_strdup(text);
		found++;
	}
	if (found != 1)
		return err_set(err, ERR_INVALID, at, "needs exactly one of uri, dns and spki");
	rc = conf_read_entity(obj, at, "tenant", &c->tenant, err);
	if (rc == 0)
		rc = conf_read_entity(obj, at, "principal", &c->principal, err);
	if (rc == 0 && !c->tenant)
		rc = err_set(err, ERR_INVALID, at, "tenant is missing");
	return rc < 0 ? rc : check_value(c, at, err);
}

static int read_clients(const json_t *obj, const char *at, struct conf_tls *t, struct err *err)
{
	json_t *list = NULL, *item;
	size_t i;
	int rc = jx_get_array(obj, at, "clients", JX_OPTIONAL, &list, err);

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) > CONF_CLIENTS_MAX)
		return conf_err(err, at, "clients", "at most %d entries", CONF_CLIENTS_MAX);
	t->clients = mem_calloc(json_array_size(list) + 1, sizeof(*t->clients));
	json_array_foreach(list, i, item) {
		char *here = mem_printf("%s/clients/%zu", at, i);
		struct conf_client *c = &t->clients[t->nclients++];

		rc = read_client(item, here, c, err);
		for (size_t k = 0; rc == 0 && k < i; k++)
			if (t->clients[k].by == c->by && strcmp(t->clients[k].value, c->value) == 0)
				rc = conf_err(err, here, by_names[c->by], "\"%s\" is there twice", c->value);
		free(here);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int read_min(const json_t *obj, const char *at, bool *ret_only_1_3, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, "min", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	*ret_only_1_3 = strcmp(text, "1.3") == 0;
	if (!*ret_only_1_3 && strcmp(text, "1.2") != 0)
		return conf_err(err, at, "min", "must be \"1.2\" or \"1.3\", is \"%s\"", text);
	return 0;
}

static int read_members(const json_t *obj, const char *at, struct conf_tls *t, struct err *err)
{
	static const char *const known[] = { "cert", "key", "client_ca", "client_crl", "client_required", "min",
		"clients" };

	int rc = jx_only(obj, at, known, NELEMS(known), err);

	if (rc == 0)
		rc = read_path(obj, at, "cert", true, &t->cert, err);
	if (rc == 0)
		rc = read_path(obj, at, "key", true, &t->key, err);
	if (rc == 0)
		rc = read_path(obj, at, "client_ca", false, &t->client_ca, err);
	if (rc == 0)
		rc = read_path(obj, at, "client_crl", false, &t->client_crl, err);
	if (rc == 0)
		rc = jx_get_bool(obj, at, "client_required", JX_OPTIONAL, &t->client_required, err);
	if (rc == 0)
		rc = read_min(obj, at, &t->only_1_3, err);
	if (rc == 0)
		rc = read_clients(obj, at, t, err);
	if (rc < 0)
		return rc;
	if (!t->client_ca && (t->client_crl || t->client_required || t->nclients > 0))
		return conf_err(err, at, "client_ca", "it says who vouches for clients' certificates, and is missing");
	return 0;
}

static int conf_tls_read(const json_t *obj, const char *at, struct conf_tls **ret, struct err *err)
{
	json_t *map = NULL;
	int rc = jx_get_object(obj, at, "tls", JX_OPTIONAL, &map, err);

	if (rc < 0 || !map)
		return rc;
	char *here = mem_printf("%s/tls", at);

	*ret = mem_zalloc(sizeof(**ret));
	rc = read_members(map, here, *ret, err);
	free(here);
	return rc;
}

static void conf_tls_free(struct conf_tls **pt)
{
	if (!pt || !*pt)
		return;
	struct conf_tls *t = *pt;

	for (size_t i = 0; i < t->nclients; i++) {
		free(t->clients[i].value);
		free(t->clients[i].tenant);
		free(t->clients[i].principal);
	}
	free(t->clients);
	free(t->cert);
	free(t->key);
	free(t->client_ca);
	free(t->client_crl);
	free(t);
	*pt = NULL;
}

/* The optional map `tls` of a listener. */
static void conf_tls_sample(struct str *out)
{
	str_puts(out,
		 "#    tls:                                    # any address is fine; SIGHUP reads all of it again\n"
		 "#      cert: /etc/toolcrib/server.crt        # with its chain behind it\n"
		 "#      key: /etc/toolcrib/server.key         # nobody else may read it\n"
		 "#      min: \"1.2\"                            # or \"1.3\"\n"
		 "#      client_ca: /etc/toolcrib/clients.crt  # who vouches for clients' certificates\n"
		 "#      client_crl: /etc/toolcrib/clients.crl # which of those are revoked\n"
		 "#      client_required: false                # true: without one nobody comes in\n"
		 "#      clients:                              # whom they stand for; without this list they need a "
		 "key as well\n"
		 "#        - {uri: \"spiffe://example.org/ci\", tenant: acme, principal: build-bot}\n");
}

/* --- the list */

#define UNIX_PATH_MAX_LEN 107           /* bytes of sun_path without its NUL */
#define CONNECTIONS_MAX 100000
#define DEADLINE_MAX_MS 600000

int conf_err(struct err *err, const char *at, const char *name, const char *fmt, ...)
{
	struct str where = STR_INIT;
	char msg[256];
	va_list ap;
	int rc;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	str_puts(&where, at);
	jx_pointer_add(&where, name);
	rc = err_set(err, ERR_INVALID, str_text(&where), "%s", msg);
	str_fini(&where);
	return rc;
}

static const char *const transport_names[] = { [CONF_HTTP] = "http", [CONF_TCP] = "tcp", [CONF_UNIX] = "unix" };

static int read_names(const json_t *obj, const char *at, const char *name, char ***ret, size_t *ret_count,
		      struct err *err)
{
	json_t *list = NULL, *item;
	size_t i;
	int rc = jx_get_array(obj, at, name, JX_OPTIONAL, &list, err);

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) > CONF_NAMES_MAX)
		return conf_err(err, at, name, "at most %d entries", CONF_NAMES_MAX);
	*ret = mem_calloc(json_array_size(list) + 1, sizeof(**ret));
	json_array_foreach(list, i, item) {
		if (!json_is_string(item) || json_string_length(item) == 0)
			return conf_err(err, at, name, "entry %zu must be a text", i + 1);
		(*ret)[(*ret_count)++] = mem_strdup(json_string_value(item));
	}
	return 0;
}

/* An optional name of a tenant or principal, copied. */
static int conf_read_entity(const json_t *obj, const char *at, const char *name, char **ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (!text_entity_name(text, strlen(text)))
		return conf_err(err, at, name, "\"%s\" is no name: lower-case letters, digits, _ . -", text);
	*ret = mem_strdup(text);
	return 0;
}

static int read_uids(const json_t *obj, const char *at, struct conf_listener *l, struct err *err)
{
	static const char *const known[] = { "uid", "tenant", "principal" };
	json_t *list = NULL, *item;
	size_t i;
	int rc = jx_get_array(obj, at, "uids", JX_OPTIONAL, &list, err);

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) > CONF_UIDS_MAX)
		return conf_err(err, at, "uids", "at most %d entries", CONF_UIDS_MAX);
	json_array_foreach(list, i, item) {
		struct conf_uid *u = &l->uids[l->nuids];
		char *here = mem_printf("%s/uids/%zu", at, i);
		int64_t uid = 0;

		if (!json_is_object(item))
			rc = err_set(err, ERR_INVALID, here, "must be a map with uid, tenant and perhaps principal");
		else
			rc = jx_only(item, here, known, NELEMS(known), err);
		if (rc == 0)
			rc = jx_get_int(item, here, "uid", JX_REQUIRED, 0, UINT32_MAX - 1, &uid, err);
		if (rc == 0) {
			u->uid = (uint32_t)uid;
			l->nuids++;
			rc = conf_read_entity(item, here, "tenant", &u->tenant, err);
		}
		if (rc == 0 && !u->tenant)
			rc = err_set(err, ERR_INVALID, here, "tenant is missing");
		if (rc == 0)
			rc = conf_read_entity(item, here, "principal", &u->principal, err);
		free(here);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* "127.0.0.1:8808", "[::1]:0": numbers only, so that what is bound is what stands there.  0, or -1. */
static int check_address(const char *address, bool *ret_loopback)
{
	char host[INET6_ADDRSTRLEN];
	struct in_addr v4;
	struct in6_addr v6;
	const char *colon = strrchr(address, ':');
	uint64_t port;
	size_t len;
	bool bracketed = address[0] == '[';

	if (!colon || text_u64(colon + 1, strlen(colon + 1), &port) < 0 || port > 65535)
		return -1;
	len = (size_t)(colon - address);
	if (bracketed) {
		if (len < 3 || address[len - 1] != ']')
			return -1;
		address++;
		len -= 2;
	}
	if (len >= sizeof(host))
		return -1;
	memcpy(host, address, len);
	host[len] = '\0';
	if (bracketed) {
		if (inet_pton(AF_INET6, host, &v6) != 1)
			return -1;
		*ret_loopback = IN6_IS_ADDR_LOOPBACK(&v6);
		return 0;
	}
	if (inet_pton(AF_INET, host, &v4) != 1)
		return -1;
	*ret_loopback = (ntohl(v4.s_addr) >> 24) == 127;
	return 0;
}

bool conf_is_loopback(const char *address)
{
	bool loopback = false;

	return check_address(address, &loopback) == 0 && loopback;
}

static int check_socket_path(const struct conf_listener *l, const char *at, struct err *err)
{
	if (l->address[0] != '/')
		return conf_err(err, at, "address", "a Unix socket needs an absolute path");
	if (strlen(l->address) > UNIX_PATH_MAX_LEN)
		return conf_err(err, at, "address", "the path of a Unix socket has at most %d bytes, this one %zu",
				UNIX_PATH_MAX_LEN, strlen(l->address));
	return 0;
}

/* "10.0.0.1" or "10.0.0.0/8". */
static bool is_block(const char *text)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	char host[INET6_ADDRSTRLEN];
	struct in6_addr ip;
	uint64_t bits = 0, most;

	if (n >= sizeof(host))
		return false;
	memcpy(host, text, n);
	host[n] = '\0';
	most = inet_pton(AF_INET, host, &ip) == 1 ? 32 : inet_pton(AF_INET6, host, &ip) == 1 ? 128 : 0;
	return most > 0 && (!slash || (text_u64(slash + 1, strlen(slash + 1), &bits) == 0 && bits <= most));
}

static int check_proxies(const struct conf_listener *l, const char *at, struct err *err)
{
	for (size_t i = 0; i < l->nproxies; i++)
		if (!is_block(l->proxies[i]))
			return conf_err(err, at, "proxies", "\"%s\" is no address or block: 10.0.0.1 or 10.0.0.0/8",
					l->proxies[i]);
	return 0;
}

/* "tools.example.com", with a port or without: what clients say, which is no URL. */
static int check_hosts(const struct conf_listener *l, const char *at, struct err *err)
{
	for (size_t i = 0; i < l->nhosts; i++) {
		const char *host = l->hosts[i], *colon = strrchr(host, ':');
		uint64_t port = 1;

		if (colon && !strchr(colon, ']') && (text_u64(colon + 1, strlen(colon + 1), &port) < 0 || port > UINT16_MAX))
			port = 0;
		if (port == 0 || host[0] == '\0' || colon == host || strpbrk(host, "/*@ "))
			return conf_err(err, at, "hosts", "\"%s\" is no name: tools.example.com or tools.example.com:8443",
					host);
	}
	return 0;
}

/* What may stand together. */
static int check_listener(const struct conf_listener *l, const char *at, struct err *err)
{
	bool loopback = false;

	if (l->transport != CONF_UNIX && l->nuids > 0)
		return conf_err(err, at, "uids", "only a Unix socket knows its peer's uid");
	if (l->transport != CONF_HTTP && l->norigins > 0)
		return conf_err(err, at, "origins", "only HTTP has origins");
	if (l->transport != CONF_HTTP && l->nhosts > 0)
		return conf_err(err, at, "hosts", "only HTTP has host names");
	if (l->transport != CONF_HTTP && l->get_opens_sse)
		return conf_err(err, at, "get_opens_sse", "only HTTP has a GET");
	if (l->transport == CONF_UNIX && l->nproxies > 0)
		return conf_err(err, at, "proxies", "a Unix socket has no addresses");
	if (l->transport != CONF_HTTP && (l->head_ms || l->body_ms || l->idle_ms || l->late_ms || l->forwarded))
		return conf_err(err, at, l->forwarded ? "client_address" : l->head_ms ? "head_ms" : l->body_ms
				? "body_ms" : l->idle_ms ? "idle_ms" : "late_ms",
				"only HTTP has heads and bodies");
	if (l->transport == CONF_HTTP && l->credential_ms)
		return conf_err(err, at, "credential_ms", "HTTP has no credential line");
	if (check_proxies(l, at, err) < 0 || check_hosts(l, at, err) < 0)
		return ERR_INVALID;
	if (l->transport == CONF_UNIX && l->tls)
		return conf_err(err, at, "tls", "a Unix socket needs no TLS");
	if (l->tls && l->insecure)
		return conf_err(err, at, "insecure", "there is TLS: take one of the two out");
	if (l->tls && l->tls->nclients > 0 && l->tenant)
		return conf_err(err, at, "tenant", "tls.clients says who a peer is: take one of the two out");
	if (l->principal && !l->tenant)
		return conf_err(err, at, "principal", "a principal needs its tenant beside it");
	if (l->transport == CONF_UNIX)
		return check_socket_path(l, at, err);
	if (check_address(l->address, &loopback) < 0)
		return conf_err(err, at, "address", "\"%s\" is no address: 127.0.0.1:8808 or [::1]:8808", l->address);
	if (!loopback && l->tenant)
		return conf_err(err, at, "tenant", "a listener bound to a tenant must be on loopback or a Unix socket");
	if (!loopback && !l->insecure && !l->tls) {
		int rc = conf_err(err, at, "address", "%s is reachable from other machines and there is no TLS",
				  l->address);

		err_hint(err,
			 "add tls: {cert: FILE, key: FILE}; or, with a TLS proxy in front, say insecure: true; or "
			 "listen on 127.0.0.1");
		return rc;
	}
	return 0;
}

static int read_transport(const json_t *obj, const char *at, enum conf_transport *ret, struct err *err)
{
	const char *name = NULL;
	int rc = jx_get_string(obj, at, "transport", JX_REQUIRED, &name, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < NELEMS(transport_names); i++) {
		if (strcmp(transport_names[i], name) == 0) {
			*ret = (enum conf_transport)i;
			return 0;
		}
	}
	return conf_err(err, at, "transport", "must be one of http, tcp, unix, is \"%s\"", name);
}

static int read_deadlines(const json_t *obj, const char *at, struct conf_listener *l, struct err *err)
{
	const struct { const char *name; uint32_t *ret; } rows[] = {
		{ "head_ms", &l->head_ms }, { "body_ms", &l->body_ms }, { "idle_ms", &l->idle_ms },
		{ "credential_ms", &l->credential_ms }, { "stall_ms", &l->stall_ms }, { "late_ms", &l->late_ms },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		int64_t ms = 0;

		if (jx_get_int(obj, at, rows[i].name, JX_OPTIONAL, 1, DEADLINE_MAX_MS, &ms, err) < 0)
			return ERR_INVALID;
		*rows[i].ret = (uint32_t)ms;
	}
	return 0;
}

/* Which header of a listed proxy names the client: one, so that nobody can slip in the other. */
static int read_client_address(const json_t *obj, const char *at, bool *ret, struct err *err)
{
	const char *name = NULL;

	if (jx_get_string(obj, at, "client_address", JX_OPTIONAL, &name, err) < 0)
		return ERR_INVALID;
	*ret = name && strcmp(name, "forwarded") == 0;
	if (name && !*ret && strcmp(name, "x-forwarded-for") != 0)
		return conf_err(err, at, "client_address", "must be x-forwarded-for or forwarded, is \"%s\"", name);
	return 0;
}

int conf_named(struct err *err)
{
	const char *slash = err ? strrchr(err->where, '/') : NULL;

	return slash ? err_wrap(err, "%s", slash + 1) : ERR_INVALID;
}

static int read_listener(const json_t *obj, const char *at, struct conf_listener *l, struct err *err)
{
	static const char *const known[] = { "transport", "address", "tenant", "principal", "uids", "insecure",
		"origins",
		"hosts", "get_opens_sse", "connections", "proxies", "client_address", "head_ms", "body_ms", "idle_ms",
			"credential_ms",
		"stall_ms", "late_ms", "tls" };
	const char *address = NULL;
	int64_t connections = CONF_CONNECTIONS_DEFAULT;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with transport and address");
	if (jx_only(obj, at, known, NELEMS(known), err) < 0 || read_transport(obj, at, &l->transport, err) < 0 ||
	    jx_get_string(obj, at, "address", JX_REQUIRED, &address, err) < 0)
		return conf_named(err);
	l->address = mem_strdup(address);
	if (conf_read_entity(obj, at, "tenant", &l->tenant, err) < 0 ||
	    conf_read_entity(obj, at, "principal", &l->principal, err) < 0 || read_uids(obj, at, l, err) < 0 ||
	    jx_get_bool(obj, at, "insecure", JX_OPTIONAL, &l->insecure, err) < 0 ||
	    read_names(obj, at, "origins", &l->origins, &l->norigins, err) < 0 ||
	    read_names(obj, at, "hosts", &l->hosts, &l->nhosts, err) < 0 ||
	    read_names(obj, at, "proxies", &l->proxies, &l->nproxies, err) < 0 ||
	    read_client_address(obj, at, &l->forwarded, err) < 0 || read_deadlines(obj, at, l, err) < 0 ||
	    jx_get_bool(obj, at, "get_opens_sse", JX_OPTIONAL, &l->get_opens_sse, err) < 0 ||
	    conf_tls_read(obj, at, &l->tls, err) < 0 ||
	    jx_get_int(obj, at, "connections", JX_OPTIONAL, 1, CONNECTIONS_MAX, &connections, err) < 0)
		return conf_named(err);
	l->connections_max = (uint32_t)connections;
	return check_listener(l, at, err);
}

int conf_list_read(const json_t *list, struct conf *c, struct err *err)
{
	json_t *item;
	size_t i;
	int rc = 0;

	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(err, ERR_INVALID, "/listeners", "must be a list of at least one listener");
	if (json_array_size(list) > CONF_LISTENERS_MAX)
		return err_set(err, ERR_INVALID, "/listeners", "at most %d listeners", CONF_LISTENERS_MAX);
	c->listeners = mem_calloc(json_array_size(list), sizeof(*c->listeners));
	json_array_foreach(list, i, item) {
		char *at = mem_printf("/listeners/%zu", i);

		rc = read_listener(item, at, &c->listeners[c->nlisteners++], err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void conf_list_default(struct conf *c)
{
	c->listeners = mem_zalloc(sizeof(*c->listeners));
	c->nlisteners = 1;
	c->listeners[0].transport = CONF_HTTP;
	c->listeners[0].address = mem_strdup(CONF_ADDRESS_DEFAULT);
	c->listeners[0].connections_max = CONF_CONNECTIONS_DEFAULT;
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

void conf_list_free(struct conf *c)
{
	for (size_t i = 0; i < c->nlisteners; i++) {
		struct conf_listener *l = &c->listeners[i];

		for (size_t k = 0; k < l->nuids; k++) {
			free(l->uids[k].tenant);
			free(l->uids[k].principal);
		}
		free_names(l->origins, l->norigins);
		free_names(l->hosts, l->nhosts);
		free_names(l->proxies, l->nproxies);
		conf_tls_free(&l->tls);
		free(l->address);
		free(l->tenant);
		free(l->principal);
	}
	free(c->listeners);
	c->listeners = NULL;
	c->nlisteners = 0;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_names(char *const *a, size_t na, char *const *b, size_t nb)
{
	if (na != nb)
		return false;
	for (size_t i = 0; i < na; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

static bool same_listener(const struct conf_listener *a, const struct conf_listener *b)
{
	if (a->transport != b->transport || a->insecure != b->insecure || a->connections_max != b->connections_max ||
	    a->nuids != b->nuids || a->get_opens_sse != b->get_opens_sse || a->forwarded != b->forwarded ||
	    a->head_ms != b->head_ms || a->body_ms != b->body_ms || a->idle_ms != b->idle_ms ||
	    a->credential_ms != b->credential_ms || a->stall_ms != b->stall_ms || a->late_ms != b->late_ms ||
	    !a->tls != !b->tls)
		return false;
	for (size_t i = 0; i < a->nuids; i++)
		if (a->uids[i].uid != b->uids[i].uid || !same_text(a->uids[i].tenant, b->uids[i].tenant) ||
		    !same_text(a->uids[i].principal, b->uids[i].principal))
			return false;
	return same_text(a->address, b->address) && same_text(a->tenant, b->tenant) &&
	       same_text(a->principal, b->principal) && same_names(a->origins, a->norigins, b->origins, b->norigins) &&
	       same_names(a->hosts, a->nhosts, b->hosts, b->nhosts) &&
		same_names(a->proxies, a->nproxies, b->proxies, b->nproxies);
}

bool conf_list_equal(const struct conf *a, const struct conf *b)
{
	if (a->nlisteners != b->nlisteners)
		return false;
	for (size_t i = 0; i < a->nlisteners; i++)
		if (!same_listener(&a->listeners[i], &b->listeners[i]))
			return false;
	return true;
}

void conf_list_take_tls(struct conf *c, struct conf *next)
{
	for (size_t i = 0; i < c->nlisteners; i++) {
		struct conf_tls *a = c->listeners[i].tls, *b = next->listeners[i].tls, was;

		if (!a)
			continue;
		was = *a;               /* who looks at it keeps the address */
		*a = *b;
		*b = was;
	}
}

void conf_list_sample(struct str *out)
{
	str_puts(out,
		 "\n# The ways in.  transport: http, tcp or unix.  address: numeric, or the path of a socket.\n"
		 "# Without a list: HTTP on " CONF_ADDRESS_DEFAULT ".  Needs a restart.\n"
		 "#listeners:\n"
		 "#  - transport: http\n"
		 "#    address: \"" CONF_ADDRESS_DEFAULT "\"\n"
		 "#    origins: [\"https://app.example.com\"]  # pages that may call and read answers (CORS)\n"
		 "#    hosts: [tools.example.com]              # further names in the header Host\n"
		 "#    insecure: false                         # true allows an address that is not loopback, without "
		 "TLS\n"
		 "#    proxies: [10.0.0.1, 10.1.0.0/16]        # reverse proxies: they name the client, and pass all "
		 "limits\n"
		 "#    client_address: x-forwarded-for         # where they do: x-forwarded-for or forwarded\n"
		 "#    head_ms: 5000                           # a whole request head; body_ms: 15000, or 64 KiB a "
		 "second\n"
		 "#    idle_ms: 60000                          # between requests; stall_ms: 30000 without a byte "
		 "taken\n"
		 "#    late_ms: 4000                           # so long, or up to twice, until a body that found no room "
		 "is refused\n"
		 "#    get_opens_sse: false                    # true: old clients of HTTP+SSE may be given the MCP "
		 "URL\n");
	str_printf(out, "#    connections: %d\n", CONF_CONNECTIONS_DEFAULT);
	conf_tls_sample(out);
	str_puts(out,
		 "#  - transport: tcp                          # every connection begins with a credential line\n"
		 "#    address: \"127.0.0.1:8809\"\n"
		 "#    credential_ms: 5000                     # for that line\n"
		 "#  - transport: unix\n"
		 "#    address: /run/toolcrib/acme.sock\n"
		 "#    tenant: acme                            # whoever connects is this tenant's principal\n"
		 "#    principal: build-bot\n"
		 "#  - transport: unix\n"
		 "#    address: /run/toolcrib/mcp.sock\n"
		 "#    uids:                                   # the peer's uid says who it is; others need a key\n"
		 "#      - {uid: 1000, tenant: acme, principal: alice}\n");
}

bool conf_same_doors(const struct conf *c, const struct conf *next)
{
	return conf_list_equal(c, next);
}

/* --- doors that are no listeners: for commands from other machines, and for metrics */

/* A key without a door, or a door that is not whole. */
int conf_admin_check(const struct conf *c, struct err *err)
{
	bool keys = false, loopback;

	for (size_t i = 0; i < c->nroles; i++)
		keys = keys || c->roles[i].key;
	if (!c->admin_listen && (c->admin_cert || c->admin_key))
		return conf_err(err, "/admin", c->admin_cert ? "cert" : "key",
				"it is for admin.listen, which is missing");
	if (!c->admin_listen)
		return 0;               /* a key without a door opens nothing */
	if (check_address(c->admin_listen, &loopback) < 0)
		return conf_err(err, "/admin", "listen", "\"%s\" is no address: 0.0.0.0:8809 or [::]:8809",
				c->admin_listen);
	if (!c->admin_cert || !c->admin_key)
		return conf_err(err, "/admin", "listen",
				"commands travel over TLS: admin.cert and admin.key are needed");
	if (!keys) {
		(void)conf_err(err, "/admin", "listen", "no role has a key, so nobody could come in");
		err_hint(err, "toolcrib admin-key NAME makes one, and says what stands under roles");
		return ERR_INVALID;
	}
	return 0;
}

/* OP-101: what others on the way could read goes over TLS, to who has the token. */
static int check_open_metrics(const struct conf *c, struct err *err)
{
	const char *missing = !c->metrics_cert ? "metrics.cert" : !c->metrics_key ? "metrics.key" :
		!c->metrics_token_file ? "metrics.token_file" : NULL;

	if (!missing)
		return 0;
	(void)conf_err(err, "/metrics", "listen", "%s is not loopback: %s is missing", c->metrics_listen, missing);
	err_hint(err, "metrics.cert, metrics.key and metrics.token_file are needed there, or listen on 127.0.0.1");
	return ERR_INVALID;
}

int conf_metrics_check(const struct conf *c, struct err *err)
{
	const char *lone = c->metrics_cert ? "cert" : c->metrics_key ? "key" : c->metrics_token_file ? "token_file" : NULL;
	bool loopback;

	if (!c->metrics_listen)
		return lone ? conf_err(err, "/metrics", lone, "it is for metrics.listen, which is missing") : 0;
	if (c->metrics_listen[0] == '/')
		return !c->metrics_cert && !c->metrics_key ? 0 :
			conf_err(err, "/metrics", "listen", "a socket has no TLS: metrics.cert and metrics.key are for an address");
	if (check_address(c->metrics_listen, &loopback) < 0)
		return conf_err(err, "/metrics", "listen",
				"\"%s\" is neither an address, such as 127.0.0.1:9464, nor the absolute path of a socket",
				c->metrics_listen);
	if (!loopback)
		return check_open_metrics(c, err);
	if (!c->metrics_cert != !c->metrics_key)
		return conf_err(err, "/metrics", c->metrics_cert ? "cert" : "key", "metrics.cert and metrics.key go together");
	return 0;
}
