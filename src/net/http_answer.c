/* Answers: their heads, their order, whole or in chunks. */
#include "config.h"

#include "http_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "net/stream.h"

#include "ev/ev.h"

const char *http_status_text(int status)
{
	switch (status) {
	case 100: return "Continue";
	case 200: return "OK";
	case 201: return "Created";
	case 202: return "Accepted";
	case 204: return "No Content";
	case 301: return "Moved Permanently";
	case 302: return "Found";
	case 303: return "See Other";
	case 304: return "Not Modified";
	case 307: return "Temporary Redirect";
	case 308: return "Permanent Redirect";
	case 400: return "Bad Request";
	case 401: return "Unauthorized";
	case 402: return "Payment Required";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 406: return "Not Acceptable";
	case 408: return "Request Timeout";
	case 409: return "Conflict";
	case 410: return "Gone";
	case 412: return "Precondition Failed";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 415: return "Unsupported Media Type";
	case 417: return "Expectation Failed";
	case 422: return "Unprocessable Content";
	case 429: return "Too Many Requests";
	case 431: return "Request Header Fields Too Large";
	case 500: return "Internal Server Error";
	case 501: return "Not Implemented";
	case 502: return "Bad Gateway";
	case 503: return "Service Unavailable";
	case 504: return "Gateway Timeout";
	case 505: return "HTTP Version Not Supported";
	}
	return "Unknown";
}

/* RFC 9110 6.6.1; made once a second.  English whatever the locale. */
static const char *date_line(struct http_conn *c)
{
	static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	uint64_t now_s = clock_wall_us() / 1000000;
	if (now_s != c->date_s) {
		time_t t = (time_t)now_s;
		struct tm tm = { 0 };
		gmtime_r(&t, &tm);
		c->date_s = now_s;
		snprintf(c->date, sizeof(c->date), "Date: %.3s, %02u %.3s %04u %02u:%02u:%02u GMT\r\n",
			 days + 3 * tm.tm_wday, (unsigned)tm.tm_mday % 100, months + 3 * tm.tm_mon,
			 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
			 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
	}
	return c->date;
}

static bool is_first(const struct http_request *r)
{
	return r->conn->requests.next == &r->node;
}

/* Bytes of r's answer, now or when its turn comes. */
static void emit(struct http_request *r, const char *p, size_t len)
{
	if (r->conn->dying || len == 0)
		return;
	if (is_first(r))
		stream_write_answer(r->conn->stream, p, len);
	else
		str_put(&r->waiting, p, len);
}

static void emit_text(struct http_request *r, const char *z)
{
	emit(r, z, strlen(z));
}

/* Does the connection end behind this answer? */
static bool closes(const struct http_request *r)
{
	const struct http_conn *c = r->conn;
	bool is_last = c->requests.prev == &r->node && (!c->reading || c->reading == r);
	return r->close || r->body_missing || (c->last && is_last);
}

static void emit_head(struct http_request *r, int status, const char *headers, const char *framing)
{
	char line[80];
	int n = snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
	emit(r, line, (size_t)n);
	emit_text(r, date_line(r->conn));
	if (r->id[0]) {
		char name[sizeof(r->id) + 20];
		n = snprintf(name, sizeof(name), "X-Request-Id: %s\r\n", r->id);
		emit(r, name, (size_t)n);
	}
	if (headers)
		emit_text(r, headers);
	emit_text(r, framing);
	r->close = closes(r);
	if (r->close)
		emit_text(r, "Connection: close\r\n\r\n");
	else
		emit_text(r, r->old ? "Connection: keep-alive\r\n\r\n" : "\r\n");
}

static void complete(struct http_request *r)
{
	r->answered = true;
	if (r->conn->held == r)
		http_conn_release(r->conn);
	if (!r->conn->dying)
		http_conn_advance(r->conn);
}

void http_reply(struct http_request *r, int status, const char *headers, const char *body, size_t len)
{
	assert(!r->answered && !r->chunked);
	char framing[48] = "";
	if (status != 204)
		snprintf(framing, sizeof(framing), "Content-Length: %zu\r\n", len);
	emit_head(r, status, headers, framing);
	if (status != 204 && !r->is_head)
		emit(r, body, len);
	complete(r);
}

void http_stream_begin(struct http_request *r, int status, const char *headers)
{
	assert(!r->answered && !r->chunked);
	r->chunked = !r->old;
	r->close = r->close || r->old;  /* without chunks only the end of the connection tells the end */
	emit_head(r, status, headers, r->chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

static void write_chunk(struct http_request *r, const char *p, size_t len, bool answer)
{
	struct http_conn *c = r->conn;
	char size[24] = "";
	if (c->dying || r->is_head || len == 0)
		return;         /* an empty chunk would be the end */
	int n = r->chunked ? snprintf(size, sizeof(size), "%zx\r\n", len) : 0;
	if (!is_first(r)) {
		str_put(&r->waiting, size, (size_t)n);
		str_put(&r->waiting, p, len);
		str_puts(&r->waiting, r->chunked ? "\r\n" : "");
		if (r->waiting.len > STREAM_OUT_MAX && !answer)         /* SEC S-830 */
			http_conn_close(c);
		return;
	}
	void (*put)(struct stream *, const void *, size_t) = answer ? stream_write_answer : stream_write;
	put(c->stream, size, (size_t)n);
	put(c->stream, p, len);
	if (r->chunked)
		put(c->stream, "\r\n", 2);
}

void http_stream_write(struct http_request *r, const char *p, size_t len)
{
	write_chunk(r, p, len, false);
}

void http_stream_answer(struct http_request *r, const char *p, size_t len)
{
	write_chunk(r, p, len, true);
}

void http_stream_end(struct http_request *r)
{
	if (r->chunked && !r->is_head)
		emit_text(r, "0\r\n\r\n");
	complete(r);
}

size_t http_stream_queued(const struct http_request *r)
{
	if (r->conn->dying)
		return 0;
	return is_first(r) ? stream_queued(r->conn->stream) : r->waiting.len;
}
