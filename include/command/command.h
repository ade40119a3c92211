#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include "base/err.h"
#include "registry/registry.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one command table: on the owner's socket, or in-process in the CLI (house D.7).  Loop thread unless a
 * member says otherwise.  Arguments are a JSON object; what a command says is lines of JSON, one object
 * ("row") each.  The table describes both, so that the CLI's parsing and printing, --help, man page and
 * completion come from the row. */

struct alerts; struct commands; struct daily; struct reply; struct audit_logs; struct call_engine; struct db;
struct ev_loop; struct exec_workers; struct conf_role; struct fetcher; struct sandbox; struct mcp_server;
struct path_lent; struct registry; struct reports; struct str; struct tenants; struct upstreams; struct vault;
struct assents; struct pdps; struct tasks; struct visit; struct visits; struct worker_pool; struct writer;

/* What a command needs; who has it says roles.c, and `own`, `seen` in the row.  READ: what the store holds.  AUDIT:
 * records, without payloads; of one tenant when its argument `tenant` says so.  PAYLOAD: those too.  OPERATE, OWNER: to
 * change.  AGREE: to what another asked for.  ASSENTS, RECALL, APPROVE: calls that wait (HA-04).  ANY: any role. */
enum authority { ADM_READ = 1, ADM_AUDIT, ADM_PAYLOAD, ADM_OPERATE, ADM_OWNER, ADM_AGREE, ADM_ASSENTS, ADM_RECALL,
	ADM_APPROVE, ADM_ANY };
/* Whether another administrator has to have agreed to the command and its arguments (AUDIT A-909); WRITER rows only. */
enum approval_rule {
	ADM_SECOND_NO,
	ADM_SECOND_ALWAYS,      /* before body(); not when check() has set undo */
	ADM_SECOND_ASKED,       /* body() asks, when what it is about to do needs one */
};
/* Where body() runs.  CTL: in the CLI itself, before there is a store or without one.  ELSEWHERE: there is none,
 * check() says who answers. */
enum command_where { ADM_ON_LOOP, ADM_ON_POOL, ADM_ON_WRITER, ADM_ON_CTL, ADM_ELSEWHERE };
/* How the CLI shows rows to people. */
enum command_shape {
	ADM_DONE,       /* the sentence `done`, once per row */
	ADM_TABLE,      /* aligned columns */
	ADM_ITEM,       /* one "title  value" line per column */
	ADM_CONTENT,    /* the content blocks of a tool's result; isError fails the command */
	ADM_SECRET,     /* the bare value of the first column on stdout, the sentence on stderr */
	ADM_TEXT,       /* the first column on stdout as it is, the sentence on stderr */
	ADM_DOCUMENTS,  /* the member `document` as YAML, or into the folder that the argument `output` names */
	ADM_FILE,       /* a stream: the CLI writes the members `data`, base64, to the new file that `file` names, and
			 * the sentence `done`, when the last row's `sha256` is right */
	ADM_DIFF,       /* changes, one per row, or a header with `changes` below it, or a `summary` */
	ADM_FINDINGS,   /* a table that should be empty: exit status 4 when it is not.  A row may have a class: "gap" is
			 * exit status 5 when there is nothing worse, "sum", "ok" and "needs" are no findings */
	ADM_REPORT,     /* a table below a header, which names the columns and says whether rows are findings;
			 * the argument `format` chooses the form */
	ADM_CHART,      /* likewise; the table is drawn as bars of calls over time */
	ADM_SCREEN,     /* a stream of samples, drawn over each other (top/top.h) */
};

enum command_arg_type {
	ARG_TEXT, ARG_FLAG, ARG_UINT, ARG_DURATION, ARG_RATE, ARG_TIME, ARG_YESNO, ARG_JSON,
	ARG_FILE,       /* read by the CLI: an array of documents, as member "documents" */
	ARG_KEYVALUES,  /* k=v words: an object of texts */
	ARG_SECRET,     /* an option with a file; the CLI reads that, else standard input: the text, as member "value" */
	ARG_CURSOR,     /* an option with a file, which the CLI reads and keeps: an object, {} when there is no such file */
	ARG_COMMAND,    /* the rest of the line, an array of texts; its program made absolute by the CLI */
	ARG_PATH, ARG_PATH_READ, ARG_PATH_NEW, ARG_PATH_KEPT,   /* made absolute and, but the first, opened by the CLI */
};
enum command_complete { COMPLETE_NONE, COMPLETE_TENANT, COMPLETE_PRINCIPAL, COMPLETE_KEY, COMPLETE_TOOL,
	COMPLETE_PROMPT, COMPLETE_RESOURCE, COMPLETE_UPSTREAM, COMPLETE_SCHEMA, COMPLETE_FILE, COMPLETE_COMMAND };
struct command_arg {
	const char *name;               /* member of the arguments object; "--name" on the command line when option */
	const char *value;              /* placeholder in usage: "TENANT", "FILE"; NULL for flags */
	enum command_arg_type type;
	bool option, required, repeated;        /* repeated: an array of texts */
	enum command_complete complete;
	const char *help;
};
#define command_arg_is_path(arg) ((arg)->type >= ARG_PATH)
/* 0, or ERR_INVALID with a sentence: is text a value of this type?  For the CLI's usage errors and for
 * command_run(). */
int command_arg_check(const struct command_arg *arg, const char *text, struct err *err) MUST_CHECK;

/* Peer of the socket, our own process, or the server itself (system) that has something to do. */
struct actor {
	uint32_t uid;
	int64_t pid;
	bool embedded, system; const struct visit *visit;       /* visit: of a browser; or NULL */
	const uint32_t *gids; size_t ngids;     /* its groups, of those that have a role; borrowed until the reply */
	/* From another machine: SHA-256 of its key in hex, the key's name, the address; uid and pid mean nothing.  Borrowed
	 * until the reply; NULL: not so. */
	const char *key, *name, *from;
};

/* Of rows with `stream`: what follows a part. */
enum command_more { ADM_NO_MORE, ADM_MORE_NOW, ADM_MORE_LATER };
struct command_call {                       /* one running command */
	struct commands *admin;
	struct actor who;
	/* Checked against the row.  They belong to the thread that runs body(): from its submission to the writer or the pool
	 * until its end the loop touches neither the tree nor its counters, and the queue's lock orders memory.  On the loop
	 * before and after, in check(), gather() and after().  Nobody takes a reference, or keeps a pointer beyond his end. */
	const json_t *args;
	struct reply *out;            /* what the command says; one thread at a time */
	void *priv; void (*free_priv)(void *priv);
	bool undo;                      /* WRITER: body has said what it would do, and nothing of it stays */
	int status;                     /* exit status of the CLI, for the record of what was read; see command_seen() */
	enum command_more more;             /* set by each body() of a stream */
	const struct command_elsewhere *elsewhere;      /* set by check(): who answers instead of body(), in parts */
	bool later;             /* set by body() on the loop, then command_finish(); by after() of WRITER, command_ended() */
};
enum command_column_type {
	COL_PLAIN, COL_TIME,
	COL_ASKED,      /* behind the others, and shown when a row has it: an option asked for it */
};
struct command_column { const char *member, *title; enum command_column_type type; };
struct command {
	const char *noun, *verb; bool alone;    /* "tool", "add"; verb NULL for one-word commands, alone: may be left out */
	const char *help;               /* one line */
	const char *detail;             /* a paragraph for --help and the man page, or NULL */
	const struct command_arg *args;     /* ended by name NULL */
	const struct command_column *columns;       /* ended by member NULL; NULL with ADM_DONE and ADM_CONTENT */
	const char *done;               /* "tenant %{name} added" */
	enum command_shape shape;
	bool destructive;               /* the CLI asks, or needs --yes */
	const char *destructive_with;   /* the same with this flag; the flag dry-run shows what would be done */
	bool stepwise;                  /* one step each time: the CLI repeats it while the row's member "left" is above 0 */
	bool stream;                    /* POOL, LOOP: body() is asked again while it sets c->more; its parts go to the sink */
	bool pieces;                    /* any number of documents, a piece of them after another; command_document() */
	bool storeless, large, store_if_any;    /* touches no store, its file may be large; knows more with a store */
	bool runs, console;     /* handlers: without a server the CLI reads sandbox.*; browsers may ask for it (C-207) */
	enum authority role;             /* checked before anything of the handler runs */
	const char *own, *seen; /* the argument that says a tenant, as TENANT or TENANT/NAME: its admin, auditor may, too */
	enum approval_rule second;
	enum command_where where;           /* WRITER: body appends its records in the same savepoint */
	/* ADMIN_CMD: a record that is durable before body() runs.  AUDIT_READ, _EXPORT, _VERIFY: what was read is recorded in
	 * the log it was read from, durable before the answer leaves.  Each command's own record comes on top, at its end. */
	int record;
	/* Loop; parse, dry run, no I/O.  again: before each further part of a stream; or NULL. */
	int (*check)(struct command_call *c, struct err *err), (*again)(struct command_call *c, struct err *err);
	/* Loop, before body(): ask elsewhere; ends with command_gathered(), or ungather() when nobody waits; or NULL. */
	void (*gather)(struct command_call *c), (*ungather)(struct command_call *c);
	/* Plain memory only; db is the writer's, a reader on the pool, NULL on the loop; logs NULL unless WRITER. */
	int (*body)(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err);
	void (*after)(struct command_call *c);      /* loop, after COMMIT and after listeners were told */
	int (*here)(const json_t *args, struct str *rows, struct err *err); /* in the CLI: then, or all of it; or NULL */
	void (*cancel)(struct command_call *c, bool stopped);   /* of `later` rows that end with their peer; or are stopped */
};
/* Tables of rows, each ended by noun NULL, the list of them by NULL; no table is empty.  cmd NULL: the first
 * row; NULL: there is no more, or none of that name. */
const struct command *command_next(const struct command *const *tables, const struct command *cmd);
const struct command *command_find(const struct command *const *tables, const char *noun, const char *verb);

/* The roles that may run it: "admin, operator, tenant-admin"; those of a tenant for theirs alone. */
void command_roles(const struct command *cmd, struct str *out);

/* What a tenant has of what only app knows, and may have; 0 = any.  For tenant show. */
struct command_taken { uint64_t bodies, bodies_max, connections, connections_max, queries, queries_max; };
struct command_env {                      /* borrowed for life; all but loop may be NULL for storeless commands */
	struct ev_loop *loop;
	const struct command *const *tables;    /* all commands, as command_next() walks them */
	const char *store, *archive;    /* archive: where sealed files are moved; or NULL */
	struct tenants *tenants;
	struct registry *registry;
	reg_bind_fn *bind;              /* of handler blocks in documents */
	struct writer *writer;
	struct notary *notary;          /* NULL: nothing is signed */
	struct call_engine *calls; struct tasks *tasks; struct assents *assents; struct pdps *pdps;     /* or NULL */
	struct limiter *limiter;
	uint32_t tenant_queue, requests;        /* of a tenant that has no limit of its own; see call_env */
	struct mcp_server *mcp;         /* NULL: nobody listens (embedded) */
	const uint8_t *master; struct vault *vault; struct db *reader;  /* reader: taken, idle, for the pool; or NULL */
	struct fetcher *fetcher;        /* for `tool test` */
	struct upstreams *upstreams;
	struct reports *reports, *paged; struct jobs *jobs; struct visits *visits;      /* paged: for browsers */
	struct alerts *alerts; struct daily *daily;     /* or NULL */
	size_t answer_max;              /* bytes of rows that a command may say; a larger answer is ERR_LIMIT; 0 = any */
	const struct sandbox *sandbox; struct exec_workers *workers; struct worker_pool *pool;  /* the same, or NULL */
	const char *sandbox_levels; bool tool_users;    /* reached and required, for `status`; tools have own users */
	uint32_t owner_uid;             /* an admin while commands_owner_rules(); root always is */
	const struct conf_role *roles; size_t nroles;   /* the others */
	uint64_t started_us;
	bool (*draining)(void *arg);    /* is it stopping?  For status; may be NULL */
	json_t *(*listeners)(void *arg);                /* for status: new reference, array; may be NULL */
	void (*taken)(void *arg, int64_t tenant, struct command_taken *ret);    /* may be NULL */
	/* Read the configuration again, or only say what that would do: a row for each change, then a summary.  NULL: there is
	 * none (embedded). */
	int (*reload)(void *arg, bool dry_run, struct reply *out, struct err *err);
	void *arg;
};
struct commands *commands_new(const struct command_env *env);
/* Who may give commands from now on; borrowed as those of env. */
void commands_set_roles(struct commands *a, const struct conf_role *roles, size_t n);
/* Has no user and no group the role admin?  Then the user of the store has it, and whatever runs as that user. */
bool commands_owner_rules(const struct commands *a);
/* Commands under way still end and reply, without touching what env names but the loop. */
void commands_free(struct commands **a);

/* args: a member per argument that was given.  A text, also for numbers, durations, rates, times and yes/no; true for a
 * flag; an array of texts when repeated; an object for ARG_JSON and (of texts) ARG_KEYVALUES; for ARG_FILE the member
 * "documents", an array of all documents of all files.  An error about a document has where = "/documents/N/…",
 * a JSON pointer into args. */
struct command_req {
	struct actor who;
	const struct command *cmd;       /* the row; NULL: noun and verb say which, or what was asked for that is none */
	const char *noun, *verb;
	json_t *args;                   /* taken: who has a reference of his own leaves it alone until the reply */
	struct path_lent *files; size_t nfiles; /* what its peer has opened of the paths in args; taken: malloc()ed */
	const struct command_sink *sink;
	bool more;                      /* of a row with `pieces`: `documents` is the first of several */
};
/* Where the parts of a stream go, with the arg of the reply; without one, such a command is refused. */
struct command_sink {
	void (*part)(void *arg, const struct str *rows);        /* borrowed */
	int (*room)(void *arg);         /* 1 = the next part may come, 0 = not yet, negative: nobody listens any more */
};
/* Once, not before command_run() has returned.  err NULL = done; rows: lines of {"row":{…}}, borrowed. */
typedef void command_reply_fn(void *arg, const struct str *rows, const struct err *err);
struct command_call *command_run(struct commands *a, const struct command_req *req, command_reply_fn *reply, void *arg);
/* Until the reply: who gave it is gone.  One that waits, if its row knows how, or can be cancelled ends now. */
void command_hang_up(struct command_call *c);
/* Loop: a further piece of a command that was run with `more`, an array of documents, borrowed; the last one has more
 * false.  NULL: what is missing will not come, and nothing is done.  Before its reply only; a command that has failed
 * by then takes no notice. */
void command_piece(struct command_call *c, const json_t *documents, bool more);

/* The owner's socket: one JSON line in {"command":"tool add","args":{…},"files":[…]}, with a descriptor of each path
 * that the peer has opened.  Where its row says `pieces`, "more":true beside them means that further documents follow,
 * as lines {"documents":[…],"more":true}, the last without "more".  Back come lines {"row":{…}} and at last
 * {"done":true} or {"error":{"code":"not_found","where":…,"message":…,"hint":…}}.  Peer uid by SO_PEERCRED. */
struct command_socket;
struct gate; struct tls_server;
/* mode: of the socket's file; the check by uid comes on top. */
int command_socket_open(struct commands *a, struct ev_loop *loop, const char *path, unsigned mode,
			struct command_socket **ret, struct err *err) MUST_CHECK;
/* The same from other machines, over TLS: the first line is "Authorization: Bearer KEY", within ADMIN_KEY_MS.  Off
 * unless it is opened; all that places names is borrowed for its life. */
struct command_remote { const char *address; struct tls_server *tls; struct gate *gate; struct tenants *tenants; };
int command_remote_open(struct commands *a, struct ev_loop *loop, const struct command_remote *r,
			struct command_socket **ret, struct err *err) MUST_CHECK;
const char *command_remote_address(const struct command_socket *s);
#define ADMIN_KEY_MS 5000
/* Of a socket's connections: of one user id or key, of all users without a role, of a source without a key so far. */
#define ADMIN_SHARE_MAX 16
#define ADMIN_IDLE_MS 60000             /* for a whole line, from the connection or the last reply on */
#define ADMIN_KEY_PREFIX "tca_"
#define ADMIN_KEY_SIZE (sizeof(ADMIN_KEY_PREFIX) + 43)          /* with its NUL */
#define ADMIN_KEY_HASH_SIZE 65
/* A new key's text, to be wiped, and what stands in the configuration for it. */
void admin_key_make(char ret_text[ADMIN_KEY_SIZE], char ret_hash[ADMIN_KEY_HASH_SIZE]);
void command_socket_close(struct command_socket **s);
#define ADMIN_ANSWER_MIB 64             /* answer_max without a configuration */
#define ADMIN_LINE_MAX (16u << 20)
#endif
