/* The signer: what it signs, what it refuses, and that it keeps its word over a restart. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "sign/client.h"
#include "tlog/signer.h"

#include "sign_int.h"
#include "tmpdir.h"
#include "suite.h"

#define SYSTEM "inst"
#define TENANT "inst/t/acme"

struct fix {
	char *dir;
	struct signer *s;
	struct sign_msg reply;
	struct err err;
};

static int ask(struct fix *f, struct sign_msg req)
{
	sign_msg_fini(&f->reply);
	if (!req.text)
		req.text = mem_strdup("");
	assert_int_equal(signer_answer(f->s, &req, &f->reply, &f->err), 0);
	free(req.text);
	return f->reply.op == SIGN_ERROR ? ERR_DENIED : 0;
}

static void reopen(struct fix *f)
{
	signer_close(&f->s);
	assert_int_equal(signer_open(f->dir, &f->s, &f->err), 0);
}

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof *f);

	f->dir = tmpdir_make();
	*state = f;
	if (signer_open(f->dir, &f->s, &f->err) < 0 || ask(f, (struct sign_msg){ .op = SIGN_CREATE, .text = mem_strdup(SYSTEM) }) < 0)
		return -1;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	sign_msg_fini(&f->reply);
	signer_close(&f->s);
	tmpdir_remove(f->dir);
	free(f);
	return 0;
}

/* A tree of n leaves that are all alike but for one letter. */
static void grow(struct tree *t, unsigned n, char letter)
{
	uint8_t leaf[TREE_HASH];

	*t = (struct tree){ 0 };
	for (unsigned i = 0; i < n; i++) {
		memset(leaf, letter, sizeof leaf);
		leaf[0] = (uint8_t)i;
		tree_append(t, leaf);
	}
}

/* What signing `to` leaves says, with the proof that `from` of them grew into it. */
static enum sign_verdict sign(struct fix *f, const char *origin, unsigned from, unsigned to, char letter)
{
	struct tree old, now;
	struct tree_consistency since;
	struct sign_head head = { .origin = mem_strdup(origin), .size = to };
	uint8_t leaf[TREE_HASH], proof[TREE_PROOF_MAX][TREE_HASH];
	enum sign_verdict v;

	grow(&old, from, letter);
	grow(&now, to, letter);
	tree_consistency_start(&since, from);
	for (unsigned i = from; i < to; i++) {
		memset(leaf, letter, sizeof leaf);
		leaf[0] = (uint8_t)i;
		tree_consistency_append(&since, leaf);
	}
	tree_consistency_prove(&old, &since, proof, &head.nproof);
	head.proof = proof;
	tree_root(&now, head.root);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_SIGN, .head = &head, .nhead = 1 }), 0);
	assert_int_equal(f->reply.npair, 1);
	v = f->reply.pair[0].verdict;
	free(head.origin);
	return v;
}

static int begin(struct fix *f, const char *origin)
{
	struct sign_head head = { .origin = mem_strdup(origin) };
	int rc = ask(f, (struct sign_msg){ .op = SIGN_OPEN, .head = &head, .nhead = 1 });

	free(head.origin);
	return rc;
}

static void a_log_is_signed_as_it_grows(void **state)
{
	struct fix *f = *state;

	assert_int_equal(sign(f, SYSTEM, 0, 3, 'a'), SIGN_SIGNED);
	assert_int_equal(sign(f, SYSTEM, 3, 3, 'a'), SIGN_SIGNED);
	assert_int_equal(sign(f, SYSTEM, 3, 17, 'a'), SIGN_SIGNED);
	reopen(f);
	assert_int_equal(sign(f, SYSTEM, 17, 100, 'a'), SIGN_SIGNED);
}

/* AUDIT A-712: growing sizes only, the same size only with the same root, and nothing without the right proof. */
static void a_contradiction_gets_no_signature(void **state)
{
	struct fix *f = *state;
	static const struct sign_pair none = { .verdict = SIGN_CONTRADICTION };

	assert_int_equal(sign(f, SYSTEM, 0, 17, 'a'), SIGN_SIGNED);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(sign(f, SYSTEM, 16, 16, 'a'), SIGN_CONTRADICTION);
		assert_int_equal(sign(f, SYSTEM, 17, 17, 'b'), SIGN_CONTRADICTION);
		assert_int_equal(sign(f, SYSTEM, 17, 30, 'b'), SIGN_CONTRADICTION);
		assert_int_equal(sign(f, SYSTEM, 16, 30, 'a'), SIGN_CONTRADICTION);
		assert_int_equal(sign(f, SYSTEM, 0, 30, 'a'), SIGN_CONTRADICTION);
		assert_memory_equal(&f->reply.pair[0], &none, sizeof none);
		reopen(f);
	}
	assert_int_equal(sign(f, SYSTEM, 17, 30, 'a'), SIGN_SIGNED);
}

/* AUDIT A-713 */
static void a_log_is_begun_once(void **state)
{
	struct fix *f = *state;

	assert_int_equal(sign(f, TENANT, 0, 1, 'a'), SIGN_UNKNOWN);
	assert_int_equal(begin(f, TENANT), 0);
	assert_int_equal(sign(f, TENANT, 0, 5, 'a'), SIGN_SIGNED);
	assert_int_equal(begin(f, TENANT), ERR_DENIED);
	assert_int_equal(begin(f, SYSTEM), ERR_DENIED);
	assert_int_equal(begin(f, "other/t/acme"), ERR_DENIED);
	assert_int_equal(begin(f, "inst/t/two words"), ERR_DENIED);
	reopen(f);
	assert_int_equal(begin(f, TENANT), ERR_DENIED);
	assert_int_equal(sign(f, TENANT, 0, 5, 'b'), SIGN_CONTRADICTION);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_CREATE, .text = mem_strdup("again") }), ERR_DENIED);
}

static void signatures_are_by_the_keys_it_names(void **state)
{
	struct fix *f = *state;
	struct sign_head head = { .origin = mem_strdup(SYSTEM), .size = 3 };
	struct sign_msg who = { 0 };
	struct str note = STR_INIT;
	struct note_key key;
	struct note n;
	struct tree t;

	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_HELLO }), 0);
	who = f->reply;
	f->reply = (struct sign_msg){ 0 };
	assert_int_equal(sign(f, SYSTEM, 0, 3, 'a'), SIGN_SIGNED);
	grow(&t, 3, 'a');
	tree_root(&t, head.root);
	assert_int_equal(sign_check_pair(who.who, &head, &f->reply.pair[0], true, &f->err), 0);
	sign_note(who.who, &head, &f->reply.pair[0], &note);
	assert_int_equal(note_parse(note.p, note.len, &n), 0);
	assert_int_equal(epoch_key_set(&key, SYSTEM, 0, who.who->epoch_key), 0);
	assert_int_equal(note_check(&n, &key), 1);
	head.size = 4;
	assert_int_equal(sign_check_pair(who.who, &head, &f->reply.pair[0], true, &f->err), ERR_INVALID);
	str_fini(&note);
	sign_msg_fini(&who);
	free(head.origin);
}

static int rotate(struct fix *f, unsigned from_epoch, unsigned size, char letter)
{
	struct sign_head head = { .origin = mem_strdup(SYSTEM), .size = size };
	struct tree t;
	int rc;

	grow(&t, size, letter);
	tree_root(&t, head.root);
	rc = ask(f, (struct sign_msg){ .op = SIGN_ROTATE, .number = from_epoch, .head = &head, .nhead = 1 });
	free(head.origin);
	return rc;
}

/* AUDIT */
static void an_epoch_begins_with_a_checkpoint_and_ends_its_predecessor(void **state)
{
	struct fix *f = *state;
	uint8_t before[SIGN_PUBLIC_SIZE], text[EPOCH_CERT_TEXT];
	char *first = mem_printf("%s/epoch-0.key", f->dir), *second = mem_printf("%s/epoch-1.key", f->dir);

	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_HELLO }), 0);
	memcpy(before, f->reply.who->epoch_key, sizeof before);
	assert_int_equal(sign(f, SYSTEM, 0, 3, 'a'), SIGN_SIGNED);
	assert_true(path_exists(first));
	assert_int_equal(rotate(f, 0, 3, 'b'), ERR_DENIED);
	assert_int_equal(rotate(f, 1, 3, 'a'), ERR_DENIED);
	assert_int_equal(rotate(f, 0, 3, 'a'), 0);
	for (int again = 0; again < 2; again++) {
		const struct sign_who *who = f->reply.who;

		assert_int_equal(who->epoch, 1);
		epoch_cert_text(1, who->epoch_key, text);
		assert_true(sign_check(before, text, sizeof text, who->cert));
		assert_int_equal(f->reply.npair, again ? 0 : 1);
		assert_false(path_exists(first));
		assert_true(path_exists(second));
		/* After a crash its owner learns of it once more. */
		reopen(f);
		assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_HELLO }), 0);
	}
	free(first);
	free(second);
}

/* OP-512: by name, where it goes on, and a letter for its leaves. */
static int succeed(struct fix *f, const char *name, unsigned size, char letter)
{
	struct sign_head head = { .origin = mem_strdup(name), .size = size };
	struct tree t;
	int rc;

	grow(&t, size, letter);
	tree_root(&t, head.root);
	rc = ask(f, (struct sign_msg){ .op = SIGN_SUCCEED, .head = &head, .nhead = 1 });
	free(head.origin);
	return rc;
}

static void a_log_goes_on_under_the_next_name(void **state)
{
	static const char *const wrong[] = { SYSTEM "/r/2", SYSTEM "/r/01", SYSTEM "/r/0", SYSTEM, "other/r/1", TENANT "/r/1",
		SYSTEM "/r/", "/r/1", SYSTEM "/r/99999999999999999999" };
	struct fix *f = *state;

	assert_int_equal(sign(f, SYSTEM, 0, 5, 'a'), SIGN_SIGNED);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(succeed(f, wrong[i], 3, 'c'), ERR_DENIED);
	assert_int_equal(sign(f, SYSTEM, 5, 5, 'a'), SIGN_SIGNED);      /* nothing of it was done */
	for (int again = 0; again < 2; again++) {
		assert_int_equal(succeed(f, SYSTEM "/r/1", 3, 'c'), 0);
		reopen(f);
	}
	assert_int_equal(succeed(f, SYSTEM "/r/1", 3, 'd'), ERR_DENIED);
	assert_int_equal(succeed(f, SYSTEM "/r/1", 4, 'c'), ERR_DENIED);
	/* The name of before is closed, for ever, and what it had is still there to be compared. */
	assert_int_equal(sign(f, SYSTEM, 5, 5, 'a'), SIGN_CONTRADICTION);
	assert_int_equal(rotate(f, 0, 5, 'a'), ERR_DENIED);
	assert_int_equal(sign(f, SYSTEM "/r/1", 3, 3, 'c'), SIGN_SIGNED);
	assert_int_equal(sign(f, SYSTEM "/r/1", 3, 3, 'd'), SIGN_CONTRADICTION);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_LOGS }), 0);
	assert_int_equal(f->reply.nhead, 2);
	assert_int_equal(f->reply.head[0].size, 5);
	assert_int_equal(succeed(f, SYSTEM "/r/2", 0, 'x'), 0);
	assert_int_equal(sign(f, SYSTEM "/r/1", 3, 3, 'c'), SIGN_CONTRADICTION);
	assert_int_equal(succeed(f, SYSTEM "/r/1", 3, 'c'), ERR_DENIED);
}

static void epochs_that_are_over_can_be_asked_for(void **state)
{
	struct fix *f = *state;
	uint8_t key[3][SIGN_PUBLIC_SIZE], text[EPOCH_CERT_TEXT];

	assert_int_equal(sign(f, SYSTEM, 0, 3, 'a'), SIGN_SIGNED);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_HELLO }), 0);
	for (unsigned n = 0;; n++) {
		memcpy(key[n], f->reply.who->epoch_key, sizeof key[n]);
		if (n == 2)
			break;
		assert_int_equal(rotate(f, n, 3, 'a'), 0);
		reopen(f);
		assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_HELLO }), 0);
	}
	for (unsigned n = 1; n <= 2; n++) {
		assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_PAST, .number = n }), 0);
		assert_int_equal(f->reply.who->epoch, n);
		assert_memory_equal(f->reply.who->epoch_key, key[n], sizeof key[n]);
		epoch_cert_text(n, key[n], text);
		assert_true(sign_check(key[n - 1], text, sizeof text, f->reply.who->cert));
	}
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_PAST, .number = 0 }), ERR_DENIED);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_PAST, .number = 3 }), ERR_DENIED);
}

static void what_it_knows_can_be_listed(void **state)
{
	struct fix *f = *state;

	assert_int_equal(begin(f, TENANT), 0);
	assert_int_equal(sign(f, TENANT, 0, 5, 'a'), SIGN_SIGNED);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_LOGS }), 0);
	assert_int_equal(f->reply.nhead, 2);
	assert_string_equal(f->reply.head[0].origin, SYSTEM);
	assert_int_equal(f->reply.head[0].size, 0);
	assert_string_equal(f->reply.head[1].origin, TENANT);
	assert_int_equal(f->reply.head[1].size, 5);
	assert_int_equal(ask(f, (struct sign_msg){ .op = SIGN_LOGS, .number = 2 }), 0);
	assert_int_equal(f->reply.nhead, 0);
}

static void a_state_that_cannot_be_written_signs_nothing(void **state)
{
	struct fix *f = *state;
	struct sign_head head = { .origin = mem_strdup(SYSTEM), .size = 1 };
	struct sign_msg req = { .op = SIGN_SIGN, .text = mem_strdup(""), .head = &head, .nhead = 1 }, reply;
	char *block = mem_printf("%s/state.new", f->dir);

	assert_int_equal(mkdir(block, 0700), 0);
	assert_int_equal(signer_answer(f->s, &req, &reply, &f->err), ERR_CONFLICT);
	assert_int_equal(reply.op, SIGN_ERROR);
	assert_int_equal(reply.npair, 0);
	assert_int_equal(rmdir(block), 0);
	sign_msg_fini(&reply);
	free(block);
	free(req.text);
	free(head.origin);
}

static void a_directory_has_one_signer_and_a_damaged_one_none(void **state)
{
	struct fix *f = *state;
	char *file = mem_printf("%s/state", f->dir);
	struct signer *s = NULL;
	struct str text = STR_INIT;

	signer_close(&f->s);
	assert_int_equal(path_read(file, SIGNER_FILE_MAX, &text, &f->err), 0);
	assert_int_equal(path_replace(file, 0600, text.p, text.len - 2, &f->err), 0);
	assert_int_equal(signer_open(f->dir, &s, &f->err), ERR_INVALID);
	assert_string_equal(f->err.where, "line 6");
	assert_int_equal(path_replace(file, 0600, text.p, text.len, &f->err), 0);
	assert_int_equal(signer_open(f->dir, &f->s, &f->err), 0);
	str_fini(&text);
	free(file);
}

static int init(void **state)
{
	return secret_init();
}

SINGLE_THREAD_SUITE(signer)
{
#define WITH_SIGNER(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_SIGNER(a_log_is_signed_as_it_grows),
		WITH_SIGNER(a_contradiction_gets_no_signature),
		WITH_SIGNER(a_log_is_begun_once),
		WITH_SIGNER(signatures_are_by_the_keys_it_names),
		WITH_SIGNER(an_epoch_begins_with_a_checkpoint_and_ends_its_predecessor),
		WITH_SIGNER(a_log_goes_on_under_the_next_name),
		WITH_SIGNER(epochs_that_are_over_can_be_asked_for),
		WITH_SIGNER(what_it_knows_can_be_listed),
		WITH_SIGNER(a_state_that_cannot_be_written_signs_nothing),
		WITH_SIGNER(a_directory_has_one_signer_and_a_damaged_one_none),
	};

	return cmocka_run_group_tests(tests, init, NULL);
}
