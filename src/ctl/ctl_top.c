/* The command top: samples come over the connection as long as it lasts, each is drawn with the one before it
 * (room top). Called by the program, in its only thread. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "json/json.h"
#include "top/top.h"

#include "ctl_int.h"

struct screen {
	bool live, json, quit;
	json_t *before, *now;
	struct top_view view;
	struct str text;
};

static void draw(struct screen *s)
{
	if (!s->now)
		return;
	str_reset(&s->text);
	top_draw(s->before, s->now, &s->view, top_screen_size(), &s->text);
	top_screen_show(&s->text);
}

static void take_sample(struct screen *s, json_t *row)
{
	if (s->json) {
		ctl_write_json(row, stdout);
		fputc('\n', stdout);
		fflush(stdout);
		return;
	}
	if (s->view.paused)
		return;                 /* rates are of the whole time when it goes on */
	json_decref(s->before);
	s->before = s->now;
	s->now = json_incref(row);
	if (s->live)
		draw(s);
}

static void take(void *arg, const struct str *rows)
{
	struct screen *s = arg;
	const char *nl;

	for (const char *p = str_text(rows); (nl = strchr(p, '\n')); p = nl + 1) {
		json_t *root = NULL;

		if (jx_parse(p, (size_t)(nl - p), &root, NULL) == 0 && json_is_object(json_object_get(root, "row")))
			take_sample(s, json_object_get(root, "row"));
		json_decref(root);
	}
}

static bool on_tick(void *arg)
{
	struct screen *s = arg;
	bool again = top_screen_changed();
	char key;

	while (!s->quit && top_screen_key(&key)) {
		enum top_does does = top_key(&s->view, key);

		s->quit = does == TOP_QUIT;
		again = again || does == TOP_DRAW;
	}
	if (again && !s->quit)
		draw(s);
	return !s->quit;
}

static bool is_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

int ctl_top_run(struct ctl_line *line, bool *ret_reached, struct err *err)
{
	struct screen s = { .json = line->opt.json, .text = STR_INIT };
	const struct ctl_sink sink = { .rows = take, .arg = &s };
	struct str rest = STR_INIT;
	int rc = 0;

	s.live = !s.json && !json_is_true(json_object_get(line->args, "once")) && is_terminal();
	if (!s.json && !s.live)
		(void)json_object_set_new(line->args, "once", json_true());
	if (s.live)
		rc = top_screen_open(err);
	if (rc == 0 && s.live)
		ctl_on_tick(STDIN_FILENO, on_tick, &s);
	if (rc == 0)
		rc = ctl_run(&line->opt, line->cmd, line->args, &sink, &rest, ret_reached, err);
	ctl_on_tick(-1, NULL, NULL);
	if (s.live)
		top_screen_close();
	if (rc == 0)
		take(&s, &rest);
	if (rc == 0 && s.now) {
		str_reset(&s.text);
		top_draw(s.before, s.now, &s.view, (struct top_size){ SIZE_MAX, 0 }, &s.text);
		printf("%s\n", str_text(&s.text));
	}
	json_decref(s.before);
	json_decref(s.now);
	str_fini(&rest);
	str_fini(&s.text);
	return s.quit ? 0 : rc;
}
