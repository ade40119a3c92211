/* Events of a text/event-stream, from bytes as they come (HTML, server-sent events): fields `event` and `data`, the
 * others are skipped; an event without data is none. */
#include "config.h"

#include "link_http_int.h"

#include <stdlib.h>
#include <string.h>

void link_sse_init(struct link_sse *s)
{
	*s = (struct link_sse){ .cr = false };
	str_init(&s->line, LINK_MESSAGE_MAX + 64);
	str_init(&s->data, LINK_MESSAGE_MAX);
}

void link_sse_fini(struct link_sse *s)
{
	str_fini(&s->line);
	str_fini(&s->data);
}

static void take_field(struct link_sse *s)
{
	const char *line = str_text(&s->line), *colon = memchr(line, ':', s->line.len);
	size_t name = colon ? (size_t)(colon - line) : s->line.len;
	const char *value = colon ? colon + 1 : line + name;

	if (colon && *value == ' ')
		value++;
	size_t len = s->line.len - (size_t)(value - line);
	if (name == 4 && memcmp(line, "data", 4) == 0) {
		if (s->has_data)
			str_putc(&s->data, '\n');
		str_put(&s->data, value, len);
		s->has_data = true;
	} else if (name == 5 && memcmp(line, "event", 5) == 0) {
		size_t n = len < sizeof(s->event) - 1 ? len : sizeof(s->event) - 1;

		memcpy(s->event, value, n);
		s->event[n] = '\0';
	}
}

/* The end of a line; an empty one ends the event. */
static bool take_line(struct link_sse *s, link_sse_fn *fn, void *arg)
{
	bool go_on = true;

	if (s->line.len > 0) {
		take_field(s);
	} else {
		if (s->has_data && !s->data.failed)
			go_on = fn(arg, *s->event ? s->event : "message", str_text(&s->data), s->data.len);
		if (go_on) {
			str_reset(&s->data);
			s->has_data = false;
			s->event[0] = '\0';
		}
	}
	if (go_on)
		str_reset(&s->line);
	return go_on;
}

int link_sse_feed(struct link_sse *s, const char *p, size_t len, link_sse_fn *fn, void *arg)
{
	for (const char *end = p + len; p < end; ) {
		const char *stop = p;

		if (s->cr && *p == '\n') {      /* the rest of \r\n */
			s->cr = false;
			p++;
			continue;
		}
		s->cr = false;
		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		str_put(&s->line, p, (size_t)(stop - p));
		if (s->line.failed || s->data.failed)
			return ERR_LIMIT;
		if (stop == end)
			break;
		s->cr = *stop == '\r';
		p = stop + 1;
		if (!take_line(s, fn, arg))
			return 1;
	}
	return s->data.failed ? ERR_LIMIT : 0;
}
