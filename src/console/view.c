/* What pages have in common: their frame, values as text, the command that shows the same in a shell, and what is said
 * when there is no answer.  A page has no rights of its own: the server decides for each command (CONSOLE 7). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "console_int.h"

void view_begin(const struct request *q, struct str *html, const char *title)
{
	char csrf[CSRF_SIZE];

	PAGE(html, "head", { "title", title });
	if (*q->token) {
		request_csrf(q, "/sign-out", csrf);
		PAGE_PLAIN(html, "bar");
		if (*q->tenant)
			PAGE(html, "bar-tenant", { "tenant", q->tenant });
		PAGE(html, "bar-end", { "csrf", csrf });
	}
	PAGE(html, "main", { "title", title });
}

char *view_text(const json_t *v, size_t most)
{
	struct str text = STR_INIT;
	size_t n = 0, len;

	jx_write_plain(v, &text);
	len = text.len;
	for (size_t i = 0; i < text.len && len == text.len; i++)
		if (((unsigned char)text.p[i] & 0xc0) != 0x80 && ++n > most)
			len = i;
	if (len < text.len) {
		char *cut = mem_printf("%.*s… and %zu bytes more", (int)len, text.p, text.len - len);

		str_fini(&text);
		return cut;
	}
	return str_take(&text);
}

char *view_member(const json_t *row, const char *name)
{
	return view_text(json_object_get(row, name), CON_VALUE_MAX);
}

static bool is_plain_word(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@%+=,-";

	return *word && word[strspn(word, plain)] == '\0';
}

/* As a shell takes it. */
static void put_word(struct str *line, const char *word)
{
	if (is_plain_word(word)) {
		str_puts(line, word);
		return;
	}
	str_putc(line, '\'');
	for (; *word; word++)
		str_puts(line, *word == '\'' ? "'\\''" : (const char[]){ *word, '\0' });
	str_putc(line, '\'');
}

/* What a command takes without its name, in this order. */
static const struct { const char *command, *words; } positional[] = {
	{ "audit show", "call" }, { "audit payload", "call" }, { "audit review", "action" }, 
	{ "audit bundle", "tenant file" }, { "tool show", "tool" },
	{ "tool history", "tool" }, { "tool diff", "tool from to" }, { "tool approve", "tool" }, { "tool reject",
		"tool" },
	{ "grant list", "tenant" }, { "grant who", "tenant" }, { "principal list", "tenant" }, { "key list", "tenant" },
	{ "tenant show", "tenant" }, { "limit show", "who" }, { "hold list", "tenant" }, { "retention show", "tenant" },
	{ "approve show", "id" }, { "approve grant", "id" }, { "approve refuse", "id" }, { "approve recall", "id" },
	{ "approval grant", "id" }, { "approval deny", "id" }, { "alerts ack", "id" }, { "audit proof", "call" },
	{ "audit credential", "key" }, { "audit subject", "principal" },
};

static const char *words_of(const char *command)
{
	for (size_t i = 0; i < NELEMS(positional); i++)
		if (strcmp(positional[i].command, command) == 0)
			return positional[i].words;
	return "";
}

static bool is_among(const char *words, const char *name)
{
	const size_t n = strlen(name);

	for (const char *at = words; *at; at += strcspn(at, " "), at += strspn(at, " "))
		if (strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == '\0'))
			return true;
	return false;
}

static void put_line(struct str *line, const char *command, const json_t *args)
{
	const char *words = words_of(command), *name;
	char word[20];
	json_t *value;

	str_printf(line, "toolcrib %s", command);
	for (const char *at = words; *at; at += strspn(at, " ")) {
		(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " "), at);
		at += strcspn(at, " ");
		value = json_object_get(args, word);
		if (value) {
			str_putc(line, ' ');
			put_word(line, json_string_value(value));
		}
	}
	json_object_foreach((json_t *)(uintptr_t)args, name, value) {
		if (is_among(words, name))
			continue;
		str_printf(line, " --%s", name);
		if (!json_is_true(value)) {
			str_putc(line, ' ');
			put_word(line, json_string_value(value));
		}
	}
}

void view_commands(struct str *html, const struct asking *all, size_t n)
{
	struct str lines = STR_INIT;

	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			str_putc(&lines, '\n');
		put_line(&lines, all[i].command, all[i].args);
	}
	PAGE(html, "command", { "line", str_text(&lines) });
	str_fini(&lines);
}

/* "2026-07-28T10:00:00.123456Z", as records have it; a page says milliseconds, and the whole beside it. */
#define TIME_LEN 27

static bool is_time(const char *text)
{
	return strlen(text) == TIME_LEN && text[4] == '-' && text[10] == 'T' && text[19] == '.' && text[TIME_LEN - 1] == 'Z';
}

void view_cell(struct str *html, const char *text)
{
	char brief[TIME_LEN + 1];

	if (!is_time(text)) {
		PAGE(html, "cell", { "value", text });
		return;
	}
	(void)snprintf(brief, sizeof(brief), "%.10s %.12sZ", text, text + 11);
	PAGE(html, "cell-time", { "value", text }, { "short", brief });
}

const char *view_shape(const char *outcome)
{
	static const struct { const char *outcomes, *shape; } shapes[] = {
		{ " ok ", "o-ok" }, { " denied invalid rate_limited overload ", "o-refused" },
		{ " tool_error timeout crashed aborted ", "o-error" },
	};
	char word[40];

	(void)snprintf(word, sizeof(word), " %.36s ", outcome);
	for (size_t i = 0; i < NELEMS(shapes); i++)
		if (strstr(shapes[i].outcomes, word))
			return shapes[i].shape;
	return "o-other";
}

void view_fact(struct str *html, const char *name, const json_t *value, size_t most)
{
	char *text = view_text(value, most);

	if (*text)
		PAGE(html, "fact", { "name", name }, { "value", text });
	free(text);
}

void view_facts(struct str *html, const json_t *header)
{
	const char *name;
	json_t *value;

	PAGE_PLAIN(html, "facts");
	json_object_foreach((json_t *)(uintptr_t)header, name, value)
		view_fact(html, name, value, CON_VALUE_MAX);
	PAGE_PLAIN(html, "facts-end");
}

bool view_may(const struct answer *can, const char *tenant, const char *command)
{
	const size_t n = strlen(command);
	const json_t *row;
	size_t i;

	json_array_foreach(can->rows, i, row) {
		const char *of = json_string_value(json_object_get(row, "tenant"));
		const char *at = json_string_value(json_object_get(row, "may"));

		if (!of || strcmp(of, tenant) != 0)
			continue;
		while (at && !(strncmp(at, command, n) == 0 && (at[n] == ',' || at[n] == '\0'))) {
			at = strchr(at, ',');
			if (at)
				at += 1;
		}
		return at;
	}
	return false;
}

static int status_of(enum err_code code)
{
	static const struct { enum err_code code; int status; } known[] = {
		{ ERR_DENIED, 403 }, { ERR_NOT_FOUND, 404 }, { ERR_CONFLICT, 409 }, { ERR_INVALID, 400 },
			{ ERR_LIMIT, 400 } };

	for (size_t i = 0; i < NELEMS(known); i++)
		if (known[i].code == code)
			return known[i].status;
	return 503;
}

/* A name of this tenant, which was asked for by its own filter. */
static bool is_of_filter(const struct request *q, const struct answer *a)
{
	return *request_param(q, "principal") && strncmp(a->message, "principal ", 10) == 0;
}

bool view_failed(struct request *q, const struct answer *a)
{
	if (a->code == ERR_OK)
		return false;
	if (a->code == ERR_DENIED && strcmp(a->where, "visit") == 0)
		request_error(q, 403, "Sign in", "Nobody is signed in here, or not any more.", "toolcrib console open");
	else if (*q->tenant && (a->code == ERR_DENIED || (a->code == ERR_NOT_FOUND && !is_of_filter(q, a))))
		request_missing(q);
	else
		request_error(q, status_of(a->code), "No answer", a->message, a->hint);
	return true;
}
