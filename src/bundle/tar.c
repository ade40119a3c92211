/* Heads of tar members (POSIX ustar): as much of the format as a bundle has. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#include "bundle_int.h"

const char *const bundle_part_name[PART_COUNT] = {
	[PART_RECORDS] = "records.jsonl", [PART_TREE] = "tree.json", [PART_NOTES] = "notes.json",
	[PART_EPOCHS] = "epochs.json", [PART_MANIFEST] = "manifest.json",
};

enum { AT_NAME = 0, AT_MODE = 100, AT_UID = 108, AT_GID = 116, AT_SIZE = 124, AT_MTIME = 136, AT_SUM = 148, AT_TYPE = 156,
	AT_MAGIC = 257, SUM_DIGITS = 6, SIZE_DIGITS = 11 };

/* Octal digits and a NUL. */
static void put_octal(uint8_t *p, uint64_t v, unsigned digits)
{
	for (unsigned i = digits; i > 0; i--, v >>= 3)
		p[i - 1] = (uint8_t)('0' + (v & 7));
}

static uint64_t sum_of(const uint8_t head[TAR_BLOCK])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : head[i];
	return sum;
}

void bundle_tar_head(enum bundle_part part, uint64_t size, uint64_t mtime_s, uint8_t ret[TAR_BLOCK])
{
	memset(ret, 0, TAR_BLOCK);
	memcpy(ret + AT_NAME, bundle_part_name[part], strlen(bundle_part_name[part]));
	put_octal(ret + AT_MODE, 0600, 7);
	put_octal(ret + AT_UID, 0, 7);
	put_octal(ret + AT_GID, 0, 7);
	put_octal(ret + AT_SIZE, size, SIZE_DIGITS);
	put_octal(ret + AT_MTIME, mtime_s, SIZE_DIGITS);
	ret[AT_TYPE] = '0';
	memcpy(ret + AT_MAGIC, "ustar\00000", 8);
	put_octal(ret + AT_SUM, sum_of(ret), SUM_DIGITS);
	ret[AT_SUM + SUM_DIGITS + 1] = ' ';
}

static bool get_octal(const uint8_t *p, unsigned digits, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < digits; i++) {
		if (p[i] < '0' || p[i] > '7')
			return false;
		v = v << 3 | (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return p[digits] == '\0';
}

/* What another program packed again has other times and owners, nothing else. */
bool bundle_tar_read(const uint8_t head[TAR_BLOCK], enum bundle_part *ret, uint64_t *ret_size)
{
	uint64_t sum = 0;

	if (!get_octal(head + AT_SUM, SUM_DIGITS, &sum) || head[AT_SUM + SUM_DIGITS + 1] != ' ' || sum != sum_of(head) ||
	    memcmp(head + AT_MAGIC, "ustar", 5) != 0 ||
	    head[AT_TYPE] != '0' || !get_octal(head + AT_SIZE, SIZE_DIGITS, ret_size))
		return false;
	for (unsigned i = 0; i < PART_COUNT; i++) {
		size_t len = strlen(bundle_part_name[i]);

		if (memcmp(head + AT_NAME, bundle_part_name[i], len + 1) == 0) {
			*ret = (enum bundle_part)i;
			return true;
		}
	}
	return false;
}
