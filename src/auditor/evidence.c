/* Pinned keys, a signer's state, checkpoints that were taken away: read strictly, since they are what all else
 * hangs on. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auditor/evidence.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/server.h"
#include "keys/keys.h"
#include "tlog/note.h"
#include "tlog/signer.h"

enum { KEYS_MAX = 64, KEY_FILE_MAX = 65536, ANCHORS_MAX = 256, ANCHOR_FILE_MAX = 1 << 20 };

struct evidence {
	struct audit_evidence view;
	struct note_key key[KEYS_MAX];
	struct signer_state signer;
	struct audit_anchor anchor[ANCHORS_MAX];
	struct str text[ANCHORS_MAX];   /* of each file with anchors */
	size_t ntext;
	struct err keys_err;            /* what view.keys_wrong says */
};

struct evidence *evidence_new(void)
{
	struct evidence *e = mem_zalloc(sizeof(*e));

	signer_state_init(&e->signer);
	e->view.key = e->key;
	e->view.anchor = e->anchor;
	return e;
}

void evidence_free(struct evidence **ep)
{
	struct evidence *e = *ep;

	if (!e)
		return;
	*ep = NULL;
	for (size_t i = 0; i < e->ntext; i++)
		str_fini(&e->text[i]);
	signer_state_fini(&e->signer);
	keys_close(&e->view.keys);
	free(e);
}

int evidence_payload_keys(struct evidence *e, const char *dir, bool served, struct err *err)
{
	struct keyfile_place place = { dir, NULL };
	uint8_t *master = NULL;
	int rc = keyfile_master(dir, &master, err);

	place.master = master;
	keys_close(&e->view.keys);
	e->view.keys_wrong = NULL;
	if (rc == 0 && served)
		rc = db_serve_found(dir, err);
	if (rc == 0)
		rc = keys_open_reader(&place, &e->view.keys, err);
	if (rc == ERR_CORRUPT) {                /* is told as what was found */
		e->keys_err = *err;
		(void)err_wrap(&e->keys_err, "%s", err->where);
		e->view.keys_wrong = e->keys_err.msg;
		rc = 0;
	}
	secret_free(master);
	return rc;
}

const struct audit_evidence *evidence_get(struct evidence *e)
{
	return &e->view;
}

static int add_key(struct evidence *e, const char *p, size_t len, const char *where, struct err *err)
{
	if (e->view.nkey == KEYS_MAX)
		return err_set(err, ERR_LIMIT, where, "more than %d keys", KEYS_MAX);
	if (note_key_parse(p, len, &e->key[e->view.nkey]) < 0) {
		(void)err_set(err, ERR_INVALID, where, "%s is no key, and no file with keys", where);
		err_hint(err, "a key is NAME+ID+BASE64, as toolcrib audit keys prints it");
		return ERR_INVALID;
	}
	e->view.nkey++;
	return 0;
}

int evidence_key(struct evidence *e, const char *value, struct err *err)
{
	struct str text = STR_INIT;
	int rc = 0;

	if (!path_exists(value))
		return add_key(e, value, strlen(value), value, err);
	rc = path_read(value, KEY_FILE_MAX, &text, err);
	for (const char *p = str_text(&text); rc == 0 && *p;) {
		size_t len = strcspn(p, "\n");

		if (len > 0 && *p != '#')
			rc = add_key(e, p, len, value, err);
		p += len + (p[len] == '\n');
	}
	str_fini(&text);
	return rc;
}

int evidence_signer(struct evidence *e, const char *path, struct err *err)
{
	struct str text = STR_INIT;
	struct stat st;
	int fd = path_borrow(path), rc;
	bool is_dir = fd < 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);    /* of one the file is lent */
	char *file = is_dir ? path_join(path, SIGNER_FILE) : mem_strdup(path);

	if (fd >= 0)
		close(fd);
	signer_state_fini(&e->signer);
	signer_state_init(&e->signer);
	rc = path_read(file, SIGNER_FILE_MAX, &text, err);
	if (rc == 0)
		rc = signer_state_parse(&e->signer, text.p, text.len, err);
	if (rc < 0)
		(void)err_wrap(err, "%s", file);
	else
		e->view.signer = &e->signer;
	str_fini(&text);
	free(file);
	return rc;
}

/* Notes stand one behind the other: the text of the next begins with the line behind the last signature. */
static size_t note_length(const char *p, size_t len)
{
	const char *gap = strstr(p, "\n\n");
	size_t at = gap ? (size_t)(gap - p) + 2 : len;

	while (at < len && strncmp(p + at, "\xe2\x80\x94 ", 4) == 0) {
		const char *end = memchr(p + at, '\n', len - at);

		at = end ? (size_t)(end - p) + 1 : len;
	}
	return at;
}

int evidence_anchor(struct evidence *e, const char *path, struct err *err)
{
	struct str *text = &e->text[e->ntext];
	int rc;

	if (e->ntext == ANCHORS_MAX)
		return err_set(err, ERR_LIMIT, path, "more than %d files", ANCHORS_MAX);
	*text = (struct str)STR_INIT;
	rc = path_read(path, ANCHOR_FILE_MAX, text, err);
	e->ntext++;
	if (rc == 0 && text->len == 0)
		rc = err_set(err, ERR_INVALID, path, "the file is empty");
	for (size_t at = 0; rc == 0 && at < text->len;) {
		struct audit_anchor *a = &e->anchor[e->view.nanchor];

		if (text->p[at] == '\n') {
			at++;
			continue;
		}
		if (e->view.nanchor == ANCHORS_MAX)
			return err_set(err, ERR_LIMIT, path, "more than %d checkpoints", ANCHORS_MAX);
		*a = (struct audit_anchor){ text->p + at, note_length(text->p + at, text->len - at) };
		at += a->len;
		e->view.nanchor++;
	}
	return rc;
}

int evidence_anchor_age(struct evidence *e, const char *duration, struct err *err)
{
	uint64_t ms;

	if (text_duration_ms(duration, &ms) < 0 || ms < 1000)
		return err_set(err, ERR_INVALID, "--anchor-max-age", "%s is no time such as 7d or 12h", duration);
	e->view.anchor_age_s = ms / 1000;
	return 0;
}
