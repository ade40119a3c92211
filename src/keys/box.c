/* One value, encrypted in its row. */
#include "config.h"

#include "vault_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "db/db.h"

void vault_box_read(struct db_stmt *st, struct vault_box *ret)
{
	size_t len;
	const char *text = db_col_text(st, 1, &len);

	ret->id = db_col_i64(st, 0);
	ret->name = mem_strndup(text, len);
	text = db_col_text(st, 2, &len);
	(void)snprintf(ret->key_id, sizeof(ret->key_id), "%.*s", (int)len, text);
	const void *box = db_col_blob(st, 3, &ret->len);
	ret->box = mem_dup(box ? box : "", ret->len);
}

void vault_box_fini(struct vault_box *b)
{
	free(b->name);
	free(b->box);
	b->name = NULL;
	b->box = NULL;
}

/* SEC S-342: table, row, column, key; and the name, so that nobody can give the row another one. */
static char *place_of(const struct vault_box *b)
{
	return mem_printf("secret|%" PRId64 "|%s|value|%s", b->id, b->name, b->key_id);
}

void vault_box_seal(struct vault_box *b, const struct keyfile *k, const char *value, size_t len)
{
	memcpy(b->key_id, k->id, sizeof(b->key_id));
	char *place = place_of(b);
	free(b->box);
	b->len = len + AEAD_OVERHEAD;
	b->box = mem_alloc(b->len);
	aead_seal(k->key, place, value, len, b->box);
	free(place);
}

int vault_box_open(const struct vault_box *b, const struct keyfile *k, char **ret, size_t *ret_len, struct err *err)
{
	if (b->len < AEAD_OVERHEAD)
		return err_set(err, ERR_CORRUPT, "", "the secret %s is damaged in the store", b->name);
	size_t len = b->len - AEAD_OVERHEAD;
	char *value = secret_alloc(len + 1), *place = place_of(b);
	int rc = aead_open(k->key, place, b->box, b->len, value);
	free(place);
	if (rc < 0) {
		secret_free(value);
		return err_set(err, ERR_CORRUPT, "", "the secret %s is damaged in the store", b->name);
	}
	*ret = value;
	*ret_len = len;
	return 0;
}
