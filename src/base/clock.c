/* Both clocks, the fake ones of tests, whether the wall clock is kept right, and times as text. */

#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

static atomic_bool faked;
static _Atomic uint64_t fake_wall_us, fake_mono_us;
static _Atomic enum clock_sync fake_sync;

static const uint64_t us_per_s = 1000000;

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * us_per_s + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_wall_us(void)
{
	return atomic_load(&faked) ? atomic_load(&fake_wall_us) : read_clock(CLOCK_REALTIME);
}

uint64_t clock_mono_us(void)
{
	return atomic_load(&faked) ? atomic_load(&fake_mono_us) : read_clock(CLOCK_MONOTONIC);
}

/* Of a thread that has a loop: whether it is in a turn, and the wall clock as it was when that first asked; 0: it has
 * not yet. */
static _Thread_local struct { bool in; uint64_t us; } turn;

void clock_turn(bool in)
{
	turn.in = in;
	turn.us = 0;
}

uint64_t clock_turn_us(void)
{
	if (!turn.in || atomic_load(&faked))
		return clock_wall_us();
	if (turn.us == 0)
		turn.us = read_clock(CLOCK_REALTIME);
	return turn.us;
}

void clock_fake(uint64_t wall_us, uint64_t mono_us)
{
	atomic_store(&fake_wall_us, wall_us);
	atomic_store(&fake_mono_us, mono_us);
	atomic_store(&faked, true);
}

void clock_step(uint64_t us)
{
	atomic_fetch_add(&fake_wall_us, us);
	atomic_fetch_add(&fake_mono_us, us);
}

void clock_real(void)
{
	atomic_store(&faked, false);
	atomic_store(&fake_sync, CLOCK_UNKNOWN);
}

void clock_fake_sync(enum clock_sync sync)
{
	atomic_store(&fake_sync, sync);
}

void clock_state(struct clock_state *ret)
{
	struct timex tx = { .modes = 0 };       /* changes nothing, and needs no right to */
	int rc;

	if (atomic_load(&faked)) {
		*ret = (struct clock_state){ .sync = atomic_load(&fake_sync) };
		return;
	}
	rc = adjtimex(&tx);
	if (rc < 0)
		*ret = (struct clock_state){ .sync = CLOCK_UNKNOWN, .why = errno };
	else
		*ret = (struct clock_state){ .sync = rc == TIME_ERROR || (tx.status & STA_UNSYNC) ? CLOCK_UNSYNCED
			: CLOCK_SYNCED,
			.max_error_us = tx.maxerror > 0 ? (uint64_t)tx.maxerror : 0, .status = (unsigned)tx.status };
}

const char *clock_sync_name(enum clock_sync sync)
{
	return sync == CLOCK_SYNCED ? "synchronised" : sync == CLOCK_UNSYNCED ? "not synchronised" : "not known";
}

char *clock_format_utc(uint64_t wall_us, char *ret, size_t size)
{
	time_t s = (time_t)(wall_us / us_per_s);
	char day[20];
	struct tm tm;

	if (!gmtime_r(&s, &tm) || strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		(void)snprintf(day, sizeof(day), "0000-00-00T00:00:00"); /* a year of five digits */
	(void)snprintf(ret, size, "%s.%06uZ", day, (unsigned)(wall_us % us_per_s)); /* cut at size */
	return ret;
}

char *clock_format_local(uint64_t wall_us, char *ret, size_t size)
{
	time_t s = (time_t)(wall_us / us_per_s);
	struct tm tm;

	if (!localtime_r(&s, &tm) || strftime(ret, size, "%Y-%m-%d %H:%M:%S %z", &tm) == 0)
		(void)snprintf(ret, size, "-"); /* no such time here */
	return ret;
}

/* Read exactly n digits and advance; false when there are fewer. */
static bool take_number(const char **p, size_t n, int *ret)
{
	int v = 0;

	for (size_t i = 0; i < n; i++) {
		if ((*p)[i] < '0' || (*p)[i] > '9')
			return false;
		v = v * 10 + ((*p)[i] - '0');
	}
	*p += n;
	*ret = v;
	return true;
}

static bool take_char(const char **p, const char *set)
{
	if (!**p || !strchr(set, **p))
		return false;
	++*p;
	return true;
}

/* "2026-07-28"; a day that the calendar does not have is refused. */
static bool take_date(const char **p, struct tm *tm)
{
	int year, month, day;
	struct tm check;
	time_t s;

	if (!take_number(p, 4, &year) || !take_char(p, "-") || !take_number(p, 2, &month) ||
	    !take_char(p, "-") || !take_number(p, 2, &day) || year < 1970)
		return false;
	*tm = (struct tm){ .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day };
	check = *tm;
	s = timegm(&check);
	return s >= 0 && check.tm_mon == month - 1;     /* a day too many rolls over */
}

/* ".123456", any number of digits; what is finer than a microsecond is cut off. */
static bool take_fraction(const char **p, uint64_t *ret_us)
{
	uint64_t unit = us_per_s / 10;

	if (**p < '0' || **p > '9')
		return false;
	for (*ret_us = 0; **p >= '0' && **p <= '9'; ++*p, unit /= 10)
		*ret_us += unit * (uint64_t)(**p - '0');
	return true;
}

/* "Z" or "+02:00", in seconds east of Greenwich. */
static bool take_zone(const char **p, int *ret_s)
{
	int hour, minute, sign = **p == '-' ? -1 : 1;

	*ret_s = 0;
	if (take_char(p, "Zz"))
		return true;
	if (!take_char(p, "+-") || !take_number(p, 2, &hour) || !take_char(p, ":") ||
	    !take_number(p, 2, &minute) || hour > 23 || minute > 59)
		return false;
	*ret_s = sign * (hour * 3600 + minute * 60);
	return true;
}

/* RFC 3339 5.6.  A date alone is its midnight in UTC.  Second 60 is refused: POSIX time has none. */
static bool parse_date_time(const char *p, uint64_t *ret_us)
{
	uint64_t fraction_us = 0;
	int zone_s = 0;
	struct tm tm;
	int64_t s;

	if (!take_date(&p, &tm))
		return false;
	if (*p) {
		if (!take_char(&p, "Tt ") || !take_number(&p, 2, &tm.tm_hour) || !take_char(&p, ":") ||
		    !take_number(&p, 2, &tm.tm_min) || !take_char(&p, ":") ||
		    !take_number(&p, 2, &tm.tm_sec) || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 59)
			return false;
		if (take_char(&p, ".") && !take_fraction(&p, &fraction_us))
			return false;
		if (!take_zone(&p, &zone_s) || *p)
			return false;
	}
	s = (int64_t)timegm(&tm) - zone_s;
	if (s < 0)
		return false;
	*ret_us = (uint64_t)s * us_per_s + fraction_us;
	return true;
}

int clock_parse(const char *text, uint64_t now_us, uint64_t *ret_us)
{
	uint64_t ms, us;

	if (parse_date_time(text, ret_us))
		return 0;
	if (text_duration_ms(text, &ms) < 0 || __builtin_mul_overflow(ms, UINT64_C(1000), &us) || us > now_us)
		return -1;
	*ret_us = now_us - us;
	return 0;
}

/* One of n names, at p; advances behind it.  -1: none of them. */
static int take_name(const char **p, const char *const *names, int n)
{
	for (int i = 0; i < n; i++) {
		size_t len = strlen(names[i]);

		if (strncmp(*p, names[i], len) == 0) {
			*p += len;
			return i;
		}
	}
	return -1;
}

static bool take_text(const char **p, const char *text)
{
	return take_name(p, &text, 1) == 0;
}

static bool take_month(const char **p, struct tm *tm)
{
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
		"Nov", "Dec" };

	tm->tm_mon = take_name(p, months, 12);
	return tm->tm_mon >= 0;
}

/* "10:00:00"; a second 60 may be said, POSIX time makes it the next minute's first. */
static bool take_time(const char **p, struct tm *tm)
{
	return take_number(p, 2, &tm->tm_hour) && take_text(p, ":") && take_number(p, 2, &tm->tm_min) &&
		take_text(p, ":") &&
	       take_number(p, 2, &tm->tm_sec) && tm->tm_hour <= 23 && tm->tm_min <= 59 && tm->tm_sec <= 60;
}

static bool take_year(const char **p, struct tm *tm)
{
	int year;

	if (!take_number(p, 4, &year))
		return false;
	tm->tm_year = year - 1900;
	return true;
}

/* RFC 9110 5.6.7: a year that seems to be more than 50 years ahead is one of the last century. */
static bool take_short_year(const char **p, uint64_t now_us, struct tm *tm)
{
	time_t now_s = (time_t)(now_us / us_per_s);
	struct tm now;
	int year;

	if (!gmtime_r(&now_s, &now) || !take_number(p, 2, &year))
		return false;
	tm->tm_year = now.tm_year - now.tm_year % 100 + year;
	if (tm->tm_year > now.tm_year + 50)
		tm->tm_year -= 100;
	return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994" */
static bool take_http_date(const char *p, uint64_t now_us, struct tm *tm)
{
	static const char *const days[] = { "Sunday, ", "Monday, ", "Tuesday, ", "Wednesday, ", "Thursday, ",
		"Friday, ",
					    "Saturday, ", "Sun, ", "Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ",
					    "Sun ", "Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat " };
	int day = take_name(&p, days, 21);

	if (day < 0)
		return false;
	if (day < 7)
		return take_number(&p, 2, &tm->tm_mday) && take_text(&p, "-") && take_month(&p, tm) &&
			take_text(&p, "-") &&
		       take_short_year(&p, now_us, tm) && take_text(&p, " ") && take_time(&p, tm) &&
			take_text(&p, " GMT") && !*p;
	if (day < 14)
		return take_number(&p, 2, &tm->tm_mday) && take_text(&p, " ") && take_month(&p, tm) &&
			take_text(&p, " ") &&
		       take_year(&p, tm) && take_text(&p, " ") && take_time(&p, tm) && take_text(&p, " GMT") && !*p;
	return take_month(&p, tm) && take_text(&p, " ") && take_number(&p, take_text(&p, " ") ? 1 : 2, &tm->tm_mday) &&
	       take_text(&p, " ") && take_time(&p, tm) && take_text(&p, " ") && take_year(&p, tm) && !*p;
}

int clock_parse_http(const char *text, uint64_t now_us, uint64_t *ret_us)
{
	struct tm tm = { .tm_mday = 0 }, day;
	time_t s;

	if (!take_http_date(text, now_us, &tm))
		return -1;
	day = (struct tm){ .tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday };
	if (timegm(&day) < 0 || day.tm_mday != tm.tm_mday)      /* a day too many rolls over */
		return -1;
	s = timegm(&tm);
	*ret_us = (uint64_t)s * us_per_s;
	return 0;
}
