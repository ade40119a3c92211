/* What the configuration names and no tool may see: the store, the file itself, and every path of a secret in it
 * (HARDENING F-6); and what it names that the server reads, which is all that it can (1.3).  The app hands the first
 * list to the sandbox of all tools at its start and when it reads the file again.  A new key of the configuration that
 * names a secret, or a file, has its line here.  Any thread. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"

struct names { char **at; size_t n; };

/* path: NULL = none. */
static void add(struct names *names, const char *path)
{
	if (!path || !*path)
		return;
	names->at = mem_realloc(names->at, (names->n + 2) * sizeof(*names->at));
	names->at[names->n++] = path_absolute(path);
	names->at[names->n] = NULL;
}

/* What every program reads anyway cannot be hidden from one, and certificates of authorities are no secrets; those for
 * clients are hidden where they lie with what is. */
static void add_authorities(struct names *names, const char *path)
{
	static const char *const everywhere[] = { "/usr/", "/etc/ssl/certs/", "/etc/ca-certificates/", "/etc/pki/" };

	for (size_t i = 0; path && i < NELEMS(everywhere); i++) {
		if (strncmp(path, everywhere[i], strlen(everywhere[i])) == 0)
			return;
	}
	add(names, path);
}

static void add_listeners(struct names *names, const struct conf *c)
{
	for (size_t i = 0; i < c->nlisteners; i++) {
		const struct conf_tls *tls = c->listeners[i].tls;
		if (!tls)
			continue;
		add(names, tls->key);
		add_authorities(names, tls->client_ca);
	}
}

char **conf_hidden(const struct conf *c, const char *store)
{
	struct names names = { NULL, 0 };

	add(&names, store);
	if (!c)
		return names.at;
	add(&names, c->file);
	add(&names, c->signer_dir);
	add(&names, c->signer_socket);
	add(&names, c->anchor_file);
	add(&names, c->admin_key);
	add(&names, c->admin_socket);
	add(&names, c->metrics_key);
	add(&names, c->metrics_token_file);
	add(&names, c->otel_headers_file);
	if (c->metrics_listen && c->metrics_listen[0] == '/')
		add(&names, c->metrics_listen);
	add_listeners(&names, c);
	for (size_t i = 0; i < c->nissuers; i++)
		add(&names, c->issuers[i].ask_secret_file);
	for (size_t i = 0; i < c->nsinks; i++) {
		add(&names, c->sinks[i].path);
		add(&names, c->sinks[i].secret_file);
		add(&names, c->sinks[i].key);
	}
	for (size_t i = 0; i < c->nalerts; i++) {
		add(&names, c->alerts[i].secret_file);
		add(&names, c->alerts[i].authorization_file);
		add(&names, c->alerts[i].password_file);
	}
	for (size_t i = 0; i < c->npdps; i++) {
		add(&names, c->pdps[i].socket);
		add(&names, c->pdps[i].key);
	}
	return names.at;
}

char **conf_read_files(const struct conf *c)
{
	struct names names = { mem_zalloc(sizeof(char *)), 0 };

	add(&names, c->file);
	add(&names, c->admin_cert);
	add(&names, c->admin_key);
	add(&names, c->metrics_cert);
	add(&names, c->metrics_key);
	add(&names, c->metrics_token_file);
	add(&names, c->otel_headers_file);
	add(&names, c->otel_ca);
	for (size_t i = 0; i < c->nlisteners; i++) {
		const struct conf_tls *tls = c->listeners[i].tls;
		const char *const files[] = { tls ? tls->cert : NULL, tls ? tls->key : NULL, tls ? tls->client_ca : NULL,
					      tls ? tls->client_crl : NULL };

		for (size_t f = 0; f < NELEMS(files); f++)
			add(&names, files[f]);
	}
	for (size_t i = 0; i < c->nissuers; i++) {
		add(&names, c->issuers[i].ask_secret_file);
		add(&names, c->issuers[i].jwks_file);
		add(&names, c->issuers[i].ca_file);
	}
	for (size_t i = 0; i < c->nsinks; i++) {
		add(&names, c->sinks[i].secret_file);
		add(&names, c->sinks[i].ca);
		add(&names, c->sinks[i].cert);
		add(&names, c->sinks[i].key);
	}
	for (size_t i = 0; i < c->nalerts; i++) {
		add(&names, c->alerts[i].secret_file);
		add(&names, c->alerts[i].authorization_file);
		add(&names, c->alerts[i].password_file);
		add(&names, c->alerts[i].ca);
	}
	for (size_t i = 0; i < c->npdps; i++) {
		add(&names, c->pdps[i].ca);
		add(&names, c->pdps[i].cert);
		add(&names, c->pdps[i].key);
	}
	return names.at;
}

void conf_hidden_free(char ***list)
{
	for (char **at = *list; at && *at; at++)
		free(*at);
	free(*list);
	*list = NULL;
}
