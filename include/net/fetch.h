#ifndef NET_FETCH_H
#define NET_FETCH_H

#include "base/err.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- which addresses may be reached */

/* Which addresses outbound requests may reach (SEC section 10).  Pure functions.
 *
 * Without any switch: https on port 443 to public addresses.  `private_ok` adds private addresses (loopback, private
 * networks, shared address space), on any port and by plain http.  An entry "host:port" adds exactly that: the port,
 * plain http, and private addresses behind the name; when the host is an address, that address whatever it is.  An
 * entry "10.0.0.0/8" adds the addresses in it, on any port and by plain http.  The unspecified address, 0/8,
 * multicast and broadcast are never reached, and our own listeners only by an entry with their very address and
 * port. */

#define FETCH_ALLOW_MAX 64              /* entries of one policy */

struct arena;
struct url;

struct fetch_allow {                    /* one entry: host and port, or (host NULL) a range */
	const char *host;
	uint16_t port;
	bool literal;                   /* host is an address */
	uint8_t net[16];                /* IPv6 form; IPv4 as v4-mapped */
	unsigned bits;
};
struct fetch_policy {
	bool private_ok;
	const struct fetch_allow *allow; size_t nallow;
	const char *ca_file;            /* NULL = the system's authorities */
};
struct fetch_own { struct addr *addr; size_t n; };      /* what this process listens on, wildcards spelled out */
/* Add a listener's address, a wildcard as each address of this machine; a path is none. */
void fetch_own_add(struct fetch_own *own, const char *address);

enum addr_class {
	ADDR_PUBLIC, ADDR_LOOPBACK, ADDR_PRIVATE, ADDR_SHARED, ADDR_LINK_LOCAL, ADDR_SPECIAL, ADDR_NEVER,
};
/* The parts of an address, unwrapped (SEC S-704): itself, and each IPv4 address inside of it. */
#define ADDR_PARTS_MAX 5
struct addr_part { uint8_t ip[16]; enum addr_class cls; };

/* One entry of a list.  What ret points to is in mem.  ERR_INVALID, where = at. */
int fetch_allow_parse(const char *text, const char *at, struct arena *mem, struct fetch_allow *ret,
		      struct err *err) MUST_CHECK;
/* A place that toolcribd.yaml names, which is the operator's word (OP-006): any address, private ones too, with this
 * name and port; never a listener of ours, which an entry with an address would allow.  allow is the policy's one
 * entry; both live as long as mem and ca_file do (NULL: the system's authorities).  ERR_DENIED, ERR_LIMIT;
 * where = at. */
int fetch_policy_place(const struct url *u, const char *ca_file, const char *at, struct arena *mem,
		       struct fetch_allow *allow, struct fetch_policy *ret, struct err *err) MUST_CHECK;
/* What can be said without resolving the name: may this URL pass for any address?  ERR_DENIED with a hint. */
int fetch_policy_url(const struct fetch_policy *p, const struct url *u, struct err *err) MUST_CHECK;
/* May a connection for this URL go to this address? ERR_DENIED; the text names the kind of address, not the address. */
int fetch_policy_addr(const struct fetch_policy *p, const struct fetch_own *own, const struct url *u,
		      const struct addr *a, struct err *err) MUST_CHECK;

/* --- requests */

/* All outbound HTTP (SEC S-701): libcurl's multi interface on our loop, HTTP/1.1.  Every connection, new or kept, goes
 * to an address that the request's policy allows: the address of the connect itself is what is tested, so that a name
 * that changes its mind between a check and a connect gains nothing (SEC S-703).  Kept connections are shared by
 * requests of one scope with equal policies only (trap 31).  No redirects, no proxies, no cookies, no decompression,
 * TLS 1.2 or later and always verified (SEC S-706, S-707, S-709).  Loop thread. */

#define FETCH_CONNECT_MS 5000           /* name resolution, connect and handshake together */
#define FETCH_HEAD_MAX 32768            /* bytes of status line, headers, interim answers and trailers */
#define FETCH_CA_MAX (1u << 20)         /* bytes of a file with certificate authorities */
#define FETCH_HEADERS_MAX 64            /* headers of a request */
#define FETCH_RUNNING_MAX 1024          /* requests under way; beyond it ERR_BUSY */
#define FETCH_KEPT 256                  /* of these, the last are for pools with less than FETCH_POOL_SHARE under way */
#define FETCH_POOL_SHARE 8
#define FETCH_POOLS_MAX 256             /* scopes and policies with connections: pools */
#define FETCH_IDLE_MAX 256              /* kept connections of one pool */
#define FETCH_POOL_IDLE_MS 60000        /* a pool without work closes its connections */

struct breakers;
struct ev_loop;
struct fetch;
struct fetch_head;
struct fetch_policy;
struct fetcher;

struct fetch_header { const char *name, *value; };
/* A signature of AWS, version 4, for service s3, over all headers; the caller's x-amz-content-sha256 stands for the
 * body. */
struct fetch_aws { const char *region, *id, *secret; };
struct fetch_req {
	const char *method;             /* "GET"; POST, PUT and PATCH always have a body, GET and HEAD never */
	const char *url;
	const struct fetch_policy *policy;      /* borrowed until done() */
	const char *scope;              /* whose connections: the tenant's name */
	const struct fetch_header *headers; size_t nheaders;    /* fetch_check_header() each */
	const void *body; size_t body_len;
	uint64_t deadline_us;           /* monotonic; 0 = none: a stream whose owner watches it */
	size_t body_max;                /* bytes of the answer's body; SIZE_MAX: data() counts */
	/* No request: a connection to the host and port of url, which is http, is all that is wanted.  head() and data()
	 * are not called; done() with rc 0 may take it. */
	bool connect_only;
	const struct fetch_aws *aws;    /* NULL: not signed */
	/* A Unix socket that the configuration names, instead of the URL's host and port, which no policy is asked about then;
	 * the URL is http.  No definition can name one (SEC S-701).  NULL: none. */
	const char *unix_socket;
	const char *cert_file, *key_file;       /* shown to a server that asks for a certificate, read at each request; NULL */
};
/* head(): once, when the final head is whole and before any data.  data(): bytes as they arrive; a negative err_code
 * ends the request with it.  done(): once, last, also when cancelled; f is gone when it returns.  rc 0: the answer came
 * to its regular end, whatever its status.  Else ERR_DENIED (address, URL or certificate not allowed), ERR_TIMEOUT,
 * ERR_LIMIT, ERR_CANCELLED, ERR_UNREACHABLE (no connection: nothing was sent), ERR_IO (it broke, or is no HTTP), or
 * data()'s code; the message fits an answer to a client: no address, no text of the peer's.  Nothing is called from
 * inside fetch_start() or fetch_cancel(). */
struct fetch_sink {
	void (*head)(void *arg, const struct fetch_head *h);
	int (*data)(void *arg, const void *p, size_t len);
	void (*done)(void *arg, int rc, const struct err *err);
};
struct fetcher *fetcher_new(struct ev_loop *loop);
void fetcher_free(struct fetcher **f);                  /* what runs ends as cancelled, before the return */
/* An address of ours as listen_address() gives it: no request reaches it (SEC S-705).  What is no TCP address is
 * fine. */
void fetcher_own(struct fetcher *f, const char *address);

struct breakers *fetcher_breakers(struct fetcher *f);   /* of all servers; who knows what a failure is asks and tells */

/* Everything is copied but the policy.  ERR_INVALID, ERR_DENIED (the URL alone tells), ERR_BUSY, ERR_LIMIT. */
int fetch_start(struct fetcher *f, const struct fetch_req *req, const struct fetch_sink *sink, void *arg,
		struct fetch **ret, struct err *err) MUST_CHECK;
void fetch_cancel(struct fetch *f);                     /* idempotent; done() follows */

/* Where it went last, address and port; "" = nowhere.  During done(), for the log and for who wrote a tool. */
const char *fetch_address(const struct fetch *f);
/* During done() of a connection alone: its socket, which does not block, once; from here on it is the caller's. */
int fetch_take_socket(struct fetch *f);
int fetch_head_status(const struct fetch_head *h);
/* The value of the first header of this name (lower case), NULL without; valid during head(). */
const char *fetch_head_get(const struct fetch_head *h, const char *name);
/* The next one of the same name behind this value, or NULL. */
const char *fetch_head_next(const struct fetch_head *h, const char *name, const char *value);

/* A token for a name, no control character in the value (SEC S-708), and none of the names that belong to the
 * connection: host, connection, content-length, transfer-encoding, … */
int fetch_check_header_name(const char *name, const char *at, struct err *err) MUST_CHECK;
int fetch_check_header_value(const char *value, size_t len, const char *at, struct err *err) MUST_CHECK;

/* For tests: answers instead of the resolver, before each request that names a host.  Appends "1.2.3.4" or
 * "1.2.3.4,5.6.7.8" to ret (size bytes); an empty text leaves the name to the system. */
typedef void fetch_resolve_fn(void *arg, const char *host, uint16_t port, char *ret, size_t size);
FOR_TESTS void fetcher_resolve(struct fetcher *f, fetch_resolve_fn *fn, void *arg);

#endif
