/* Fuzz target: headers of age, recipients as text, and a whole file in two pieces.  What is taken as a header is so again
 * without what follows, and never with a byte less; a recipient that is taken is printed as it was. */

#include "config.h"

#include <string.h>

#include "age/age.h"
#include "base/mem.h"
#include "fuzz.h"

static int put(void *arg, const void *p, size_t n, struct err *err)
{
	(void)p;
	(void)err;
	*(size_t *)arg += n;
	return 0;
}

static void check_header(const char *text, size_t size)
{
	struct age_header h, again;
	struct err err;

	if (age_header_parse(text, size, &h, &err) != 1)
		return;
	FUZZ_CHECK(h.len <= size && h.len <= AGE_HEADER_MAX && h.signed_len < h.len);
	FUZZ_CHECK(h.n + h.others > 0 && h.n + h.others <= AGE_STANZAS_MAX);
	FUZZ_CHECK(age_header_parse(text, h.len, &again, &err) == 1 && again.len == h.len);
	FUZZ_CHECK(age_header_parse(text, h.len - 1, &again, &err) == 0);
}

static void check_file(const char *text, size_t size)
{
	struct age_identity id;
	struct age_reader *r;
	size_t plain = 0;
	struct err err;

	memset(id.secret, 0x42, sizeof(id.secret));
	r = age_reader_new(&id, 1, put, &plain);
	if (age_reader_put(r, text, size / 2, &err) == 0 && age_reader_put(r, text + size / 2, size - size / 2, &err) == 0)
		FUZZ_CHECK(age_reader_end(&r, &err) == 0 || plain <= size);
	age_reader_free(&r);
	FUZZ_CHECK(plain <= size);
}

FUZZ_TARGET(age)
{
	char *text = mem_strndup((const char *)data, size), back[AGE_RECIPIENT_SIZE];
	struct age_recipient to;
	struct err err;

	check_header((const char *)data, size);
	check_file((const char *)data, size);
	if (age_recipient_parse(text, &to, &err) == 0) {
		age_recipient_print(&to, back);
		FUZZ_CHECK(strcmp(back, text) == 0);
	}
	free(text);
	return 0;
}
