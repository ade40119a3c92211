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
		PAGE(html, "bar", { "csrf", csrf });
	}
	PAGE(html, "main", { "title", title });
}

char *view_text(const json_t *v, size_t most)
{
	struct str text = STR_INIT;
	const char *s = json_string_value(v);
	size_t n = 0, len;

	if (s)
		str_put(&text, s, json_string_length(v));
	else if (v && !json_is_null(v))
		jx_write(v, &text);
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

void view_command(struct str *html, const char *command, const json_t *args, const char *positional)
{
	struct str line = STR_INIT;
	const char *name;
	json_t *value;

	str_printf(&line, "toolcrib %s", command);
	json_object_foreach((json_t *)(uintptr_t)args, name, value) {
		str_putc(&line, ' ');
		if (!positional || strcmp(name, positional) != 0)
			str_printf(&line, "--%s ", name);
		put_word(&line, json_string_value(value));
	}
	PAGE(html, "command", { "line", str_text(&line) });
	str_fini(&line);
}

int view_status(enum err_code code)
{
	return code == ERR_DENIED ? 403 : code == ERR_NOT_FOUND ? 404 : code == ERR_INVALID || code == ERR_LIMIT ? 400 : 503;
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
		request_error(q, view_status(a->code), "No answer", a->message, a->hint);
	return true;
}
