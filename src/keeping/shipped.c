/* shipped: what toolcrib-ship has written, put together again beside the directory that it is restored to, where
 * restore takes it for a backup like any other.  In the program toolcrib, on its only thread. */
#include "config.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "ship/ship.h"

#include "keeping_int.h"

#define BESIDE ".unpacking-XXXXXX"

static int wrong_use(const char *what, const char *hint, struct err *err)
{
	(void)err_set(err, ERR_INVALID, what, "--%s is for a directory that toolcrib-ship wrote, and --from is none", what);
	err_hint(err, "%s", hint);
	return ERR_INVALID;
}

static int unpack(const struct shipped_ask *ask, const struct age_identity *ids, size_t n, char **ret_dir,
		  struct str *said, struct err *err)
{
	char *dir = mem_printf("%s" BESIDE, ask->to), when[64];
	struct ship_unpacked sum;
	uint64_t until_us = 0;
	int rc = 0;

	if (ask->until && clock_parse(ask->until, clock_wall_us(), &until_us) < 0)
		rc = err_set(err, ERR_INVALID, "until", "--until %s is no time", ask->until);
	if (rc == 0 && !mkdtemp(dir))
		rc = err_set(err, ERR_UNREACHABLE, ask->to, "no directory can be made beside %s: %s", ask->to, strerror(errno));
	if (rc < 0) {
		free(dir);
		return rc;
	}
	*ret_dir = dir;
	rc = ship_unpack(ask->from, ids, n, until_us, dir, &sum, err);
	if (rc == 0)
		str_printf(said, "generation %" PRIu64 ", %" PRIu64 " parts, as of %s", sum.generation, sum.parts,
			   clock_format_utc(sum.at_us, when, sizeof(when)));
	return rc;
}

int shipped_unpack(const struct shipped_ask *ask, char **ret_dir, struct str *said, struct err *err)
{
	struct age_identity ids[AGE_IDENTITIES_MAX];
	size_t n = 0;
	int rc;

	if (!ship_is_target(ask->from)) {
		if (ask->identity)
			return wrong_use("identity", "what toolcrib backup makes is not encrypted", err);
		return ask->until ? wrong_use("until", "what toolcrib backup makes is of one moment", err) : 0;
	}
	if (!ask->identity) {
		(void)err_set(err, ERR_INVALID, "identity", "%s is encrypted: name the file of an identity with --identity",
			      ask->from);
		err_hint(err, "it is what age-keygen made, beside one of the recipients");
		return ERR_INVALID;
	}
	rc = age_identities_read(ask->identity, ids, &n, err);
	if (rc == 0)
		rc = unpack(ask, ids, n, ret_dir, said, err);
	secret_wipe(ids, sizeof(ids));
	return rc;
}
