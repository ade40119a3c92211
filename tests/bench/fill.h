#ifndef TESTS_BENCH_FILL_H
#define TESTS_BENCH_FILL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <jansson.h>

#include "audit/audit.h"
#include "audit/payload.h"
#include "base/err.h"
#include "base/text.h"

/* Inside of b_fill: what is asked for, the calls that are drawn, and their records as rows or as blocks. */

#define S_US UINT64_C(1000000)
#define DAY_US (86400 * S_US)
#define STEP_BACK_US (30 * S_US)        /* how far the clock is set back, once; a quiet log may notice long after */

enum {
	BATCH_MIN = 500, BATCH_MAX = 50000,     /* records of a transaction: a twentieth of all, within these */
	BLOCKS_BATCH_MAX = 200000,      /* a quarter of all, where they become blocks at once */
	KEY_DAYS = 90, DAYS_MAX = 363,  /* of a key, if nothing is said; of one at most, with two to spare */
	INDEXES_MAX = 12, PLANTS_MAX = 40, THREADS_MAX = 64,
};

struct db;

struct fill_opt {
	const char *store;
	uint64_t records, tenants, days, people, tools, seed, hour;     /* hour: 0: now */
	uint64_t threads;               /* that make blocks; 0: records become rows */
	double zipf, failures;
	int level;                      /* enum audit_level; -1: no values */
	bool lean;
	bool more;                      /* behind what an earlier run has made */
};
extern struct fill_opt opt;

/* Names as records have them; the first two tenants' are rows of the store, the others' are not. */
struct person { char prn[64], cred[32]; };
enum { SELDOM, GONE, ELSEWHERE, OTHERS };       /* behind opt.people; the last is one of the second tenant */

struct filled_tenant { char name[16]; int64_t id; };

/* What was planted, and in which call. */
struct plant {
	const char *what;
	double at;                      /* after which part of the records */
	int outcome;
	const char *tool;               /* NULL: as any call */
	int who;                        /* SELDOM …; -1: as any call */
	int64_t answers;                /* the plant before this one, whose question it answers */
	bool unknown_tool;              /* of a definition that was never stored */
	bool held;                      /* a person had to agree to it, and nobody did */
	bool task;                      /* it became a task, which ended by itself */
	uint8_t call[16];
	int64_t idx;
};

/* A call as it was drawn; what its records say follows from it. */
struct call {
	const struct plant *plant;      /* or NULL */
	uint64_t us, mono_us, dur_us, text;
	uint8_t id[16];
	uint32_t tenant, who, tool;
	uint32_t dek;                   /* fill_blocks.c */
	int outcome;
};

/* What a record of it says; borrows from the call. */
struct said {
	struct audit_event ev;
	struct audit_payload arguments, result;
	char prn[64], cred[32], text[64];
};

struct app;
extern struct fill {
	struct app *app;
	struct filled_tenant *tenant;
	double *tenant_share, *person_share, *tool_share;      /* cumulative */
	struct person *person;          /* opt.people and OTHERS */
	char (*tool)[24];
	uint8_t (*tdef)[32], rare_tdef[32];
	uint64_t n, step_us, batch;     /* records; between two; of a transaction */
	uint64_t begun, begun_us, begun_mono_us;        /* of this transaction: its first record, and when */
	uint64_t random;
	struct plant plant[PLANTS_MAX];
	size_t plants, planted;
	char *index[INDEXES_MAX];
	size_t indexes, made;
	bool done;
	int rc;
	struct err err;
	struct str rows;
} fill;

/* --- b_fill.c */

void fill_die(const char *what, const struct err *err) __attribute__((noreturn));
/* Work of the writer's thread, which is waited for: with records, without, or between transactions. */
enum fill_how { FILL_RECORDS, FILL_ROWS, FILL_BETWEEN };
typedef int fill_job_fn(void *arg, struct db *db, struct audit_logs *logs, struct err *err);
void fill_job(const char *what, fill_job_fn *run, enum fill_how how);

/* --- fill_calls.c */

#define FILL_REVISION "2026-07-28"
extern const uint8_t fill_drifted[32];  /* of a definition that was never stored */
double *fill_shares(uint64_t n);
void fill_plan(void);
/* The next call, of one record or two; fill.n goes on. */
void fill_draw(struct call *ret);
size_t fill_records(const struct call *c);
/* What its first record says; then what its second does. */
void fill_say(const struct call *c, struct said *ret);
void fill_say_end(const struct call *c, struct said *s);
/* Whose it is; a person of a tenant without rows lies in *room. */
const struct person *fill_person(const struct call *c, struct person *room);
/* Call it for each call once the index of its first record is known. */
void fill_at(const struct call *c, int64_t idx);
json_t *fill_all_planted(void);

/* --- fill_blocks.c */

void fill_blocks_begin(void);
/* One transaction: fill.batch records, which were not drawn yet. */
void fill_blocks_batch(void);
void fill_blocks_end(void);

#endif
