/* What the claims of a verified token mean here: tenant, principal, scopes, by the tables of the configuration. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "tenant/scope.h"

#include "oauth_int.h"

/* The name that a claim stands for; NULL: none. */
static const char *name_of(const struct conf_claim *claim, const json_t *claims)
{
	const char *value;

	if (claim->fixed)
		return claim->fixed;
	value = jwt_text(claims, claim->claim);         /* two values are a list, and no text (SEC S-408) */
	if (!value || claim->nvalues == 0)
		return value;
	for (size_t i = 0; i < claim->nvalues; i++) {
		if (strcmp(claim->values[i].value, value) == 0)
			return claim->values[i].name;
	}
	return NULL;
}

/* A subject of its own: no row of a principal has a name like this, and no two issuers share one. */
static void own_subject(const char *issuer, const char *sub, struct oauth_identity *ret)
{
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];
	int n = snprintf(ret->own, sizeof ret->own, "%s %s", issuer, sub);

	if (n > 0 && (size_t)n < sizeof ret->own)
		return;
	digest_sha256(sub, strlen(sub), digest);
	text_hex(digest, sizeof digest, hex);
	digest_sha256(issuer, strlen(issuer), digest);
	text_hex(digest, sizeof digest, ret->own);
	(void)snprintf(ret->own + 2 * DIGEST_SIZE, sizeof ret->own - 2 * DIGEST_SIZE, " %s", hex);      /* fits */
}

/* The scopes of one word, appended; a word that nobody knows gives nothing (SEC S-407). */
static void put_word(const struct oauth_issuer *s, const char *p, size_t len, struct str *out)
{
	for (size_t i = 0; i < s->nwords; i++) {
		if (!text_eq(p, len, s->words[i].word))
			continue;
		str_puts(out, out->len > 0 ? " " : "");
		scopes_print(s->words[i].scopes, out);
	}
}

/* `scope` (RFC 9068 2.2.3), or `scp` where an issuer calls it so: words with blanks between them, or a list of them. */
static void put_words(const struct oauth_issuer *s, const json_t *claims, struct str *out)
{
	const json_t *v = json_object_get(claims, "scope"), *one;
	size_t i;

	if (!v)
		v = json_object_get(claims, "scp");
	json_array_foreach(v, i, one) {
		if (json_is_string(one))
			put_word(s, json_string_value(one), json_string_length(one), out);
	}
	for (const char *p = json_is_string(v) ? json_string_value(v) : ""; *p;) {
		size_t n = strcspn(p, " ");

		put_word(s, p, n, out);
		p += n + (p[n] == ' ');
	}
}

int oauth_identify(const struct oauth_issuer *s, const json_t *claims, struct oauth_identity *ret, enum cred_refusal *ret_why,
		   struct err *err)
{
	const struct conf_claim *principal = &s->conf->principal;
	const char *tenant = name_of(&s->conf->tenant, claims), *sub = jwt_text(claims, "sub");
	struct str words = STR_INIT;
	int rc;

	*ret_why = CRED_UNMAPPED;
	if (!tenant)
		return err_set(err, ERR_DENIED, "", "the claim of the tenant names none");
	ret->known_only = principal->fixed || principal->claim;
	ret->subject = ret->known_only ? name_of(principal, claims) : ret->own;
	if (!ret->subject || !sub)
		return err_set(err, ERR_DENIED, "", "the claim of the principal names none");
	own_subject(s->conf->issuer, sub, ret);
	put_words(s, claims, &words);
	rc = scopes_parse(str_text(&words), words.len, &ret->scopes, err);
	str_fini(&words);
	if (rc < 0)
		return err_set(err, ERR_DENIED, "", "too many scopes");
	ret->tenant = tenant;
	return 0;
}
