/* audit keys, checkpoint, adopt: what somebody outside has to know of the signatures, and what only a person may decide. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/text.h"
#include "db/db.h"
#include "notary/notary.h"

#include "adm_commands.h"
#include "admin_int.h"

static void put_content(struct adm_call *c, const struct str *text)
{
	json_t *content = json_pack("[{s:s, s:s}]", "type", "text", "text", str_text(text));

	adm_row_begin(c->out);
	adm_put_json(c->out, "content", content);
	adm_row_end(c->out);
	json_decref(content);
}

struct keys_job { bool all; };

int adm_audit_keys_check(struct adm_call *c, struct err *err)
{
	struct keys_job *job = adm_priv(c, sizeof(*job));

	(void)err;
	job->all = adm_flag(c, "all");
	return 0;
}

int adm_audit_keys_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct keys_job *job = c->priv;
	struct str text = STR_INIT;
	int rc = audit_keys_print(db, job->all, &text, err);

	(void)logs;
	if (rc == 0)
		put_content(c, &text);
	str_fini(&text);
	return rc;
}

static void signed_now(void *arg, int rc, const struct err *err)
{
	adm_gathered(arg, rc < 0 ? err : NULL);
}

/* What was written until now is signed before the checkpoint is shown. */
void adm_audit_checkpoint_gather(struct adm_call *c)
{
	if (c->admin->env.notary)
		notary_now(c->admin->env.notary, signed_now, c);
	else
		adm_gathered(c, NULL);
}

int adm_audit_checkpoint_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct str note = STR_INIT;
	int rc = audit_note_newest(db, &note, err);

	(void)logs;
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "", "nothing has been signed yet");
	if (rc == 1)
		put_content(c, &note);
	str_fini(&note);
	return rc < 0 ? rc : 0;
}

/* The start that this command made has taken the tails over, or has been refused; a server that runs did without. */
int adm_audit_adopt_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	if (!c->who.embedded)
		return err_set(err, ERR_CONFLICT, "", "the server runs: there is nothing that would have to be taken over");
	adm_row_begin(c->out);
	adm_row_end(c->out);
	return 0;
}
