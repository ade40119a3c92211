/* What a listener says of TLS: files by their paths, which are not opened here, and who a client's certificate stands for. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

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
			return conf_err(err, at, "dns", "\"%s\" is no whole name in lower case; nothing stands for others", c->value);
		return 0;
	case CONF_BY_SPKI:
		if (strlen(c->value) != SPKI_CHARS || strspn(c->value, hex) != SPKI_CHARS) {
			int rc = conf_err(err, at, "spki", "must be %d hex digits in lower case, SHA-256 of the public key", SPKI_CHARS);

			err_hint(err, "openssl x509 -in CERT -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum");
			return rc;
		}
		return 0;
	}
	return 0;
}

static int read_client(const json_t *obj, const char *at, struct conf_client *c, struct err *err)
{
	static const char *const known[] = { "uri", "dns", "spki", "tenant", "principal" };
	size_t found = 0;
	int rc;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with uri, dns or spki, tenant and perhaps principal");
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
	static const char *const known[] = { "cert", "key", "client_ca", "client_crl", "client_required", "min", "clients" };

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

int conf_tls_read(const json_t *obj, const char *at, struct conf_tls **ret, struct err *err)
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

void conf_tls_free(struct conf_tls **pt)
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

void conf_tls_sample(struct str *out)
{
	str_puts(out,
		 "#    tls:                                    # any address is fine; SIGHUP reads all of it again\n"
		 "#      cert: /etc/toolcrib/server.crt        # with its chain behind it\n"
		 "#      key: /etc/toolcrib/server.key         # nobody else may read it\n"
		 "#      min: \"1.2\"                            # or \"1.3\"\n"
		 "#      client_ca: /etc/toolcrib/clients.crt  # who vouches for clients' certificates\n"
		 "#      client_crl: /etc/toolcrib/clients.crl # which of those are revoked\n"
		 "#      client_required: false                # true: without one nobody comes in\n"
		 "#      clients:                              # whom they stand for; without this list they need a key as well\n"
		 "#        - {uri: \"spiffe://example.org/ci\", tenant: acme, principal: build-bot}\n");
}
