#ifndef REPORT_QUESTION_H
#define REPORT_QUESTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/served.h"
#include "report/report.h"

/* A reporter: the process toolcrib-report, which answers one question and ends (SCALE D4).  It gets the question over
 * its descriptor 0, and says frames there: a length of 4 bytes, big-endian, a byte that says what it is, and so many
 * bytes.  It reads what others wrote, so that the server takes what it says for hostile: it passes whole lines on, and
 * counts them itself. */

#define REPORT_FRAME_HEAD 5
#define REPORT_FRAME_MAX 65536          /* bytes behind the head */
#define REPORT_QUESTION_MAX (17u << 20) /* bytes: a cursor of many logs stands in it */
enum report_frame {
	REPORT_SAYS_ROWS = 'R',              /* whole lines, or a part of one that is longer */
	REPORT_SAYS_SEEN = 'S',              /* JSON: [[tenant, from, to, rows], …], of rows that follow; to 0: none yet */
	/* JSON: {"how", "findings"}, and "code", "where", "message", "hint" where it failed */
	REPORT_SAYS_END = 'E',
};
/* How a reporter is bounded. */
struct report_bounds {
	uint64_t memory;                /* bytes of its address space */
	uint64_t temp;                  /* bytes of its file for sorting */
	enum served_class class;
	const char *scratch;            /* the directory in which that file is made, which has no name */
	const char *archive;            /* where further sealed files may be; "": nowhere */
	unsigned landlock;              /* the ABI whose rules bind it; 0 = none */
};

/* The question of ask, for a reporter with these bounds. */
void report_question(const struct report_ask *ask, const struct report_bounds *bounds, struct str *out);
/* Its inverse.  ret is the caller's to report_ask_fini(), scratch and archive in ret_bounds its to
 * free().  ERR_INVALID. */
int report_question_parse(const char *p, size_t len, struct report_ask *ret, struct report_bounds *ret_bounds,
			  struct err *err) MUST_CHECK;

#endif
