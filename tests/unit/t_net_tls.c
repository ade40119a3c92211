/* TLS over socket pairs: the handshake's time, bytes in every size, ends that are said and ends that are not, names. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/stream.h"
#include "net/tls.h"
#include "tmpdir.h"
#include "suite.h"

#define PATIENCE_MS 60000
#define START_US 1700000000000000ull

struct rig {
	char *dir;
	struct ev_loop *loop;
	struct tls_server *server;
	struct tls_handshake *h;
	struct tls *tls;
	struct stream *s;
	SSL_CTX *ctx;
	SSL *client;
	int near, far;                  /* near is the handshake's, then the stream's */
	bool ready;
	struct str got;                 /* by the stream */
	unsigned ends;
	enum stream_end why;
};

/* --- certificates that sign themselves */

static void save(const char *dir, const char *name, X509 *cert, EVP_PKEY *key)
{
	char path[512];
	FILE *f = fopen(tmpdir_path(dir, name, path, sizeof(path)), "w");
	assert_non_null(f);
	fchmod(fileno(f), 0600);
	assert_true(cert ? PEM_write_X509(f, cert) : PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL));
	fclose(f);
}

/* NAME.crt and NAME.key. */
static X509 *make(const char *dir, const char *name, const char *san, EVP_PKEY **ret_key)
{
	char file[128];
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *c = X509_new();
	X509_set_version(c, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(c), 7);
	X509_gmtime_adj(X509_getm_notBefore(c), -60);
	X509_gmtime_adj(X509_getm_notAfter(c), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(c, X509_get_subject_name(c));
	X509_set_pubkey(c, key);
	if (san) {
		X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, san);
		X509_add_ext(c, x, -1);
		X509_EXTENSION_free(x);
	}
	X509_sign(c, key, EVP_sha256());
	snprintf(file, sizeof(file), "%s.crt", name);
	save(dir, file, c, NULL);
	snprintf(file, sizeof(file), "%s.key", name);
	save(dir, file, NULL, key);
	*ret_key = key;
	return c;
}

static struct tls_opt options(const struct rig *r, char paths[2][512])
{
	return (struct tls_opt){ .cert = tmpdir_path(r->dir, "server.crt", paths[0], 512),
				 .key = tmpdir_path(r->dir, "server.key", paths[1], 512), .alpn = "http/1.1" };
}

/* --- the rig */

static void on_ready(void *arg, struct tls *t)
{
	struct rig *r = arg;
	assert_false(r->ready);
	r->ready = true;
	r->h = NULL;
	r->tls = t;
}

static int setup(void **state)
{
	struct rig *r = mem_zalloc(sizeof(*r));
	char paths[2][512];
	EVP_PKEY *key;
	int fds[2], small = 4096;
	r->dir = tmpdir_make();
	X509_free(make(r->dir, "server", "DNS:localhost", &key));
	EVP_PKEY_free(key);
	const struct tls_opt o = options(r, paths);
	assert_int_equal(tls_server_new(&o, &r->server, NULL), 0);
	r->loop = ev_loop_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	r->near = fds[0];
	r->far = fds[1];
	r->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_mode(r->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	r->client = SSL_new(r->ctx);
	SSL_set_fd(r->client, fds[1]);
	SSL_set_connect_state(r->client);
	r->h = tls_accept(r->server, r->loop, fds[0], "test", on_ready, r);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;
	clock_real();
	tls_handshake_cancel(&r->h);
	stream_close(&r->s);
	ev_loop_free(&r->loop);
	SSL_free(r->client);
	SSL_CTX_free(r->ctx);
	tls_server_free(&r->server);
	if (r->far >= 0)
		close(r->far);
	str_fini(&r->got);
	tmpdir_remove(r->dir);
	free(r);
	return 0;
}

static void set_true(void *arg) { bool *flag = arg; *flag = true; }

static void turn(struct rig *r)
{
	bool turned = false;
	ev_post(r->loop, set_true, &turned);
	assert_true(ev_loop_run_until(r->loop, &turned, PATIENCE_MS));
}

static size_t on_data(void *arg, const char *p, size_t len)
{
	struct rig *r = arg;
	str_put(&r->got, p, len);
	return len;
}

static void on_ended(void *arg, enum stream_end why)
{
	struct rig *r = arg;
	r->ends++;
	r->why = why;
}

/* Both sides, and then a stream on ours. */
static void shake(struct rig *r)
{
	static const struct stream_ops ops = { on_data, on_ended, NULL };
	for (int i = 0, rc = 0; i < 1000 && (rc != 1 || !r->ready); i++) {
		rc = SSL_do_handshake(r->client);
		turn(r);
	}
	assert_non_null(r->tls);
	r->s = stream_new(r->loop, r->near, r->near, 100, &ops, r);
	stream_tls(r->s, r->tls);
}

/* What the client reads until it would have to wait; the last result of SSL_get_error(). */
static int drain(struct rig *r, struct str *into)
{
	char buf[16384];
	int n;
	while ((n = SSL_read(r->client, buf, sizeof(buf))) > 0)
		str_put(into, buf, (size_t)n);
	return SSL_get_error(r->client, n);
}

/* --- tests */

struct ours { struct tls *t; const struct tls_handshake *h; bool done, refused; char why[128]; };

static void on_ours(void *arg, struct tls *t)
{
	struct ours *o = arg;
	o->t = t;
	o->done = true;
	snprintf(o->why, sizeof(o->why), "%s", t ? "" : tls_handshake_why(o->h, &o->refused));
}

/* Our side as a client of our own server, on the same loop. */
static struct ours reach(struct rig *r, const char *host, const struct tls_client *c)
{
	struct ours o = { .done = false };
	struct tls_handshake *h = NULL;
	struct err err;
	int fds[2];
	tls_handshake_cancel(&r->h);
	r->ready = false;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	r->h = tls_accept(r->server, r->loop, fds[0], "test", on_ready, r);
	assert_int_equal(tls_begin(r->loop, fds[1], host, c, on_ours, &o, &h, &err), 0);
	o.h = h;
	assert_true(ev_loop_run_until(r->loop, &o.done, PATIENCE_MS));
	assert_true(ev_loop_run_until(r->loop, &r->ready, PATIENCE_MS));
	if (o.t)
		close(fds[1]);
	if (r->tls)
		close(fds[0]);
	tls_free(&r->tls);
	tls_free(&o.t);
	return o;
}

static void a_client_reaches_who_it_names_and_nobody_else(void **state)
{
	struct rig *r = *state;
	char paths[3][512];
	const struct tls_client c = { .ca = tmpdir_path(r->dir, "server.crt", paths[0], 512) };
	const struct tls_client half = { .ca = c.ca, .cert = c.ca, .key = tmpdir_path(r->dir, "other.key", paths[1], 512) };
	uint64_t failed = metric_get(METRIC_tls_handshakes_failed);
	struct ours o = reach(r, "localhost", &c);
	struct err err;
	EVP_PKEY *key;
	assert_string_equal(o.why, "");
	assert_false(o.refused);
	assert_int_equal(metric_get(METRIC_tls_handshakes_failed), failed);
	o = reach(r, "localhost.example", &c);
	assert_true(o.refused);
	assert_non_null(strstr(o.why, "ostname mismatch"));
	X509_free(make(r->dir, "other", "DNS:localhost", &key));
	EVP_PKEY_free(key);
	o = reach(r, "localhost", &(struct tls_client){ .ca = tmpdir_path(r->dir, "other.crt", paths[2], 512) });
	assert_true(o.refused);
	assert_int_equal(tls_client_check(&c, &err), 0);
	assert_int_equal(tls_client_check(&half, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "does not belong"));
	assert_true(tls_client_check(&(struct tls_client){ .ca = "/nowhere/ca.crt" }, &err) < 0);
}

static void handshake_ends_with_its_time(void **state)          /* SEC S-116 */
{
	struct rig *r = *state;
	uint64_t failed = metric_get(METRIC_tls_handshakes_failed);
	clock_fake(START_US, 1000);
	tls_handshake_cancel(&r->h);
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	turn(r);
	r->h = tls_accept(r->server, r->loop, fds[0], "test", on_ready, r);
	assert_int_equal(write(fds[1], "\x16\x03\x01", 3), 3);
	turn(r);
	clock_step(TLS_HANDSHAKE_MS * 1000ull - 1000);
	turn(r);
	assert_false(r->ready);
	clock_step(2000);
	turn(r);
	turn(r);
	assert_true(r->ready);
	assert_null(r->tls);
	assert_int_equal(metric_get(METRIC_tls_handshakes_failed), failed + 1);
	char c;
	assert_true(read(fds[1], &c, 1) <= 0);
	close(fds[1]);
}

static void bytes_come_whole_in_every_size(void **state)
{
	struct rig *r = *state;
	struct str back = STR_INIT;
	char *big = mem_alloc(300000);
	size_t sent = 0, total = 300000;
	for (size_t i = 0; i < total; i++)
		big[i] = (char)('a' + i * 7 % 26);
	shake(r);
	/* Records larger than what may wait (100 bytes), and many of them in one read. */
	for (int i = 0; i < 100000 && r->got.len < total; i++) {
		if (sent < total) {
			int n = SSL_write(r->client, big + sent, (int)(total - sent < 20000 ? total - sent : 20000));
			sent += n > 0 ? (size_t)n : 0;
		}
		turn(r);
	}
	assert_int_equal(r->got.len, total);
	assert_memory_equal(r->got.p, big, total);
	/* And out, through a socket that takes little at a time. */
	stream_write(r->s, big, 1);
	stream_write_answer(r->s, big + 1, total - 2);
	stream_write(r->s, big + total - 1, 1);
	for (int i = 0; i < 100000 && back.len < total; i++) {
		turn(r);
		(void)drain(r, &back);
	}
	assert_int_equal(back.len, total);
	assert_memory_equal(back.p, big, total);
	assert_int_equal(r->ends, 0);
	str_fini(&back);
	free(big);
}

static void what_was_read_ahead_is_not_forgotten(void **state)
{
	struct rig *r = *state;
	shake(r);
	stream_pause(r->s, true);
	for (int i = 0; i < 50; i++)
		assert_int_equal(SSL_write(r->client, "0123456789", 10), 10);
	turn(r);
	assert_int_equal(r->got.len, 0);
	stream_pause(r->s, false);
	for (int i = 0; i < 100 && r->got.len < 500; i++)
		turn(r);
	assert_int_equal(r->got.len, 500);
}

static void a_said_end_is_an_end_and_half_of_one(void **state)
{
	struct rig *r = *state;
	struct str back = STR_INIT;
	shake(r);
	assert_int_equal(SSL_write(r->client, "last", 4), 4);
	assert_int_equal(SSL_shutdown(r->client), 0);
	turn(r);
	turn(r);
	assert_string_equal(str_text(&r->got), "last");
	assert_int_equal(r->ends, 1);
	assert_int_equal(r->why, STREAM_EOF);
	stream_write(r->s, "answer", 6);
	stream_half_close(r->s);
	turn(r);
	turn(r);
	assert_int_equal(drain(r, &back), SSL_ERROR_ZERO_RETURN);       /* they say theirs */
	assert_string_equal(str_text(&back), "answer");
	str_fini(&back);
}

static void an_end_that_is_not_said_is_a_break(void **state)
{
	struct rig *r = *state;
	uint64_t cut = metric_get(METRIC_tls_cut_off);
	shake(r);
	assert_int_equal(SSL_write(r->client, "half", 4), 4);
	shutdown(r->far, SHUT_WR);
	for (int i = 0; i < 10; i++)
		turn(r);
	assert_int_equal(r->ends, 1);
	assert_int_equal(r->why, STREAM_RESET);
	assert_int_equal(metric_get(METRIC_tls_cut_off), cut + 1);
}

static void our_close_is_said(void **state)
{
	struct rig *r = *state;
	struct str back = STR_INIT;
	shake(r);
	stream_close(&r->s);
	turn(r);
	assert_int_equal(drain(r, &back), SSL_ERROR_ZERO_RETURN);
}

static void what_is_cut_short_does_not_look_whole(void **state)
{
	struct rig *r = *state;
	struct str back = STR_INIT;
	char *big = mem_zalloc(500000);
	shake(r);
	stream_write_answer(r->s, big, 500000);
	turn(r);
	assert_true(stream_queued(r->s) > 0);
	stream_close(&r->s);
	turn(r);
	assert_int_not_equal(drain(r, &back), SSL_ERROR_ZERO_RETURN);
	assert_true(back.len < 500000);
	str_fini(&back);
	free(big);
}

static void a_finished_stream_says_its_end_to_a_slow_reader(void **state)
{
	struct rig *r = *state;
	struct str back = STR_INIT;
	char *big = mem_zalloc(200000);
	int last = 0;
	shake(r);
	stream_write_answer(r->s, big, 200000);
	stream_finish(&r->s);
	for (int i = 0; i < 10000 && last != SSL_ERROR_ZERO_RETURN; i++) {
		turn(r);
		last = drain(r, &back);
	}
	assert_int_equal(last, SSL_ERROR_ZERO_RETURN);
	assert_int_equal(back.len, 200000);
	str_fini(&back);
	free(big);
}

static void chain_is_limited(void **state)
{
	struct rig *r = *state;
	char paths[2][512], file[512];
	struct tls_server *s = NULL;
	struct tls_opt o = options(r, paths);
	struct str text = STR_INIT;
	struct err err;
	char *one = mem_zalloc(4096);
	FILE *f = fopen(o.cert, "r");
	size_t n = fread(one, 1, 4096, f);
	fclose(f);
	for (int extra = TLS_CHAIN_MAX; extra <= TLS_CHAIN_MAX + 1; extra++) {
		str_reset(&text);
		for (int i = 0; i <= extra; i++)
			str_put(&text, one, n);
		o.cert = tmpdir_path(r->dir, "chain.crt", file, sizeof(file));
		f = fopen(o.cert, "w");
		assert_int_equal(fwrite(text.p, 1, text.len, f), text.len);
		fclose(f);
		assert_int_equal(tls_server_new(&o, &s, &err), extra == TLS_CHAIN_MAX ? 0 : ERR_LIMIT);
		tls_server_free(&s);
	}
	str_fini(&text);
	free(one);
}

/* A client with this subjectAltName, through a handshake with a server that takes it. */
static void shake_as(struct rig *r, const char *san)
{
	char paths[3][512];
	struct tls_opt o = options(r, paths);
	EVP_PKEY *key;
	X509 *cert = make(r->dir, "client", san, &key);
	struct tls_server *next = NULL;
	int fds[2];
	o.client_ca = tmpdir_path(r->dir, "client.crt", paths[2], 512);
	o.client_required = true;
	assert_int_equal(tls_server_new(&o, &next, NULL), 0);
	tls_server_replace(r->server, &next);
	assert_null(next);
	tls_handshake_cancel(&r->h);
	SSL_free(r->client);
	close(r->far);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	r->near = fds[0];
	r->far = fds[1];
	r->client = SSL_new(r->ctx);
	SSL_use_certificate(r->client, cert);
	SSL_use_PrivateKey(r->client, key);
	SSL_set_fd(r->client, fds[1]);
	SSL_set_connect_state(r->client);
	r->h = tls_accept(r->server, r->loop, fds[0], "test", on_ready, r);
	X509_free(cert);
	EVP_PKEY_free(key);
	shake(r);
}

static void names_are_exact_and_of_their_kind(void **state)     /* SEC S-118 */
{
	struct rig *r = *state;
	shake_as(r, "URI:spiffe://x/a,DNS:a.example.org,email:m@example.org");
	assert_true(tls_has_cert(r->tls));
	assert_true(tls_cert_until(r->tls) > clock_wall_us());
	assert_true(tls_cert_is(r->tls, TLS_URI, "spiffe://x/a"));
	assert_true(tls_cert_is(r->tls, TLS_DNS, "a.example.org"));
	assert_false(tls_cert_is(r->tls, TLS_DNS, "spiffe://x/a"));
	assert_false(tls_cert_is(r->tls, TLS_URI, "spiffe://x/"));
	assert_false(tls_cert_is(r->tls, TLS_URI, "spiffe://x/ab"));
	assert_false(tls_cert_is(r->tls, TLS_DNS, "example.org"));
	assert_false(tls_cert_is(r->tls, TLS_DNS, "test"));             /* the CN */
	assert_false(tls_cert_is(r->tls, TLS_DNS, "m@example.org"));
}

static void names_are_counted(void **state)
{
	struct rig *r = *state;
	struct str san = STR_INIT;
	char last[2][16];
	for (int i = 0; i <= TLS_NAMES_MAX; i++)
		str_printf(&san, "%sDNS:n%d", i ? "," : "", i);
	shake_as(r, str_text(&san));
	snprintf(last[0], sizeof(last[0]), "n%d", TLS_NAMES_MAX - 1);
	snprintf(last[1], sizeof(last[1]), "n%d", TLS_NAMES_MAX);
	assert_true(tls_cert_is(r->tls, TLS_DNS, last[0]));
	assert_false(tls_cert_is(r->tls, TLS_DNS, last[1]));
	str_fini(&san);
}

SINGLE_THREAD_SUITE(tls)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_client_reaches_who_it_names_and_nobody_else),
		TEST(handshake_ends_with_its_time),
		TEST(bytes_come_whole_in_every_size),
		TEST(what_was_read_ahead_is_not_forgotten),
		TEST(a_said_end_is_an_end_and_half_of_one),
		TEST(an_end_that_is_not_said_is_a_break),
		TEST(our_close_is_said),
		TEST(what_is_cut_short_does_not_look_whole),
		TEST(a_finished_stream_says_its_end_to_a_slow_reader),
		TEST(chain_is_limited),
		TEST(names_are_exact_and_of_their_kind),
		TEST(names_are_counted),
	};
	if (secret_init())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
