/* An issuer of tokens for black-box tests, which have no library for signatures.  Lines of words with tabs between them in,
 * one line out for each:
 *	key NAME ALG KID	a new key; its public half as a JWK
 *	sign NAME HEADER CLAIMS	a token: both are JSON, used as they are */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/token.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/text.h"

#define RSA_BITS 2048
#define WORDS 4

static void answer(struct map *keys, char **word, struct str *out)
{
	struct token_key *k = map_get_z(keys, word[1]);

	if (strcmp(word[0], "key") == 0) {
		if (k)
			token_key_free(&k);
		k = token_key_new(word[2], RSA_BITS);
		(void)map_set_z(keys, word[1], k);
		token_key_jwk(k, word[3], word[2], out);
	} else if (k) {
		token_sign(k, word[2], word[3], out);
	}
}

int main(void)
{
	struct map *keys;
	char *line = NULL, *word[WORDS], *rest;
	size_t size = 0;

	if (secret_init() < 0)
		return 1;
	keys = map_new();
	while (getline(&line, &size, stdin) > 0) {
		struct str out = STR_INIT;
		size_t n = 0;

		line[strcspn(line, "\n")] = '\0';
		for (rest = line; n < WORDS && rest; n++)
			word[n] = strsep(&rest, "\t");
		if (n < WORDS)
			return 1;
		answer(keys, word, &out);
		puts(str_text(&out));
		fflush(stdout);
		str_fini(&out);
	}
	void *k;
	for (size_t it = 0; map_next(keys, &it, NULL, NULL, &k);) {
		struct token_key *key = k;

		token_key_free(&key);
	}
	map_free(&keys);
	free(line);
	return 0;
}
