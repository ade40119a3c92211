/* Fuzz target: the lines of a child (product.md 6), cut into pieces at any place. */

#include "config.h"

#include <string.h>

#include "../../src/exec/exec_int.h"
#include "base/mem.h"
#include "fuzz.h"
#include "json/json.h"

struct seen {
	struct str trace;               /* one letter and what can be compared of each message */
	unsigned last;
};

static int on_message(void *arg, const struct child_msg *msg, struct err *err)
{
	static const char letters[] = "pltcare";
	struct seen *seen = arg;

	FUZZ_CHECK(msg->len <= CHILD_LINE_MAX);
	FUZZ_CHECK(seen->last == 0);                    /* nothing comes after the last line */
	str_printf(&seen->trace, "%c%zu:%.17g/%.17g;%d;%d;%s", letters[msg->kind], msg->len, msg->done,
		   msg->total, msg->level, msg->code, msg->text ? msg->text : "");
	if (msg->data)
		jx_write(msg->data, &seen->trace);
	switch (msg->kind) {
	case CHILD_PROGRESS:
		FUZZ_CHECK(msg->done >= 0 && msg->total >= -1);
		break;
	case CHILD_LOG:
		FUZZ_CHECK(msg->level >= 0 && msg->level <= 7 && msg->data);
		break;
	case CHILD_TASK:
		FUZZ_CHECK(!msg->data || json_is_object(msg->data));
		break;
	case CHILD_CONTENT:
		FUZZ_CHECK(json_is_object(msg->data));
		break;
	case CHILD_ASK:
		FUZZ_CHECK(json_object_size(msg->data) >= 1 &&
			   json_object_size(msg->data) <= ASK_REQUESTS_MAX);
		FUZZ_CHECK(msg->state_len <= ASK_STATE_MAX);
		break;
	case CHILD_RESULT:
		FUZZ_CHECK(!msg->content || json_is_array(msg->content));
		FUZZ_CHECK(!msg->structured == !msg->structured_text);
		break;
	case CHILD_ERROR:
		FUZZ_CHECK(msg->code != 0 && msg->text);
		break;
	}
	seen->last += msg->kind >= CHILD_ASK;
	return 0;
}

/* All of it in pieces of n bytes; the code that ended it. */
static int read_in_pieces(const char *p, size_t size, size_t n, struct seen *seen, struct err *err)
{
	struct child_reader r = CHILD_READER_INIT;
	int rc = 0;

	for (size_t at = 0; at < size && rc == 0; at += n)
		rc = child_read(&r, p + at, size - at < n ? size - at : n, on_message, seen, err);
	if (rc == 0)
		rc = child_read_end(&r, on_message, seen, err);
	child_reader_fini(&r);
	return rc;
}

FUZZ_TARGET(child)
{
	struct seen whole = { STR_INIT, 0 }, pieces = { STR_INIT, 0 };
	struct err why = { 0 }, same = { 0 };
	/* The first byte also says how the input is cut. */
	size_t n = size ? 1 + data[0] % 32 : 1;
	const char *p = (const char *)data;

	int rc = read_in_pieces(p, size, size ? size : 1, &whole, &why);
	FUZZ_CHECK(rc == 0 || rc == ERR_TOOL || rc == ERR_LIMIT);
	FUZZ_CHECK(rc == 0 || why.msg[0]);
	FUZZ_CHECK(read_in_pieces(p, size, n, &pieces, &same) == rc);
	FUZZ_CHECK(strcmp(why.msg, same.msg) == 0);
	FUZZ_CHECK(strcmp(str_text(&whole.trace), str_text(&pieces.trace)) == 0);
	str_fini(&whole.trace);
	str_fini(&pieces.trace);
	return 0;
}
