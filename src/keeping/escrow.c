/* keys escrow: the key files of a store in one file for people elsewhere, encrypted by age to them, which the server
 * cannot open; and whether what was put away is what is needed now (OP-516).  It runs in the program toolcrib, with a
 * server or without one, and reads what its user may read. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "age/age.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "command/rows.h"
#include "json/reply.h"
#include "keeping/keeping.h"
#include "keys/escrow.h"

#include "keeping_int.h"

#define BLOCK 512                       /* of ustar */
#define KEY_BYTES 32
#define ESCROW_MAX (1u << 20)           /* bytes of the file */

/* --- the file */

static int put_out(void *arg, const void *p, size_t n, struct err *err)
{
	(void)err;
	str_put(arg, p, n);
	return 0;
}

/* A header of ustar for a file of our own name, then its one block. */
static int put_member(struct age_writer *w, const char *name, const void *p, size_t len, uint64_t time_s,
		      struct err *err)
{
	char block[2 * BLOCK] = "";
	unsigned sum = 0;
	int rc;

	(void)snprintf(block, 100, "%.99s", name);
	memcpy(block + 100, "0000400", 8);
	memcpy(block + 108, "0000000", 8);
	memcpy(block + 116, "0000000", 8);
	(void)snprintf(block + 124, 12, "%011zo", len);
	(void)snprintf(block + 136, 12, "%011llo", (unsigned long long)(time_s & 077777777777ull));   /* eleven digits */
	memcpy(block + 148, "        ", 8);
	block[156] = '0';
	memcpy(block + 257, "ustar\00000", 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)block[i];
	(void)snprintf(block + 148, 8, "%06o", sum);
	memcpy(block + BLOCK, p, len);
	rc = age_writer_put(w, block, sizeof(block), err);
	secret_wipe(block, sizeof(block));
	return rc;
}

static int put_key(struct age_writer *w, const char *store, const char *name, uint64_t time_s, struct err *err)
{
	char *path = path_join(store, name);
	struct str text = STR_SECRET_INIT;
	int rc = path_read_as(path, PATH_SECRET, KEY_BYTES, &text, err);

	if (rc == 0 && text.len != KEY_BYTES)
		rc = err_set(err, ERR_CORRUPT, path, "%s must have %d bytes", path, KEY_BYTES);
	if (rc == 0)
		rc = put_member(w, name, text.p, text.len, time_s, err);
	str_wipe(&text);
	free(path);
	return rc;
}

static int wrap(const char *store, const struct escrow_key *keys, size_t n, const char *to, size_t *ret_to,
		struct str *out, struct err *err)
{
	struct age_recipient list[AGE_RECIPIENTS_MAX];
	const uint64_t time_s = clock_wall_us() / 1000000;
	char end[2 * BLOCK] = "";
	struct age_writer *w;
	int rc = age_recipients_parse(to, list, ret_to, err);

	if (rc < 0)
		return rc;
	w = age_writer_new(list, *ret_to, put_out, out);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = put_key(w, store, keys[i].name, time_s, err);
	if (rc == 0)
		rc = age_writer_put(w, end, sizeof(end), err);
	if (rc == 0)
		return age_writer_end(&w, err);
	age_writer_free(&w);
	return rc;
}

static void sum_of(const struct str *bytes, char ret[2 * DIGEST_SIZE + 1])
{
	uint8_t sum[DIGEST_SIZE];

	digest_sha256(bytes->p, bytes->len, sum);
	text_hex(sum, sizeof(sum), ret);
}

static void put_row(struct str *rows, const char *file, const char *sum, size_t keys, const char *said)
{
	struct reply out = { .text = STR_INIT };

	reply_row_begin(&out);
	reply_text(&out, "file", file);
	reply_text(&out, "sha256", sum);
	reply_int(&out, "keys", (int64_t)keys);
	reply_text(&out, "said", said);
	reply_row_end(&out);
	str_put(rows, out.text.p, out.text.len);
	str_fini(&out.text);
}

static int make(const char *store, const char *file, const char *to, struct str *rows, struct err *err)
{
	struct escrow_key keys[ESCROW_KEYS_MAX];
	char sum[2 * DIGEST_SIZE + 1], time[40], said[96];
	struct str bytes = STR_INIT;
	size_t n = 0, nto = 0;
	int rc = escrow_keys(store, keys, &n, err);

	if (rc == 0 && path_exists(file))
		rc = err_set(err, ERR_CONFLICT, file, "%s is there already, which is not written over", file);
	if (rc == 0)
		rc = wrap(store, keys, n, to, &nto, &bytes, err);
	if (rc == 0)
		rc = path_create(file, 0600, bytes.p, bytes.len, err);
	if (rc == 0) {
		sum_of(&bytes, sum);
		rc = escrow_put(store, file, sum, clock_format_utc(clock_wall_us(), time, sizeof(time)), keys, n, err);
	}
	if (rc == 0) {
		(void)snprintf(said, sizeof(said), "%zu key file%s in it, for %zu who can open it", n,
			       n == 1 ? " is" : "s are", nto);
		put_row(rows, file, sum, n, said);
	}
	str_fini(&bytes);
	return rc;
}

/* --- is it what is needed? */

static int check(const char *store, const char *file, struct str *rows, struct err *err)
{
	struct str bytes = STR_INIT, missing = STR_INIT;
	struct escrow_note note;
	char sum[2 * DIGEST_SIZE + 1];
	int rc = escrow_look(store, &note, &missing, err);

	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, store, "no key file of this store was ever put away");
	else if (rc == 1)
		rc = path_read(file, ESCROW_MAX, &bytes, err);
	if (rc == 0)
		sum_of(&bytes, sum);
	if (rc == 0 && strcmp(sum, note.sum) != 0)
		rc = err_set(err, ERR_CORRUPT, file, "%s is not what was put away at %s: its SHA-256 is %s, and was %s", file,
			     note.time, sum, note.sum);
	if (rc == 0 && missing.len > 0)
		rc = err_set(err, ERR_CONFLICT, file, "%s was made before these key files: %s", file, str_text(&missing));
	if (rc == ERR_CONFLICT)
		err_hint(err, "toolcrib keys escrow NEWFILE --to RECIPIENTS");
	if (rc == 0)
		put_row(rows, file, sum, 0, "it is what was put away, and has all key files of the store");
	str_fini(&bytes);
	str_fini(&missing);
	return rc;
}

int escrow_run(const char *store, const json_t *args, struct str *rows, struct err *err)
{
	const char *to = json_string_value(json_object_get(args, "to"));
	const bool checks = json_is_true(json_object_get(args, "check"));
	char *file = path_absolute(json_string_value(json_object_get(args, "file")));
	int rc;

	if (checks == (to != NULL))
		rc = err_set(err, ERR_INVALID, "", "say --to, whom the key files are for, or --check");
	else
		rc = checks ? check(store, file, rows, err) : make(store, file, to, rows, err);
	free(file);
	return rc;
}

static const struct command_arg escrow_args[] = {
	WORD("file", "FILE", COMPLETE_FILE, "The file that is made, or looked at."),
	OPT("to", "AGE1,…", ARG_TEXT, COMPLETE_NONE, "Who can open it: 1 to 16 recipients of age, with commas between them."),
	FLAG("check", "Whether FILE is what was put away last, and has all key files that the store has now; nothing is "
		      "opened."),
	ARG_END };

const struct command escrow_commands[] = {
	{ .noun = "keys", .verb = "escrow", .help = "Put the key files of the store away, encrypted",
	  .detail = "Without master.key and secret-*.key nothing that the store keeps can be opened, and a backup that has "
		    "them beside it hides nothing.  This makes one file of all of them, a tar inside of age, for people who "
		    "keep their identities elsewhere: age -d -i IDENTITY FILE | tar -x.  A note in the store says what was put "
		    "away: doctor has a finding when a key file came later, and --check compares without opening.",
	  .args = escrow_args, .done = "%{file}: %{said}", .role = ADM_OWNER, .where = ADM_ON_CTL },
	{ .noun = NULL },
};
