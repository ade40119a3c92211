/* Replays: scripts of what peers send and must hear, over every way in and in every revision, on a fake clock.
 *
 * A script (*.rpl) is lines; "#" begins a comment.  Its head says where it runs:
 *	on WAY…			tcp unix stdio sse http; without it, all
 *	rev REVISION…		one run each; without it, all of the legacy era.  $REV in a text is the revision
 *	let NAME TEXT		$NAME in a later text is TEXT
 * A command for some runs only stands behind a guard: [WAY…], [!WAY…], [REVISION…], [<REVISION], [>=REVISION].
 *	send PEER TEXT		a message.  Consecutive ones reach a byte stream in one piece
 *	header PEER LINE	for its next message, on HTTP; a line without a value leaves the header out
 *	expect PEER PATTERN	its next message.  PATTERN is JSON of which the message has every member; "<any>" is any
 *				value, "<none>" a member that must be absent
 *	expect-text PEER TEXT	the same, when the message must contain a text to the byte
 *	expect-none PEER	nothing more has come
 *	expect-status PEER N	of the last HTTP answer
 *	expect-ended PEER	the server has ended what the peer opened
 *	get PEER, delete PEER	the notice stream of its HTTP session, the end of that session
 *	close PEER, vanish PEER, end-input PEER		the peer leaves, by a reset; says that it will send no more
 *	step-clock MS
 *	expect-call N PATTERN	the Nth call has reached the tools, with {tool, rev, caps, canAsk, traced, args, answers,
 *				state}
 *	expect-calls N		so many have
 *	expect-fate N FATE	running, cancelled, detached or ended
 *	finish N TEXT, progress N DONE TOTAL, log N LEVEL TEXT		what the Nth call does
 *	give N JSON		it ends with this as its structured part, as prompts, resources and completions do
 *	ask N JSON		it puts questions to its legacy caller; expect-answers N PATTERN
 *	require N JSON		it ends with questions, as modern calls do
 *	grant GLOB, ungrant GLOB	change what the tenant sees, when all that was sent has arrived
 *	show GLOB, hide GLOB	the same with what it does not see by itself: prompt:greet, resource:memo, resource:page
 *	update URI		what this resource gives has changed
 *	expect-watches N	so many resources are watched */

#include "config.h"

#include "client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "json/json.h"
#include "proto/caps.h"

enum { LETS_MAX = 32, CLIENTS_MAX = 8, SCRIPTS_MAX = 64, PATIENCE = 200, UNGRANTED_MAX = 8 };

struct let { char name[32]; char *text; };

/* One run of one script. */
struct run {
	const char *path;
	unsigned line;
	enum way way;
	enum rev rev;
	struct let lets[LETS_MAX];
	size_t nlets;
	struct client clients[CLIENTS_MAX];
	size_t nclients;
	char *ungranted[UNGRANTED_MAX];
	size_t nungranted;
	char *shown[UNGRANTED_MAX];
	size_t nshown;
};

static struct world world;
static struct run now;

#define broken(r, ...) do { \
		char *words_ = mem_printf(__VA_ARGS__); \
		print_error("%s:%u: over %s in %s: %s\n", (r)->path, (r)->line, way_names[(r)->way], \
			    rev_table[(r)->rev].text, words_); \
		free(words_); \
		fail(); \
	} while (0)

/* --- words and texts */

/* The next word of *at, which moves behind it and the blanks that follow. */
static char *word(char **at)
{
	char *p = *at, *end = p + strcspn(p, " \t");

	*at = end + strspn(end, " \t");
	*end = '\0';
	return p;
}

static long number(struct run *r, const char *text)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end)
		broken(r, "%s is no number", text);
	return n;
}

static const char *let_text(struct run *r, const char *name, size_t len)
{
	if (len == 3 && memcmp(name, "REV", 3) == 0)
		return rev_table[r->rev].text;
	for (size_t i = 0; i < r->nlets; i++)
		if (strlen(r->lets[i].name) == len && memcmp(r->lets[i].name, name, len) == 0)
			return r->lets[i].text;
	broken(r, "$%.*s means nothing", (int)len, name);
	return "";
}

/* text with each $NAME replaced; free() it. */
static char *expand(struct run *r, const char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	struct str out = STR_INIT;
	size_t n;

	while (*text) {
		n = *text == '$' ? strspn(text + 1, letters) : 0;
		if (n == 0) {
			str_putc(&out, *text++);
			continue;
		}
		str_puts(&out, let_text(r, text + 1, n));
		text += 1 + n;
	}
	return str_take(&out);
}

static json_t *tree(struct run *r, const char *text)
{
	struct err err;
	json_t *v = NULL;

	if (jx_parse(text, strlen(text), &v, &err) < 0)
		broken(r, "%s: %s in %s", err.where, err.msg, text);
	return v;
}

/* --- patterns */

static bool is_word(const json_t *v, const char *w)
{
	return json_is_string(v) && strcmp(json_string_value(v), w) == 0;
}

static bool matches(const json_t *want, const json_t *got)
{
	const char *key;
	json_t *v;
	size_t i;

	if (is_word(want, "<none>"))
		return !got;
	if (!got || is_word(want, "<any>"))
		return got != NULL;
	if (json_is_object(want)) {
		json_object_foreach((json_t *)(uintptr_t)want, key, v)
			if (!matches(v, json_object_get(got, key)))
				return false;
		return json_is_object(got);
	}
	if (json_is_array(want)) {
		json_array_foreach((json_t *)(uintptr_t)want, i, v)
			if (!matches(v, json_array_get(got, i)))
				return false;
		return json_is_array(got) && json_array_size(got) == json_array_size(want);
	}
	return json_equal(want, got);
}

static void must_match(struct run *r, const char *pattern, const json_t *got, const char *text)
{
	json_t *want = tree(r, pattern);
	bool ok = matches(want, got);

	json_decref(want);
	if (!ok)
		broken(r, "\n\twant %s\n\tgot  %s", pattern, text);
}

/* --- peers */

static struct client *client(struct run *r, const char *name)
{
	struct client *c;

	for (size_t i = 0; i < r->nclients; i++)
		if (strcmp(r->clients[i].name, name) == 0)
			return &r->clients[i];
	if (r->nclients == CLIENTS_MAX)
		broken(r, "more than %d peers", CLIENTS_MAX);
	c = &r->clients[r->nclients++];
	memset(c, 0, sizeof *c);
	c->world = &world;
	c->way = r->way;
	(void)snprintf(c->name, sizeof c->name, "%s", name);
	return c;
}

static const char *next_text(struct run *r, struct client *c, const char *want)
{
	for (int i = 0; i < PATIENCE && c->box.read == c->box.n; i++)
		client_gather(c);
	if (c->box.read == c->box.n)
		broken(r, "%s has heard nothing, not %s", c->name, want);
	return c->box.text[c->box.read++];
}

static void do_send(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));

	client_send(c, rest, rev_table[r->rev].text);
}

static void do_header(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));

	client_header(c, rest);
}

static void do_expect(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));
	const char *text = next_text(r, c, rest);
	json_t *got = tree(r, text);

	must_match(r, rest, got, text);
	json_decref(got);
}

static void do_expect_text(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));
	const char *text = next_text(r, c, rest);

	if (!strstr(text, rest))
		broken(r, "\n\twant %s\n\tin   %s", rest, text);
}

static void do_expect_none(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));

	client_gather(c);
	if (c->box.read < c->box.n)
		broken(r, "%s has heard %s", c->name, c->box.text[c->box.read]);
}

static void do_expect_status(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));

	client_gather(c);
	if (c->status != number(r, rest))
		broken(r, "the status is %d, not %s", c->status, rest);
}

static void do_expect_ended(struct run *r, char *rest)
{
	struct client *c = client(r, word(&rest));

	client_gather(c);
	if (!client_ended(c))
		broken(r, "%s is still served", c->name);
}

static void do_get(struct run *r, char *rest)
{
	client_get(client(r, word(&rest)));
}

static void do_delete(struct run *r, char *rest)
{
	client_delete(client(r, word(&rest)));
}

static void do_close(struct run *r, char *rest)
{
	client_close(client(r, word(&rest)));
}

static void do_vanish(struct run *r, char *rest)
{
	client_vanish(client(r, word(&rest)));
}

static void do_end_input(struct run *r, char *rest)
{
	client_end_input(client(r, word(&rest)));
}

static void do_step_clock(struct run *r, char *rest)
{
	world_pump(&world);
	clock_step((uint64_t)number(r, rest) * 1000);
	world_pump(&world);
}

/* --- calls */

static struct rig_call *call_at(struct run *r, char **rest)
{
	long n = number(r, word(rest));

	world_pump(&world);
	if (n < 1 || (size_t)n > world.core.ncalls)
		broken(r, "there are %zu calls, no number %ld", world.core.ncalls, n);
	return world.core.calls[n - 1];
}

static void do_expect_calls(struct run *r, char *rest)
{
	world_pump(&world);
	if (world.core.ncalls != (size_t)number(r, rest))
		broken(r, "there are %zu calls, not %s", world.core.ncalls, rest);
}

static void do_expect_call(struct run *r, char *rest)
{
	const struct rig_call *c = call_at(r, &rest);
	json_t *got = json_object();
	struct str text = STR_INIT;

	json_object_set_new(got, "tool", json_string(c->tool));
	json_object_set_new(got, "rev", json_string(rev_table[c->req.rev].text));
	json_object_set_new(got, "caps", caps_to_json(c->req.caps));
	json_object_set_new(got, "canAsk", json_boolean(c->req.can_ask));
	json_object_set_new(got, "traced", json_boolean(c->req.trace != NULL));
	json_object_set(got, "args", c->req.args);
	json_object_set(got, "answers", c->req.answers);
	if (c->state)
		json_object_set_new(got, "state", json_string(c->state));
	jx_write(got, &text);
	must_match(r, rest, got, text.p);
	str_fini(&text);
	json_decref(got);
}

static void do_expect_fate(struct run *r, char *rest)
{
	const struct rig_call *c = call_at(r, &rest);
	const char *fate = c->cancelled ? "cancelled" : c->detached ? "detached" : c->ended ? "ended" : "running";

	if (strcmp(fate, rest) != 0)
		broken(r, "the call is %s, not %s", fate, rest);
}

static struct rig_call *running_call(struct run *r, char **rest)
{
	struct rig_call *c = call_at(r, rest);

	if (c->ended || c->detached)
		broken(r, "nobody hears of the call any more");
	return c;
}

static void do_finish(struct run *r, char *rest)
{
	struct rig_call *c = running_call(r, &rest);

	rig_end_text(c, rest);
}

static void do_give(struct run *r, char *rest)
{
	struct rig_call *c = running_call(r, &rest);

	rig_end_structured(c, tree(r, rest));
}

static void do_progress(struct run *r, char *rest)
{
	struct rig_call *c = running_call(r, &rest);
	long done = number(r, word(&rest));

	c->out->progress(c->arg, (double)done, (double)number(r, rest), NULL);
}

static void do_log(struct run *r, char *rest)
{
	struct rig_call *c = running_call(r, &rest);
	long level = number(r, word(&rest));

	c->out->log(c->arg, (int)level, NULL, json_string(rest));
}

static void do_ask(struct run *r, char *rest)
{
	struct rig_call *c = running_call(r, &rest);
	json_t *requests = tree(r, rest);
	struct err err;
	int rc = c->out->ask(c->arg, requests, &err);

	json_decref(requests);
	if (rc < 0)
		broken(r, "%s", err.msg);
}

static void do_require(struct run *r, char *rest)
{
	struct rig_call *c = running_call(r, &rest);
	struct call_end end = { .requests = tree(r, rest), .sealed_state = "v1.sealed" };

	rig_end_call(c, &end);
}

static void do_expect_answers(struct run *r, char *rest)
{
	const struct rig_call *c = call_at(r, &rest);
	struct str text = STR_INIT;

	if (c->answers)
		jx_write(c->answers, &text);
	must_match(r, rest, c->answers, str_text(&text));
	str_fini(&text);
}

static void do_grant(struct run *r, char *rest)
{
	world_pump(&world);
	(void)rig_grant(&world.core, world.core.acme, rest);
	for (size_t i = 0; i < r->nungranted; i++) {
		if (strcmp(r->ungranted[i], rest) != 0)
			continue;
		free(r->ungranted[i]);
		r->ungranted[i] = r->ungranted[--r->nungranted];
	}
}

static void do_ungrant(struct run *r, char *rest)
{
	world_pump(&world);
	(void)rig_ungrant(&world.core, world.core.acme, rest);
	assert_true(r->nungranted < UNGRANTED_MAX);
	r->ungranted[r->nungranted++] = mem_strdup(rest);
}

static void do_show(struct run *r, char *rest)
{
	world_pump(&world);
	(void)rig_grant(&world.core, world.core.acme, rest);
	assert_true(r->nshown < UNGRANTED_MAX);
	r->shown[r->nshown++] = mem_strdup(rest);
}

static void do_hide(struct run *r, char *rest)
{
	world_pump(&world);
	(void)rig_ungrant(&world.core, world.core.acme, rest);
	for (size_t i = 0; i < r->nshown; i++) {
		if (strcmp(r->shown[i], rest) != 0)
			continue;
		free(r->shown[i]);
		r->shown[i] = r->shown[--r->nshown];
	}
}

static void do_update(struct run *r, char *rest)
{
	world_pump(&world);
	rig_update(&world.core, rest);
}

static void do_expect_watches(struct run *r, char *rest)
{
	world_pump(&world);
	if (world.core.nwatches != (size_t)number(r, rest))
		broken(r, "%zu resources are watched, not %s", world.core.nwatches, rest);
}

/* --- scripts */

static const struct { const char *name; void (*run)(struct run *r, char *rest); } commands[] = {
	{ "send", do_send }, { "header", do_header }, { "expect", do_expect }, { "expect-text", do_expect_text },
	{ "expect-none", do_expect_none }, { "expect-status", do_expect_status }, { "expect-ended", do_expect_ended },
	{ "get", do_get }, { "delete", do_delete }, { "close", do_close }, { "vanish", do_vanish },
	{ "end-input", do_end_input }, { "step-clock", do_step_clock }, { "expect-call", do_expect_call },
	{ "expect-calls", do_expect_calls }, { "expect-fate", do_expect_fate }, { "finish", do_finish },
	{ "progress", do_progress }, { "log", do_log }, { "ask", do_ask }, { "require", do_require },
	{ "expect-answers", do_expect_answers }, { "grant", do_grant }, { "ungrant", do_ungrant },
	{ "give", do_give }, { "show", do_show }, { "hide", do_hide }, { "update", do_update }, { "expect-watches", do_expect_watches },
};

static enum rev revision(struct run *r, const char *text)
{
	enum rev rev = rev_find(text, strlen(text));

	if (rev == REV_COUNT)
		broken(r, "%s is neither a way in nor a revision", text);
	return rev;
}

/* One word of a guard or of the script's head. */
static bool holds(struct run *r, const char *w)
{
	if (w[0] == '<')
		return r->rev < revision(r, w + 1);
	if (w[0] == '>' && w[1] == '=')
		return r->rev >= revision(r, w + 2);
	for (int way = 0; way < WAY_COUNT; way++)
		if (strcmp(way_names[way], w) == 0)
			return r->way == (enum way)way;
	return r->rev == revision(r, w);
}

/* "[a b] rest": one of a, b holds; "[!a b]": none.  Moves *line to the rest. */
static bool guard(struct run *r, char **line)
{
	char *p = *line + 1, *end = strchr(p, ']');
	bool not = *p == '!', any = false;

	if (!end)
		broken(r, "a guard without its end");
	*end = '\0';
	*line = end + 1 + strspn(end + 1, " \t");
	for (p += not; *p;)
		any |= holds(r, word(&p));
	return any != not;
}

static void let(struct run *r, char *rest)
{
	struct let *l = &r->lets[r->nlets];
	const char *name = word(&rest);

	if (r->nlets == LETS_MAX)
		broken(r, "more than %d names", LETS_MAX);
	(void)snprintf(l->name, sizeof l->name, "%s", name);
	l->text = expand(r, rest);
	r->nlets++;
}

static void command(struct run *r, char *line)
{
	const char *verb;
	char *rest;

	while (*line == '[')
		if (!guard(r, &line))
			return;
	verb = word(&line);
	if (strcmp(verb, "let") == 0) {
		let(r, line);
		return;
	}
	if (strcmp(verb, "on") == 0 || strcmp(verb, "rev") == 0)
		return;
	rest = expand(r, line);
	for (size_t i = 0; i < NELEMS(commands); i++) {
		if (strcmp(commands[i].name, verb) == 0) {
			commands[i].run(r, rest);
			free(rest);
			return;
		}
	}
	broken(r, "%s is no command", verb);
}

/* Does the head's line of this name hold for the run?  The default where there is none. */
static bool chosen(struct run *r, const char *text, const char *name, bool otherwise)
{
	char line[256], *p = line;
	const char *at = text;

	while (strncmp(at, name, strlen(name)) != 0) {
		at = strchr(at, '\n');
		if (!at)
			return otherwise;
		at++;
	}
	at += strlen(name);
	(void)snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
	while (*p)
		if (holds(r, word(&p)))
			return true;
	return false;
}

static void play(struct run *r, const char *text)
{
	size_t len;

	for (const char *at = text; *at; at += len + (at[len] == '\n')) {
		char *line;

		len = strcspn(at, "\n");
		line = mem_strndup(at, len);
		r->line++;
		if (len && line[0] != '#')
			command(r, line);
		free(line);
	}
}

/* What a run has left behind, so that the next one finds nothing of it. */
static void clear(struct run *r)
{
	for (size_t i = 0; i < r->nclients; i++)
		client_free(&r->clients[i]);
	for (size_t i = 0; i < r->nlets; i++)
		free(r->lets[i].text);
	while (r->nungranted) {
		(void)rig_grant(&world.core, world.core.acme, r->ungranted[--r->nungranted]);
		free(r->ungranted[r->nungranted]);
	}
	while (r->nshown) {
		(void)rig_ungrant(&world.core, world.core.acme, r->shown[--r->nshown]);
		free(r->shown[r->nshown]);
	}
	for (int way = 0; way < WAY_COUNT; way++)
		if (way != WAY_SSE)
			tr_drop_peers(&world.tr[way]);
	mcp_end_where(world.core.srv, &(struct call_where){ .tenant_id = world.core.acme }, true, &(struct mcp_ended){ 0 });
	world_pump(&world);
	rig_forget_calls(&world.core);
	memset(r, 0, sizeof *r);
}

static int tear_down(void **state)
{
	clear(&now);
	return 0;
}

static char *slurp(const char *path)
{
	struct str s = STR_INIT;
	char bytes[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, bytes, sizeof bytes)) > 0)
		str_put(&s, bytes, (size_t)n);
	close(fd);
	return str_take(&s);
}

static void replay(void **state)
{
	const char *path = *state;
	char *text = slurp(path);
	unsigned runs = 0;

	for (int way = 0; way < WAY_COUNT; way++) {
		for (int rev = 0; rev < REV_COUNT; rev++) {
			now = (struct run){ .path = path, .way = (enum way)way, .rev = (enum rev)rev };
			if (!chosen(&now, text, "on ", true) || !chosen(&now, text, "rev ", rev <= REV_R4))
				continue;
			play(&now, text);
			clear(&now);
			runs++;
		}
	}
	assert_true(runs > 0);
	free(text);
}

static int is_script(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 4 && strcmp(d->d_name + n - 4, ".rpl") == 0;
}

/* One argument: a pattern of names, such as 'cancel-*.rpl'. */
int main(int argc, char **argv)
{
	const char *top = getenv("TOOLCRIB_SRCDIR");
	struct CMUnitTest tests[SCRIPTS_MAX];
	struct dirent **names;
	char dir[512];
	int n, failed;

	(void)snprintf(dir, sizeof dir, "%s/tests/replay", top ? top : ".");
	n = scandir(dir, &names, is_script, alphasort);
	if (n <= 0 || n > SCRIPTS_MAX) {
		(void)fprintf(stderr, "no scripts in %s, or more than %d\n", dir, SCRIPTS_MAX);
		return 1;
	}
	for (int i = 0; i < n; i++)
		tests[i] = (struct CMUnitTest){ .name = names[i]->d_name, .test_func = replay, .teardown_func = tear_down,
						.initial_state = mem_printf("%s/%s", dir, names[i]->d_name) };
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	world_open(&world);
	failed = _cmocka_run_group_tests("replay", tests, (size_t)n, NULL, NULL);
	world_close(&world);
	for (int i = 0; i < n; i++) {
		free(tests[i].initial_state);
		free(names[i]);
	}
	free(names);
	return failed;
}
