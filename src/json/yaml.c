/* YAML to trees, by libfyaml's events, and trees to YAML: aliases, anchors, foreign tags, merge keys, duplicate keys
 * and keys that are not text are refused on sight.  Beside each tree stands the list of its values in document order
 * with their places, so that any JSON pointer can be turned into line and column.  Any thread. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <libfyaml.h>
#include <jansson.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "json/yaml.h"

#include "json_int.h"

/* --- What a plain scalar means (YAML 1.2.2 10.3.2): null, a boolean, a number or text. */

static bool is_one_of(const char *p, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text_eq(p, len, words[i]))
			return true;
	return false;
}

static const char *digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

static bool is_int(const char *p, const char *end)
{
	if (p < end && (*p == '-' || *p == '+'))
		p++;
	return p < end && digits(p, end) == end;
}

/* 0o17 or 0x1F; *ret_base 0 otherwise. */
static int radix(const char *p, const char *end)
{
	const char *set;

	if (end - p < 3 || p[0] != '0' || (p[1] != 'o' && p[1] != 'x'))
		return 0;
	set = p[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
	for (const char *c = p + 2; c < end; c++)
		if (!*c || !strchr(set, *c))
			return 0;
	return p[1] == 'o' ? 8 : 16;
}

static bool is_float(const char *p, const char *end)
{
	const char *whole, *point;

	if (p < end && (*p == '-' || *p == '+'))
		p++;
	whole = digits(p, end);
	point = whole;
	if (point < end && *point == '.') {
		const char *fraction = digits(point + 1, end);

		if (whole == p && fraction == point + 1)
			return false;
		point = fraction;
	} else if (whole == p) {
		return false;
	}
	if (point < end && (*point == 'e' || *point == 'E')) {
		point++;
		if (point < end && (*point == '-' || *point == '+'))
			point++;
		if (point == end)
			return false;
		point = digits(point, end);
	}
	return point == end;
}

/* YAML allows a plus, leading zeros and a point at either end, JSON does not. */
static json_t *make_decimal(const char *p, const char *end, const char **ret_why)
{
	struct str text = STR_INIT;
	const char *whole, *fraction;
	json_t *v;

	if (*p == '-')
		str_putc(&text, '-');
	p += *p == '-' || *p == '+';
	while (p < end && *p == '0')
		p++;
	whole = p;
	p = digits(p, end);
	str_put(&text, p > whole ? whole : "0", p > whole ? (size_t)(p - whole) : 1);
	if (p < end && *p == '.') {
		fraction = p;
		p = digits(p + 1, end);
		str_put(&text, fraction, (size_t)(p - fraction));
		str_puts(&text, p == fraction + 1 ? "0" : "");
	}
	str_put(&text, p, (size_t)(end - p));
	v = jx_number_new(text.p, text.len, ret_why);
	str_fini(&text);
	return v;
}

static json_t *make_number(const char *p, size_t len, int base, enum err_code *ret_code, const char **ret_why)
{
	json_t *v = NULL;
	char *z;

	if (!base) {
		v = make_decimal(p, p + len, ret_why);
	} else {
		z = mem_strndup(p, len);
		errno = 0;
		v = json_integer(strtoll(z + 2, NULL, base));
		if (errno) {
			json_decref(v);
			v = NULL;
			*ret_why = "a hexadecimal or octal number is beyond 64 bits (text needs quotes)";
		}
		free(z);
	}
	if (!v)
		*ret_code = ERR_LIMIT;
	return v;
}

/* The value that a plain scalar means: a new reference.  NULL with a sentence in *ret_why and a code in
 * *ret_code when it means something that JSON cannot hold. */
static json_t *yaml_plain(const char *p, size_t len, enum err_code *ret_code, const char **ret_why)
{
	static const char *const null[] = { "", "~", "null", "Null", "NULL" };
	static const char *const yes[] = { "true", "True", "TRUE" };
	static const char *const no[] = { "false", "False", "FALSE" };
	static const char *const beyond[] = { ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
		"-.INF", ".nan", ".NaN", ".NAN" };
	const char *end = p + len;

	if (is_one_of(p, len, null, NELEMS(null)))
		return json_null();
	if (is_one_of(p, len, yes, NELEMS(yes)))
		return json_true();
	if (is_one_of(p, len, no, NELEMS(no)))
		return json_false();
	if (is_one_of(p, len, beyond, NELEMS(beyond))) {
		*ret_code = ERR_INVALID;
		*ret_why = "infinity and not-a-number are no JSON values (text needs quotes)";
		return NULL;
	}
	if (radix(p, end))
		return make_number(p, len, radix(p, end), ret_code, ret_why);
	if (is_int(p, end) || is_float(p, end))
		return make_number(p, len, 0, ret_code, ret_why);
	return json_stringn(p, len);
}

/* --- reading */

#define NAME_SHOWN 120          /* bytes of a file's name in front of line and column */
#define CORE_TAG "tag:yaml.org,2002:"

struct place { int line, column; };     /* from 1 */

struct node {                   /* a value; its children follow it */
	struct place at;        /* of its member name if it has one */
	size_t end;             /* index behind its last descendant */
};

struct doc {
	json_t *root;
	struct node *nodes;
	size_t nnodes, cap;
};

struct yaml_docs {
	char *name;
	struct doc *docs;
	size_t count, cap;
	size_t before;                  /* lines in front of the text */
};

struct frame {                  /* an open container */
	json_t *v;              /* borrowed from its parent */
	size_t node;
	bool has_key;
	struct place key_at;
	char key[JX_NAME_MAX + 1];
};

struct load {
	struct yaml_docs *docs;
	struct doc doc;         /* the document being read */
	bool empty;             /* it has no text at all */
	size_t items, items_max;        /* of all documents */
	struct err *err;
	unsigned depth;
	struct frame stack[JX_DEPTH_MAX];
};

/* Write "name:line:column"; of a long name the end counts. */
static void put_place(const char *name, size_t before, struct place at, char *ret, size_t size)
{
	size_t len = strlen(name);
	const char *tail = len > NAME_SHOWN ? name + len - NAME_SHOWN : name;

	(void)snprintf(ret, size, "%s%s:%zu:%d", tail == name ? "" : "...", tail, before + (size_t)at.line,
		       at.column);
}

static int fail(struct load *l, enum err_code code, struct place at, const char *text)
{
	char where[NAME_SHOWN + 32];

	put_place(l->docs->name, l->docs->before, at, where, sizeof(where));
	return err_set(l->err, code, where, "%s", text);
}

static int fail_limit(struct load *l, struct place at, const char *how, size_t max, const char *what)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "%s than %zu %s", how, max, what);
	return fail(l, ERR_LIMIT, at, text);
}

/* EVENTS */

static struct place place_of(struct fy_event *e)
{
	const struct fy_mark *m = fy_event_start_mark(e);
	struct place at = { 1, 1 };

	if (!m)
		return at;
	at.line = m->line + 1;
	at.column = m->column + 1;
	/* libfyaml's mark stands behind an opening quote and behind the star of an alias. */
	if (e->type == FYET_SCALAR) {
		enum fy_scalar_style style = fy_token_scalar_style(e->scalar.value);

		at.column -= style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
	}
	at.column -= e->type == FYET_ALIAS;
	return at;
}

static size_t add_node(struct doc *d, struct place at)
{
	if (d->nnodes == d->cap) {
		d->cap = d->cap ? d->cap * 2 : 64;
		d->nodes = mem_realloc(d->nodes, d->cap * sizeof(*d->nodes));
	}
	d->nodes[d->nnodes] = (struct node){ .at = at, .end = d->nnodes + 1 };
	return d->nnodes++;
}

/* Put a value (taken) where it belongs: under the pending key, at the end of the list, or as the root. */
static int attach(struct load *l, json_t *v, struct place at, size_t *ret_node)
{
	struct frame *f = l->depth ? &l->stack[l->depth - 1] : NULL;
	int rc = 0;

	if (f && ++l->items > l->items_max) {
		json_decref(v);
		return fail_limit(l, at, "more", l->items_max, "members and elements");
	}
	*ret_node = add_node(&l->doc, f && f->has_key ? f->key_at : at);
	if (!f)
		l->doc.root = v;
	else if (f->has_key)
		rc = json_object_set_new(f->v, f->key, v);
	else
		rc = json_array_append_new(f->v, v);
	if (rc)
		return fail(l, ERR_INTERNAL, at, "the value cannot be stored");
	if (f)
		f->has_key = false;
	return 0;
}

static bool wants_key(const struct load *l)
{
	const struct frame *f = l->depth ? &l->stack[l->depth - 1] : NULL;

	return f && json_is_object(f->v) && !f->has_key;
}

static int take_key(struct load *l, const char *p, size_t len, struct place at)
{
	struct frame *f = &l->stack[l->depth - 1];
	char shown[64], text[128];

	if (len > JX_NAME_MAX)
		return fail(l, ERR_LIMIT, at, "a member name is longer than 256 bytes");
	if (memchr(p, '\0', len))
		return fail(l, ERR_INVALID, at, "a member name contains U+0000");
	memcpy(f->key, p, len);
	f->key[len] = '\0';
	if (json_object_get(f->v, f->key)) {
		(void)snprintf(text, sizeof(text), "the member \"%s\" occurs twice",
			       text_printable(p, len, shown, sizeof(shown)));
		return fail(l, ERR_INVALID, at, text);
	}
	f->has_key = true;
	f->key_at = at;
	return 0;
}

/* The name of a core tag behind its prefix, "" for none; NULL when the tag is not one of them. */
static const char *core_tag(struct fy_token *tag)
{
	static const char *const core[] = { "str", "int", "float", "bool", "null", "map", "seq" };
	const char *text;
	size_t len, skip = strlen(CORE_TAG);

	if (!tag)
		return "";
	text = fy_token_get_text(tag, &len);
	if (!text || len <= skip || memcmp(text, CORE_TAG, skip) != 0)
		return NULL;
	for (size_t i = 0; i < NELEMS(core); i++)
		if (text_eq(text + skip, len - skip, core[i]))
			return core[i];
	return NULL;
}

/* Turn a plain number into what !!float asks for, and refuse what a tag does not fit. */
static json_t *apply_tag(json_t *v, const char *tag)
{
	const char *is = json_is_string(v) ? "str" : json_is_integer(v) ? "int" : json_is_real(v) ? "float" :
			 json_is_boolean(v) ? "bool" : "null";
	char text[32];
	const char *why;
	json_t *real = NULL;

	if (!*tag || strcmp(tag, is) == 0)
		return v;
	if (strcmp(tag, "float") == 0 && json_is_integer(v)) {
		(void)snprintf(text, sizeof(text), "%lld.0", (long long)json_integer_value(v));
		real = jx_number_new(text, strlen(text), &why);
	}
	json_decref(v);
	return real;
}

static int on_scalar(struct load *l, struct fy_event *e)
{
	struct place at = place_of(e);
	const char *tag = core_tag(e->scalar.tag), *why = "a scalar is not valid UTF-8", *p;
	enum err_code code = ERR_INVALID;
	size_t len, node;
	json_t *v;
	bool plain = fy_token_scalar_style(e->scalar.value) == FYSS_PLAIN;

	if (e->scalar.anchor)
		return fail(l, ERR_INVALID, at, "anchors are not supported");
	if (!tag)
		return fail(l, ERR_INVALID, at, "only the core tags (!!str, !!int, ...) are supported");
	p = fy_token_get_text(e->scalar.value, &len);
	if (!p)
		p = "", len = 0;
	l->empty = l->empty && plain && len == 0;
	if (plain && strcmp(tag, "str") != 0)
		v = yaml_plain(p, len, &code, &why);
	else
		v = json_stringn(p, len);
	if (!v)
		return fail(l, code, at, why);
	v = apply_tag(v, tag);
	if (!v)
		return fail(l, ERR_INVALID, at, "the value does not fit its tag");
	if (!wants_key(l))
		return attach(l, v, at, &node);
	if (!json_is_string(v)) {
		json_decref(v);
		return fail(l, ERR_INVALID, at, "a member name must be text: put it in quotes");
	}
	json_decref(v);
	if (plain && text_eq(p, len, "<<"))
		return fail(l, ERR_INVALID, at, "merge keys are not supported");
	return take_key(l, p, len, at);
}

static int on_open(struct load *l, struct fy_event *e, struct fy_token *anchor, struct fy_token *tag, bool map)
{
	struct place at = place_of(e);
	const char *core = core_tag(tag);
	struct frame *f;
	json_t *v;
	size_t node;
	int rc;

	l->empty = false;
	if (anchor)
		return fail(l, ERR_INVALID, at, "anchors are not supported");
	if (!core || (*core && strcmp(core, map ? "map" : "seq") != 0))
		return fail(l, ERR_INVALID, at, "the tag does not fit here or is not supported");
	if (wants_key(l))
		return fail(l, ERR_INVALID, at, "a member name must be text");
	if (l->depth == JX_DEPTH_MAX)
		return fail(l, ERR_LIMIT, at, "nested deeper than 64 levels");
	v = map ? json_object() : json_array();
	rc = attach(l, v, at, &node);
	if (rc)
		return rc;
	f = &l->stack[l->depth++];
	f->v = v;
	f->node = node;
	f->has_key = false;
	return 0;
}

static int on_close(struct load *l)
{
	l->depth--;
	l->doc.nodes[l->stack[l->depth].node].end = l->doc.nnodes;
	return 0;
}

static void doc_fini(struct doc *d)
{
	json_decref(d->root);
	free(d->nodes);
	*d = (struct doc){ 0 };
}

/* Keep the document; one without any text (a lone "---") is none. */
static int on_document_end(struct load *l, struct place at)
{
	struct yaml_docs *docs = l->docs;

	if (!l->doc.root || l->empty) {
		doc_fini(&l->doc);
		return 0;
	}
	if (docs->count == YAML_DOCS_MAX)
		return fail(l, ERR_LIMIT, at, "more than 1000 documents in one text");
	if (docs->count == docs->cap) {
		docs->cap = docs->cap ? docs->cap * 2 : 4;
		docs->docs = mem_realloc(docs->docs, docs->cap * sizeof(*docs->docs));
	}
	docs->docs[docs->count++] = l->doc;
	l->doc = (struct doc){ 0 };
	return 0;
}

static int on_event(struct load *l, struct fy_event *e)
{
	switch (e->type) {
	case FYET_DOCUMENT_START:
		l->empty = true;
		return 0;
	case FYET_DOCUMENT_END:
		return on_document_end(l, place_of(e));
	case FYET_MAPPING_START:
		return on_open(l, e, e->mapping_start.anchor, e->mapping_start.tag, true);
	case FYET_SEQUENCE_START:
		return on_open(l, e, e->sequence_start.anchor, e->sequence_start.tag, false);
	case FYET_MAPPING_END:
	case FYET_SEQUENCE_END:
		return on_close(l);
	case FYET_SCALAR:
		return on_scalar(l, e);
	case FYET_ALIAS:
		return fail(l, ERR_INVALID, place_of(e), "aliases are not supported");
	case FYET_NONE:
	case FYET_STREAM_START:
	case FYET_STREAM_END:
		break;
	}
	return 0;
}

/* THE TEXT */

/* libfyaml lets raw control characters pass. */
static int check_bytes(struct load *l, const char *text, size_t len)
{
	struct place at = { 1, 1 };
	size_t n;

	for (const unsigned char *p = (const unsigned char *)text, *end = p + len; p < end; p += n) {
		n = jx_utf8_len(p, (size_t)(end - p));
		if (!n)
			return fail(l, ERR_INVALID, at, "the text is not valid UTF-8");
		if (*p < 0x20 && *p != '\t' && *p != '\n' && *p != '\r')
			return fail(l, ERR_INVALID, at, "the text has a control character");
		at.column++;
		if (*p == '\n') {
			at.line++;
			at.column = 1;
		}
	}
	return 0;
}

static int fail_syntax(struct load *l, struct fy_diag *diag)
{
	void *it = NULL;
	const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &it);
	char text[256];

	if (!e || !e->msg)
		return fail(l, ERR_INVALID, (struct place){ 1, 1 }, "not YAML");
	return fail(l, ERR_INVALID, (struct place){ e->line, e->column },
		    text_printable(e->msg, strlen(e->msg), text, sizeof(text)));
}

static int read_events(struct load *l, struct fy_parser *parser, struct fy_diag *diag)
{
	struct fy_event *e;
	int rc = 0;

	while (!rc && (e = fy_parser_parse(parser))) {
		rc = on_event(l, e);
		fy_parser_event_free(parser, e);
	}
	return !rc && fy_parser_get_stream_error(parser) ? fail_syntax(l, diag) : rc;
}

static void drop_output(struct fy_diag *diag, void *user, const char *p, size_t len)
{
}

static int read_text(struct load *l, const char *text, size_t len)
{
	struct fy_diag_cfg diag_cfg;
	struct fy_parse_cfg cfg = { .flags = FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE };
	struct fy_parser *parser = NULL;
	int rc;

	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL;
	diag_cfg.output_fn = drop_output;
	diag_cfg.level = FYET_ERROR;
	cfg.diag = fy_diag_create(&diag_cfg);
	if (cfg.diag) {
		fy_diag_set_collect_errors(cfg.diag, true);
		parser = fy_parser_create(&cfg);
	}
	if (!parser || fy_parser_set_string(parser, text, len) != 0)
		rc = fail(l, ERR_INTERNAL, (struct place){ 1, 1 }, "the YAML parser cannot be started");
	else
		rc = read_events(l, parser, cfg.diag);
	if (parser)
		fy_parser_destroy(parser);
	fy_diag_destroy(cfg.diag);
	return rc;
}

static int load(const char *name, size_t lines, const char *text, size_t len, size_t text_max, size_t items_max,
		struct yaml_docs **ret, struct err *err)
{
	struct load *l = mem_zalloc(sizeof(*l));
	struct yaml_docs *docs = mem_zalloc(sizeof(*docs));
	int rc;

	docs->name = mem_strdup(name);
	docs->before = lines;
	l->docs = docs;
	l->items_max = items_max;
	l->err = err;
	if (len > text_max)
		rc = fail_limit(l, (struct place){ 1, 1 }, "longer", text_max >> 20, "MiB");
	else
		rc = check_bytes(l, text, len);
	if (!rc)
		rc = read_text(l, text, len);
	doc_fini(&l->doc);
	free(l);
	if (rc)
		yaml_free(&docs);
	else
		*ret = docs;
	return rc;
}

int yaml_load(const char *name, const char *text, size_t len, struct yaml_docs **ret, struct err *err)
{
	return yaml_load_at(name, 0, text, len, ret, err);
}

int yaml_load_at(const char *name, size_t lines, const char *text, size_t len, struct yaml_docs **ret, struct err *err)
{
	return load(name, lines, text, len, YAML_TEXT_MAX, JX_MEMBERS_MAX, ret, err);
}

/* --- Large JSON: the places of its values, in the order of the text.  The scan has accepted it. */

struct walk {
	const char *p, *end;
	struct place at;                /* of p; characters are counted, not bytes */
	struct node *nodes;
	size_t n, cap;
	size_t open[JX_DEPTH_MAX];      /* the containers around p, as indexes of nodes */
	bool object[JX_DEPTH_MAX];
	unsigned depth;
	bool named;                     /* the member that comes next has its name, at name_at */
	struct place name_at;
};

static void step(struct walk *w)
{
	if (*w->p == '\n')
		w->at = (struct place){ w->at.line + 1, 1 };
	else if (!jx_utf8_tail((unsigned char)*w->p))
		w->at.column++;
	w->p++;
}

static void step_over_string(struct walk *w)
{
	for (step(w); *w->p != '"'; step(w))
		if (*w->p == '\\')
			step(w);
	step(w);
}

static size_t add_value(struct walk *w)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 64;
		w->nodes = mem_realloc(w->nodes, w->cap * sizeof(*w->nodes));
	}
	w->nodes[w->n] = (struct node){ .at = w->named ? w->name_at : w->at, .end = w->n + 1 };
	w->named = false;
	return w->n++;
}

static void walk_string(struct walk *w)
{
	if (w->depth && w->object[w->depth - 1] && !w->named) {
		w->named = true;
		w->name_at = w->at;
	} else {
		(void)add_value(w);
	}
	step_over_string(w);
}

static void walk_open(struct walk *w)
{
	w->object[w->depth] = *w->p == '{';
	w->open[w->depth++] = add_value(w);
	step(w);
}

static void walk_close(struct walk *w)
{
	w->nodes[w->open[--w->depth]].end = w->n;
	step(w);
}

static void walk_scalar(struct walk *w)
{
	(void)add_value(w);
	while (w->p < w->end && !strchr(" \t\r\n,]}", *w->p))
		step(w);
}

static struct node *json_places(const char *text, size_t len, size_t *ret_n)
{
	struct walk w = { .p = text, .end = text + len, .at = { 1, 1 } };

	while (w.p < w.end) {
		if (*w.p == '"')
			walk_string(&w);
		else if (*w.p == '{' || *w.p == '[')
			walk_open(&w);
		else if (*w.p == '}' || *w.p == ']')
			walk_close(&w);
		else if (strchr(" \t\r\n,:", *w.p))
			step(&w);
		else
			walk_scalar(&w);
	}
	*ret_n = w.n;
	return w.nodes;
}

/* JSON takes a quarter of the time and of the memory: libfyaml keeps all that stands in one line. */
static bool load_json(const char *name, const char *text, size_t len, struct yaml_docs **ret)
{
	struct yaml_docs *docs;
	json_t *root = NULL;

	if (len > YAML_LARGE_TEXT_MAX || !jx_is_large_json(text, len, YAML_LARGE_ITEMS_MAX) ||
	    jx_parse_scanned(text, len, &root, NULL) < 0)
		return false;
	docs = mem_zalloc(sizeof(*docs));
	docs->name = mem_strdup(name);
	docs->docs = mem_zalloc(sizeof(*docs->docs));
	docs->count = docs->cap = 1;
	docs->docs[0].root = root;
	docs->docs[0].nodes = json_places(text, len, &docs->docs[0].nnodes);
	*ret = docs;
	return true;
}

/* The number of the first line that is too long, or 0. */
static int long_line(const char *text, size_t len)
{
	const char *end = text + len;
	int line = 1;

	for (const char *p = text, *next; p < end; p = next + 1, line++) {
		next = memchr(p, '\n', (size_t)(end - p));
		next = next ? next : end;
		if (next - p > YAML_LARGE_LINE_MAX)
			return line;
	}
	return 0;
}

int yaml_load_large(const char *name, const char *text, size_t len, struct yaml_docs **ret, struct err *err)
{
	char where[NAME_SHOWN + 32];
	int line;

	if (load_json(name, text, len, ret))
		return 0;
	line = long_line(text, len);
	if (line == 0 || len > YAML_LARGE_TEXT_MAX)
		return load(name, 0, text, len, YAML_LARGE_TEXT_MAX, YAML_LARGE_ITEMS_MAX, ret, err);
	put_place(name, 0, (struct place){ line, 1 }, where, sizeof(where));
	return err_set(err, ERR_LIMIT, where, "the line is longer than %d KiB, and the text is no JSON",
		       YAML_LARGE_LINE_MAX >> 10);
}

size_t yaml_count(const struct yaml_docs *docs)
{
	return docs->count;
}

json_t *yaml_root(const struct yaml_docs *docs, size_t i)
{
	return docs->docs[i].root;
}

void yaml_free(struct yaml_docs **docs)
{
	struct yaml_docs *d = *docs;

	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++)
		doc_fini(&d->docs[i]);
	free(d->docs);
	free(d->name);
	free(d);
	*docs = NULL;
}

/* PLACES */

/* Step from a value to its child; children stand in the order in which the tree keeps them. */
static bool step_down(const struct doc *d, json_t **v, size_t *node, const char *token)
{
	size_t child = *node + 1, i;

	if (json_is_array(*v)) {
		if (!jx_pointer_index(token, &i) || i >= json_array_size(*v))
			return false;
		*v = json_array_get(*v, i);
		while (i--)
			child = d->nodes[child].end;
		*node = child;
		return true;
	}
	for (void *it = json_object_iter(*v); it; it = json_object_iter_next(*v, it)) {
		if (strcmp(json_object_iter_key(it), token) == 0) {
			*v = json_object_iter_value(it);
			*node = child;
			return true;
		}
		child = d->nodes[child].end;
	}
	return false;
}

void yaml_where(const struct yaml_docs *docs, size_t i, const char *pointer, char *ret, size_t size)
{
	const struct doc *d = &docs->docs[i];
	char token[JX_NAME_MAX + 1];
	json_t *v = d->root;
	size_t node = 0;

	while (*pointer++ == '/')
		if (!jx_pointer_token(&pointer, token) || !step_down(d, &v, &node, token))
			break;
	put_place(docs->name, docs->before, d->nodes[node].at, ret, size);
}

/* --- Trees to YAML, block style */

/* A text stands without quotes only where no reader, of YAML 1.1 or 1.2, could take it for anything else. */

static bool is_letter(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* Letters first, then printable ASCII without what begins a comment or ends a member name. */
static bool is_plain(const char *p, size_t len)
{
	static const char *const words[] = { "y", "n", "yes", "no", "on", "off", "null", "true", "false" };

	if (!len || !is_letter(*p) || p[len - 1] == ' ' || p[len - 1] == ':')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (p[i] < ' ' || p[i] > '~' || (p[i] == ' ' && p[i + 1] == '#') || (p[i] == ':' && p[i + 1] == ' '))
			return false;
	}
	for (size_t i = 0; i < NELEMS(words); i++)
		if (strlen(words[i]) == len && strncasecmp(words[i], p, len) == 0)
			return false;
	return true;
}

/* A character that YAML wants escaped though JSON does not, and whatever nobody would see. */
static bool needs_escape(uint32_t cp)
{
	return text_is_hidden(cp) || cp == 0xfffe || cp == 0xffff;
}

static void write_text(const char *p, size_t len, struct str *out)
{
	struct str quoted = STR_INIT;
	unsigned n;

	if (is_plain(p, len)) {
		str_put(out, p, len);
		return;
	}
	jx_write_string(&quoted, p, len);
	for (size_t i = 0; i < quoted.len; i += n) {
		uint32_t cp = 0xfffd;

		n = text_decode(quoted.p + i, quoted.len - i, &cp);
		n = n ? n : 1;
		if (needs_escape(cp))
			str_printf(out, cp > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)cp);
		else
			str_put(out, quoted.p + i, n);
	}
	str_fini(&quoted);
}

static void indent(struct str *out, unsigned depth)
{
	while (depth--)
		str_puts(out, "  ");
}

static bool is_block(const json_t *v)
{
	return json_object_size(v) > 0 || json_array_size(v) > 0;
}

static void write_block(const json_t *v, unsigned depth, struct str *out);

static void write_inline(const json_t *v, struct str *out)
{
	if (json_is_string(v))
		write_text(json_string_value(v), json_string_length(v), out);
	else
		jx_write(v, out);       /* scalars, {} and [] look the same */
	str_putc(out, '\n');
}

/* The members; the first one stands where the cursor is. */
static void write_members(const json_t *v, unsigned depth, struct str *out)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	bool first = true;

	for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
		const json_t *child = json_object_iter_value(it);

		if (!first)
			indent(out, depth);
		first = false;
		write_text(json_object_iter_key(it), json_object_iter_key_len(it), out);
		if (!is_block(child)) {
			str_puts(out, ": ");
			write_inline(child, out);
			continue;
		}
		str_puts(out, ":\n");
		indent(out, depth + 1);
		write_block(child, depth + 1, out);
	}
}

static void write_block(const json_t *v, unsigned depth, struct str *out)
{
	if (json_is_object(v)) {
		write_members(v, depth, out);
		return;
	}
	for (size_t i = 0; i < json_array_size(v); i++) {
		const json_t *child = json_array_get(v, i);

		if (i)
			indent(out, depth);
		str_puts(out, "- ");
		if (is_block(child))
			write_block(child, depth + 1, out);
		else
			write_inline(child, out);
	}
}

void yaml_write(const json_t *v, struct str *out)
{
	if (is_block(v))
		write_block(v, 0, out);
	else
		write_inline(v, out);
}
