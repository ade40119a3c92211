#ifndef SHIP_SHIP_H
#define SHIP_SHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "age/age.h"
#include "base/err.h"
#include "base/text.h"

/* Backups that are made while a store is written (OPERATE OP-501 to OP-511, decision 0102): what was committed leaves a
 * moment later as an encrypted part in a directory, in a chain that shows what is missing or was changed. */

#define SHIP_EVERY_MIN_MS 100
#define SHIP_EVERY_MAX_MS 3600000
#define SHIP_BASE_MIN_MS 1000           /* of base and keep */
#define SHIP_KEEP_MAX_MS UINT64_C(315360000000) /* ten years */
#define SHIP_LOG_MAX_MIN (UINT64_C(1) << 20)
#define SHIP_LOG_PATIENCE 8             /* times log_max while the target takes what is written, and more comes */
#define SHIP_DEFAULTS { .every_us = 1000000, .base_us = UINT64_C(86400000000), .keep_us = UINT64_C(3024000000000), \
			.log_max = UINT64_C(256) << 20 }        /* 1s, 24h, 35d, 256MiB */

/* --- by toolcrib-ship, its only thread */

struct ship_options {
	const char *store, *target;
	const struct age_recipient *to; size_t nto;
	uint64_t every_us, base_us, keep_us;    /* between two parts; between two bases; how long older ones stay */
	uint64_t log_max;                       /* how far logs may grow for us */
};
struct shipper;
/* Opens both, so that it can be confined then; goes on where an earlier run has ended, or begins a generation.
 * ERR_CONFLICT: another one ships there; ERR_UNREACHABLE, ERR_IO, ERR_CORRUPT. */
int shipper_open(const struct ship_options *options, struct shipper **ret, struct err *err) MUST_CHECK;
enum ship_how {
	SHIP_DUE,                       /* what every_us and base_us want, and a piece of a base */
	SHIP_NOW,                       /* what is committed, and a piece of a base */
	SHIP_ALL,                       /* and the base that is being copied, to its end */
};
/* *ret_more: there is work that does not wait.  An error is one of now: the next call tries again, and when the log has
 * become too long meanwhile, or is another one, it begins anew. */
int shipper_run(struct shipper *s, enum ship_how how, bool *ret_more, struct err *err) MUST_CHECK;
/* at_us: when all was in it.  lost: the target was emptied, or is another one: who can open it has to begin anew. */
struct ship_figures { uint64_t parts, bytes, broken, unpruned, generation, at_us; bool whole, lost; };
struct ship_figures shipper_figures(const struct shipper *s);
void shipper_close(struct shipper **s);

/* --- by the server */

struct conf;
struct ev_loop;
struct ship_server;
/* What the keys backup.* say; err->where is the key. */
int ship_check(const struct conf *conf, struct err *err) MUST_CHECK;
/* Of a configuration with backup.to: toolcrib-ship is started once the loop runs, and again when it ends. */
struct ship_server *ship_server_new(struct ev_loop *loop, const struct conf *conf, const char *store);
/* told: so many chains were broken since it was told last, on the loop; for a record. */
typedef void ship_broken_fn(void *arg, uint64_t n);
void ship_server_on_broken(struct ship_server *s, ship_broken_fn *told, void *arg);
/* Writer thread, before a checkpoint and behind it: what is committed shall be shipped, so that the log can go into the
 * file, and begin anew.  At most
 * SHIP_WAIT_MS, and not at all while it has not answered the last time.  arg: the struct ship_server. */
#define SHIP_WAIT_MS 500
void ship_server_wait(void *arg);
/* The store is about to be closed, and what is written last shall be shipped without delay.  NULL is fine. */
void ship_server_hurry(struct ship_server *s);
/* How that goes.  Loop thread. */
struct ship_view {
	uint64_t since_us;              /* since when it may be that something committed is not in a whole copy, wall clock */
	uint64_t at_us;                 /* when all was in it, wall clock; 0 = not yet, by this server */
	uint64_t parts, generation;     /* parts by this server; of the newest base */
	bool whole;                     /* that one can be put back */
	const char *why;                /* what does not work, until the next event; "" = it works */
};
void ship_server_view(const struct ship_server *s, struct ship_view *ret);
/* For people, a line; s NULL: nothing.  "all until 2026-11-27T14:00:00Z, 120 parts, generation 3". */
void ship_server_describe(const struct ship_server *s, struct str *ret);
/* It ships what there is and ends, within SHIP_END_MS. */
#define SHIP_END_MS 10000
void ship_server_free(struct ship_server **s);
/* What is asked of it, a byte each. */
#define SHIP_ASK_NOW 'n'
#define SHIP_ASK_HURRY 'h'

/* --- by whoever puts it back */

/* Whether the directory is one that was shipped to. */
bool ship_is_target(const char *dir);
struct ship_unpacked { uint64_t generation, parts, at_us, bytes; };
/* Into a directory that is there and empty: toolcrib.db, keys.db and sealed files as of the last part that was made
 * before then (0 = the newest), keys.db always of the newest.  ERR_NOT_FOUND: nothing is that old; ERR_CORRUPT names
 * the part that is missing, was changed or is another's; ERR_DENIED: it is for none of these identities.  dir NULL:
 * what it would come to, by the manifest alone and without an identity; bytes is what it would write at most. */
int ship_unpack(const char *target, const struct age_identity *ids, size_t nids, uint64_t until_us, const char *dir,
		struct ship_unpacked *ret, struct err *err) MUST_CHECK;

#endif
