/* A writer that has given its store to another one, and the records that it passes on (OP-903). */

#include "config.h"

#include <endian.h>

#include "audit/payload.h"
#include "audit/recover.h"
#include "base/mem.h"

#include "t_writer.h"
#include "suite.h"

/* What has left: in order, as bytes. */
static struct passed { uint64_t number; uint8_t *p; size_t len; } passed[16];
static size_t npassed;
static bool deaf;

static bool pass_on(void *arg, uint64_t number, const void *p, size_t len)
{
	(void)arg;
	if (deaf)
		return false;
	passed[npassed].number = number;
	passed[npassed].len = len;
	passed[npassed].p = malloc(len);
	memcpy(passed[npassed++].p, p, len);
	return true;
}

static void forget(void)
{
	while (npassed > 0)
		free(passed[--npassed].p);
	deaf = false;
}

static void leave(struct fix *f)
{
	const struct writer_relay to = { pass_on, NULL };

	forget();
	if (writer_leave(f->w, WAIT_MS, &to, &f->err) != 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
}

/* The next owner, which knows that so many calls are elsewhere. */
static struct writer *next_owner(struct fix *f, const struct audit_calls *elsewhere, size_t recovered)
{
	const struct writer_guard guard = { .elsewhere = elsewhere, .elsewhere_us = 1 };
	struct writer *w = NULL;
	size_t n = 0;

	if (writer_open(f->loop, &(struct keyfile_place){ f->dir, writer_master }, "next", &f->limits, &guard, &w, &n, &f->err) != 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	assert_int_equal(n, recovered);
	return w;
}

static void end_owner(struct fix *f, struct writer **w)
{
	assert_int_equal(writer_close(w, WAIT_MS, &f->err), 0);
}

static struct answer { struct fix *f; struct audit_receipt receipt; int rc; bool done; } answer;

static void on_relayed(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct answer *a = arg;

	a->rc = rc;
	if (receipt)
		a->receipt = *receipt;
	a->done = true;
}

static int relay(struct fix *f, struct writer *w, const void *p, size_t len)
{
	answer = (struct answer){ .f = f };
	return writer_audit_relayed(w, p, len, on_relayed, &answer);
}

static struct audit_event full_end(int call, const struct audit_payload *payload, const struct audit_field *field)
{
	struct audit_event ev = call_event(AUDIT_CALL_END, 1, call);

	ev.outcome = AUDIT_TOOL_ERROR;
	ev.actor = AUDIT_BY_SERVICE;
	ev.rev = "2026-07-28";
	ev.rule = "grant/1";
	ev.detail = "why it failed";
	ev.has_xstat = true;
	ev.xstat = -7;
	ev.n_res = 11;
	ev.dur_us = 12345;
	ev.payload = payload;
	ev.field = field;
	ev.nfield = 1;
	return ev;
}

static const struct audit_hidden piece = { 2, 5, true };
static const struct audit_payload kept = { AUDIT_REQUEST_RESPONSE, 1, { { AUDIT_C_RESULT, "a result", 8, true, &piece, 1 } } };
static const struct audit_field given = { AUDIT_TAG_GROUND, "because", 7 };

static int submit_full(struct fix *f, int call)
{
	const struct audit_event ev = full_end(call, &kept, &given);
	struct ticket *t = ticket(f, -call);
	int rc = writer_audit(f->w, &ev, on_audit, t);

	if (rc == 0)
		f->pending++;
	else
		free(t);
	f->idle = f->pending == 0;
	return rc;
}

/* The record is the next owner's, with the begin that stood there before; whoever waits hears of it behind that. */
static void op903_an_end_is_recorded_by_the_next_owner(void **state)
{
	struct fix *f = *state;
	uint8_t id[1][16] = { { 0 } };
	const int call = 5;
	struct writer *w;

	memcpy(id[0], &call, sizeof(call));
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, call), 0);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 6), 0);
	wait_idle(f);
	leave(f);
	w = next_owner(f, &(struct audit_calls){ id, 1 }, 1);   /* 6 is nobody's: it is closed */
	assert_int_equal(submit_full(f, call), 0);
	assert_int_equal(npassed, 1);
	assert_int_equal(writer_relay_waiting(f->w), 1);
	assert_int_equal(relay(f, w, passed[0].p, passed[0].len), 0);
	assert_true(ev_loop_run_until(f->loop, &answer.done, WAIT_MS));
	assert_int_equal(answer.rc, 0);
	assert_false(f->idle);
	writer_relayed(f->w, passed[0].number + 1, 0, &answer.receipt);         /* a number that nobody waits for */
	assert_false(f->idle);
	writer_relayed(f->w, passed[0].number, 0, &answer.receipt);
	writer_relayed(f->w, passed[0].number, 0, &answer.receipt);             /* and once is enough */
	assert_int_equal(rc_of(f, -call), 0);
	assert_int_equal(writer_relay_waiting(f->w), 0);
	end_owner(f, &w);
	assert_int_equal(ask(f, "SELECT sum(kind = 1001) * 100 + sum(kind = 1002) * 10 + sum(kind = 1004) FROM rec"), 211);
	assert_int_equal(ask(f, "SELECT dur FROM rec WHERE kind = 1002"), 12345);
	assert_int_equal(ask(f, "SELECT count(*) FROM pay"), 1);
	forget();
}

/* What begins, changes or is a job is the other's. */
static void op903_nothing_new_begins(void **state)
{
	struct fix *f = *state;

	leave(f);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), ERR_AUDIT);
	assert_int_equal(submit_job(f, 1, true, make_tenants), ERR_AUDIT);
	assert_int_equal(submit_change(f, &(struct audit_event){ .kind = AUDIT_CALL_END, .tenant_id = 1 }, 1, "row", 1), ERR_AUDIT);
	assert_int_equal(writer_reserve(f->w, 1), ERR_AUDIT);
	assert_int_equal(npassed, 0);
	assert_int_equal(submit(f, AUDIT_CALL_DENIED, 1, 1), 0);
	deaf = true;
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 2), ERR_AUDIT);
	deaf = false;
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 3), 0);
	writer_relay_broken(f->w);
	assert_int_equal(rc_of(f, 1), ERR_AUDIT);
	assert_int_equal(rc_of(f, -3), ERR_AUDIT);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 4), ERR_AUDIT);
	forget();
}

static void op903_so_many_records_wait_and_no_more(void **state)
{
	struct fix *f = *state;
	const struct audit_event ev = call_event(AUDIT_CALL_END, 1, 1);

	leave(f);
	for (unsigned i = 0; i < WRITER_RELAY_WAITING_MAX; i++) {
		assert_int_equal(writer_audit(f->w, &ev, NULL, NULL), 0);
		forget();
	}
	assert_int_equal(writer_audit(f->w, &ev, NULL, NULL), ERR_AUDIT);
	writer_relayed(f->w, 1, 0, NULL);
	assert_int_equal(writer_audit(f->w, &ev, NULL, NULL), 0);
	forget();
}

/* What is cut, or another form, or a record that the other side may not have written is refused, and any bytes are. */
static void op903_other_bytes_are_no_record(void **state)
{
	static const enum audit_kind not_theirs[] = { AUDIT_CALL_BEGIN, AUDIT_ADMIN_CMD, AUDIT_ERASE_DONE, AUDIT_LOG_OPEN, (enum audit_kind)4711 };
	struct fix *f = *state;
	struct writer *w;
	uint8_t *p;
	size_t len;

	leave(f);
	assert_int_equal(submit_full(f, 5), 0);
	p = passed[0].p;
	len = passed[0].len;
	w = next_owner(f, NULL, 0);
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = malloc(n ? n : 1);

		memcpy(cut, p, n);
		assert_int_equal(relay(f, w, cut, n), ERR_INVALID);
		free(cut);
	}
	for (size_t i = 0; i < NELEMS(not_theirs); i++) {
		uint64_t kind = htole64((uint64_t)not_theirs[i]), was;

		memcpy(&was, p + 8, 8);
		memcpy(p + 8, &kind, 8);
		assert_int_equal(relay(f, w, p, len), ERR_INVALID);
		memcpy(p + 8, &was, 8);
	}
	for (size_t i = 0; i < len; i++)        /* a number is another, a length too long, a text has a NUL: refused, or as good as another */
		for (unsigned bit = 0; bit < 8; bit += 7) {
			p[i] ^= (uint8_t)(1u << bit);
			if (relay(f, w, p, len) == 0)
				assert_true(ev_loop_run_until(f->loop, &answer.done, WAIT_MS));
			p[i] ^= (uint8_t)(1u << bit);
		}
	end_owner(f, &w);
	writer_relay_broken(f->w);
	forget();
}

/* The other process has died: what it ran on with is closed, what has an end is not, and nobody else's is. */
static void op903_what_lost_its_process_is_recovered(void **state)
{
	struct fix *f = *state;
	uint8_t id[2][16] = { { 0 }, { 0 } };
	const int one = 5, two = 6;
	struct audit_event own = call_event(AUDIT_CALL_BEGIN, 1, 7);
	struct writer *w;
	const struct audit_calls calls = { id, 2 };

	memcpy(id[0], &one, sizeof(one));
	memcpy(id[1], &two, sizeof(two));
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, one), 0);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, two), 0);
	wait_idle(f);
	leave(f);
	w = next_owner(f, &calls, 0);
	assert_int_equal(submit_full(f, two), 0);
	assert_int_equal(relay(f, w, passed[0].p, passed[0].len), 0);
	assert_int_equal(writer_audit(w, &own, NULL, NULL), 0);
	assert_int_equal(writer_recover(w, &calls), 0);
	assert_int_equal(writer_recover(w, &calls), 0);
	end_owner(f, &w);
	assert_int_equal(ask(f, "SELECT sum(kind = 1001) * 100 + sum(kind = 1002) * 10 + sum(kind = 1004) FROM rec"), 311);
	writer_relay_broken(f->w);
	forget();
}

SUITE(relay)
{
	const struct CMUnitTest tests[] = {
		T(op903_an_end_is_recorded_by_the_next_owner), T(op903_nothing_new_begins), T(op903_so_many_records_wait_and_no_more),
		T(op903_other_bytes_are_no_record), T(op903_what_lost_its_process_is_recovered),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
