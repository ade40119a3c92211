#ifndef NET_MAIL_H
#define NET_MAIL_H

#include "base/err.h"
#include "net/hook.h"

/* Mail to one server that toolcribd.yaml names, by SMTP (RFC 5321): TLS from the first byte or by STARTTLS, never
 * without but on this machine, and never less than was asked for; PLAIN or LOGIN with a password from a file.  The
 * operator's word (OP-006), as hook.h has it: any address, this name and port, never a listener of ours.  A connection
 * for each message, one message at a time; an answer 2xx behind its last byte takes it, for all whom the server did not
 * refuse.  Loop thread. */

#define MAIL_DIALOG_MS 60000            /* for all of it, connect and handshake too */
#define MAIL_LINE_MAX 2048              /* bytes of a line of the server's */
#define MAIL_LINES_MAX 100              /* of one answer */

enum mail_tls { MAIL_STARTTLS, MAIL_TLS, MAIL_CLEAR };
struct ev_loop;
struct fetcher;
struct mail;
struct mail_conf {                      /* borrowed for life */
	const char *server;             /* host:port */
	enum mail_tls tls;
	const char *ca;                 /* NULL: the system's authorities */
	const char *user, *password_file;       /* NULL: neither; the file: one line, nobody else may use it */
	const char *from;               /* addresses that stand in SMTP as they are */
	char *const *to; size_t nto;
};
/* Is what it names there, and may it be reached?  As hook_check(). */
int mail_check(const struct mail_conf *conf, struct err *err) MUST_CHECK;
/* scope: whose connections, no tenant's name; copied.  done(): status is the server's last answer, 0 without one. */
int mail_open(struct ev_loop *loop, struct fetcher *f, const struct mail_conf *conf, const char *scope,
	      hook_done_fn *done, void *arg, struct mail **ret, struct err *err) MUST_CHECK;
/* text: headers and body, lines that end with CR LF.  Copied; ends with done(), as hook_send() does. */
void mail_send(struct mail *m, const void *text, size_t len);
void mail_close(struct mail **m);       /* of what is under way nobody hears */

#endif
