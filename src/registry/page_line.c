/*
 * One line of a list: the listed part of a definition, cut to what exists in a revision (MCP table A, B-14).  The parts
 * are spans of the stored text: schemas reach the wire with their members in the author's order (MCP Q-08).
 */

#include "config.h"

#include <string.h>

#include "json/json.h"
#include "registry_int.h"
#include "schema/schema.h"

enum { W_TITLE, W_DESCRIPTION, W_INPUT, W_INPUT_DIALECT, W_OUTPUT, W_OUTPUT_TYPE, W_OUTPUT_DIALECT, W_ANNOTATIONS, W_ANNOTATIONS_TITLE, W_ICONS, W_META,
       W_COUNT };

static void put_member(struct str *out, const char *name, const struct jx_want *w)
{
	if (!w->span.p)
		return;
	str_printf(out, ",\"%s\":", name);
	str_put(out, w->span.p, w->span.len);
}

/* R2 knows a title only in the annotations (MCP B-14). */
static void put_annotations_r2(struct str *out, const struct jx_want *w)
{
	const struct jx_span *notes = &w[W_ANNOTATIONS].span, *title = &w[W_TITLE].span;
	const char *rest = notes->p ? notes->p + 1 : "}";
	size_t len = notes->p ? notes->len - 1 : 1;

	if (!title->p || w[W_ANNOTATIONS_TITLE].span.p) {
		put_member(out, "annotations", &w[W_ANNOTATIONS]);
		return;
	}
	str_puts(out, ",\"annotations\":{\"title\":");
	str_put(out, title->p, title->len);
	if (rest[strspn(rest, " \t\r\n")] != '}')
		str_putc(out, ',');
	str_put(out, rest, len);
}

/* May the schema say more than its text does? */
static bool has_more(const struct jx_span *schema, const struct jx_want *dialect, const struct catalogue *shared)
{
	static const char ref[] = "ef\"";       /* $ref, $dynamicRef, $recursiveRef */

	return dialect->span.p ||
	       (!catalogue_is_empty(shared) && memmem(schema->p, schema->len, ref, sizeof ref - 1) != NULL);
}

/* Hosts refuse other dialects than 2020-12 (MCP Q-02) and fetch nothing (MCP Q-05): what means the same in it is
 * shown in its words, with the shared schemas that it refers to. */
static bool put_bundle(struct str *out, const struct jx_span *schema, const struct catalogue *shared)
{
	struct catalogue_use use = { .from = shared };
	const struct schema_options options = { .lenient = true, .find = catalogue_find, .find_arg = &use };
	json_t *tree = NULL, *whole = NULL;
	struct err ignored;
	bool done = jx_parse_scanned(schema->p, schema->len, &tree, NULL) == 0 &&
		    schema_bundle(tree, &options, &whole, &ignored) == 1;

	if (done)
		jx_write(whole, out);
	json_decref(whole);
	json_decref(tree);
	catalogue_use_end(&use, NULL);
	return done;
}

static void put_schema(struct str *out, const struct jx_want *schema, const struct jx_want *dialect,
		       const struct catalogue *shared)
{
	if (!has_more(&schema->span, dialect, shared) || !put_bundle(out, &schema->span, shared))
		str_put(out, schema->span.p, schema->span.len);
}

/* R3 and R4 want type object at the root; what has another one is wrapped or left out (MCP B-16). */
static void put_output(struct str *out, const struct rev_row *rev, const struct jx_want *w,
		       const struct catalogue *shared)
{
	const struct jx_span *schema = &w[W_OUTPUT].span, *type = &w[W_OUTPUT_TYPE].span;
	json_t *tree = NULL;
	enum reg_output form = REG_OUTPUT_HIDDEN;

	if (!schema->p)
		return;
	if (rev->structured_any || (type->p && type->len == 8 && memcmp(type->p, "\"object\"", 8) == 0)) {
		str_puts(out, ",\"outputSchema\":");
		put_schema(out, &w[W_OUTPUT], &w[W_OUTPUT_DIALECT], shared);
		return;
	}
	if (jx_parse_scanned(schema->p, schema->len, &tree, NULL) == 0)
		form = define_output_form(tree);
	json_decref(tree);
	if (form != REG_OUTPUT_WRAPPED)
		return;
	str_puts(out, ",\"outputSchema\":{\"type\":\"object\",\"properties\":{\"result\":");
	put_schema(out, &w[W_OUTPUT], &w[W_OUTPUT_DIALECT], shared);
	str_puts(out, "},\"required\":[\"result\"]}");
}

static bool put_tool(struct str *out, const struct reg_tool *tool, const struct rev_row *rev,
		     const struct catalogue *shared)
{
	struct jx_want w[W_COUNT] = {
		[W_TITLE] = { .pointer = "/title" }, [W_DESCRIPTION] = { .pointer = "/description" },
		[W_INPUT] = { .pointer = "/inputSchema" }, [W_INPUT_DIALECT] = { .pointer = "/inputSchema/$schema" },
		[W_OUTPUT_DIALECT] = { .pointer = "/outputSchema/$schema" }, [W_OUTPUT] = { .pointer = "/outputSchema" },
		[W_OUTPUT_TYPE] = { .pointer = "/outputSchema/type" }, [W_ANNOTATIONS] = { .pointer = "/annotations" },
		[W_ANNOTATIONS_TITLE] = { .pointer = "/annotations/title" }, [W_ICONS] = { .pointer = "/icons" },
		[W_META] = { .pointer = "/_meta" },
	};

	if (jx_scan(tool->def->text, tool->def->len, w, W_COUNT, NULL) < 0)
		return false;
	str_puts(out, "{\"name\":");
	jx_write_stringz(out, tool->name);
	if (rev->title)
		put_member(out, "title", &w[W_TITLE]);
	put_member(out, "description", &w[W_DESCRIPTION]);
	if (w[W_INPUT].span.p) {
		str_puts(out, ",\"inputSchema\":");
		put_schema(out, &w[W_INPUT], &w[W_INPUT_DIALECT], shared);
	}
	if (rev->output_schema)
		put_output(out, rev, w, shared);
	if (rev->annotations && rev->title)
		put_member(out, "annotations", &w[W_ANNOTATIONS]);
	else if (rev->annotations)
		put_annotations_r2(out, w);
	if (rev->icons)
		put_member(out, "icons", &w[W_ICONS]);
	if (rev->tool_meta)
		put_member(out, "_meta", &w[W_META]);
	str_putc(out, '}');
	return true;
}

/* --- prompts, resources, templates */

enum { P_URI, P_TITLE, P_DESCRIPTION, P_ARGUMENTS, P_MIME, P_SIZE, P_ANNOTATIONS, P_ICONS, P_META, P_COUNT };

/* A copy without one member of each object: what came with a later revision. */
static void put_without(struct str *out, const struct jx_span *span, const char *member)
{
	json_t *tree = NULL, *entry;
	size_t i;

	if (jx_parse_scanned(span->p, span->len, &tree, NULL) < 0)
		return;
	(void)json_object_del(tree, member); /* may be absent, or an array */
	json_array_foreach(tree, i, entry)
		(void)json_object_del(entry, member);
	jx_write(tree, out);
	json_decref(tree);
}

static void put_older(struct str *out, const char *name, const struct jx_want *w, const char *lacks)
{
	if (!w->span.p)
		return;
	str_printf(out, ",\"%s\":", name);
	if (lacks)
		put_without(out, &w->span, lacks);
	else
		str_put(out, w->span.p, w->span.len);
}

static bool put_hosted(struct str *out, const struct reg_tool *line, const struct rev_row *rev)
{
	bool template = line->def->kind == REG_TEMPLATE;
	struct jx_want w[P_COUNT] = {
		[P_URI] = { .pointer = template ? "/uriTemplate" : "/uri" }, [P_TITLE] = { .pointer = "/title" },
		[P_DESCRIPTION] = { .pointer = "/description" }, [P_ARGUMENTS] = { .pointer = "/arguments" },
		[P_MIME] = { .pointer = "/mimeType" }, [P_SIZE] = { .pointer = "/size" },
		[P_ANNOTATIONS] = { .pointer = "/annotations" }, [P_ICONS] = { .pointer = "/icons" },
		[P_META] = { .pointer = "/_meta" },
	};

	if (jx_scan(line->def->text, line->def->len, w, P_COUNT, NULL) < 0)
		return false;
	str_puts(out, "{\"name\":");
	jx_write_stringz(out, line->name);
	put_member(out, template ? "uriTemplate" : "uri", &w[P_URI]);
	if (rev->title)
		put_member(out, "title", &w[P_TITLE]);
	put_member(out, "description", &w[P_DESCRIPTION]);
	put_older(out, "arguments", &w[P_ARGUMENTS], rev->title ? NULL : "title");              /* MCP I-01 */
	put_member(out, "mimeType", &w[P_MIME]);
	put_member(out, "size", &w[P_SIZE]);
	put_older(out, "annotations", &w[P_ANNOTATIONS], rev->tool_meta ? NULL : "lastModified");     /* MCP T-34 */
	if (rev->icons)
		put_member(out, "icons", &w[P_ICONS]);
	if (rev->tool_meta)
		put_member(out, "_meta", &w[P_META]);
	str_putc(out, '}');
	return true;
}

bool page_put_line(struct str *out, const struct reg_tool *line, enum rev rev, const struct catalogue *shared)
{
	if (line->def->kind == REG_TOOL)
		return put_tool(out, line, &rev_table[rev], shared);
	return put_hosted(out, line, &rev_table[rev]);
}
