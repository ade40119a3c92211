/* How long the certificates of the listeners are good for: a gauge, and a warning each day from two weeks before the end. */
#include "config.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "net/tls.h"

#include "app_int.h"

#define DAY_US (24ull * 3600 * 1000 * 1000)
#define WARN_US (14 * DAY_US)

static void look(const char *address, uint64_t expires_us, uint64_t *first_us)
{
	uint64_t now = clock_wall_us();
	char text[32];

	if (expires_us == 0)
		return;                 /* plain */
	if (*first_us == 0 || expires_us < *first_us)
		*first_us = expires_us;
	if (expires_us > now + WARN_US)
		return;
	log_warn(NULL, "certificate expires soon listener=%s expires=%s days=%llu", address,
		 clock_format_utc(expires_us, text, sizeof(text)), expires_us > now ? (expires_us - now) / DAY_US : 0);
}

void app_certs_look(struct app *a)
{
	uint64_t first_us = 0;

	for (size_t i = 0; i < a->nlisteners; i++)
		look(a->listeners[i].ops->address(a->listeners[i].t), transport_tls_expires_us(a->listeners[i].t), &first_us);
	if (a->admin_tls)
		look(a->opt.conf->admin_listen, tls_server_expires_us(a->admin_tls), &first_us);
	metric_set(METRIC_tls_certificate_expires, first_us / 1000000);
	a->certs_due_us = ev_now_us(a->loop) + DAY_US;
}

void app_certs_check(struct app *a)
{
	if (ev_now_us(a->loop) >= a->certs_due_us)
		app_certs_look(a);
}
