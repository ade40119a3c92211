#ifndef ADM_COMMANDS_H
#define ADM_COMMANDS_H

#include "admin/admin.h"
#include "tenant/tenant.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The handlers that admin_table.c names, and what they share. */

struct adm_grant;
struct adm_tenant;
struct backend_result;
struct call_where;
struct catalogue;
struct catalogue_refs;
struct define_item;
struct define_schema;
struct mcp_ended;
struct schema_report;

typedef int adm_check_fn(struct adm_call *c, struct err *err);
typedef int adm_body_fn(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err);
typedef void adm_after_fn(struct adm_call *c);
typedef void adm_gather_fn(struct adm_call *c);

/* What storing a document did. */
enum adm_stored { ADM_UNCHANGED, ADM_ADDED, ADM_CHANGED };

/* Put "/documents/N" in front of a place in a document, and its member in front of the message. */
void adm_at_document(struct err *err, size_t i);

/* adm_bundle.c */

/* The index of a record, -1 when the argument is absent; those that two times have between them, the last one included. */
int adm_index(const struct adm_call *c, const char *name, int64_t *ret, struct err *err) MUST_CHECK;
int adm_range_of_times(struct db *db, int64_t log, uint64_t since_us, uint64_t until_us, int64_t *ret_from, int64_t *ret_to,
		       struct err *err) MUST_CHECK;

/* adm_course.c: the answer waits until what the body intended is done. */
adm_after_fn adm_course_after;

/* adm_hold.c */

#define ADM_REASON_SIZE 400
#define ADM_TICKET_SIZE 80
/* A text that goes into a record: not empty when it is given. */
int adm_reason(const struct adm_call *c, const char *name, char *ret, size_t size, struct err *err) MUST_CHECK;
int adm_log_of(struct db *db, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;
/* ERR_DENIED with the hold that covers some of the records from <= idx < to, anything of a principal, anything of a log. */
int adm_held_range(struct db *db, int64_t log, int64_t from, int64_t to, const char *what, struct err *err) MUST_CHECK;
int adm_held_subject(struct db *db, int64_t log, const char *prn, const char *what, struct err *err) MUST_CHECK;
int adm_held_any(struct db *db, int64_t log, const char *what, struct err *err) MUST_CHECK;

/* adm_limit.c */

/* In a WRITER body; no record. */
int adm_limit_write(struct db *db, int64_t tenant_id, enum tenant_scope scope, int64_t subject, const struct tenant_limits *set,
		    struct err *err) MUST_CHECK;
bool adm_limit_same(const struct tenant_limits *a, const struct tenant_limits *b);
/* adm_tenant.c */
adm_check_fn adm_tenant_name_check;

int adm_tenant_new_name(const char *name, struct err *err) MUST_CHECK;
int adm_tenant_title(const char *title, char ret[256], struct err *err) MUST_CHECK;
/* In a WRITER body, with records; adm_changed_people() and adm_changed_tenant() are the caller's.  want->state 0: as
 * it is.  ret_before: what it was, or what was just made; ret: what it is. */
int adm_tenant_sandbox(const char *level, char ret[64], struct err *err) MUST_CHECK;
int adm_tenant_store(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *want,
		     struct adm_tenant *ret_before, struct adm_tenant *ret, enum adm_stored *ret_what,
		     struct err *err) MUST_CHECK;
/* The row alone, without a record. */
int adm_tenant_write(struct db *db, const struct adm_tenant *after, struct err *err) MUST_CHECK;
int adm_tenant_change_state(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *before,
			    int state, struct err *err) MUST_CHECK;
/* In after(): as mcp_end_where(), also where nobody listens. */
void adm_put_out(struct adm_call *c, const struct call_where *where, bool kill, struct mcp_ended *ret);
size_t adm_stop_tool(struct adm_call *c, const char *full_name);       /* cancel its calls; how many */
void adm_tenant_out(struct adm_call *c, int64_t tenant_id, struct mcp_ended *ret);
const char *adm_tenant_job_name(const struct adm_call *c);     /* after adm_tenant_name_check() */

/* adm_key*.c */
adm_check_fn adm_key_list_check;
adm_body_fn adm_key_list_body;

/* adm_tool.c */
adm_check_fn adm_tool_names_check;
adm_body_fn adm_tool_history_body;
/* Check document i; err->where is a pointer into the arguments. */
int adm_define(const struct adm_call *c, const json_t *documents, size_t i, const struct catalogue *shared,
	       struct define_item *ret, struct err *err) MUST_CHECK;

/* In a WRITER body, with a record; adm_changed_tools() is the caller's.  keep_state: one that is disabled stays so. */
struct adm_tool_stored {
	enum adm_stored what;
	int64_t id, before, version;    /* before 0: it was not there */
	bool waits;                     /* for approval: what is in force is what was */
};
int adm_tool_store(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct define_item *def,
		   bool keep_state, struct adm_tool_stored *ret, struct err *err) MUST_CHECK;
int adm_tool_change_state(struct adm_call *c, struct db *db, struct audit_logs *logs, const char *name, int state,
			  int64_t *ret_id, struct err *err) MUST_CHECK;

/* adm_pending.c */

/* adm_diff.c */
adm_check_fn adm_tool_versions_check;
adm_body_fn adm_tool_diff_body, adm_tool_revert_body;
/* The member `name`: an array of {sign, where, from, to}. */
void adm_put_changes(struct adm_out *o, const char *name, const json_t *a, const json_t *b);

/* adm_try.c */
adm_check_fn adm_tool_test_check;
adm_body_fn adm_tool_test_body;
/* --args with the NAME=VALUE words on top, typed by the definition's schema (NULL: texts).  New reference. */
int adm_tool_args(const struct adm_call *c, const json_t *definition, json_t **ret, struct err *err) MUST_CHECK;
void adm_refused_arguments(const struct schema_report *report, struct err *err);
/* The row of a result or of an ask; call_id NULL = there was no call. */
void adm_put_result(struct adm_out *o, const char *call_id, const struct backend_result *res);
void adm_put_questions(struct adm_out *o, const char *call_id, const json_t *requests);

/* adm_schema.c, adm_schema_check.c */

const struct catalogue *adm_shared(const struct adm_call *c);   /* the shared schemas; NULL without a store */
/* Schemas of documents, checked, and the catalogue as it would be with them. */
struct adm_schemas {
	struct define_schema *def; size_t count;
	size_t *document;               /* of each */
	struct catalogue *shared;
};
/* all: every document is one; else those that say so.  adm_schemas_fini() also after a failure. */
int adm_schemas_define(const struct adm_call *c, const json_t *documents, bool all, struct adm_schemas *ret,
		       struct err *err) MUST_CHECK;
void adm_schemas_fini(struct adm_schemas *set);
bool adm_is_schema(const json_t *doc);          /* kind schema, or no kind and plainly a JSON Schema */
/* In a WRITER body.  ret: set->count of them. */
int adm_schemas_store(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_schemas *set,
		      enum adm_stored *ret, struct err *err) MUST_CHECK;
int adm_schemas_remove(struct adm_call *c, struct db *db, struct audit_logs *logs, const char *const *uri, size_t n,
		       struct err *err) MUST_CHECK;
/* Note what a stored version refers to.  ERR_CONFLICT when that is not there as it was checked. */
int adm_schema_link_tool(struct db *db, int64_t version_id, const struct catalogue_refs *refs, struct err *err) MUST_CHECK;

/* Append the names of secrets that a definition's handler names and nobody has set: "a, b". */
int adm_secrets_missing(struct db *db, const char *definition, struct str *ret, struct err *err) MUST_CHECK;

/* adm_find.c: the tenant in whose log a call stands: this one, or with "" any.  ERR_NOT_FOUND, in words that have the call's text. */
int adm_find_call(struct db *db, const char *tenant, const uint8_t call[16], const char *text, struct adm_tenant *ret,
		  struct err *err) MUST_CHECK;
/* At a start: what a crash has left of a drill has what may have been erased since (AUDIT A-509). */
void adm_drill_clean(const char *store);
int adm_grant_glob(const char *text, char ret[80], struct err *err) MUST_CHECK;
/* glob NULL: several. */
int adm_grant_alias(const char *alias, const char *glob, char ret[65], struct err *err) MUST_CHECK;
/* In a WRITER body, with a record; adm_changed_tenant() is the caller's.  ret_before: with ADM_CHANGED. */
int adm_grant_store(struct adm_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id, struct adm_grant *want,
		    struct adm_grant *ret_before, enum adm_stored *ret, struct err *err) MUST_CHECK;
int adm_grant_drop(struct adm_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
		   const struct adm_grant *g, struct err *err) MUST_CHECK;

/* adm_call.c, adm_audit.c, adm_server.c */

adm_body_fn adm_session_list_body;

#endif
