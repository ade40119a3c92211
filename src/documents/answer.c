/* What apply and export share with the kinds of documents: the rows of their answers, and what documents may say.
 * Kinds call it on the thread that they run on. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"

#include "documents/documents.h"

#include "documents_int.h"

#define SUMMARY_ROOM 4096               /* bytes of an answer for its last row */

/* --- what documents may say */

const struct document_key document_keys[] = {
	{ "tenant", "", NULL, NULL, "A suspended tenant stays so until a document says suspended: false." },
	{ "tenant", "", "name", "NAME", "Its name." },
	{ "tenant", "", "title", "TEXT", "For people." },
	{ "tenant", "", "suspended", "true|false", "Nobody of it is served." },
	{ "tenant", "", "limits", NULL, "What it may use:" },
	{ "tenant", "/limits", "concurrency", "N", "calls that run at once;" },
	{ "tenant", "/limits", "rate", "N/UNIT", "calls per time, as in 10/s, 60/min, 100/h or 5000/day;" },
	{ "tenant", "/limits", "queue", "N", "calls that wait for one of those;" },
	{ "tenant", "/limits", "requests", "N/UNIT", "requests per time, whatever their method;" },
	{ "tenant", "/limits", "callsPerDay", "N", "calls of a day, in UTC;" },
	{ "tenant", "/limits", "bytesPerDay", "SIZE", "bytes of arguments and results of a day, as in 512KiB, 100MiB or "
		"2GiB." },
	{ "tenant", "", "sandbox", NULL, "How its programs are confined:" },
	{ "tenant", "/sandbox", "require", "LEVEL", "the level that they must reach, beside what the server and the "
		"definition require." },
	{ "grant", "", NULL, NULL, "Versions are counted by each store, and an export has those in force alone." },
	{ "grant", "", "tenant", "NAME", "Whose it is." },
	{ "grant", "", "tool", "NAME", "What is granted, or a pattern with * and ?." },
	{ "grant", "", "as", "NAME", "The name that the tenant sees, of a single tool." },
	{ "grant", "", "version", "N", "The version of a single tool that the tenant goes on with, whichever is in force for "
		"others." },
	{ "grant", "", "limits", NULL, "May lower the tool's:" },
	{ "grant", "/limits", "concurrency", "N", "calls that run at once;" },
	{ "grant", "/limits", "rate", "N/UNIT", "calls per time." },
	{ "grant", "", "approve", "RULE", "Who has to agree to its calls, as of a tool; where both ask, both are met." },
	{ "limit", "", NULL, NULL, "Of one tool of a tenant, or of one principal or key that is there: those are no "
		"documents, and where there is none, what limits it is left out." },
	{ "limit", "", "tenant", "NAME", "Whose it is." },
	{ "limit", "", "tool", "NAME", "All calls of the tenant to this tool." },
	{ "limit", "", "principal", "NAME", "All that this principal does." },
	{ "limit", "", "key", "ACCESSOR", "All that is done with this key." },
	{ "limit", "", "limits", NULL, "What it may use:" },
	{ "limit", "/limits", "concurrency", "N", "calls that run at once;" },
	{ "limit", "/limits", "rate", "N/UNIT", "calls per time;" },
	{ "limit", "/limits", "requests", "N/UNIT", "requests per time, not of a tool;" },
	{ "limit", "/limits", "callsPerDay", "N", "calls of a day;" },
	{ "limit", "/limits", "bytesPerDay", "SIZE", "bytes of a day." },
	{ "level", "", NULL, NULL, "How much of calls is kept: see level set in toolcrib(8).  What comes to be recorded "
		"less needs a second administrator." },
	{ "level", "", "tenant", "NAME", "Whose calls." },
	{ "level", "", "tool", "NAME", "Only those of this tool, by its own name." },
	{ "level", "", "level", "LEVEL", "metadata, request or request_response." },
	{ "retention", "", NULL, NULL, "How long records are kept: see retention set in toolcrib(8).  Fewer days need a "
		"second administrator, and no --prune takes a period away." },
	{ "retention", "", "tenant", "NAME", "Whose records." },
	{ "retention", "", "minDays", "N", "They are kept at least so long." },
	{ "retention", "", "maxDays", "N", "Prune takes those that are older; without it, none by itself." },
	{ "system", "", NULL, NULL, "An AI system of a tenant, see system add in toolcrib(8); no --prune takes one away." },
	{ "system", "", "tenant", "NAME", "Whose it is." },
	{ "system", "", "name", "NAME", "Its name." },
	{ "system", "", "provider", "TEXT", "Who made it." },
	{ "system", "", "model", "TEXT", "The model that it is made with." },
	{ "system", "", "version", "TEXT", "Which version of it." },
	{ "system", "", "role", "ROLE", "What the tenant is to it: provider, deployer or user." },
	{ "inventory", "", NULL, NULL, "Who answers for something, see inventory set in toolcrib(8).  Of a principal that is "
		"not there what is said is left out; reviews are no documents, and no --prune takes away what was said." },
	{ "inventory", "", "subject", "SUBJECT", "What it is about, as in tool:echo or tenant:acme." },
	{ "inventory", "", "owner", "TEXT", "Who answers for it." },
	{ "inventory", "", "contact", "TEXT", "Where to ask." },
	{ "inventory", "", "purpose", "TEXT", "What it is for." },
	{ "inventory", "", "risk", "RISK", "minimal, limited, high or prohibited." },
	{ "inventory", "", "data", "TEXT", "Which data it works on." },
	{ "inventory", "", "oversight", "TEXT", "How people watch it." },
	{ "inventory", "", "reviewDays", "N", "So many days after a review the next one is due." },
	{ "secret", "", NULL, NULL, "A value never stands in a file, and secrets are never pruned." },
	{ "secret", "", "name", "NAME", "It must be set, or nothing is applied." },
	{ .kind = NULL },
};

#define KEYS_MAX 16                     /* of one object */

int document_only_keys(const json_t *obj, const char *kind, const char *at, struct err *err)
{
	const char *known[KEYS_MAX] = { "kind" };
	size_t n = *at ? 0 : 1;

	for (const struct document_key *key = document_keys; key->kind && n < KEYS_MAX; key++)
		if (key->name && strcmp(key->kind, kind) == 0 && strcmp(key->at, at) == 0)
			known[n++] = key->name;
	return jx_only(obj, at, known, n, err);
}

/* --- apply */

static char *full_name(const char *space, const char *name)
{
	return mem_printf("%s/%s", space, name);
}

bool apply_name(struct apply *a, struct apply_item *item)
{
	char *full = full_name(item->kind->space, item->name);
	bool is_free = !map_get_z(a->names, full);

	if (is_free)
		(void)map_set_z(a->names, full, item);
	free(full);
	return is_free;
}

const struct apply_item *apply_find(const struct apply *a, const char *space, const char *name)
{
	char *full = full_name(space, name);
	const struct apply_item *item = map_get_z(a->names, full);

	free(full);
	return item;
}

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	if (text && jx_parse(text, strlen(text), &v, NULL) < 0)
		return json_null();
	return v;
}

/* The answer is bounded, what it tells of is not: its end, which counts, always has room. */
static void say_row(struct apply *a, struct reply *row)
{
	struct reply *o = a->c->out;

	if (o->text.max && o->text.len + row->text.len + SUMMARY_ROOM > o->text.max)
		a->unsaid++;
	else
		str_put(&o->text, row->text.p, row->text.len);
	o->rows++;
	str_fini(&row->text);
}

void apply_say(struct apply *a, const char *kind, const char *name, const char *before, const char *after)
{
	struct reply row = { .text = STR_INIT }, *o = &row;
	char *what = mem_printf("%s %s", kind, name);

	a->added += !before;
	a->removed += !after;
	a->changed += before && after;
	if (!after)
		str_printf(&a->gone, "%s%s %s%s", a->gone.len ? ", " : "", kind, name,
			   strcmp(kind, "tenant") == 0 ? " with its keys" : "");
	reply_row_begin(o);
	reply_text(o, "sign", !before ? "+" : !after ? "-" : "~");
	reply_text(o, "kind", kind);
	reply_text(o, "name", name);
	reply_text(o, "what", what);
	free(what);
	if (before && after) {
		json_t *x = parse(before), *y = parse(after);

		a->breaking += put_changes(o, "changes", x, y) > 0;
		json_decref(x);
		json_decref(y);
	}
	reply_row_end(o);
	say_row(a, o);
}

void apply_note(struct apply *a, const char *sign, const char *kind, const char *name, int64_t version,
		const char *said)
{
	struct reply row = { .text = STR_INIT };
	char *what = mem_printf("%s %s", kind, name);

	reply_row_begin(&row);
	reply_text(&row, "sign", sign);
	reply_text(&row, "kind", kind);
	reply_text(&row, "name", name);
	reply_text(&row, "what", what);
	if (version)
		reply_int(&row, "version", version);
	reply_text(&row, "said", said);
	reply_row_end(&row);
	say_row(a, &row);
	free(what);
}

/* --- export */

#define PART_BYTES (256u << 10)         /* of an answer */

static int cannot(const char *what, struct err *err)
{
	int e = errno;

	return err_set(err, ERR_IO, "", "what is exported cannot be %s beside the store: %s", what, strerror(e));
}

static int open_file(struct export *x, struct err *err)
{
	int fd = path_nameless(x->store);

	x->file = fd >= 0 ? fdopen(fd, "w+") : NULL;
	if (!x->file && fd >= 0)
		close(fd);
	return x->file ? 0 : cannot("kept", err);
}

/* The rows of the reply go behind those of the file. */
static int spill(struct export *x, struct err *err)
{
	struct str *text = &x->c->out->text;

	if (!x->file && open_file(x, err) < 0)
		return ERR_IO;
	if (fwrite(text->p, 1, text->len, x->file) != text->len)
		return cannot("kept", err);
	str_reset(text);
	return 0;
}

/* "schema/https_acme.example_address.yaml": names that any file system takes. */
static char *file_of(const char *kind, const char *name)
{
	char *file = mem_printf("%s/%s.yaml", kind, name);

	for (char *p = file + strlen(kind) + 1; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", *p))
			*p = '_';
	return file;
}

int export_put(struct export *x, const char *kind, const char *name, json_t *doc, struct err *err)
{
	char *file = file_of(kind, name);

	reply_row_begin(x->c->out);
	reply_text(x->c->out, "kind", kind);
	reply_text(x->c->out, "name", name);
	reply_text(x->c->out, "file", file);
	reply_json(x->c->out, "document", doc);
	reply_row_end(x->c->out);
	free(file);
	json_decref(doc);
	return x->c->out->text.len >= PART_BYTES ? spill(x, err) : 0;
}

int export_end(struct export *x, struct err *err)
{
	int rc = x->file ? spill(x, err) : 0;

	if (rc == 0 && x->file && (fflush(x->file) != 0 || fseek(x->file, 0, SEEK_SET) != 0))
		rc = cannot("kept", err);
	return rc;
}

int export_part(struct export *x, struct err *err)
{
	struct str *text = &x->c->out->text;
	char *line = NULL;
	size_t size = 0;
	ssize_t n = 0;

	while (text->len < PART_BYTES && (n = getline(&line, &size, x->file)) > 0)
		str_put(text, line, (size_t)n);
	free(line);
	if (n <= 0 && ferror(x->file))
		return cannot("read", err);
	x->c->more = n > 0 ? ADM_MORE_NOW : ADM_NO_MORE;
	return 0;
}
