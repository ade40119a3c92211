/* What a record commits to and what a payload holds: the bytes of column cm, and of a payload that was opened.  The first byte
 * says which.  What is taken is written again as the same bytes. */
#include "config.h"

#include <string.h>

#include "keys/commit.h"
#include "base/text.h"
#include "fuzz.h"

static void put_be(struct str *out, uint64_t v, unsigned bytes)
{
	while (bytes-- > 0)
		str_putc(out, (char)(v >> 8 * bytes));
}

static void check_commitments(const uint8_t *data, size_t size)
{
	struct audit_cm cm[AUDIT_COMMITS_MAX];
	struct str again = STR_INIT;
	size_t n;

	if (!audit_cm_read(data, size, cm, &n))
		return;
	FUZZ_CHECK(n > 0 && n <= AUDIT_COMMITS_MAX);
	for (size_t i = 0; i < n; i++) {
		FUZZ_CHECK(i == 0 || cm[i].ctag > cm[i - 1].ctag);
		put_be(&again, cm[i].ctag, 2);
		str_put(&again, cm[i].commitment, 32);
	}
	FUZZ_CHECK(again.len == size && memcmp(again.p, data, size) == 0);
	str_fini(&again);
}

static void check_values(const uint8_t *data, size_t size)
{
	struct audit_kept kept[AUDIT_COMMITS_MAX];
	struct str again = STR_INIT;
	size_t n;

	if (!audit_kept_read(data, size, kept, &n))
		return;
	FUZZ_CHECK(n <= AUDIT_COMMITS_MAX);
	for (size_t i = 0; i < n; i++) {
		FUZZ_CHECK(i == 0 || kept[i].ctag > kept[i - 1].ctag);
		put_be(&again, kept[i].ctag, 2);
		put_be(&again, kept[i].len, 4);
		str_put(&again, kept[i].p, kept[i].len);
	}
	FUZZ_CHECK(again.len == size && (size == 0 || memcmp(again.p, data, size) == 0));
	str_fini(&again);
}

FUZZ_TARGET(kept)
{
	if (size == 0)
		return 0;
	if (data[0] == 'c')
		check_commitments(data + 1, size - 1);
	else
		check_values(data + 1, size - 1);
	return 0;
}
