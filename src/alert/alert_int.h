/* What the files of this room share. */
#ifndef ALERT_INT_H
#define ALERT_INT_H

#include "alert/alert.h"
#include "base/text.h"
#include "conf/conf.h"

bool alerts_are_settled(const struct alerts *a);        /* all that opened is durable */
FOR_TESTS bool alert_reader_is_reading(const struct alert_reader *r);

/* --- what is usual (usual.c): as the reader, whose part it is */

struct alert_usual;
struct alert_usual *alert_usual_new(const struct alert_reader_env *env);
bool alert_usual_tick(struct alert_usual *u, bool now);         /* is it time, or now?  True: it is at work */
void alert_usual_free(struct alert_usual **u);

/* --- ways out (ways.c): to whom what is told, when, and again */

/* An alert as the ways out hear of it.  Texts are printable (text_printable()). */
struct alert_news {
	enum alert_rule rule;
	enum alert_severity severity;
	int64_t id;                     /* 0: not durable yet */
	int64_t tenant_id;
	uint64_t first_us, last_us, over_us;    /* wall clock */
	uint64_t count, value, usual;
	bool over;
	char subject[ALERT_SUBJECT_SIZE], text[ALERT_TEXT_SIZE];
};
/* --- as bytes (tell.c) */
struct alert_telling {
	const struct alert_news *news;
	const char *tenant;             /* its name; NULL: of the whole server, or gone */
	int was;                        /* the severity that was told before; -1: none was */
};
struct alert_form { const struct conf_alert *conf; const char *server, *id; };  /* of this machine; of the message */
void alert_tell(const struct alert_form *as, const struct alert_telling *t, size_t n, uint64_t now_us, struct str *out);

int alert_ways_open(const struct alert_env *env, struct db *db, struct alert_ways **ret, struct err *err) MUST_CHECK;
void alert_ways_close(struct alert_ways **w);
enum { ALERT_SILENT = 1, ALERT_LOOKED_AFTER = 2 };      /* its rule is silenced; somebody acknowledged it */
void alert_ways_hear(struct alert_ways *w, const struct alert_news *news, unsigned how);
void alert_ways_go(struct alert_ways *w);               /* tell what is due */
struct alert_way_view {
	const char *name, *type, *why;  /* why: the last failure, while it lasts; "" = none */
	enum alert_severity severity;   /* the least that it hears of */
	unsigned waiting;               /* alerts that it is still to be told of, or that they are over */
	uint64_t retry_s;               /* when it is tried again; 0: now */
	uint64_t sent, failures, dropped;       /* messages; alerts that found no place; since the server started */
	uint64_t told_us;               /* the last one that was taken; wall clock; 0: none */
};
typedef void alert_way_fn(void *arg, const struct alert_way_view *v);
void alert_ways_each(const struct alert_ways *w, alert_way_fn *fn, void *arg);

#endif
