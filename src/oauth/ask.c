/* Opaque tokens: their issuer is asked what they are (RFC 7662).  Its answer stands for the token's claims, and must say as
 * much as a token would. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "json/json.h"

#include "check_int.h"

#define SECRET_FILE_MAX 4096
#define RETRY_MS 1000

/* b64token of RFC 6750 2.1, of a length that fits into a request. */
bool ask_takes(const char *token, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char ch = token[i];

		if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || strchr("-._~+/=", ch)) || ch == '\0')
			return false;
	}
	return len > 0 && len <= JWT_BYTES_MAX;
}

/* application/x-www-form-urlencoded */
static void put_encoded(struct str *out, const char *p, size_t len)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < len; i++) {
		unsigned char ch = (unsigned char)p[i];

		if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || (ch && strchr("-._~", ch))) {
			str_putc(out, (char)ch);
			continue;
		}
		str_putc(out, '%');
		str_putc(out, hex[ch >> 4]);
		str_putc(out, hex[ch & 15]);
	}
}

/* The secret with which we ask, as it stands in the store or in a file without its line end.  Appended, encoded. */
static int put_secret(const struct oauth_issuer *s, struct str *out, struct err *err)
{
	struct str file = STR_SECRET_INIT;
	char *value = NULL;
	size_t len = 0;
	int rc;

	if (s->conf->ask_secret) {
		rc = s->o->env.secret(s->o->env.secret_arg, s->conf->ask_secret, &value, &len, err);
		if (rc == 0)
			put_encoded(out, value, len);
		secret_free(value);
		return rc;
	}
	rc = path_read(s->conf->ask_secret_file, SECRET_FILE_MAX, &file, err);
	if (rc == 0)
		put_encoded(out, str_text(&file), strcspn(str_text(&file), "\r\n"));
	str_wipe(&file);
	return rc;
}

/* HTTP Basic, both halves encoded first (RFC 6749 2.3.1). */
static int make_authorization(const struct oauth_issuer *s, struct str *out, struct err *err)
{
	struct str pair = STR_SECRET_INIT;
	char *text;
	int rc;

	put_encoded(&pair, s->conf->ask_client, strlen(s->conf->ask_client));
	str_putc(&pair, ':');
	rc = put_secret(s, &pair, err);
	if (rc == 0) {
		text = mem_alloc(text_base64_size(pair.len));
		text_base64(pair.p, pair.len, text);
		str_puts(out, "Basic ");
		str_puts(out, text);
		secret_wipe(text, strlen(text));
		free(text);
	}
	str_wipe(&pair);
	return rc;
}

/* What RFC 7662 leaves out and a token would say: whose it is, that a client is its own subject, and an end: it is asked
 * about again then. */
static void complete(const struct oauth_issuer *s, json_t *claims)
{
	double now_s = (double)(clock_wall_us() / 1000000), most = now_s + OAUTH_CACHE_MS / 1000;
	const json_t *exp = json_object_get(claims, "exp");
	const char *client = jwt_client(claims);

	if (!json_object_get(claims, "iss"))
		(void)json_object_set_new(claims, "iss", json_string(s->conf->issuer));
	if (!json_object_get(claims, "sub") && client)
		(void)json_object_set_new(claims, "sub", json_string(client));
	(void)json_object_del(claims, "iat");
	if (!exp || (json_is_number(exp) && jx_nearest(exp) > most))
		(void)json_object_set_new(claims, "exp", json_integer((json_int_t)most));
}

static int take_answer(struct oauth_check *c, const struct str *body, struct oauth_pass *ret, struct err *err)
{
	struct err detail;
	json_t *claims = NULL;
	int rc = jx_parse(str_text(body), body->len, &claims, &detail);

	if (rc < 0 || !json_is_object(claims)) {
		json_decref(claims);
		log_warn(NULL, "an issuer's answer about a token is no JSON object issuer=%s", c->issuer->conf->issuer);
		return check_unavailable(c->issuer->o, &c->q, RETRY_MS, err);
	}
	if (json_is_true(json_object_get(claims, "active"))) {
		complete(c->issuer, claims);
		rc = check_claims(c->issuer, &c->q, claims, ret, err);
	} else {
		(void)err_set(&detail, ERR_DENIED, "", "its issuer says that it is not active");
		rc = check_refuse(c->issuer->o, &c->q, CRED_INACTIVE, &detail, err);
	}
	json_decref(claims);
	return rc;
}

static void on_answer(void *arg, int rc, const struct str *body, const struct err *why)
{
	static struct log_site site;
	struct oauth_check *c = arg;
	struct oauth_pass pass = { 0 };
	struct err err = { 0 };

	c->get = NULL;
	if (rc == 0) {
		rc = take_answer(c, body, &pass, &err);
	} else {
		if (log_allow(&site))
			log_warn(NULL, "an issuer could not be asked about a token issuer=%s why=\"%s\"", c->issuer->conf->issuer, why->msg);
		rc = check_unavailable(c->issuer->o, &c->q, RETRY_MS, &err);
	}
	check_finish(c, rc, &pass, &err);
}

int ask_start(struct oauth_check *c, struct err *err)
{
	const struct oauth_issuer *s = c->issuer;
	struct str form = STR_SECRET_INIT, authorization = STR_SECRET_INIT;
	int rc = make_authorization(s, &authorization, err);

	str_puts(&form, "token_type_hint=access_token&token=");
	put_encoded(&form, c->token, c->q.len);
	if (rc == 0) {
		metric_inc(METRIC_oauth_introspections);
		rc = oauth_get_start(s->o->env.fetcher, s->server, &(struct oauth_get_req){ s->conf->ask_uri, form.p, authorization.p,
				     ev_now_us(s->o->env.loop) + OAUTH_ASK_MS * 1000ull }, on_answer, c, &c->get, err);
	}
	if (rc < 0)
		log_warn(NULL, "an issuer could not be asked about a token issuer=%s why=\"%s\"", s->conf->issuer, err->msg);
	str_wipe(&form);
	str_wipe(&authorization);
	return rc;
}
