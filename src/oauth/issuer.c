/* One issuer as the configuration has it: where its keys are, or who is asked, and the words of its scopes. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "tenant/scope.h"

#include "oauth_int.h"

/* The union of all words must be a set, too: a token may have each of them. */
static int read_words(struct oauth_issuer *s, struct err *err)
{
	struct str all = STR_INIT;
	struct scopes *set = NULL;
	int rc = 0;

	s->words = mem_calloc(s->conf->nwords, sizeof *s->words);
	for (size_t i = 0; rc == 0 && i < s->conf->nwords; i++) {
		const struct conf_word *w = &s->conf->words[i];
		struct str text = STR_INIT;

		for (size_t k = 0; k < w->nscopes; k++)
			str_printf(&text, "%s%s", k ? " " : "", w->scopes[k]);
		str_printf(&all, "%s%s", i ? " " : "", text.p);
		s->words[i].word = w->word;
		s->nwords++;
		rc = scopes_parse(text.p, text.len, &s->words[i].scopes, err);
		if (rc < 0)
			rc = err_wrap(err, "word %s", w->word);
		str_fini(&text);
	}
	if (rc == 0)
		rc = scopes_parse(str_text(&all), all.len, &set, err);
	scopes_unref(&set);
	str_fini(&all);
	return rc;
}

int issuer_init(struct oauth_issuer *s, struct oauth *o, const struct conf_issuer *conf, struct err *err)
{
	int rc;

	s->o = o;
	s->conf = conf;
	list_init(&s->waiting);
	rc = read_words(s, err);
	if (rc == 0)
		rc = conf->ask_uri ? oauth_server_new(conf, &s->server, err) : keyset_new(&o->keyset_env, conf, &s->keys, err);
	return rc < 0 ? err_wrap(err, "oauth.issuers: %s", conf->issuer) : 0;
}

void issuer_fini(struct oauth_issuer *s)
{
	for (size_t i = 0; i < s->nwords; i++)
		scopes_unref(&s->words[i].scopes);
	free(s->words);
	keyset_free(&s->keys);
	oauth_server_drop(&s->server);
}
