/* The command table on a real store: authority, arguments, records, all-or-nothing, and both roads alike. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/command.h"
#include "app/app.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "../../src/command/command_int.h"
#include "json/json.h"
#include "setup/setup.h"

#include "tmpdir.h"
#include "suite.h"

#define DEADLINE_MS 10000

enum { STRANGER = 40000, ADMIN, OPERATOR, AUDITOR, TENANT_AUDITOR, TENANT_ADMIN };        /* user ids */

struct crib {
	char *dir, store[512];
	struct conf *conf;
	struct app *app;
	/* the last command */
	bool done;
	struct str rows;
	struct err err;
	int rc;
	bool over_socket;
	char key[80];                   /* made last */
};

static void start(struct crib *c, enum app_profile profile)
{
	struct db_owner *owner = NULL;
	struct db_card card;
	struct err err = { 0 };
	char file[600];
	FILE *f = fopen(tmpdir_path(c->dir, "c.yaml", file, sizeof(file)), "w");

	assert_non_null(f);
	/* Reports of class idle would wait for all tests that run beside this one. */
	assert_true(fprintf(f, "admin: {report_class: normal}\nlisteners: [{transport: unix, address: \"%s/agents.sock\"}]\n", c->dir) > 0);
	assert_true(fprintf(f, "roles: [{role: admin, uid: %u}, {role: operator, uid: %u}, {role: auditor, uid: %u}, "
			    "{role: tenant-auditor, uid: %u, tenant: acme}, {role: tenant-admin, uid: %u, tenant: acme}]\n",
			    ADMIN, OPERATOR, AUDITOR, TENANT_AUDITOR, TENANT_ADMIN) > 0);
	assert_int_equal(fclose(f), 0);
	conf_free(&c->conf);
	if (conf_load(file, &c->conf, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	assert_int_equal(db_owner_take(c->store, &owner, &card, &err), 0);
	if (app_start(&(struct app_opt){ .profile = profile, .store = c->store, .owner = owner,
		      .conf = profile == APP_DAEMON ? c->conf : NULL, .tools = c->conf }, &c->app, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	c->over_socket = profile == APP_DAEMON;
}

/* The files of a store that init has made, once in this process. */
static struct { struct str db, key; } init_made;

static void init_once(void)
{
	char *dir = tmpdir_make(), store[600], path[700];
	struct err err = { 0 };
	int rc = setup_store(tmpdir_path(dir, "store", store, sizeof(store)), NULL, &err);

	if (rc == 0)
		rc = path_read(tmpdir_path(store, DB_FILE, path, sizeof(path)), 16 << 20, &init_made.db, &err);
	if (rc == 0)
		rc = path_read(tmpdir_path(store, DB_MASTER_KEY, path, sizeof(path)), 4096, &init_made.key, &err);
	if (rc < 0)
		fail_msg("%s: %s", err.where, err.msg);
	tmpdir_remove(dir);
}

static void put_file(const struct crib *c, const char *name, unsigned mode, const struct str *content)
{
	char path[600];
	int fd = open(tmpdir_path(c->store, name, path, sizeof(path)), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content->p, content->len), content->len);
	assert_int_equal(close(fd), 0);
}

static struct crib *crib_new(enum app_profile profile)
{
	struct crib *c = mem_zalloc(sizeof(*c));

	log_open(STDERR_FILENO, LOG_FORMAT_TEXT, LOG_LEVEL_ERR);
	if (!init_made.db.len)
		init_once();
	c->dir = tmpdir_make();
	tmpdir_path(c->dir, "store", c->store, sizeof(c->store));
	assert_int_equal(mkdir(c->store, 0700), 0);
	put_file(c, DB_FILE, 0600, &init_made.db);
	put_file(c, DB_MASTER_KEY, 0400, &init_made.key);
	start(c, profile);
	return c;
}

static void crib_free(struct crib *c)
{
	app_close(&c->app);
	conf_free(&c->conf);
	str_fini(&c->rows);
	tmpdir_remove(c->dir);
	free(c);
}

static void on_reply(void *arg, const struct str *rows, const struct err *err)
{
	struct crib *c = arg;

	str_reset(&c->rows);
	str_put(&c->rows, rows->p, rows->len);
	c->rc = err ? (int)err->code : 0;
	if (err)
		c->err = *err;
	c->done = true;
}

/* JSON with ' for ". */
static json_t *quoted(const char *text)
{
	char *copy = mem_strdup(text);
	json_t *v = NULL;
	struct err err;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	if (jx_parse(copy, strlen(copy), &v, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	free(copy);
	return v;
}

static int run_here(struct crib *c, const char *noun, const char *verb, const json_t *args, uint32_t uid)
{
	c->done = false;
	command_run(app_admin(c->app), &(struct command_req){ .who = { .uid = uid, .embedded = uid == geteuid() }, .noun = noun,
		.verb = verb, .args = json_incref((json_t *)(uintptr_t)args) }, on_reply, c);
	assert_false(c->done);
	assert_true(ev_loop_run_until(app_loop(c->app), &c->done, DEADLINE_MS));
	return c->rc;
}

static int connect_admin(const struct crib *c)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char *path = app_admin_socket(c->store);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(strlen(path) < sizeof(sun.sun_path));
	memcpy(sun.sun_path, path, strlen(path) + 1);
	free(path);
	assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&sun, sizeof(sun)), 0);
	return fd;
}

/* Send one line and let the loop turn until the last line of the answer is there. */
static void exchange(struct crib *c, const char *line, size_t len, struct str *ret)
{
	static const bool never;
	int fd = connect_admin(c);
	char buf[65536];
	ssize_t n;

	assert_int_equal(write(fd, line, len), (ssize_t)len);
	for (int turns = 0; turns < DEADLINE_MS; turns++) {
		(void)ev_loop_run_until(app_loop(c->app), &never, 1);
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			str_put(ret, buf, (size_t)n);
		if (ret->len > 0 && (strstr(ret->p, "{\"done\":true}\n") || strstr(ret->p, "{\"error\":")))
			break;
	}
	close(fd);
}

static int run_socket(struct crib *c, const char *command, const json_t *args)
{
	struct str line = STR_INIT, answer = STR_INIT;
	char *last;
	json_t *v = NULL;

	str_puts(&line, "{\"command\":");
	jx_write_stringz(&line, command);
	str_puts(&line, ",\"args\":");
	jx_write(args, &line);
	str_puts(&line, "}\n");
	exchange(c, line.p, line.len, &answer);
	assert_true(answer.len > 0);
	answer.p[--answer.len] = '\0';
	last = strrchr(answer.p, '\n');
	last = last ? last + 1 : answer.p;
	assert_int_equal(jx_parse(last, strlen(last), &v, NULL), 0);
	str_reset(&c->rows);
	str_put(&c->rows, answer.p, (size_t)(last - answer.p));
	memset(&c->err, 0, sizeof(c->err));
	c->rc = 0;
	if (json_object_get(v, "error")) {
		const json_t *e = json_object_get(v, "error");

		c->rc = (int)err_from_name(json_string_value(json_object_get(e, "code")));
		(void)err_set(&c->err, (enum err_code)c->rc, json_string_value(json_object_get(e, "where")), "%s",
			      json_string_value(json_object_get(e, "message")));
		err_hint(&c->err, "%s", json_string_value(json_object_get(e, "hint")));
	} else {
		assert_true(json_is_true(json_object_get(v, "done")));
	}
	json_decref(v);
	str_fini(&line);
	str_fini(&answer);
	return c->rc;
}

static int say(struct crib *c, const char *command, const char *args_text)
{
	json_t *args = quoted(args_text);
	char noun[32];
	const char *space = strchr(command, ' ');
	int rc;

	(void)snprintf(noun, sizeof(noun), "%.*s", (int)strcspn(command, " "), command);
	rc = c->over_socket ? run_socket(c, command, args) : run_here(c, noun, space ? space + 1 : NULL, args, geteuid());
	json_decref(args);
	return rc;
}

static void must(struct crib *c, const char *command, const char *args)
{
	if (say(c, command, args) != 0)
		fail_msg("%s %s: %s: %s", command, args, c->err.where, c->err.msg);
}

/* A member of the first row of the last command. */
static json_int_t number(const struct crib *c, const char *member)
{
	json_t *v = NULL;
	json_int_t n;

	assert_int_equal(jx_parse(c->rows.p, strcspn(c->rows.p, "\n"), &v, NULL), 0);
	n = json_integer_value(json_object_get(json_object_get(v, "row"), member));
	json_decref(v);
	return n;
}

/* How often a text stands in what the last command said. */
static size_t times(const struct crib *c, const char *text)
{
	size_t n = 0;

	for (const char *p = str_text(&c->rows); (p = strstr(p, text)); p += strlen(text))
		n++;
	return n;
}

/* Records of a kind in the system's log. */
static size_t kinds(struct crib *c, const char *kind)
{
	char text[64];

	must(c, "audit admin", "{'limit':'0'}");
	(void)snprintf(text, sizeof(text), "\"kind\":\"%s\"", kind);
	return times(c, text);
}

static size_t commands(struct crib *c)
{
	return kinds(c, "admin.cmd");
}

/* The accessor of the one key that there is. */
static void accessor(struct crib *c, char ret[13])
{
	const char *at;

	must(c, "key list", "{}");
	at = strstr(str_text(&c->rows), "\"accessor\":\"");
	assert_non_null(at);
	(void)snprintf(ret, 13, "%.12s", at + strlen("\"accessor\":\""));
}

#define ECHO(words) "{'documents':[{'name':'echo','description':'" words "','inputSchema':{'type':'object','properties':" \
	"{'text':{'type':'string'}},'required':['text']},'handler':{'type':'builtin','function':'echo'}}]}"

#define PROMPT "{'documents':[{'kind':'prompt','name':'greet','handler':{'type':'static','text':'Hello'}}]}"
#define RESOURCE "{'documents':[{'kind':'resource','name':'readme','uri':'docs://readme'," \
	"'handler':{'type':'static','text':'Read me'}}]}"
#define PROMPT2 "{'documents':[{'kind':'prompt','name':'greet','handler':{'type':'static','text':'Good day'}}]}"
#define RESOURCE2 "{'documents':[{'kind':'resourceTemplate','name':'readme','uriTemplate':'docs://{name}'," \
	"'handler':{'type':'static','text':'Read {/name}'}}]}"

/* All commands that change the store, so that nothing in the table is left out; KEY stands for the accessor, MADE for the
 * key that was made last.  No key ends within 14 days: of one that does a server says so by itself, on record. */
static const struct { const char *command, *args; } changes[] = {
	{ "tenant add", "{'name':'acme','title':'Acme Corp'}" },
	{ "tenant set", "{'tenant':'acme','rate':'100/s','concurrency':'7'}" },
	{ "key create", "{'principal':'acme/bot','ttl':'30d','label':'ci'}" },
	{ "principal set", "{'principal':'acme/bot','suspended':'yes'}" },
	{ "principal set", "{'principal':'acme/bot','suspended':'no'}" },
	{ "tool add", ECHO("Says") },
	{ "tool add", ECHO("Says") },
	{ "tool add", ECHO("Repeats") },
	{ "tool revert", "{'tool':'echo','version':'1'}" },
	{ "grant add", "{'tenant':'acme','tool':['echo'],'as':'say','rate':'10/s'}" },
	{ "grant set", "{'tenant':'acme','tool':'echo','concurrency':'3'}" },
	{ "tool disable", "{'tool':['echo']}" },
	{ "tool enable", "{'tool':['echo']}" },
	{ "grant remove", "{'tenant':'acme','tool':['echo']}" },
	{ "tool remove", "{'tool':['echo']}" },
	{ "schema add", "{'documents':[{'$id':'urn:example:a','type':'string'}]}" },
	{ "schema add", "{'documents':[{'$id':'urn:example:a','type':'string'}]}" },
	{ "schema add", "{'documents':[{'$id':'urn:example:a','type':'number'}]}" },
	{ "schema remove", "{'schema':['urn:example:a']}" },
	{ "apply ", "{'documents':[{'kind':'tenant','name':'acme','title':'Acme'}]}" },
	{ "apply ", "{'documents':[{'kind':'tenant','name':'acme','title':'Acme'}]}" },
	{ "prompt add", PROMPT },
	{ "grant add", "{'tenant':'acme','tool':['prompt:greet','resource:*']}" },
	{ "prompt add", PROMPT2 },
	{ "prompt revert", "{'prompt':'greet','version':'1'}" },
	{ "prompt disable", "{'prompt':['greet']}" },
	{ "prompt enable", "{'prompt':['greet']}" },
	{ "prompt remove", "{'prompt':['prompt:greet']}" },
	{ "resource add", RESOURCE },
	{ "resource add", RESOURCE2 },
	{ "resource revert", "{'resource':'readme','version':'1'}" },
	{ "resource disable", "{'resource':['readme']}" },
	{ "resource enable", "{'resource':['readme']}" },
	{ "resource remove", "{'resource':['readme']}" },
	{ "upstream add", "{'upstream':'every','command':['ECHO']}" },
	{ "upstream add", "{'upstream':'every','command':['ECHO']}" },
	{ "upstream set", "{'upstream':'every','shared':'yes'}" },
	{ "upstream accept", "{'upstream':'every'}" },
	{ "upstream sync", "{'upstream':'every'}" },
	{ "upstream remove", "{'upstream':'every'}" },
	{ "secret set", "{'name':'token','value':'open sesame'}" },
	{ "secret rekey", "{}" },
	{ "secret remove", "{'name':['token']}" },
	{ "key rotate", "{'accessor':'KEY','overlap':'1h'}" },
	{ "key suspend", "{'accessor':['KEY'],'reason':'lost'}" }, { "key resume", "{'accessor':['KEY']}" },
	{ "key create", "{'principal':'acme/bot','ttl':'30d','one-shot':true,'scope':['tools:list tools:call'],'cidr':['10.0.0.0/8']}" },
	{ "key enroll", "{'value':'MADE'}" },
	{ "key revoke", "{'accessor':['KEY'],'kill':true}" },
	{ "hold set", "{'tenant':'acme','reason':'a lawsuit','ticket':'L-1'}" },
	{ "level set", "{'level':'request_response','tenant':'acme'}" },
	{ "limit set", "{'who':'acme','concurrency':'9','queue':'5','rate':'20/s','calls-per-day':'1000','bytes-per-day':'1GiB'}" },
	{ "limit set", "{'who':'acme/bot','requests':'50/s'}" },
	{ "approval policy", "{'policy':'two'}" },
	{ "approval versions", "{'policy':'free'}" },
	{ "retention set", "{'tenant':'acme','min-days':'30'}" },
	{ "audit review", "{'action':'sign','tenant':'acme','note':'nothing unusual'}" },
	{ "inventory set", "{'subject':'tenant:acme','owner':'Sales','risk':'limited','review-every':'90d'}" },
	{ "review done", "{'subject':'tenant:acme','note':'nothing unusual'}" },
	{ "system add", "{'system':'acme/claims','model':'x-large'}" },
	{ "system set", "{'system':'acme/claims','role':'deployer'}" },
	{ "principal set", "{'principal':'acme/bot','system':'claims'}" },
	{ "system remove", "{'system':'acme/claims'}" },
	{ "alerts silence", "{'rule':'test','for':'1h','note':'moving house'}" },
	{ "tenant suspend", "{'tenant':'acme'}" },
	{ "tenant resume", "{'tenant':'acme'}" },
	{ "tenant remove", "{'tenant':'acme'}" },
};

/* Those that need two administrators, a server that opens an alert, several servers, or a backup that was tested, which have tests of
 * their own. */
static const char *const by_two[] = { "hold release", "retention prune", "retention compact", "erase ", "approval grant", "approval deny",
	"approve grant", "approve refuse", "approve recall", "tool approve", "tool reject", "alerts ack", "audit restore-test",
	"node drain", "node remove" };

static const char *build_dir(void)
{
	static char dir[300];
	const char *build = getenv("TOOLCRIB_BUILDDIR");
	char *here = build ? NULL : getcwd(NULL, 0);

	(void)snprintf(dir, sizeof(dir), "%s", build ? build : here);
	free(here);
	return dir;
}

static void must_change(struct crib *c, size_t i)
{
	char key[13], args[512];
	const char *at = strstr(changes[i].args, "KEY");
	const char *program = strstr(changes[i].args, "ECHO"), *made = strstr(changes[i].args, "MADE"), *new_key;

	if (program) {
		(void)snprintf(args, sizeof(args), "%.*s%s/tests/peers/mcp_echo%s", (int)(program - changes[i].args),
			       changes[i].args, build_dir(), program + 4);
		must(c, changes[i].command, args);
		return;
	}
	if (made) {
		(void)snprintf(args, sizeof(args), "%.*s%s%s", (int)(made - changes[i].args), changes[i].args, c->key, made + 4);
		must(c, changes[i].command, args);
		return;
	}
	if (!at) {
		must(c, changes[i].command, changes[i].args);
		new_key = strstr(str_text(&c->rows), "\"key\":\"");
		if (new_key)
			(void)snprintf(c->key, sizeof(c->key), "%.66s", new_key + strlen("\"key\":\""));
		return;
	}
	accessor(c, key);
	(void)snprintf(args, sizeof(args), "%.*s%s%s", (int)(at - changes[i].args), changes[i].args, key, at + 3);
	must(c, changes[i].command, args);
}

/* --- the table */

static void every_row_is_whole(void **state)
{
	(void)state;
	for (const struct command *cmd = NULL; (cmd = command_next(app_commands, cmd)) != NULL;) {
		assert_ptr_equal(command_find(app_commands, cmd->noun, cmd->verb), cmd);        /* no two rows of one name */
		assert_non_null(cmd->help);
		assert_non_null(cmd->args);
		assert_true(cmd->role >= ADM_READ && cmd->role <= ADM_ANY);     /* none is left out */
		assert_true(cmd->where == ADM_ON_CTL || cmd->where == ADM_ELSEWHERE || cmd->body);
		/* Who may read may not change, but says on record what he read (CONSOLE C-102). */
		assert_true(cmd->where != ADM_ON_WRITER || cmd->role >= ADM_OPERATE || strcmp(cmd->verb, "review") == 0);
		assert_true(cmd->where != ADM_ON_WRITER || !cmd->record);              /* its body records */
		assert_true(!cmd->destructive || cmd->where == ADM_ON_WRITER);
		assert_true(!cmd->second || cmd->where == ADM_ON_WRITER);
		assert_true(cmd->columns || (cmd->shape != ADM_TABLE && cmd->shape != ADM_ITEM && cmd->shape != ADM_SECRET));
		for (const struct command_arg *arg = cmd->args; arg->name; arg++) {
			assert_non_null(arg->help);
			assert_true((arg->type == ARG_FLAG) == (arg->value == NULL));
		}
	}
}

/* House: a row of the table, and a test that leaves none out. */
static void every_change_is_recorded(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	for (size_t i = 0; i < NELEMS(changes); i++) {
		size_t before = commands(c);

		must_change(c, i);
		if (commands(c) != before + 2 + (strstr(changes[i].args, "KEY") != NULL))      /* it, the count before, a key list */
			fail_msg("%s left no record", changes[i].command);
	}
	for (const struct command *cmd = NULL; (cmd = command_next(app_commands, cmd)) != NULL;) {
		bool seen = cmd->where != ADM_ON_WRITER;
		char name[64];

		(void)snprintf(name, sizeof(name), "%s %s", cmd->noun, cmd->verb ? cmd->verb : "");
		for (size_t i = 0; i < NELEMS(changes) && !seen; i++)
			seen = strcmp(changes[i].command, name) == 0;
		for (size_t i = 0; i < NELEMS(by_two) && !seen; i++)
			seen = strcmp(by_two[i], name) == 0;
		if (!seen)
			fail_msg("%s is not in the list of this test", name);
	}
	crib_free(c);
}

/* AUDIT 1701: what only reads, what is refused and what does not exist; no secret in it */
static void every_command_is_recorded(void **state)
{
	static const struct { const char *command, *args, *said; } tries[] = {
		{ "tenant list", "{}", ": tenant list\"" },
		{ "tenant add", "{'name':'No Such Name!'}", ": tenant add name=No Such Name!\"" },
		{ "tenant show", "{'tenant':'nobody'}", ": tenant show tenant=nobody\"" },
		{ "tenant add", "{'name':'dry','dry-run':true}", ": tenant add name=dry" },
		{ "key revoke", "{'accessor':['tck_abcdefghijkl_secret']}", ": key revoke accessor=tck_...\"" },
		{ "gold make", "{}", ": unknown\"" },
	};
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	for (size_t i = 0; i < NELEMS(tries); i++) {
		(void)say(c, tries[i].command, tries[i].args);
		must(c, "audit admin", "{'limit':'0'}");
		if (times(c, tries[i].said) != 1 || times(c, "secret") > 0)
			fail_msg("%s: %s", tries[i].command, str_text(&c->rows));
	}
	crib_free(c);
}

/* AUDIT A-304, SCALE SC-501: in the log that was read, with the range that was shown; of a report what was asked as well */
static void reading_the_audit_is_recorded(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "audit calls", "{'tenant':'acme'}");
	must(c, "audit verify", "{'tenant':'acme'}");
	must(c, "tenant list", "{}");
	must(c, "audit admin", "{'tenant':'acme','limit':'0'}");
	assert_int_equal(times(c, "\"kind\":\"audit.read\""), 3);
	assert_int_equal(times(c, "\"kind\":\"audit.verify\""), 1);
	must(c, "audit verify", "{}");
	must(c, "audit admin", "{'limit':'0'}");
	assert_int_equal(times(c, "\"kind\":\"audit.read\""), 1);
	assert_int_equal(times(c, "\"kind\":\"audit.verify\""), 1);
	must(c, "audit admin", "{'limit':'0'}");
	assert_int_equal(times(c, "\"kind\":\"audit.read\""), 3);
	crib_free(c);
}

/* SEC S-318 */
static void a_stranger_has_no_role(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);
	json_t *args = quoted("{'name':'acme'}"), *none = quoted("{}");

	(void)state;
	assert_int_equal(run_here(c, "tenant", "add", args, geteuid() + 1), ERR_DENIED);
	assert_int_equal(run_here(c, "tenant", "list", none, geteuid() + 1), ERR_DENIED);
	must(c, "tenant list", "{}");
	assert_int_equal(c->rows.len, 0);
	json_decref(args);
	json_decref(none);
	crib_free(c);
}

/* A command by somebody who holds the store. */
static int say_as(struct crib *c, uint32_t uid, const char *noun, const char *verb, const char *args_text)
{
	json_t *args = quoted(args_text);

	c->done = false;
	command_run(app_admin(c->app), &(struct command_req){ .who = { .uid = uid, .embedded = true }, .noun = noun, .verb = verb,
		.args = json_incref(args) }, on_reply, c);
	assert_true(ev_loop_run_until(app_loop(c->app), &c->done, DEADLINE_MS));
	json_decref(args);
	return c->rc;
}

static void expect_as(struct crib *c, uint32_t uid, const char *verb, const char *args, int rc, const char *words)
{
	int got = say_as(c, uid, strchr(verb, ' ') ? "hold" : "approval", strchr(verb, ' ') ? "release" : verb, args);

	if (got != rc || (rc < 0 && !strstr(c->err.msg, words)) || (rc == 0 && !strstr(str_text(&c->rows), words)))
		fail_msg("%s %s: %d %s %s", verb, args, got, got < 0 ? c->err.msg : "", str_text(&c->rows));
}

#define RELEASE1 "{'id':'1','reason':'settled','ticket':'L-2'}"

/* AUDIT A-909 */
static void a_destructive_act_needs_two(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "hold set", "{'tenant':'acme','reason':'a lawsuit','ticket':'L-1'}");
	expect_as(c, 11, "hold release", "{'id':'9','reason':'x','ticket':'y'}", ERR_NOT_FOUND, "hold 9");
	expect_as(c, 11, "hold release", RELEASE1, ERR_DENIED, "request 1 waits");
	assert_int_equal(kinds(c, "approval.request"), 1);
	expect_as(c, 11, "hold release", RELEASE1, ERR_DENIED, "request 1 waits");       /* the same one */
	assert_int_equal(kinds(c, "approval.request"), 1);
	expect_as(c, 12, "hold release", RELEASE1, ERR_DENIED, "request 1 waits");
	expect_as(c, 11, "grant", "{'id':'1'}", ERR_DENIED, "another administrator");
	expect_as(c, 12, "grant", "{'id':'2'}", ERR_NOT_FOUND, "request 2");
	expect_as(c, 12, "grant", "{'id':'1'}", 0, "hold release id=1 reason=settled");
	expect_as(c, 13, "grant", "{'id':'1'}", ERR_CONFLICT, "uid 12");
	/* Another reason is another act. */
	expect_as(c, 11, "hold release", "{'id':'1','reason':'other','ticket':'L-2'}", ERR_DENIED, "request 2 waits");
	expect_as(c, 12, "deny", "{'id':'2'}", 0, "reason=other");
	expect_as(c, 11, "list", "{}", 0, "\"granted_by\":\"uid 12\"");
	expect_as(c, 11, "hold release", RELEASE1, 0, "acme");
	assert_int_equal(kinds(c, "approval.request"), 2);
	assert_int_equal(kinds(c, "approval.grant"), 1);
	must(c, "approval list", "{}");
	assert_int_equal(c->rows.len, 0);                               /* used up */
	expect_as(c, 11, "hold release", RELEASE1, ERR_CONFLICT, "has been released");
	crib_free(c);
}

static void an_approval_lasts_a_day(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);
	const uint64_t day = 86400ull * 1000000, now = clock_wall_us(), mono = clock_mono_us();

	(void)state;
	clock_fake(now, mono);
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "hold set", "{'tenant':'acme','reason':'a lawsuit','ticket':'L-1'}");
	expect_as(c, 11, "hold release", RELEASE1, ERR_DENIED, "request 1 waits");
	clock_fake(now + day, mono);
	expect_as(c, 12, "grant", "{'id':'1'}", ERR_NOT_FOUND, "older than 24 hours");
	expect_as(c, 11, "hold release", RELEASE1, ERR_DENIED, "request 2 waits");
	clock_fake(now + 2 * day - 1, mono);
	expect_as(c, 12, "grant", "{'id':'2'}", 0, "hold release");
	clock_fake(now + 3 * day - 1, mono);
	expect_as(c, 11, "hold release", RELEASE1, ERR_DENIED, "request 3 waits");
	expect_as(c, 12, "grant", "{'id':'3'}", 0, "");
	clock_fake(now + 4 * day - 2, mono);
	expect_as(c, 11, "hold release", RELEASE1, 0, "acme");
	clock_real();
	crib_free(c);
}

static void one_administrator_is_enough_where_the_policy_says_so(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "hold set", "{'tenant':'acme','reason':'a lawsuit','ticket':'L-1'}");
	must(c, "approval policy", "{'policy':'one'}");
	must(c, "hold release", RELEASE1);
	must(c, "hold set", "{'tenant':'acme','reason':'another','ticket':'L-3'}");
	must(c, "approval policy", "{'policy':'two'}");
	expect_as(c, 11, "hold release", "{'id':'2','reason':'x','ticket':'y'}", ERR_DENIED, "second administrator");
	crib_free(c);
	c = crib_new(APP_DAEMON);
	assert_int_equal(say(c, "approval policy", "{'policy':'one'}"), ERR_DENIED);
	crib_free(c);
}

static void refused(struct crib *c, const char *command, const char *args, int code, const char *words)
{
	if (say(c, command, args) != code || !strstr(c->err.msg, words))
		fail_msg("%s %s: %d %s: %s", command, args, c->rc, c->err.where, c->err.msg);
}

/* Whether this user may at all give the command: without its arguments nothing comes of it. */
static bool may(struct crib *c, const struct command *cmd, uint32_t uid, const char *args_text)
{
	json_t *args = quoted(args_text);
	int rc = run_here(c, cmd->noun, cmd->verb, args, uid);

	json_decref(args);
	return rc != ERR_DENIED;
}

/* SEC S-318, AUDIT A-1102: the whole table, every role */
static void roles_may_what_their_column_says(void **state)
{
	struct crib *c = crib_new(APP_DAEMON);

	(void)state;
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "tenant add", "{'name':'other'}");
	for (const struct command *cmd = NULL; (cmd = command_next(app_commands, cmd)) != NULL;) {
		const bool any = cmd->role == ADM_ANY;
		bool changes_things = cmd->role == ADM_OPERATE || cmd->role == ADM_OWNER || cmd->role == ADM_AGREE ||
			(cmd->role >= ADM_RECALL && !any);
		bool reads_audit = cmd->role == ADM_AUDIT || cmd->role == ADM_PAYLOAD;
		/* An argument that no command has: refused after the role, before anything is done. */
		const char *nothing = "{'no-such-argument':'x'}";

		assert_false(may(c, cmd, STRANGER, nothing));
		assert_int_equal(may(c, cmd, ADMIN, nothing), cmd->role != ADM_PAYLOAD && cmd->role != ADM_APPROVE);
		assert_int_equal(may(c, cmd, OPERATOR, nothing), cmd->role != ADM_PAYLOAD && cmd->role != ADM_OWNER &&
				 cmd->role != ADM_AGREE && (cmd->role < ADM_RECALL || any));
		assert_int_equal(may(c, cmd, AUDITOR, nothing), !changes_things);
		assert_int_equal(may(c, cmd, TENANT_AUDITOR, nothing), any);
		assert_int_equal(may(c, cmd, TENANT_AUDITOR, "{'no-such-argument':'x','tenant':'other'}"), any);
		assert_int_equal(may(c, cmd, TENANT_AUDITOR, "{'no-such-argument':'x','tenant':'acme'}"),
				 reads_audit || cmd->seen || any);
		assert_int_equal(may(c, cmd, TENANT_ADMIN, nothing), any);
		assert_int_equal(may(c, cmd, TENANT_ADMIN,
				 "{'no-such-argument':'x','tenant':'other','principal':'other/bot','system':'other/bot','who':'other'}"), any);
		assert_int_equal(may(c, cmd, TENANT_ADMIN,
				 "{'no-such-argument':'x','tenant':'acmes','principal':'acmes/bot','system':'acmes/bot','who':'acmes'}"), any);
		assert_int_equal(may(c, cmd, TENANT_ADMIN,
				 "{'no-such-argument':'x','tenant':'acme','principal':'acme/bot','system':'acme/bot','who':'acme'}"),
				 cmd->own || any);
	}
	crib_free(c);
}

static void refusal_names_role_and_need(void **state)
{
	struct crib *c = crib_new(APP_DAEMON);
	json_t *args = quoted("{'name':'acme'}");

	(void)state;
	must(c, "tenant add", "{'name':'acme'}");
	assert_int_equal(run_here(c, "tenant", "add", args, AUDITOR), ERR_DENIED);
	assert_string_equal(c->err.msg, "uid 40003 has the role auditor, and tenant add needs one of these: admin");
	json_decref(args);
	args = quoted("{'tenant':'other'}");
	assert_int_equal(run_here(c, "audit", "calls", args, TENANT_AUDITOR), ERR_DENIED);
	assert_string_equal(c->err.hint, "this role reads one tenant's audit: --tenant acme");
	json_decref(args);
	args = quoted("{'tenant':'acme'}");
	assert_int_equal(run_here(c, "audit", "calls", args, TENANT_AUDITOR), 0);
	json_decref(args);
	must(c, "audit admin", "{'limit':'0'}");
	assert_int_equal(times(c, "uid 40003: tenant add name=acme"), 1);
	assert_int_equal(times(c, "uid 40004: audit calls tenant=other"), 1);
	crib_free(c);
}

static void arguments_are_checked_against_the_row(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	refused(c, "tenant add", "{}", ERR_INVALID, "name is missing");
	refused(c, "tenant add", "{'name':1}", ERR_INVALID, "must be a string");
	refused(c, "tenant add", "{'nmae':'acme'}", ERR_INVALID, "");
	refused(c, "tenant add", "{'name':'acme','rate':'often'}", ERR_INVALID, "no rate");
	refused(c, "tenant add", "{'name':'acme','concurrency':'100001'}", ERR_LIMIT, "at most 100000");
	refused(c, "tenant add", "{'name':'No Such Name!'}", ERR_INVALID, "no name");
	refused(c, "tenant enlarge", "{}", ERR_NOT_FOUND, "not found");
	refused(c, "init", "{}", ERR_INVALID, "");
	must(c, "tenant add", "{'name':'acme','concurrency':'100000'}");
	refused(c, "tenant add", "{'name':'acme'}", ERR_CONFLICT, "exists already");
	refused(c, "key create", "{'principal':'acme/bot','ttl':'366d'}", ERR_LIMIT, "365d");
	refused(c, "key create", "{'principal':'acme'}", ERR_INVALID, "TENANT/NAME");
	refused(c, "key revoke", "{'accessor':['tck_abcdefghijkl_x']}", ERR_INVALID, "not its accessor");
	refused(c, "tenant show", "{'tenant':'acne'}", ERR_NOT_FOUND, "acne: not found");
	assert_string_equal(c->err.hint, "did you mean acme?");
	must(c, "key create", "{'principal':'acme/bot','ttl':'365d'}");
	crib_free(c);
}

static void documents_are_all_stored_or_none(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	assert_int_equal(say(c, "tool add", "{'documents':[{'name':'a','description':'A.','inputSchema':{'type':'object'},"
			     "'handler':{'type':'builtin','function':'echo'}},{'name':'b','description':'B.','inputSchema':"
			     "{'type':'object'},'handler':{'type':'nonsense'}}]}"), ERR_INVALID);
	assert_int_equal(strncmp(c->err.where, "/documents/1/handler", 20), 0);
	must(c, "tool list", "{}");
	assert_int_equal(c->rows.len, 0);

	/* The writer's side: the second grant fails, the first is undone with it. */
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "tool add", ECHO("Says"));
	assert_int_equal(say(c, "grant add", "{'tenant':'acme','tool':['echo','echo']}"), ERR_CONFLICT);
	must(c, "grant list", "{'tenant':'acme'}");
	assert_int_equal(c->rows.len, 0);
	crib_free(c);
}

static void documents_have_bounds(void **state)
{
	static const char two[] = "{'documents': [{'kind':'tenant','name':'a'}, {'kind':'tenant','name':'b'}]}";
	struct crib *c = crib_new(APP_EMBEDDED);
	const size_t bytes = 2 * strlen("{'kind':'tenant','name':'a'}");

	(void)state;
	command_pieces_bound(1, UINT64_MAX);
	assert_int_equal(say(c, "apply", two), ERR_LIMIT);
	command_pieces_bound(2, bytes - 1);
	assert_int_equal(say(c, "apply", two), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_admin_documents_refused), 2);
	command_pieces_bound(2, bytes);
	must(c, "apply", two);
	command_pieces_bound(SIZE_MAX, UINT64_MAX);
	crib_free(c);
}

static void unchanged_definition_makes_no_version(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);

	(void)state;
	must(c, "tenant add", "{'name':'acme'}");
	must(c, "tool add", ECHO("Says"));
	must(c, "grant add", "{'tenant':'acme','tool':['echo']}");
	must(c, "tenant show", "{'tenant':'acme'}");
	assert_int_equal(number(c, "generation"), 1);
	must(c, "tool add", ECHO("Says"));
	assert_non_null(strstr(c->rows.p, "\"unchanged\""));
	assert_int_equal(number(c, "version"), 1);
	must(c, "tenant show", "{'tenant':'acme'}");
	assert_int_equal(number(c, "generation"), 1);
	must(c, "tool add", ECHO("Repeats"));
	assert_int_equal(number(c, "version"), 2);
	must(c, "tenant show", "{'tenant':'acme'}");
	assert_int_equal(number(c, "generation"), 2);
	crib_free(c);
}

/* --- both roads */

/* Blank out what differs by nature: times, keys, pseudonyms. */
static void mask(struct str *rows)
{
	static const char *const members[] = { "\"created\":\"", "\"changed\":\"", "\"key\":\"", "\"accessor\":\"",
		"\"pseudonym\":\"", "\"expires\":\"", "\"suspended\":\"", "\"revoked\":\"", "\"rotated\":\"",
		"\"old_secret_until\":\"", "\"parent\":\"", "\"key\":\"tck_", "\"until\":\"", "\"due\":\"", "\"reviewed\":\"", "\"set\":\"" };
	const char *nl = strchr(str_text(rows), '\n');

	if (nl && strncmp(rows->p, "{\"header\":", 10) == 0)     /* who asked when, by which road */
		str_drop_front(rows, (size_t)(nl - rows->p) + 1);

	for (size_t i = 0; i < NELEMS(members) && rows->p; i++)
		for (char *p = rows->p; (p = strstr(p, members[i])); )
			for (p += strlen(members[i]); *p != '"'; p++)
				*p = '.';
}

static void both_roads_say_the_same(void **state)
{
	static const char *const reads[][2] = {
		{ "tenant list", "{}" }, { "principal list", "{'tenant':'acme'}" }, { "key list", "{'tenant':'acme'}" },
		{ "tool list", "{}" }, { "grant list", "{}" }, { "audit calls", "{'tenant':'acme'}" }, { "session list", "{}" },
		{ "tool show", "{'tool':'echo'}" }, { "tool history", "{'tool':'echo'}" },
		{ "tool lint", ECHO("Says") }, { "tenant show", "{'tenant':'nobody'}" },
	};
	struct crib *here = crib_new(APP_EMBEDDED), *there = crib_new(APP_DAEMON);

	(void)state;
	for (size_t i = 0; i < NELEMS(changes); i++) {
		must_change(here, i);
		must_change(there, i);
		mask(&here->rows);
		mask(&there->rows);
		assert_string_equal(str_text(&here->rows), str_text(&there->rows));
		for (size_t k = 0; k < NELEMS(reads); k++) {
			assert_int_equal(say(here, reads[k][0], reads[k][1]), say(there, reads[k][0], reads[k][1]));
			mask(&here->rows);
			mask(&there->rows);
			assert_string_equal(str_text(&here->rows), str_text(&there->rows));
			assert_string_equal(here->rc ? here->err.msg : "", here->rc ? there->err.msg : "");
		}
	}
	crib_free(here);
	crib_free(there);
}

static void socket_refuses_what_is_no_request(void **state)
{
	static const char *const lines[] = { "\n", "{}\n", "[]\n", "{\"command\":\"status\"}\n", "not json\n",
		"{\"command\":\"status\",\"args\":{},\"uid\":0}\n", "{\"command\":\"status\",\"args\":[]}\n",
		"{\"command\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"args\":{}}\n" };
	struct crib *c = crib_new(APP_DAEMON);

	(void)state;
	for (size_t i = 0; i < NELEMS(lines); i++) {
		struct str answer = STR_INIT;

		exchange(c, lines[i], strlen(lines[i]), &answer);
		if (!answer.p || !strstr(answer.p, "{\"error\":"))
			fail_msg("%s -> %s", lines[i], str_text(&answer));
		str_fini(&answer);
	}
	must(c, "status", "{}");
	crib_free(c);
}

/* A peer that leaves does not stop its command, and a stop does not wait for the peer. */
static void leaving_in_the_middle_is_harmless(void **state)
{
	struct crib *c = crib_new(APP_DAEMON);
	const char *line = "{\"command\":\"tenant add\",\"args\":{\"name\":\"acme\"}}\n";
	int fd = connect_admin(c);

	(void)state;
	assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
	close(fd);
	for (int i = 0; i < 100 && (say(c, "tenant list", "{}") != 0 || c->rows.len == 0); i++)
		;
	assert_non_null(strstr(str_text(&c->rows), "acme"));
	fd = connect_admin(c);
	assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
	app_close(&c->app);
	close(fd);
	crib_free(c);
}

static void knock(struct crib *c, const char *line)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static const bool never;
	char byte;

	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/agents.sock", c->dir);
	assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&sun, sizeof(sun)), 0);
	assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
	while (recv(fd, &byte, 1, MSG_DONTWAIT) != 0)
		(void)ev_loop_run_until(app_loop(c->app), &never, 1);
	close(fd);
}

static size_t in_log(struct crib *c, const char *text)
{
	must(c, "audit admin", "{'limit':'0'}");
	return times(c, text);
}

/* AUDIT A-217: ten a second of a source, the rest in a summary, once a minute */
static void failures_to_come_in_are_summed_up_each_minute(void **state)
{
	struct crib *c = crib_new(APP_DAEMON);

	(void)state;
	clock_fake(clock_wall_us(), clock_mono_us());
	for (int i = 0; i < 13; i++)
		knock(c, i % 2 ? "Authorization: Bearer x\n" : "hello\n");
	while (in_log(c, "\"kind\":\"auth.fail\"") < 10)       /* nobody waits for these records */
		;
	assert_int_equal(times(c, "\"kind\":\"auth.fail\""), 10);
	assert_int_equal(in_log(c, "auth.fail.summary"), 0);
	clock_step(59 * 1000000);
	assert_int_equal(in_log(c, "auth.fail.summary"), 0);
	clock_step(1000000);
	while (in_log(c, "auth.fail.summary") == 0)
		;
	assert_int_equal(times(c, "\"malformed=3 sources=1\""), 1);
	knock(c, "hello\n");
	while (in_log(c, "\"kind\":\"auth.fail\"") < 11)
		;
	assert_int_equal(times(c, "auth.fail.summary"), 1);
	clock_real();
	crib_free(c);
}

static void init_leaves_a_store_alone(void **state)
{
	struct crib *c = crib_new(APP_EMBEDDED);
	struct err err;

	(void)state;
	assert_int_equal(setup_store(c->store, NULL, &err), ERR_CONFLICT);         /* in use */
	app_close(&c->app);
	assert_int_equal(setup_store(c->store, NULL, &err), ERR_CONFLICT);
	start(c, APP_EMBEDDED);
	must(c, "tenant list", "{}");
	crib_free(c);
}

SUITE(admin)
{
	char launcher[320];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_whole),
		cmocka_unit_test(every_change_is_recorded),
		cmocka_unit_test(every_command_is_recorded),
		cmocka_unit_test(reading_the_audit_is_recorded),
		cmocka_unit_test(a_stranger_has_no_role),
		cmocka_unit_test(roles_may_what_their_column_says),
		cmocka_unit_test(refusal_names_role_and_need),
		cmocka_unit_test(a_destructive_act_needs_two),
		cmocka_unit_test(an_approval_lasts_a_day),
		cmocka_unit_test(one_administrator_is_enough_where_the_policy_says_so),
		cmocka_unit_test(arguments_are_checked_against_the_row),
		cmocka_unit_test(documents_are_all_stored_or_none),
		cmocka_unit_test(documents_have_bounds),
		cmocka_unit_test(unchanged_definition_makes_no_version),
		cmocka_unit_test(both_roads_say_the_same),
		cmocka_unit_test(socket_refuses_what_is_no_request),
		cmocka_unit_test(leaving_in_the_middle_is_harmless),
		cmocka_unit_test(failures_to_come_in_are_summed_up_each_minute),
		cmocka_unit_test(init_leaves_a_store_alone),
	};

	if (secret_init() != 0)
		return 1;
	(void)snprintf(launcher, sizeof(launcher), "%s/toolcrib-run", build_dir());
	setenv("TOOLCRIB_RUN", launcher, 0);
	(void)snprintf(launcher, sizeof(launcher), "%s/toolcrib-sign", build_dir());
	setenv("TOOLCRIB_SIGN", launcher, 0);
	(void)snprintf(launcher, sizeof(launcher), "%s/toolcrib-launcher", build_dir());
	setenv("TOOLCRIB_LAUNCHER", launcher, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
