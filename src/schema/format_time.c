/* Dates and times of RFC 3339, durations of its appendix A. */
#include "config.h"

#include "format_int.h"

#include <string.h>

/* Exactly n digits. */
static bool take_number(struct cursor *c, int n, int *ret)
{
	*ret = 0;
	for (; n; n--, c->p++) {
		if (c->p == c->end || !format_is_digit(*c->p))
			return false;
		*ret = *ret * 10 + (*c->p - '0');
	}
	return true;
}

static bool take_date(struct cursor *c)
{
	static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int year, month, day;
	bool leap;

	if (!take_number(c, 4, &year) || !cursor_eat(c, '-') || !take_number(c, 2, &month) || !cursor_eat(c, '-') ||
	    !take_number(c, 2, &day) || month < 1 || month > 12 || day < 1 || day > days[month - 1])
		return false;
	leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return month != 2 || day < 29 || leap;
}

/* Minutes that the local time is ahead of UTC. */
static bool take_offset(struct cursor *c, int *ret)
{
	int hour, minute, sign = 1;

	*ret = 0;
	if (cursor_eat(c, 'Z') || cursor_eat(c, 'z'))
		return true;
	if (cursor_eat(c, '-'))
		sign = -1;
	else if (!cursor_eat(c, '+'))
		return false;
	if (!take_number(c, 2, &hour) || !cursor_eat(c, ':') || !take_number(c, 2, &minute) || hour > 23 || minute > 59)
		return false;
	*ret = sign * (hour * 60 + minute);
	return true;
}

static bool take_time(struct cursor *c)
{
	const int day = 24 * 60;
	int hour, minute, second, offset;

	if (!take_number(c, 2, &hour) || !cursor_eat(c, ':') || !take_number(c, 2, &minute) || !cursor_eat(c, ':') ||
	    !take_number(c, 2, &second) || hour > 23 || minute > 59 || second > 60)
		return false;
	if (cursor_eat(c, '.')) {
		const char *from = c->p;

		while (c->p < c->end && format_is_digit(*c->p))
			c->p++;
		if (c->p == from)
			return false;
	}
	if (!take_offset(c, &offset))
		return false;
	/* A leap second ends a day of UTC. */
	return second < 60 || (hour * 60 + minute - offset + day) % day == day - 1;
}

bool format_date(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	return take_date(&c) && c.p == c.end;
}

bool format_time(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	return take_time(&c) && c.p == c.end;
}

bool format_date_time(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	return take_date(&c) && (cursor_eat(&c, 'T') || cursor_eat(&c, 't')) && take_time(&c) && c.p == c.end;
}

/* Numbers with the units in their order, none left out between two; true when there is none, too. */
static bool take_units(struct cursor *c, const char *units)
{
	const char *last = NULL;

	while (c->p < c->end && format_is_digit(*c->p)) {
		const char *unit;

		while (c->p < c->end && format_is_digit(*c->p))
			c->p++;
		unit = c->p < c->end && *c->p ? strchr(units, *c->p) : NULL;
		if (!unit || (last && unit != last + 1))
			return false;
		last = unit;
		c->p++;
	}
	return true;
}

bool format_duration(const char *p, size_t len)
{
	struct cursor c = { p, p + len }, weeks;

	/* Something must follow P, and T as well. */
	if (!cursor_eat(&c, 'P') || c.p == c.end)
		return false;
	weeks = c;
	if (take_units(&weeks, "W") && weeks.p == weeks.end)
		return true;
	if (!take_units(&c, "YMD"))
		return false;
	if (c.p == c.end)
		return true;
	return cursor_eat(&c, 'T') && c.p < c.end && take_units(&c, "HMS") && c.p == c.end;
}
