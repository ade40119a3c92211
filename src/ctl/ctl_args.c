/* Words to a row of the table and a JSON object of arguments; every error here is a usage error. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"

#include "ctl_int.h"

#define WORDS_MAX 4096                  /* of one command line */
#define CANDIDATES_MAX 256
#define STDIN_MAX (4u << 20)            /* of a JSON argument given as "-" */

/* Where a parse stands: the rest of the words, and whether "--" has ended the options. */
struct words {
	char **v;
	size_t n, i;
	bool plain;
};

static int usage(struct err *err, const struct command *cmd, const char *message, const char *word)
{
	struct str name = STR_INIT;

	if (cmd) {
		ctl_command_name(cmd, &name);
		str_puts(&name, ": ");
	}
	(void)err_set(err, ERR_INVALID, "", "%s%s%s", str_text(&name), message, word);
	str_fini(&name);
	return ERR_INVALID;
}

static void suggest(struct err *err, const char *prefix, const char *word, const char *const *candidates,
		    size_t n)
{
	const char *near = text_nearest(word, candidates, n);

	if (near)
		err_hint(err, "did you mean %s%s?", prefix, near);
}

static void set_flag(struct ctl_opt *opt, const char *name)
{
	if (strcmp(name, "json") == 0)
		opt->json = true;
	else if (strcmp(name, "quiet") == 0)
		opt->quiet = true;
	else if (strcmp(name, "yes") == 0)
		opt->yes = true;
	else if (strcmp(name, "help") == 0)
		opt->help = true;
	else
		opt->version = true;
}

static bool is_option(const struct words *w)
{
	const char *word = w->v[w->i];

	return !w->plain && word[0] == '-' && word[1] != '\0';
}

/* The length of an option's name in "--name" or "--name=value". */
static size_t option_length(const char *word)
{
	return strcspn(word + 2, "=");
}

/* The value of the option at w, from "=" or the next word; w then stands behind it. */
static int option_value(struct words *w, const struct command *cmd, const char **ret, struct err *err)
{
	const char *word = w->v[w->i++];
	const char *eq = strchr(word, '=');

	if (eq) {
		*ret = eq + 1;
		return 0;
	}
	if (w->i == w->n)
		return usage(err, cmd, "a value is missing after ", word);
	*ret = w->v[w->i++];
	return 0;
}

static const char **text_option(struct ctl_opt *opt, const char *name)
{
	if (strcmp(name, "store") == 0)
		return &opt->store;
	if (strcmp(name, "socket") == 0)
		return &opt->socket;
	if (strcmp(name, "remote") == 0)
		return &opt->remote;
	if (strcmp(name, "format") == 0)
		return &opt->format_name;
	return strcmp(name, "ca") == 0 ? &opt->ca : &opt->key_file;
}

/* 1: the word at w was a global option and is eaten; 0: it is none. */
static int take_global(struct words *w, struct ctl_opt *opt, struct err *err)
{
	const char *word = w->v[w->i];
	const struct ctl_global *g;
	const char *value;

	for (g = ctl_globals; g->name; g++)
		if (word[1] == '-' ? text_eq(word + 2, option_length(word), g->name)
				   : g->letter && word[1] == g->letter && !word[2])
			break;
	if (!g->name)
		return 0;
	if (!g->value) {
		if (strchr(word, '='))
			return usage(err, NULL, "no value belongs to --", g->name);
		set_flag(opt, g->name);
		w->i++;
		return 1;
	}
	if (option_value(w, NULL, &value, err) < 0)
		return ERR_INVALID;
	*text_option(opt, g->name) = value;
	return 1;
}

/* Eat global options; stop at the next word.  Any other option in front of a command is an error. */
static int skip_globals(struct words *w, struct ctl_opt *opt, struct err *err)
{
	const char *names[16];
	size_t n = 0;

	while (w->i < w->n && is_option(w)) {
		int rc;

		if (strcmp(w->v[w->i], "--") == 0) {
			w->i++;
			w->plain = true;
			return 0;
		}
		rc = take_global(w, opt, err);
		if (rc < 0)
			return rc;
		if (rc > 0)
			continue;
		for (const struct ctl_global *g = ctl_globals; g->name && n < NELEMS(names); g++)
			names[n++] = g->name;
		(void)usage(err, NULL, "unknown option ", w->v[w->i]);
		if (w->v[w->i][1] == '-')
			suggest(err, "--", w->v[w->i] + 2, names, n);
		return ERR_INVALID;
	}
	return 0;
}

static int unknown_word(const struct command *const *tables, const char *noun, const char *word, struct err *err)
{
	const char *candidates[CANDIDATES_MAX];
	size_t n = 0;

	for (const struct command *c = NULL; n < NELEMS(candidates) && (c = command_next(tables, c)) != NULL;)
		if (!noun)
			candidates[n++] = c->noun;
		else if (c->verb && strcmp(c->noun, noun) == 0)
			candidates[n++] = c->verb;
	(void)err_set(err, ERR_INVALID, "", "%s%s%s: no such command", noun ? noun : "", noun ? " " : "", word);
	suggest(err, "", word, candidates, n);
	if (!err->hint[0])
		err_hint(err, "toolcrib %s%s--help lists what there is", noun ? noun : "", noun ? " " : "");
	return ERR_INVALID;
}

static int find_command(const struct command *const *tables, struct words *w, struct ctl_line *line,
			const char **ret_noun, struct err *err)
{
	const char *noun, *verb;
	bool known = false;

	if (skip_globals(w, &line->opt, err) < 0)
		return ERR_INVALID;
	if (w->i == w->n)
		return line->opt.help || line->opt.version ? 0 : usage(err, NULL, "no command given", "");
	noun = w->v[w->i++];
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		if (strcmp(c->noun, noun) != 0)
			continue;
		known = true;
		if (!c->verb || (c->alone && (w->i == w->n || (is_option(w) && strcmp(w->v[w->i], "--help") != 0)))) {
			line->cmd = c;
			return 0;
		}
	}
	if (!known)
		return unknown_word(tables, NULL, noun, err);
	*ret_noun = noun;
	if (skip_globals(w, &line->opt, err) < 0)
		return ERR_INVALID;
	if (w->i == w->n)
		return line->opt.help || line->opt.version ? 0 :
		       usage(err, NULL, noun, ": say what to do with it");
	verb = w->v[w->i++];
	for (const struct command *c = NULL; !line->cmd && (c = command_next(tables, c)) != NULL;)
		if (c->verb && strcmp(c->noun, noun) == 0 && strcmp(c->verb, verb) == 0)
			line->cmd = c;
	return line->cmd ? 0 : unknown_word(tables, noun, verb, err);
}

static json_t *list_of(json_t **list)
{
	if (!*list)
		*list = json_array();
	return *list;
}

static int set_json(const struct command_arg *arg, const char *text, struct ctl_line *line, struct err *err)
{
	struct str input = STR_INIT;
	json_t *value = NULL;
	int rc = 0;

	if (strcmp(text, "-") == 0) {
		rc = path_read_input("-", STDIN_MAX, &input, err);
		text = str_text(&input);
	}
	if (rc == 0)
		rc = jx_parse(text, strlen(text), &value, err);
	if (rc == 0 && !json_is_object(value))
		rc = err_set(err, ERR_INVALID, "", "must be an object like {\"name\": \"value\"}, is a%s %s",
			     json_is_array(value) || json_is_integer(value) ? "n" : "", jx_type_name(value));
	if (rc < 0) {
		(void)err_wrap(err, "%s", arg->name);
		json_decref(value);
	} else
		(void)json_object_set_new(line->args, arg->name, value);
	str_fini(&input);
	return rc < 0 ? ERR_INVALID : 0;
}

static int set_keyvalue(const struct command_arg *arg, const char *word, struct ctl_line *line, struct err *err)
{
	const char *eq = strchr(word, '=');
	json_t *pairs = json_object_get(line->args, arg->name);
	char *key;

	if (!eq || eq == word)
		return err_set(err, ERR_INVALID, "", "\"%s\" is not of the form %s", word, arg->value);
	if (!pairs) {
		pairs = json_object();
		(void)json_object_set_new(line->args, arg->name, pairs);
	}
	key = mem_strndup(word, (size_t)(eq - word));
	if (json_object_get(pairs, key)) {
		(void)err_set(err, ERR_INVALID, "", "%s is given twice", key);
		free(key);
		return ERR_INVALID;
	}
	(void)json_object_set_new(pairs, key, json_string(eq + 1));
	free(key);
	return 0;
}

/* The absolute path of a program that is named without a slash; NULL when PATH has none.  free() it. */
static char *find_program(const char *name)
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/'))
		return path_absolute(name);
	for (const char *p = dirs ? dirs : "/usr/bin:/bin"; *p; p += strspn(p, ":")) {
		size_t n = strcspn(p, ":");
		char *dir = mem_strndup(p, n), *file = path_join(dir, name);
		bool found = *p == '/' && access(file, X_OK) == 0;

		free(dir);
		if (found)
			return file;
		free(file);
		p += n;
	}
	return NULL;
}

/* All words that are left: none of them is ours any more. */
static int set_command(const struct command_arg *arg, const char *program, struct words *w, struct ctl_line *line,
		       struct err *err)
{
	char *path = find_program(program);
	json_t *list = json_array();

	(void)json_object_set_new(line->args, arg->name, list);
	if (!path)
		return err_set(err, ERR_INVALID, "", "no program %s is in PATH", program);
	(void)json_array_append_new(list, json_string(path));
	free(path);
	while (w->i < w->n) {
		const char *word = w->v[w->i++];

		if (!text_utf8_valid(word, strlen(word)))
			return err_set(err, ERR_INVALID, "", "%s is not UTF-8 text", arg->name);
		(void)json_array_append_new(list, json_string(word));
	}
	return 0;
}

/* One value of one argument, checked as far as its type goes. */
static int set_arg(const struct command_arg *arg, const char *text, struct ctl_line *line, struct err *err)
{
	json_t *list = json_object_get(line->args, arg->name);
	char *path;

	if (!text_utf8_valid(text, strlen(text)))
		return err_set(err, ERR_INVALID, "", "%s is not UTF-8 text", arg->name);
	if (arg->type == ARG_KEYVALUES)
		return set_keyvalue(arg, text, line, err);
	if (arg->type == ARG_FILE) {
		if (line->files && !arg->repeated)
			return err_set(err, ERR_INVALID, "", "%s is given twice", arg->name);
		(void)json_array_append_new(list_of(&line->files), json_string(text));
		return 0;
	}
	if (list && !arg->repeated)
		return err_set(err, ERR_INVALID, "", "%s%s is given twice", arg->option ? "--" : "", arg->name);
	if (arg->type == ARG_JSON)
		return set_json(arg, text, line, err);
	if (command_arg_check(arg, text, err) < 0)
		return ERR_INVALID;
	path = command_arg_is_path(arg) ? path_absolute(text) : NULL;
	if (!arg->repeated)
		(void)json_object_set_new(line->args, arg->name, json_string(path ? path : text));
	else if (list)
		(void)json_array_append_new(list, json_string(path ? path : text));
	else
		(void)json_object_set_new(line->args, arg->name, json_pack("[s]", path ? path : text));
	free(path);
	return 0;
}

static int take_option(struct words *w, struct ctl_line *line, struct err *err)
{
	const char *word = w->v[w->i], *names[CANDIDATES_MAX], *value;
	const struct command_arg *arg;
	size_t n = 0;

	/* A command's own option goes before one of the program: tool show --version. */
	for (arg = line->cmd->args; arg && arg->name; arg++) {
		if (!arg->option)
			continue;
		if (word[1] == '-' ? text_eq(word + 2, option_length(word), arg->name)
				   : ctl_letter(arg) && word[1] == ctl_letter(arg) && !word[2])
			break;
		if (n < NELEMS(names))
			names[n++] = arg->name;
	}
	if (!arg || !arg->name) {
		int rc = take_global(w, &line->opt, err);

		if (rc != 0)
			return rc < 0 ? rc : 0;
		(void)err_set(err, ERR_INVALID, "", "unknown option %s", word);
		for (const struct ctl_global *g = ctl_globals; g->name && n < NELEMS(names); g++)
			names[n++] = g->name;
		if (word[1] == '-')
			suggest(err, "--", word + 2, names, n);
		return ERR_INVALID;
	}
	if (arg->type == ARG_COMMAND)
		return option_value(w, NULL, &value, err) < 0 ? ERR_INVALID : set_command(arg, value, w, line, err);
	if (arg->type != ARG_FLAG)
		return option_value(w, NULL, &value, err) < 0 ? ERR_INVALID : set_arg(arg, value, line, err);
	w->i++;
	if (strchr(word, '='))
		return err_set(err, ERR_INVALID, "", "no value belongs to --%s", arg->name);
	(void)json_object_set_new(line->args, arg->name, json_true());
	return 0;
}

static const struct command_arg *next_positional(const struct command_arg *arg)
{
	while (arg && arg->name && arg->option)
		arg++;
	return arg && arg->name ? arg : NULL;
}

static size_t required_behind(const struct command_arg *arg)
{
	size_t n = 0;

	while ((arg = next_positional(arg + 1)))
		n += arg->required;
	return n;
}

/* Give the words in order to the positional arguments; a repeated one takes all but what those behind need. */
static int take_positionals(char **words, size_t n, struct ctl_line *line, struct err *err)
{
	const struct command_arg *arg = next_positional(line->cmd->args);
	size_t taken = 0;

	for (size_t i = 0; i < n; i++) {
		const struct command_arg *next = arg ? next_positional(arg + 1) : NULL;
		bool many = arg && (arg->repeated || arg->type == ARG_KEYVALUES);

		if (many && taken > 0 && next &&
		    (n - i <= required_behind(arg) || (next->type == ARG_KEYVALUES && strchr(words[i], '=')))) {
			arg = next;
			many = arg->repeated || arg->type == ARG_KEYVALUES;
			taken = 0;
			next = next_positional(arg + 1);
		}
		if (!arg && ctl_takes_secret(line->cmd))
			return err_set(err, ERR_INVALID, "",
				       "one word too many; a value is never a word, since others can see those");
		if (!arg)
			return err_set(err, ERR_INVALID, "", "one word too many: %s", words[i]);
		if (set_arg(arg, words[i], line, err) < 0)
			return ERR_INVALID;
		taken++;
		if (!many) {
			arg = next;
			taken = 0;
		}
	}
	return 0;
}

static int check_required(const struct ctl_line *line, struct err *err)
{
	for (const struct command_arg *arg = line->cmd->args; arg && arg->name; arg++) {
		if (!arg->required || json_object_get(line->args, arg->name))
			continue;
		if (arg->type == ARG_FILE && line->files)
			continue;
		return err_set(err, ERR_INVALID, "", "%s%s is missing", arg->option ? "--" : "",
			       arg->option ? arg->name : arg->value);
	}
	return 0;
}

static int parse_arguments(struct words *w, struct ctl_line *line, struct err *err)
{
	char **plain = mem_calloc(w->n + 1, sizeof(*plain));
	size_t n = 0;
	int rc = 0;

	while (w->i < w->n && rc == 0) {
		if (!is_option(w))
			plain[n++] = w->v[w->i++];
		else if (strcmp(w->v[w->i], "--") == 0) {
			w->i++;
			w->plain = true;
		} else
			rc = take_option(w, line, err);
	}
	if (rc == 0 && !line->opt.help)
		rc = take_positionals(plain, n, line, err);
	if (rc == 0 && !line->opt.help)
		rc = check_required(line, err);
	free(plain);
	return rc;
}

/* --- THE table of formats: how an answer is written, and which answers know it */

static const struct form {
	const char *name;
	enum ctl_format format;
	bool records;                   /* only of records as they are written: audit export */
} forms[] = {
	{ "table", CTL_TABLE, false },
	{ "json", CTL_JSON, false },
	{ "jsonl", CTL_JSONL, false },
	{ "csv", CTL_CSV, false },
	{ "ocsf", CTL_OCSF, true },
};

/* Lists, what shows one thing, and reports. */
static bool has_formats(const struct command *cmd)
{
	return cmd->shape == ADM_TABLE || cmd->shape == ADM_FINDINGS || cmd->shape == ADM_ITEM ||
	       cmd->shape == ADM_REPORT || cmd->shape == ADM_CHART;
}

/* Its records go to programs, so that there is no table of them. */
static bool writes_records(const struct command *cmd)
{
	return cmd->stream && !cmd->columns && cmd->shape == ADM_REPORT;
}

static int format_of(const struct command *cmd, const char *name, enum ctl_format *ret, struct err *err)
{
	*ret = writes_records(cmd) ? CTL_JSONL : CTL_TABLE;
	if (!name)
		return 0;
	if (!has_formats(cmd)) {
		(void)err_set(err, ERR_INVALID, "", "--format is for lists and reports");
		err_hint(err, "--json is for every command");
		return ERR_INVALID;
	}
	for (size_t i = 0; i < NELEMS(forms); i++) {
		if (strcmp(forms[i].name, name) != 0 || (forms[i].records && !writes_records(cmd)))
			continue;
		*ret = forms[i].format;
		return 0;
	}
	return err_set(err, ERR_INVALID, "", "--format: \"%.40s\" is none; say table, json, jsonl%s", name,
		       writes_records(cmd) ? ", csv or ocsf" : " or csv");
}

/* --- the line */

int ctl_args_parse(const struct command *const *tables, int argc, char **argv, struct ctl_line *ret,
		   const char **ret_noun, struct err *err)
{
	struct words w = { argv + 1, argc > 0 ? (size_t)argc - 1 : 0, 0, false };
	struct str name = STR_INIT;

	memset(ret, 0, sizeof(*ret));
	*ret_noun = NULL;
	if (w.n > WORDS_MAX)
		return err_set(err, ERR_INVALID, "", "more than %d words", WORDS_MAX);
	if (find_command(tables, &w, ret, ret_noun, err) < 0)
		return ERR_INVALID;
	if (!ret->cmd)
		return 0;
	ret->args = json_object();
	if (parse_arguments(&w, ret, err) == 0 && format_of(ret->cmd, ret->opt.format_name, &ret->format, err) == 0)
		return 0;
	ctl_command_name(ret->cmd, &name);
	(void)err_wrap(err, "%s", str_text(&name));
	str_fini(&name);
	return ERR_INVALID;
}

void ctl_line_fini(struct ctl_line *line)
{
	jx_wipe(&line->args);
	json_decref(line->files);
	line->args = line->files = NULL;
}
