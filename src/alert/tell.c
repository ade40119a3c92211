/* What a way out is told, as bytes: a webhook's JSON, an Alertmanager's, a mail.  Texts in alerts are printable
 * already; each form has its own escaping on top. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "json/json.h"

#include "alert_int.h"

static void put_member(struct str *out, const char *name, const char *value)
{
	str_printf(out, ",\"%s\":", name);
	if (value)
		jx_write_stringz(out, value);
	else
		str_puts(out, "null");
}

static void put_time(struct str *out, const char *name, uint64_t us)
{
	char text[40];

	put_member(out, name, us ? clock_format_utc(us, text, sizeof(text)) : NULL);
}

static const char *state_of(const struct alert_telling *t)
{
	if (t->news->over)
		return "over";
	return t->was < 0 ? "open" : t->was < (int)t->news->severity ? "worse" : "still open";
}

static void put_alert(const struct alert_telling *t, struct str *out)
{
	const struct alert_news *n = t->news;

	str_printf(out, "{\"id\":%" PRId64, n->id);
	put_member(out, "state", state_of(t));
	put_member(out, "rule", alert_rule_name(n->rule));
	put_member(out, "severity", alert_severity_name(n->severity));
	put_member(out, "subject", n->subject);
	put_member(out, "tenant", t->tenant);
	put_member(out, "text", n->text);
	put_time(out, "first", n->first_us);
	put_time(out, "last", n->last_us);
	put_time(out, "over", n->over_us);
	str_printf(out, ",\"count\":%" PRIu64 ",\"value\":%" PRIu64 ",\"usual\":%" PRIu64 "}", n->count, n->value,
		   n->usual);
}

static void tell_webhook(const char *server, const struct alert_telling *t, size_t n, uint64_t now_us, struct str *out)
{
	str_puts(out, "{\"type\":\"toolcrib.alerts\"");
	put_time(out, "timestamp", now_us);
	str_puts(out, ",\"data\":{\"server\":");
	jx_write_stringz(out, server);
	str_puts(out, ",\"alerts\":[");
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		put_alert(&t[i], out);
	}
	str_puts(out, "]}}");
}

/* Its labels are what an Alertmanager takes for the same alert: one that became worse is another, the old one over. */
static void put_labels(const char *server, const struct alert_telling *t, enum alert_severity severity, struct str *out)
{
	str_puts(out, "{\"labels\":{\"job\":\"toolcrib\"");
	put_member(out, "alertname", alert_rule_name(t->news->rule));
	put_member(out, "severity", alert_severity_name(severity));
	put_member(out, "subject", *t->news->subject ? t->news->subject : "-");
	put_member(out, "instance", server);
	if (t->tenant)
		put_member(out, "tenant", t->tenant);
	str_puts(out, "}");
}

static void put_managed(const char *server, const struct alert_telling *t, enum alert_severity severity,
			uint64_t ends_us, struct str *out)
{
	const struct alert_news *n = t->news;

	put_labels(server, t, severity, out);
	str_puts(out, ",\"annotations\":{\"summary\":");
	jx_write_stringz(out, n->text);
	str_printf(out, ",\"id\":\"%" PRId64 "\",\"count\":\"%" PRIu64 "\"", n->id, n->count);
	str_printf(out, ",\"value\":\"%" PRIu64 "\",\"usual\":\"%" PRIu64 "\"}", n->value, n->usual);
	put_time(out, "startsAt", n->first_us);
	put_time(out, "endsAt", ends_us > n->first_us ? ends_us : n->first_us);
	str_puts(out, "}");
}

/* until_us: what is not said again before is over then. */
static void tell_manager(const char *server, const struct alert_telling *t, size_t n, uint64_t now_us,
			 uint64_t until_us, struct str *out)
{
	str_puts(out, "[");
	for (size_t i = 0; i < n; i++) {
		str_puts(out, i ? "," : "");
		if (t[i].was >= 0 && t[i].was != (int)t[i].news->severity) {
			put_managed(server, &t[i], (enum alert_severity)t[i].was, now_us, out);
			str_puts(out, ",");
		}
		put_managed(server, &t[i], t[i].news->severity, t[i].news->over ? t[i].news->over_us : until_us, out);
	}
	str_puts(out, "]");
}

/* --- mail (RFC 5322).  Nothing of an alert's text is in a header, and the body is base64: no line of it can be one. */

#define LINE 57                         /* bytes that make 76 characters */

/* Of a name that may hold what a header may not. */
static void put_token(struct str *out, const char *text)
{
	for (; *text; text++)
		str_putc(out, (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			 (*text >= '0' && *text <= '9') || *text == '.' || *text == '-' ? *text : '_');
}

static void put_coded(struct str *out, const struct str *body)
{
	char line[80];

	for (size_t at = 0; at < body->len; at += LINE) {
		text_base64(body->p + at, body->len - at < LINE ? body->len - at : LINE, line);
		str_printf(out, "%s\r\n", line);
	}
}

/* What is worst and not over, else what was. */
static const struct alert_telling *foremost(const struct alert_telling *t, size_t n)
{
	const struct alert_telling *best = &t[0];

	for (size_t i = 1; i < n; i++)
		if (t[i].news->over < best->news->over ||
		    (t[i].news->over == best->news->over && t[i].news->severity > best->news->severity))
			best = &t[i];
	return best;
}

static void put_date(struct str *out, uint64_t us)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	const time_t s = (time_t)(us / 1000000);
	struct tm tm;

	if (gmtime_r(&s, &tm))
		str_printf(out, "Date: %s, %02d %s %04d %02d:%02d:%02d +0000\r\n", days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon],
			   tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static void put_heads(const struct alert_form *m, const struct alert_telling *t, size_t n, uint64_t now_us,
		      struct str *out)
{
	const struct alert_telling *first = foremost(t, n);

	str_printf(out, "From: toolcrib <%s>\r\nTo: ", m->conf->from);
	for (size_t i = 0; i < m->conf->nto; i++)
		str_printf(out, "%s%s", i ? ",\r\n " : "", m->conf->to[i]);
	str_printf(out, "\r\nSubject: [toolcrib %s] %s",
		   first->news->over ? "over" : alert_severity_name(first->news->severity), alert_rule_name(first->news->rule));
	if (first->tenant) {
		str_puts(out, " of ");
		put_token(out, first->tenant);
	}
	if (n > 1)
		str_printf(out, " and %zu more", n - 1);
	str_puts(out, " on ");
	put_token(out, m->server);
	str_puts(out, "\r\n");
	put_date(out, now_us);
	str_printf(out, "Message-ID: <%s@", m->id);
	put_token(out, m->server);
	str_puts(out, ">\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
		 "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n");
}

static void put_line(struct str *out, const struct alert_telling *t)
{
	const struct alert_news *n = t->news;
	char time[40];

	str_printf(out, "%s: %s, %s", state_of(t), alert_rule_name(n->rule), alert_severity_name(n->severity));
	if (t->tenant)
		str_printf(out, ", tenant %s", t->tenant);
	if (*n->subject)
		str_printf(out, ", %s", n->subject);
	str_printf(out, "\r\n  %s\r\n  since %s", n->text, clock_format_utc(n->first_us, time, sizeof(time)));
	if (n->over)
		str_printf(out, ", over at %s", clock_format_utc(n->over_us, time, sizeof(time)));
	str_printf(out, ", counted %" PRIu64 " times", n->count);
	if (n->id && !n->over)
		str_printf(out, ", alert %" PRId64 ": toolcrib alerts ack %" PRId64, n->id, n->id);
	str_puts(out, "\r\n\r\n");
}

static void tell_mail(const struct alert_form *m, const struct alert_telling *t, size_t n, uint64_t now_us,
		      struct str *out)
{
	struct str body = STR_INIT;

	put_heads(m, t, n, now_us, out);
	for (size_t i = 0; i < n; i++)
		put_line(&body, &t[i]);
	put_coded(out, &body);
	str_fini(&body);
}

void alert_tell(const struct alert_form *as, const struct alert_telling *t, size_t n, uint64_t now_us, struct str *out)
{
	if (as->conf->type == CONF_ALERT_ALERTMANAGER)
		tell_manager(as->server, t, n, now_us, now_us + 3 * as->conf->repeat_s * UINT64_C(1000000), out);
	else if (as->conf->type == CONF_ALERT_MAIL)
		tell_mail(as, t, n, now_us, out);
	else
		tell_webhook(as->server, t, n, now_us, out);
}
