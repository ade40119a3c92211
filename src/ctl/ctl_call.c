/* Commands that run a tool: its progress is drawn on the terminal, and its questions are asked there; answers go with a
 * further run.  Called by the program, in its only thread. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "ctl_int.h"

/* --- progress: one line that is drawn again, or lines where it is no terminal */

#define DRAW_EVERY_US 100000
#define WIDTH_DEFAULT 80
#define WIDTH_MAX 500
#define NUMBER_SIZE 64

struct run {
	struct str *rows;               /* what is no progress */
	bool tty, drawn;
	uint64_t drawn_us;
};

static size_t width(void)
{
	struct winsize size = { 0 };

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return WIDTH_DEFAULT;
	return size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

static void wipe_line(struct run *r)
{
	if (r->drawn)
		fputs("\r\033[K", stderr);
	r->drawn = false;
}

static void draw(struct run *r, const json_t *progress)
{
	const json_t *total = json_object_get(progress, "total");
	const char *note = json_string_value(json_object_get(progress, "message"));
	double done = jx_nearest(json_object_get(progress, "done")), all = total ? jx_nearest(total) : 0;
	char text[WIDTH_MAX], number[NUMBER_SIZE];
	uint64_t now_us = clock_mono_us();
	size_t room;

	if (r->tty && r->drawn && now_us - r->drawn_us < DRAW_EVERY_US && (!total || done < all))
		return;
	(void)snprintf(number, sizeof(number), "%.6g", done);
	if (all > 0)
		(void)snprintf(number, sizeof(number), "%3.0f%%  %.6g/%.6g", 100 * done / all, done, all);
	room = r->tty ? width() : sizeof(text);         /* of bytes, so that the line never wraps */
	room = room > strlen(number) + 2 ? room - strlen(number) - 2 : 1;
	text_printable(note ? note : "", note ? strlen(note) : 0, text, room < sizeof(text) ? room : sizeof(text));
	wipe_line(r);
	fprintf(stderr, "%s%s%s%s", number, *text ? "  " : "", text, r->tty ? "" : "\n");
	fflush(stderr);
	r->drawn = r->tty;
	r->drawn_us = now_us;
}

static void take(void *arg, const struct str *text)
{
	static const char begin[] = "{\"progress\":";
	struct run *r = arg;
	const char *p = str_text(text), *nl;
	json_t *root = NULL;

	for (; (nl = strchr(p, '\n')) != NULL; p = nl + 1) {
		if (strncmp(p, begin, sizeof(begin) - 1) != 0) {
			str_put(r->rows, p, (size_t)(nl + 1 - p));
		} else if (jx_parse(p, (size_t)(nl - p), &root, NULL) == 0) {
			draw(r, json_object_get(root, "progress"));
			json_decref(root);
		}
	}
}

/* --- questions: a form is a line for each of its fields, an address is shown */

#define LINE_SIZE 4096
#define FIELD_TRIES 5

enum answer { ANSWER_ACCEPT, ANSWER_DECLINE, ANSWER_CANCEL };
static const char *const answer_names[] = { "accept", "decline", "cancel" };

/* Text of a tool, without what would move the cursor. */
static void say(const char *before, const char *text, const char *after)
{
	char shown[LINE_SIZE];

	fprintf(stderr, "%s%s%s", before, text_printable(text, strlen(text), shown, sizeof(shown)), after);
}

/* false: the input has ended. */
static bool read_line(char ret[LINE_SIZE])
{
	size_t n;

	fflush(stderr);
	if (!fgets(ret, LINE_SIZE, stdin))
		return false;
	n = strcspn(ret, "\n");
	ret[n] = '\0';
	return true;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static void say_value(const char *before, const json_t *value, const char *after)
{
	struct str out = STR_INIT;

	if (json_is_string(value))
		str_puts(&out, json_string_value(value));
	else
		jx_write(value, &out);
	say(before, str_text(&out), after);
	str_fini(&out);
}

/* The values that a field may have, with their titles where there are any; NULL: any. */
static const json_t *choices_of(const json_t *field)
{
	const json_t *items = json_object_get(field, "items"), *from = items ? items : field;
	static const char *const names[] = { "enum", "oneOf", "anyOf" };

	for (size_t i = 0; i < NELEMS(names); i++)
		if (json_is_array(json_object_get(from, names[i])))
			return json_object_get(from, names[i]);
	return NULL;
}

static const json_t *choice_value(const json_t *choice)
{
	return json_is_object(choice) ? json_object_get(choice, "const") : choice;
}

static void say_field(const char *name, const json_t *field, bool required)
{
	const json_t *choices = choices_of(field), *choice, *def = json_object_get(field, "default");
	const char *title = text_of(field, "title"), *about = text_of(field, "description");
	size_t i;

	say("  ", *title ? title : name, "");
	if (*about)
		say(" - ", about, "");
	json_array_foreach(choices, i, choice)
		say_value(i > 0 ? ", " : " (", choice_value(choice), "");
	if (json_array_size(choices) > 0)
		fputc(')', stderr);
	else
		say(" (", text_of(field, "type"), ")");
	if (def)
		say_value(" [", def, "]");
	fputs(required || def ? ": " : ", may stay empty: ", stderr);
}

/* One of the values, or any text where there are none; new reference, NULL: it is none of them. */
static json_t *choose(const json_t *choices, const char *word)
{
	const json_t *choice;
	size_t i;

	json_array_foreach(choices, i, choice) {
		const char *value = json_string_value(choice_value(choice));

		if (value && strcmp(value, word) == 0)
			return json_string(word);
	}
	return choices ? NULL : json_string(word);
}

static json_t *several(const json_t *choices, char *words)
{
	json_t *list = json_array();
	char *next = words;

	for (char *word; list && (word = strsep(&next, ",")) != NULL;) {
		json_t *one;

		word += strspn(word, " ");
		for (size_t n = strlen(word); n > 0 && word[n - 1] == ' '; n--)
			word[n - 1] = '\0';
		one = choose(choices, word);
		if (!one) {
			json_decref(list);
			return NULL;
		}
		(void)json_array_append_new(list, one);
	}
	return list;
}

/* A line as the value of a field; new reference, NULL: it is none. */
static json_t *value_of(const json_t *field, char *line)
{
	static const char *const yes[] = { "y", "yes", "true" }, *const no[] = { "n", "no", "false" };
	const char *type = text_of(field, "type");
	json_t *value = NULL;

	if (strcmp(type, "array") == 0)
		return several(choices_of(field), line);
	if (strcmp(type, "boolean") == 0) {
		for (size_t i = 0; i < NELEMS(yes); i++)
			if (strcmp(line, yes[i]) == 0 || strcmp(line, no[i]) == 0)
				return json_boolean(strcmp(line, yes[i]) == 0);
		return NULL;
	}
	if (strcmp(type, "integer") != 0 && strcmp(type, "number") != 0)
		return choose(choices_of(field), line);
	if (jx_parse(line, strlen(line), &value, NULL) < 0)
		return NULL;
	if (json_is_integer(value) || (json_is_real(value) && strcmp(type, "number") == 0))
		return value;
	json_decref(value);
	return NULL;
}

static bool is_required(const json_t *schema, const char *name)
{
	const json_t *list = json_object_get(schema, "required"), *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
			return true;
	return false;
}

/* false: nobody answers any more. */
static bool ask_field(const json_t *schema, const char *name, const json_t *field, json_t *content)
{
	const json_t *def = json_object_get(field, "default");
	bool required = is_required(schema, name);
	char line[LINE_SIZE];

	for (int i = 0; i < FIELD_TRIES; i++) {
		json_t *value;

		say_field(name, field, required);
		if (!read_line(line))
			return false;
		if (!*line && (def || !required)) {
			if (def)
				(void)json_object_set(content, name, (json_t *)(uintptr_t)def);
			return true;
		}
		value = *line ? value_of(field, line) : NULL;
		if (value) {
			(void)json_object_set_new(content, name, value);
			return true;
		}
		fputs("  That is no answer to it.\n", stderr);
	}
	return false;
}

static enum answer ask_form(const json_t *schema, json_t *content)
{
	json_t *properties = json_object_get(schema, "properties"), *field;
	char line[LINE_SIZE];
	const char *name;

	fputs("Answer? [y]es, [n]o, or [c]ancel: ", stderr);
	if (!read_line(line) || *line == 'c')
		return ANSWER_CANCEL;
	if (*line != 'y' && *line != 'Y')
		return ANSWER_DECLINE;
	json_object_foreach(properties, name, field)
		if (!ask_field(schema, name, field, content))
			return ANSWER_CANCEL;
	return ANSWER_ACCEPT;
}

/* New reference: the response to one request. */
static json_t *ask_one(const json_t *request)
{
	const json_t *params = json_object_get(request, "params");
	const char *url = json_string_value(json_object_get(params, "url"));
	json_t *content = json_object(), *response = json_object();
	enum answer answer;

	say("\nThe tool asks: ", text_of(params, "message"), "\n");
	if (url)
		say("It wants you to open this address: ", url, "\n");
	answer = ask_form(url ? NULL : json_object_get(params, "requestedSchema"), content);
	(void)json_object_set_new(response, "action", json_string(answer_names[answer]));
	if (answer == ANSWER_ACCEPT && !url)
		(void)json_object_set(response, "content", content);
	json_decref(content);
	return response;
}

/* The answers to what the last row asks, for the next call; NULL: it asks nothing. */
static json_t *ask_all(const struct str *rows)
{
	const char *nl = strchr(str_text(rows), '\n');
	json_t *root = NULL, *asks, *state, *responses, *request, *ret = NULL;
	const char *key;

	if (!nl || jx_parse(rows->p, (size_t)(nl - rows->p), &root, NULL) < 0)
		return NULL;
	asks = json_object_get(json_object_get(root, "row"), "asks");
	state = json_object_get(json_object_get(root, "row"), "state");
	if (json_object_size(asks) > 0 && json_is_string(state)) {
		responses = json_object();
		json_object_foreach(asks, key, request)
			(void)json_object_set_new(responses, key, ask_one(request));
		ret = json_object();
		(void)json_object_set(ret, "state", state);
		(void)json_object_set_new(ret, "responses", responses);
	}
	json_decref(root);
	return ret;
}

/* --- the run */

static bool has_arg(const struct command *cmd, const char *name)
{
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++)
		if (strcmp(arg->name, name) == 0)
			return true;
	return false;
}

/* What people expect at a terminal and programs do not. */
static bool set_terminal(const struct ctl_line *line, json_t *args)
{
	const char *term = getenv("TERM");
	bool out = isatty(STDERR_FILENO) && !line->opt.quiet && !(term && strcmp(term, "dumb") == 0);
	bool asks = out && isatty(STDIN_FILENO) && !line->opt.json && has_arg(line->cmd, "ask");

	if (out && has_arg(line->cmd, "progress"))
		(void)json_object_set_new(args, "progress", json_true());
	if (asks)
		(void)json_object_set_new(args, "ask", json_true());
	return asks;
}

int ctl_call_run(const struct ctl_line *line, struct str *rows, bool *ret_reached, struct err *err)
{
	struct run r = { .rows = rows, .tty = isatty(STDERR_FILENO) };
	const struct ctl_sink sink = { .rows = take, .arg = &r };
	json_t *args = json_copy(line->args), *answers = NULL;
	bool asks = set_terminal(line, args);
	int rc;

	do {
		struct str rest = STR_INIT;

		if (answers)
			(void)json_object_set_new(args, "answers", answers);
		answers = NULL;
		str_reset(rows);
		rc = ctl_run(&line->opt, line->cmd, args, &sink, &rest, ret_reached, err);
		str_put(rows, str_text(&rest), rest.len);
		str_fini(&rest);
		wipe_line(&r);
		if (rc == 0 && asks && !ctl_interrupted())
			answers = ask_all(rows);
	} while (answers);
	json_decref(args);
	return rc;
}
