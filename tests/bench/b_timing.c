/*
 * Is the time of a refusal the same whatever was wrong with the key (SEC S-305, S-309)?  Asks a server over one kept
 * connection with keys of three kinds, drawn at random for each request: an unknown accessor, the accessor of a real key
 * with a wrong secret, a text that is no key.  Prints one JSON line: of each kind samples, mean and median in
 * nanoseconds; of each pair Welch's t, over all samples and over those below the pooled 90th percentile.
 * Usage: b_timing HOST:PORT ACCESSOR [SAMPLES]
 */

#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/addr.h"
#include "tenant/tenant.h"

enum { UNKNOWN, WRONG, MALFORMED, KINDS };
static const char *const names[KINDS] = { "unknown", "wrong", "malformed" };
enum { WARM_UP = 1000, BLOCK = 3000, REPLY_MAX = 4096, CROP_PERCENT = 90 };

struct samples { size_t n; double *ns; };

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int dial(const char *where)
{
	struct addr a;
	struct err err;
	int fd;

	if (addr_parse(where, &a, &err) < 0)
		fail(err.msg);
	fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a.sa, a.len) < 0)
		fail(where);
	return fd;
}

static void make_key(int kind, const char *accessor, struct key_new *ret)
{
	struct key_pepper pepper;

	/* One unknown accessor, as there is one known: both are asked for so often that the caches hold what they lead to. */
	id_random(&pepper, sizeof pepper);
	key_remake(&pepper, kind == UNKNOWN ? "AnUnknownKey" : accessor, ret);
	if (kind == MALFORMED)
		ret->text[KEY_TEXT_SIZE - 2] = ret->text[KEY_TEXT_SIZE - 2] == '0' ? '1' : '0';
}

/* Reads one answer; false: the server has closed. */
static bool read_reply(int fd)
{
	char reply[REPLY_MAX + 1];
	size_t len = 0;

	for (;;) {
		ssize_t n = read(fd, reply + len, REPLY_MAX - len);
		const char *end, *length;
		uint64_t body;

		if (n <= 0)
			return false;
		len += (size_t)n;
		reply[len] = '\0';
		end = strstr(reply, "\r\n\r\n");
		length = strcasestr(reply, "\r\nContent-Length: ");
		if (strncmp(reply, "HTTP/1.1 401 ", strlen("HTTP/1.1 401 ")) != 0 || (end && !length)) {
			fprintf(stderr, "b_timing: no 401 with a length: %.200s\n", reply);
			exit(1);
		}
		length += strlen("\r\nContent-Length: ");
		if (end && text_u64(length, strcspn(length, "\r"), &body) == 0 && len >= (size_t)(end + 4 - reply) + body)
			return true;
	}
}

/* Nanoseconds from the request to its whole answer, or < 0: the server had closed the connection. */
static double ask(int fd, const char *key)
{
	struct timespec from, to;
	char text[512];
	int len = snprintf(text, sizeof text, "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
			   "Authorization: Bearer %s\r\n\r\n", key);

	(void)clock_gettime(CLOCK_MONOTONIC, &from);
	if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len || !read_reply(fd))
		return -1;
	(void)clock_gettime(CLOCK_MONOTONIC, &to);
	return (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* Welch's t of what is below a limit; samples are sorted. */
static double welch(const struct samples *a, const struct samples *b, double limit)
{
	const struct samples *s[2] = { a, b };
	double mean[2], error[2];

	for (int k = 0; k < 2; k++) {
		double sum = 0, square = 0, n = 0;

		for (size_t i = 0; i < s[k]->n && s[k]->ns[i] <= limit; i++) {
			sum += s[k]->ns[i];
			n++;
		}
		mean[k] = sum / n;
		for (size_t i = 0; i < s[k]->n && s[k]->ns[i] <= limit; i++)
			square += (s[k]->ns[i] - mean[k]) * (s[k]->ns[i] - mean[k]);
		error[k] = square / (n - 1) / n;
	}
	return (mean[0] - mean[1]) / sqrt(error[0] + error[1]);
}

static double percentile_of_all(const struct samples of[KINDS], unsigned percent)
{
	double *all = mem_calloc(KINDS * of[0].n, sizeof *all), at;

	for (int k = 0; k < KINDS; k++)
		memcpy(all + (size_t)k * of[0].n, of[k].ns, of[k].n * sizeof *all);
	qsort(all, KINDS * of[0].n, sizeof *all, by_value);
	at = all[KINDS * of[0].n * percent / 100];
	free(all);
	return at;
}

static void report(struct samples of[KINDS])
{
	double crop;

	for (int k = 0; k < KINDS; k++)
		qsort(of[k].ns, of[k].n, sizeof of[k].ns[0], by_value);
	crop = percentile_of_all(of, CROP_PERCENT);
	printf("{");
	for (int k = 0; k < KINDS; k++) {
		double sum = 0;

		for (size_t i = 0; i < of[k].n; i++)
			sum += of[k].ns[i];
		printf("\"%s\":{\"samples\":%zu,\"mean_ns\":%.0f,\"median_ns\":%.0f},", names[k], of[k].n, sum / (double)of[k].n,
		       of[k].ns[of[k].n / 2]);
	}
	for (int k = 1; k < KINDS; k++)
		printf("%s\"%s/%s\":{\"t\":%.2f,\"t_cropped\":%.2f}", k > 1 ? "," : "", names[0], names[k],
		       welch(&of[0], &of[k], INFINITY), welch(&of[0], &of[k], crop));
	printf("}\n");
}

struct question { int kind; char text[KEY_TEXT_SIZE]; };

/* Keys are made aside: what that does to the caches is no part of a sample. */
static void make_block(struct question *q, size_t n, const char *accessor)
{
	for (size_t i = 0; i < n; i++) {
		struct key_new key;
		uint8_t random;

		id_random(&random, sizeof random);
		q[i].kind = random % KINDS;
		make_key(q[i].kind, accessor, &key);
		memcpy(q[i].text, key.text, sizeof q[i].text);
	}
}

static void sample(const char *where, const char *accessor, size_t want, struct samples of[KINDS])
{
	struct question *q = mem_calloc(BLOCK, sizeof *q);
	size_t missing = KINDS * want, asked = 0;
	int fd = dial(where);

	while (missing > 0) {
		make_block(q, BLOCK, accessor);
		for (size_t i = 0; i < BLOCK && missing > 0; i++) {
			struct samples *s = &of[q[i].kind];
			double ns = ask(fd, q[i].text);

			if (ns < 0) {
				(void)close(fd);
				fd = dial(where);
				(void)ask(fd, q[i].text);       /* what a new connection costs is no sample */
			} else if (asked++ >= WARM_UP && s->n < want) {
				s->ns[s->n++] = ns;
				missing--;
			}
		}
	}
	(void)close(fd);
	free(q);
}

int main(int argc, char **argv)
{
	struct samples of[KINDS] = { { 0, NULL } };
	uint64_t want = 100000;

	if (argc < 3 || strlen(argv[2]) != KEY_ACCESSOR_SIZE - 1 ||
	    (argc > 3 && (text_u64(argv[3], strlen(argv[3]), &want) < 0 || want < 2 || want > 100000000)) || secret_init() < 0) {
		fprintf(stderr, "usage: b_timing HOST:PORT ACCESSOR [SAMPLES]\n");
		return 2;
	}
	for (int k = 0; k < KINDS; k++)
		of[k].ns = mem_calloc(want, sizeof of[k].ns[0]);
	sample(argv[1], argv[2], want, of);
	report(of);
	for (int k = 0; k < KINDS; k++)
		free(of[k].ns);
	return 0;
}
