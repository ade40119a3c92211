#ifndef FAKE_WIRE_H
#define FAKE_WIRE_H

#include <stdlib.h>
#include <string.h>

#include "../../src/upstream/link_int.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"

/* A link without a server: what it sends is kept, what comes in is said by the test. */

struct fake {
	struct link_wire wire;
	struct ev_loop *loop;
	struct map *parked;
	struct link *link;
	struct str sent;                /* all messages, a line each */
	unsigned messages, changed, readies, updated, dropped;
	bool full, dead, left;
	struct err death;
};

static void fake_send(struct link_wire *wire, uint64_t id, const struct link_head *head, const char *text, size_t len)
{
	struct fake *f = CONTAINER_OF(wire, struct fake, wire);

	str_put(&f->sent, text, len);
	str_putc(&f->sent, '\n');
	f->messages++;
}

static bool fake_full(const struct link_wire *wire)
{
	return CONTAINER_OF((struct link_wire *)(uintptr_t)wire, struct fake, wire)->full;
}

static void fake_close(struct link_wire **wire)
{
	*wire = NULL;
}

static int fake_open(struct link *link, void *arg, struct link_wire **ret, struct err *err)
{
	static const struct link_wire_ops ops = { .send = fake_send, .full = fake_full, .close = fake_close };
	struct fake *f = arg;

	f->wire.ops = &ops;
	*ret = &f->wire;
	return 0;
}

static void fake_dead(void *arg, const struct err *err)
{
	struct fake *f = arg;

	f->dead = true;
	f->death = *err;
	link_close(&f->link);
}

static void fake_ready(void *arg)
{
	((struct fake *)arg)->readies++;
}

static void fake_changed(void *arg)
{
	((struct fake *)arg)->changed++;
}

static void fake_updated(void *arg, const char *uri)
{
	((struct fake *)arg)->updated++;
}

static void fake_idle(void *arg, bool left)
{
	((struct fake *)arg)->left = left;
}

static void fake_dropped(void *arg, const char *method)
{
	((struct fake *)arg)->dropped++;
}

static inline void fake_turn_over(void *arg)
{
	*(bool *)arg = true;
}

/* Whatever is due now is done when this returns. */
static inline void fake_turn(struct fake *f)
{
	for (int i = 0; i < 3; i++) {
		bool over = false;

		ev_post(f->loop, fake_turn_over, &over);
		(void)ev_loop_run_until(f->loop, &over, 5000);
	}
}

static inline void fake_begin(struct fake *f, bool asks, enum link_era era)
{
	const struct link_env env = { .dead = fake_dead, .ready = fake_ready, .changed = fake_changed, .updated = fake_updated, .idle = fake_idle,
		.dropped = fake_dropped, .arg = f };
	struct link_env full = env;

	*f = (struct fake){ .loop = ev_loop_new(), .parked = map_new() };
	full.loop = f->loop;
	full.parked = f->parked;
	if (link_open(&full, "fake", asks, era, fake_open, f, &f->link, NULL) < 0)
		abort();
}

static inline void fake_say(struct fake *f, const char *text, size_t len)
{
	if (f->link)
		(void)link_message(f->link, 0, text, len);
	fake_turn(f);
}

static inline void fake_end(struct fake *f)
{
	link_close(&f->link);
	fake_turn(f);
	ev_loop_free(&f->loop);
	map_free(&f->parked);
	str_fini(&f->sent);
}

#endif
