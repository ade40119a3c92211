/* Who sees what, when a list counts as changed, and what a revision shows (MCP B-14, B-16, B-18, B-19). */

#include "config.h"

#include "rows.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "registry/registry.h"
#include "tenant/scope.h"
#include "suite.h"

struct world {
	struct rows rows;
	struct registry *reg;
	int64_t acme, other;
	unsigned told;                  /* since the last look */
	int64_t told_tenant, told_generation;
};

static int bind_none(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
		     const void **ret_plan, struct err *err)
{
	return json_object_get(handler, "broken") ? err_set(err, ERR_INVALID, "/broken", "no such thing") : 0;
}

static void count_told(void *arg, const struct reg_news *news)
{
	struct world *w = arg;

	if (!news->differs[REG_TOOLS])
		return;
	w->told++;
	w->told_tenant = news->tenant_id;
	w->told_generation = news->generation[REG_TOOLS];
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	rows_open(&w->rows);
	w->acme = rows_tenant(&w->rows, "acme");
	w->other = rows_tenant(&w->rows, "other");
	w->reg = registry_new(bind_none);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	registry_free(&w->reg);
	rows_close(&w->rows);
	free(w);
	return 0;
}

static char *definition(const char *name, const char *more)
{
	return mem_printf("{\"name\":\"%s\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"}%s,"
			  "\"handler\":{\"type\":\"fake\"}}", name, more);
}

static int64_t add_tool(struct world *w, const char *name, const char *more)
{
	char *text = definition(name, more);
	int64_t id = rows_tool(&w->rows, name, text);

	free(text);
	return id;
}

/* How many tenants were told. */
static unsigned apply(struct world *w, struct reg_change *c)
{
	w->told = 0;
	reg_apply(w->reg, &c, count_told, w);
	return w->told;
}

static unsigned tool_changed(struct world *w, int64_t tool_id)
{
	struct reg_change *c = NULL;

	ROWS_OK(reg_change_tool(w->rows.db, tool_id, &c, &rows_err));
	return apply(w, c);
}

static unsigned tenant_changed(struct world *w, int64_t tenant_id)
{
	struct reg_change *c = NULL;

	ROWS_OK(reg_change_tenant(w->rows.db, tenant_id, &c, &rows_err));
	return apply(w, c);
}

static void load_all(struct world *w)
{
	struct reg_change *c = NULL;

	ROWS_OK(reg_change_all(w->rows.db, &c, &rows_err));
	assert_int_equal(apply(w, c), 0);
}

/* "a b c" */
static void assert_sees(struct world *w, int64_t tenant_id, const char *names)
{
	struct reg_snapshot *snap = reg_acquire(w->reg, tenant_id);
	struct str seen = STR_INIT;

	for (size_t i = 0; i < snap->list[REG_TOOL].count; i++) {
		str_printf(&seen, "%s%s", i ? " " : "", snap->list[REG_TOOL].items[i].name);
		assert_ptr_equal(reg_find(snap, REG_TOOL, snap->list[REG_TOOL].items[i].name, strlen(snap->list[REG_TOOL].items[i].name)), &snap->list[REG_TOOL].items[i]);
	}
	assert_string_equal(str_text(&seen), names);
	assert_null(reg_find(snap, REG_TOOL, "nothing", 7));
	str_fini(&seen);
	reg_release(w->reg, &snap);
	assert_null(snap);
}

static void tenant_sees_what_its_grants_match(void **state)
{
	struct world *w = *state;

	add_tool(w, "b_two", "");
	add_tool(w, "a_one", "");
	add_tool(w, "c", "");
	rows_grant(&w->rows, w->acme, "?_*", "");
	rows_grant(&w->rows, w->other, "c", "");
	load_all(w);
	assert_sees(w, w->acme, "a_one b_two");
	assert_sees(w, w->other, "c");
	assert_sees(w, 4711, "");
}

static void prefix_of_a_name_is_another_name(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;

	add_tool(w, "deploy", "");
	add_tool(w, "deploy_all", "");
	rows_grant(&w->rows, w->acme, "deploy*", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	assert_string_equal(reg_find(snap, REG_TOOL, "deploy_all", 6)->name, "deploy");
	assert_string_equal(reg_find(snap, REG_TOOL, "deploy_all", 10)->name, "deploy_all");
	assert_null(reg_find(snap, REG_TOOL, "deploy_all", 8));
	assert_null(reg_find(snap, REG_TOOL, "", 0));
	reg_release(w->reg, &snap);
}

static void most_particular_grant_speaks(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;
	const struct reg_tool *tool;

	add_tool(w, "get_weather", "");
	add_tool(w, "get_time", "");
	rows_grant(&w->rows, w->acme, "*", "");
	rows_grant(&w->rows, w->acme, "get_weather", "weather");
	rows_grant(&w->rows, w->acme, "get_*", "");
	load_all(w);
	assert_sees(w, w->acme, "get_time weather");
	snap = reg_acquire(w->reg, w->acme);
	tool = reg_find(snap, REG_TOOL, "weather", 7);
	assert_int_equal(tool->grant_id, 2);
	assert_string_equal(tool->def->name, "get_weather");
	assert_int_equal(reg_find(snap, REG_TOOL, "get_time", 8)->grant_id, 3);
	reg_release(w->reg, &snap);
}

/* Equal names in two tenants are two tools. */
static void equal_names_of_two_tenants_stay_apart(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *a, *b;

	add_tool(w, "one", "");
	add_tool(w, "two", "");
	rows_grant(&w->rows, w->acme, "one", "work");
	rows_grant(&w->rows, w->other, "two", "work");
	load_all(w);
	a = reg_acquire(w->reg, w->acme);
	b = reg_acquire(w->reg, w->other);
	assert_string_equal(reg_find(a, REG_TOOL, "work", 4)->def->name, "one");
	assert_string_equal(reg_find(b, REG_TOOL, "work", 4)->def->name, "two");
	assert_null(reg_find(a, REG_TOOL, "two", 3));
	assert_null(reg_find(a, REG_TOOL, "one", 3));
	reg_release(w->reg, &a);
	reg_release(w->reg, &b);
}

/* MCP B-19: exactly those whose list differs, with a generation that grows. */
static void only_a_visible_difference_is_told(void **state)
{
	struct world *w = *state;
	int64_t tool = add_tool(w, "a", "");
	struct reg_snapshot *before;
	char *text = definition("a", ",\"title\":\"A\"");

	rows_grant(&w->rows, w->acme, "a", "");
	assert_int_equal(tool_changed(w, tool), 1);
	assert_int_equal(w->told_tenant, w->acme);
	assert_int_equal(w->told_generation, 1);
	assert_int_equal(tool_changed(w, tool), 0);
	assert_int_equal(tenant_changed(w, w->acme), 0);
	/* The same listed part, another handler: a new version, no new list. */
	before = reg_acquire(w->reg, w->acme);
	{
		struct reg_snapshot *after;
		char *old = definition("a", "");

		rows_tool_next(&w->rows, tool, 1, text, old);
		assert_int_equal(tool_changed(w, tool), 0);
		after = reg_acquire(w->reg, w->acme);
		assert_int_equal(before->list[REG_TOOL].items[0].def->version, 1);
		assert_int_equal(after->list[REG_TOOL].items[0].def->version, 2);
		assert_int_equal(after->generation[REG_TOOLS], 1);
		reg_release(w->reg, &after);
		free(old);
	}
	reg_release(w->reg, &before);
	rows_tool_next(&w->rows, tool, 2, text, text);
	assert_int_equal(tool_changed(w, tool), 1);
	assert_int_equal(w->told_generation, 2);
	/* A grant that matches nothing, and one that says the same again. */
	rows_grant(&w->rows, w->acme, "zzz*", "");
	assert_int_equal(tenant_changed(w, w->acme), 0);
	rows_grant(&w->rows, w->acme, "*", "");
	assert_int_equal(tenant_changed(w, w->acme), 0);
	rows_ungrant(&w->rows, w->acme, "a");
	assert_int_equal(tenant_changed(w, w->acme), 0);
	rows_ungrant(&w->rows, w->acme, "*");
	assert_int_equal(tenant_changed(w, w->acme), 1);
	assert_sees(w, w->acme, "");
	free(text);
}

static void disabled_and_removed_tools_are_not_seen(void **state)
{
	struct world *w = *state;
	int64_t tool = add_tool(w, "a", "");

	rows_grant(&w->rows, w->acme, "*", "");
	rows_grant(&w->rows, w->other, "a", "");
	assert_int_equal(tool_changed(w, tool), 2);
	rows_tool_state(&w->rows, tool, 2);
	assert_int_equal(tool_changed(w, tool), 2);
	assert_sees(w, w->acme, "");
	assert_int_equal(tool_changed(w, tool), 0);
	rows_tool_state(&w->rows, tool, 1);
	assert_int_equal(tool_changed(w, tool), 2);
	assert_sees(w, w->acme, "a");
	rows_tool_state(&w->rows, tool, 3);
	assert_int_equal(tool_changed(w, tool), 2);
	assert_sees(w, w->other, "");
}

static void suspended_and_removed_tenants_see_nothing(void **state)
{
	struct world *w = *state;

	add_tool(w, "a", "");
	rows_grant(&w->rows, w->acme, "a", "");
	load_all(w);
	assert_int_equal(tenant_changed(w, w->acme), 1);
	assert_sees(w, w->acme, "a");
	rows_tenant_state(&w->rows, w->acme, TENANT_SUSPENDED);
	assert_int_equal(tenant_changed(w, w->acme), 1);
	assert_sees(w, w->acme, "");
	rows_tenant_state(&w->rows, w->acme, TENANT_ACTIVE);
	assert_int_equal(tenant_changed(w, w->acme), 1);
	assert_sees(w, w->acme, "a");
	rows_tenant_state(&w->rows, w->acme, TENANT_REMOVED);
	assert_int_equal(tenant_changed(w, w->acme), 1);
	assert_sees(w, w->acme, "");
}

static void two_tools_under_one_name_are_a_conflict(void **state)
{
	struct world *w = *state;
	struct reg_change *c = NULL;
	struct err err;

	add_tool(w, "a", "");
	add_tool(w, "b", "");
	rows_grant(&w->rows, w->acme, "a", "");
	rows_grant(&w->rows, w->acme, "b", "a");
	assert_int_equal(reg_change_tenant(w->rows.db, w->acme, &c, &err), ERR_CONFLICT);
	assert_string_equal(err.where, "tenant/acme/tool/a");
	assert_null(c);
	/* Stored all the same, it keeps nobody from starting: the older tool speaks. */
	load_all(w);
	assert_sees(w, w->acme, "a");
}

static void several_tools_change_at_once(void **state)
{
	struct world *w = *state;
	int64_t ids[2] = { add_tool(w, "a", ""), add_tool(w, "b", "") };
	struct reg_change *c = NULL;
	struct reg_news news;

	rows_grant(&w->rows, w->acme, "*", "");
	ROWS_OK(reg_change_tools(w->rows.db, ids, 2, &c, &rows_err));
	assert_true(reg_change_tenant_at(c, 0, &news));
	assert_int_equal(news.tenant_id, w->acme);
	assert_int_equal(news.generation[REG_TOOLS], 1);
	assert_true(news.differs[REG_TOOLS]);
	assert_false(news.differs[REG_PROMPTS] || news.differs[REG_RESOURCES]);
	assert_false(reg_change_tenant_at(c, 1, &news));
	assert_int_equal(apply(w, c), 1);
	assert_sees(w, w->acme, "a b");
}

static void running_calls_keep_their_picture(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;
	int64_t tool = add_tool(w, "a", "");

	rows_grant(&w->rows, w->acme, "a", "");
	assert_int_equal(tool_changed(w, tool), 1);
	snap = reg_acquire(w->reg, w->acme);
	rows_tool_state(&w->rows, tool, 3);
	assert_int_equal(tool_changed(w, tool), 1);
	assert_string_equal(reg_find(snap, REG_TOOL, "a", 1)->def->name, "a");
	assert_non_null(strstr(reg_find(snap, REG_TOOL, "a", 1)->def->text, "\"inputSchema\""));
	reg_release(w->reg, &snap);
}

static struct reg_page page_after(struct world *w, struct reg_snapshot *snap, enum rev rev, const char *after,
				  const struct scopes *scopes)
{
	const struct reg_ask ask = { .kind = REG_TOOL, .rev = rev, .all = rev == REV_R0, .after = after, .scopes = scopes };
	struct reg_page p;

	ROWS_OK(reg_page(w->reg, snap, &ask, &p, &rows_err));
	assert_int_equal(strlen(p.text), p.len);
	return p;
}

static const char *page(struct world *w, struct reg_snapshot *snap, enum rev rev)
{
	struct reg_page p = page_after(w, snap, rev, NULL, NULL);

	assert_null(p.last);
	return p.text;
}

#define BASE "[{\"name\":\"a\","
#define END "\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"}"

/* MCP T-12, T-13, T-14, T-15, I-01, Y-03, M-02, table A, B-14 */
static void revision_shows_what_it_knows(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;

	add_tool(w, "x", ",\"title\":\"T\",\"outputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true},"
		 "\"icons\":[{\"src\":\"data:,\"}],\"_meta\":{\"dev.example/a\":1},\"limits\":{\"rate\":\"1/s\"}");
	rows_grant(&w->rows, w->acme, "x", "a");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	assert_string_equal(page(w, snap, REV_R0), BASE END "}]");
	assert_string_equal(page(w, snap, REV_R1), BASE END "}]");
	assert_string_equal(page(w, snap, REV_R2),
			    BASE END ",\"annotations\":{\"title\":\"T\",\"readOnlyHint\":true}}]");
	assert_string_equal(page(w, snap, REV_R3),
			    BASE "\"title\":\"T\"," END ",\"outputSchema\":{\"type\":\"object\"},"
			    "\"annotations\":{\"readOnlyHint\":true},\"_meta\":{\"dev.example/a\":1}}]");
	assert_string_equal(page(w, snap, REV_R4),
			    BASE "\"title\":\"T\"," END ",\"outputSchema\":{\"type\":\"object\"},"
			    "\"annotations\":{\"readOnlyHint\":true},\"icons\":[{\"src\":\"data:,\"}],"
			    "\"_meta\":{\"dev.example/a\":1}}]");
	assert_string_equal(page(w, snap, REV_R5), page(w, snap, REV_R4));
	reg_release(w->reg, &snap);
}

static void title_goes_to_the_annotations_of_r2(void **state)
{
	static const struct { const char *more, *shown; } cases[] = {
		{ ",\"title\":\"T\"", ",\"annotations\":{\"title\":\"T\"}" },
		{ ",\"title\":\"T\",\"annotations\":{}", ",\"annotations\":{\"title\":\"T\"}" },
		{ ",\"title\":\"T\",\"annotations\":{\"title\":\"U\"}", ",\"annotations\":{\"title\":\"U\"}" },
		{ ",\"annotations\":{\"title\":\"U\"}", ",\"annotations\":{\"title\":\"U\"}" },
		{ "", "" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		char name[16], *want;
		struct reg_snapshot *snap;

		(void)snprintf(name, sizeof name, "t%zu", i);
		add_tool(w, name, cases[i].more);
		rows_grant(&w->rows, w->acme, name, "a");
		load_all(w);
		snap = reg_acquire(w->reg, w->acme);
		want = mem_printf(BASE END "%s}]", cases[i].shown);
		assert_string_equal(page(w, snap, REV_R2), want);
		free(want);
		reg_release(w->reg, &snap);
		rows_ungrant(&w->rows, w->acme, name);
	}
}

/* MCP B-16 */
static void output_that_is_no_object_is_wrapped_or_hidden(void **state)
{
	static const struct { const char *more, *r3, *r5; } cases[] = {
		{ ",\"outputSchema\":{\"type\":\"array\"}",
		  ",\"outputSchema\":{\"type\":\"object\",\"properties\":{\"result\":{\"type\":\"array\"}},"
		  "\"required\":[\"result\"]}", ",\"outputSchema\":{\"type\":\"array\"}" },
		{ ",\"outputSchema\":{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{}}}", "",
		  ",\"outputSchema\":{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{}}}" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		char name[16], *r3, *r5;
		struct reg_snapshot *snap;

		(void)snprintf(name, sizeof name, "t%zu", i);
		add_tool(w, name, cases[i].more);
		rows_grant(&w->rows, w->acme, name, "a");
		load_all(w);
		snap = reg_acquire(w->reg, w->acme);
		r3 = mem_printf(BASE END "%s}]", cases[i].r3);
		r5 = mem_printf(BASE END "%s}]", cases[i].r5);
		assert_string_equal(page(w, snap, REV_R3), r3);
		assert_string_equal(page(w, snap, REV_R4), r3);
		assert_string_equal(page(w, snap, REV_R5), r5);
		free(r3);
		free(r5);
		reg_release(w->reg, &snap);
		rows_ungrant(&w->rows, w->acme, name);
	}
}

/* MCP Q-08 */
static void schema_keeps_the_authors_order_and_spelling(void **state)
{
	static const char schema[] = "{\"type\":\"object\",\"z\":1.50,\"a\":{\"$comment\":\"\\u00e4\"}}";
	struct world *w = *state;
	struct reg_snapshot *snap;
	char *text = mem_printf("{\"handler\":{},\"inputSchema\":%s,\"description\":\"d\",\"name\":\"a\"}", schema);

	rows_tool(&w->rows, "a", text);
	rows_grant(&w->rows, w->acme, "a", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	assert_non_null(strstr(page(w, snap, REV_R5), schema));
	reg_release(w->reg, &snap);
	free(text);
}

/* MCP Q-02 */
static void older_dialects_are_shown_as_2020_12_when_they_mean_the_same(void **state)
{
#define D7 "\"$schema\":\"http://json-schema.org/draft-07/schema#\""
	static const char same[] = "{" D7 ",\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/definitions/x\"}},"
		"\"definitions\":{\"x\":{\"items\":[{}]}}}";
	static const char other[] = "{" D7 ",\"type\":\"object\",\"not\":{\"$id\":\"https://example.com/x\"}}";
	struct world *w = *state;
	struct reg_snapshot *snap;
	char *text = mem_printf("{\"handler\":{},\"inputSchema\":%s,\"outputSchema\":%s,\"description\":\"d\",\"name\":\"a\"}",
				same, other);

	rows_tool(&w->rows, "a", text);
	rows_grant(&w->rows, w->acme, "a", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	assert_non_null(strstr(page(w, snap, REV_R5), "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{"
			       "\"$ref\":\"#/$defs/x\"}},\"$defs\":{\"x\":{\"prefixItems\":[{}]}}},"));
	assert_non_null(strstr(page(w, snap, REV_R5), other));
	reg_release(w->reg, &snap);
	free(text);
}

/* MCP B-31 */
static void bad_tool_never_breaks_the_list(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;
	const struct reg_compiled *compiled;
	struct err err;

	rows_tool(&w->rows, "a", "no JSON");
	add_tool(w, "b", "");
	rows_tool(&w->rows, "c", "{");
	rows_tool(&w->rows, "d", "{\"name\":\"d\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"},"
		  "\"handler\":{\"broken\":1}}");
	rows_grant(&w->rows, w->acme, "*", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	assert_int_equal(snap->list[REG_TOOL].count, 4);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(reg_compile(w->reg, snap->list[REG_TOOL].items[3].def, &compiled, &err), ERR_CORRUPT);
		assert_string_equal(err.where, "/handler/broken");
	}
	assert_int_equal(reg_compile(w->reg, snap->list[REG_TOOL].items[0].def, &compiled, &err), ERR_CORRUPT);
	assert_int_equal(reg_compile(w->reg, snap->list[REG_TOOL].items[1].def, &compiled, &err), 0);
	assert_string_equal(page(w, snap, REV_R1), "[{\"name\":\"b\"," END "}]");
	reg_release(w->reg, &snap);
}

static size_t count_tools(const char *text)
{
	json_t *list = NULL;
	size_t n;

	ROWS_OK(jx_parse(text, strlen(text), &list, &rows_err));
	n = json_array_size(list);
	json_decref(list);
	return n;
}

/* MCP B-18: limit and limit + 1; a cursor survives what happens to the list in between. */
static void pages_have_100_tools_and_go_on_after_a_name(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;
	struct reg_page p;
	char name[16];

	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof name, "t%03d", i);
		add_tool(w, name, "");
	}
	rows_grant(&w->rows, w->acme, "*", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	assert_int_equal(count_tools(page(w, snap, REV_R5)), 100);
	reg_release(w->reg, &snap);

	add_tool(w, "t100", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	p = page_after(w, snap, REV_R5, "", NULL);
	assert_int_equal(count_tools(p.text), 100);
	assert_int_equal(p.total, 101);
	assert_string_equal(p.last, "t099");
	p = page_after(w, snap, REV_R5, p.last, NULL);
	assert_string_equal(p.text, "[{\"name\":\"t100\"," END "}]");
	assert_null(p.last);
	assert_int_equal(count_tools(page_after(w, snap, REV_R5, "t0985", NULL).text), 2);
	p = page_after(w, snap, REV_R5, "zzz", NULL);
	assert_string_equal(p.text, "[]");
	assert_null(p.last);
	/* R0 has one page (MCP T-10). */
	assert_int_equal(count_tools(page(w, snap, REV_R0)), 101);
	reg_release(w->reg, &snap);
}

static struct scopes *scopes_of(const char *words)
{
	struct scopes *s = NULL;

	ROWS_OK(scopes_parse(words, strlen(words), &s, &rows_err));
	return s;
}

/* SEC S-314, product.md 11: what a key may not call, it is not shown: neither on a page nor by what stands behind one. */
static void pages_are_cut_by_scopes(void **state)
{
	struct world *w = *state;
	struct scopes *some = scopes_of("tools:call:a*"), *none = scopes_of("tools:list"), *all = scopes_of("tools:call");
	struct reg_snapshot *snap;
	struct reg_page p;
	char name[16];

	for (int i = 0; i < 105; i++) {
		(void)snprintf(name, sizeof name, "%c%03d", i % 52 == 50 ? 'z' : 'a', i);
		add_tool(w, name, "");
	}
	rows_grant(&w->rows, w->acme, "*", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	p = page_after(w, snap, REV_R5, NULL, some);
	assert_int_equal(count_tools(p.text), 100);
	assert_int_equal(p.total, 103);
	assert_string_equal(p.last, "a100");
	assert_ptr_equal(page_after(w, snap, REV_R5, NULL, some).text, p.text);
	p = page_after(w, snap, REV_R5, p.last, some);
	assert_int_equal(count_tools(p.text), 3);
	assert_null(p.last);
	p = page_after(w, snap, REV_R5, NULL, none);
	assert_string_equal(p.text, "[]");
	assert_int_equal(p.total, 0);
	assert_ptr_equal(page_after(w, snap, REV_R5, NULL, all).text, page_after(w, snap, REV_R5, NULL, NULL).text);
	assert_true(reg_in_scope(reg_find(snap, REG_TOOL, "a000", 4), some));
	assert_false(reg_in_scope(reg_find(snap, REG_TOOL, "z050", 4), some));
	for (int i = 0; i < 520; i++) {
		char word[40];
		struct scopes *one;

		(void)snprintf(word, sizeof word, "tools:call:a%03d", i);
		one = scopes_of(word);
		assert_int_equal(page_after(w, snap, REV_R5, NULL, one).total, i < 105 && i % 52 != 50);
		scopes_unref(&one);
	}
	reg_release(w->reg, &snap);
	scopes_unref(&some);
	scopes_unref(&none);
	scopes_unref(&all);
}

static void page_is_made_once(void **state)
{
	struct world *w = *state;
	struct reg_snapshot *snap;
	const char *first;

	add_tool(w, "a", "");
	rows_grant(&w->rows, w->acme, "*", "");
	load_all(w);
	snap = reg_acquire(w->reg, w->acme);
	first = page(w, snap, REV_R5);
	(void)page(w, snap, REV_R1);
	assert_ptr_equal(page(w, snap, REV_R5), first);
	reg_release(w->reg, &snap);
}

SINGLE_THREAD_SUITE(lists)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(tenant_sees_what_its_grants_match),
		TEST(prefix_of_a_name_is_another_name),
		TEST(most_particular_grant_speaks),
		TEST(equal_names_of_two_tenants_stay_apart),
		TEST(only_a_visible_difference_is_told),
		TEST(disabled_and_removed_tools_are_not_seen),
		TEST(suspended_and_removed_tenants_see_nothing),
		TEST(two_tools_under_one_name_are_a_conflict),
		TEST(several_tools_change_at_once),
		TEST(running_calls_keep_their_picture),
		TEST(revision_shows_what_it_knows),
		TEST(title_goes_to_the_annotations_of_r2),
		TEST(output_that_is_no_object_is_wrapped_or_hidden),
		TEST(schema_keeps_the_authors_order_and_spelling),
		TEST(older_dialects_are_shown_as_2020_12_when_they_mean_the_same),
		TEST(bad_tool_never_breaks_the_list),
		TEST(pages_are_cut_by_scopes),
		TEST(pages_have_100_tools_and_go_on_after_a_name),
		TEST(page_is_made_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
