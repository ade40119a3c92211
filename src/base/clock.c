/* Both clocks, the fake ones of tests, and times as text. */

#include "config.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

static atomic_bool faked;
static _Atomic uint64_t fake_wall_us, fake_mono_us;

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
}

char *clock_format_utc(uint64_t wall_us, char *ret, size_t size)
{
	time_t s = (time_t)(wall_us / us_per_s);
	char day[20];
	struct tm tm;

	if (!gmtime_r(&s, &tm) || strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		(void)snprintf(day, sizeof day, "0000-00-00T00:00:00"); /* a year of five digits */
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
