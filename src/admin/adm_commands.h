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

/* adm_apply.c, adm_export.c, adm_import.c */
adm_check_fn adm_apply_check, adm_export_check;
adm_body_fn adm_apply_body, adm_export_body, adm_import_openapi_body;
adm_after_fn adm_apply_after;

/* adm_approval.c */
adm_check_fn adm_approval_check, adm_approval_policy_check;
adm_body_fn adm_approval_list_body, adm_approval_grant_body, adm_approval_deny_body, adm_approval_policy_body;

/* adm_retention.c, adm_prune.c */
adm_check_fn adm_retention_set_check, adm_retention_show_check, adm_retention_compact_check, adm_prune_check;
adm_gather_fn adm_prune_gather;
adm_body_fn adm_retention_set_body, adm_retention_show_body, adm_retention_compact_body, adm_prune_body;

/* adm_bundle.c */
adm_check_fn adm_audit_bundle_check;
adm_body_fn adm_audit_bundle_body;
/* The index of a record, -1 when the argument is absent; those that two times have between them, the last one included. */
int adm_index(const struct adm_call *c, const char *name, int64_t *ret, struct err *err) MUST_CHECK;
int adm_range_of_times(struct db *db, int64_t log, uint64_t since_us, uint64_t until_us, int64_t *ret_from, int64_t *ret_to,
		       struct err *err) MUST_CHECK;

/* adm_erase.c */
adm_check_fn adm_erase_check;
adm_gather_fn adm_erase_gather;
adm_body_fn adm_erase_body;

/* adm_course.c: the answer waits until what the body intended is done. */
adm_after_fn adm_course_after;

/* adm_hold.c */
adm_check_fn adm_hold_set_check, adm_hold_list_check, adm_hold_release_check;
adm_body_fn adm_audit_payload_body;
adm_check_fn adm_audit_payload_check;
adm_body_fn adm_level_set_body, adm_level_list_body;
adm_check_fn adm_level_set_check, adm_level_list_check;
adm_body_fn adm_hold_set_body, adm_hold_list_body, adm_hold_release_body;
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
adm_check_fn adm_limit_set_check, adm_limit_show_check;
adm_body_fn adm_limit_set_body, adm_limit_show_body;
/* In a WRITER body; no record. */
int adm_limit_write(struct db *db, int64_t tenant_id, enum tenant_scope scope, int64_t subject, const struct tenant_limits *set,
		    struct err *err) MUST_CHECK;
bool adm_limit_same(const struct tenant_limits *a, const struct tenant_limits *b);
/* adm_tenant.c */
adm_check_fn adm_tenant_add_check, adm_tenant_name_check, adm_tenant_set_check;
adm_body_fn adm_tenant_add_body, adm_tenant_list_body, adm_tenant_show_body, adm_tenant_set_body,
	adm_tenant_suspend_body, adm_tenant_resume_body, adm_tenant_remove_body;
adm_after_fn adm_tenant_out_after, adm_tool_disable_after;
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

/* adm_principal.c */
adm_check_fn adm_principal_check;
adm_body_fn adm_principal_list_body, adm_principal_show_body, adm_principal_set_body;
adm_after_fn adm_principal_set_after;

/* adm_key*.c */
adm_check_fn adm_key_create_check, adm_key_list_check, adm_key_refs_check, adm_key_rotate_check, adm_key_enroll_check,
	adm_key_suspend_check;
adm_body_fn adm_key_create_body, adm_key_list_body, adm_key_show_body, adm_key_revoke_body, adm_key_rotate_body,
	adm_key_enroll_body, adm_key_suspend_body, adm_key_resume_body;
adm_after_fn adm_key_revoke_after, adm_key_suspend_after;

/* adm_tool.c */
adm_check_fn adm_tool_add_check, adm_tool_names_check;
adm_body_fn adm_tool_add_body, adm_tool_list_body, adm_tool_show_body, adm_tool_history_body, adm_tool_enable_body,
	adm_tool_disable_body, adm_tool_remove_body;
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
adm_check_fn adm_pending_check, adm_versions_policy_check;
adm_body_fn adm_tool_pending_body, adm_tool_approve_body, adm_tool_reject_body, adm_tool_drift_body, adm_versions_policy_body;

/* adm_diff.c */
adm_check_fn adm_tool_versions_check;
adm_body_fn adm_tool_diff_body, adm_tool_revert_body;
/* The member `name`: an array of {sign, where, from, to}. */
void adm_put_changes(struct adm_out *o, const char *name, const json_t *a, const json_t *b);
/* The shared schemas as the rows say, for a thread that is not the loop. */
int adm_catalogue_load(struct db *db, struct catalogue **ret, struct err *err) MUST_CHECK;

/* adm_try.c */
adm_check_fn adm_tool_test_check;
adm_body_fn adm_tool_test_body, adm_tool_lint_body;
/* --args with the NAME=VALUE words on top, typed by the definition's schema (NULL: texts).  New reference. */
int adm_tool_args(const struct adm_call *c, const json_t *definition, json_t **ret, struct err *err) MUST_CHECK;
void adm_refused_arguments(const struct schema_report *report, struct err *err);
/* The row of a result or of an ask; call_id NULL = there was no call. */
void adm_put_result(struct adm_out *o, const char *call_id, const struct backend_result *res);
void adm_put_questions(struct adm_out *o, const char *call_id, const json_t *requests);

/* adm_schema.c, adm_schema_check.c */
adm_check_fn adm_schema_add_check, adm_schema_names_check;
adm_body_fn adm_schema_add_body, adm_schema_list_body, adm_schema_show_body, adm_schema_remove_body,
	adm_schema_check_body;
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

/* adm_secret.c */
adm_check_fn adm_secret_set_check, adm_secret_remove_check, adm_secret_rekey_check;
adm_body_fn adm_secret_set_body, adm_secret_list_body, adm_secret_remove_body, adm_secret_rekey_body;
adm_after_fn adm_secret_set_after, adm_secret_remove_after, adm_secret_rekey_after;
/* Append the names of secrets that a definition's handler names and nobody has set: "a, b". */
int adm_secrets_missing(struct db *db, const char *definition, struct str *ret, struct err *err) MUST_CHECK;

/* adm_grant.c */
adm_check_fn adm_grant_check, adm_grant_set_check;
adm_body_fn adm_grant_add_body, adm_grant_list_body, adm_grant_remove_body, adm_grant_set_body;

/* adm_upstream.c */
adm_check_fn adm_upstream_add_check, adm_upstream_name_check, adm_upstream_set_check;
adm_body_fn adm_upstream_add_body, adm_upstream_list_body, adm_upstream_show_body, adm_upstream_set_body,
	adm_upstream_remove_body;
adm_after_fn adm_upstream_after;

/* adm_upstream_sync.c */
adm_check_fn adm_upstream_sync_check, adm_upstream_accept_check;
adm_gather_fn adm_upstream_sync_gather;
adm_body_fn adm_upstream_sync_body, adm_upstream_accept_body;

/* adm_report.c, adm_stats.c */
adm_check_fn adm_report_check, adm_key_list_any_check, adm_tool_history_any_check, adm_tool_health_check,
	adm_stats_check;
adm_body_fn adm_report_body, adm_key_list_any_body, adm_tool_history_any_body, adm_tool_health_body, adm_stats_body;
/* adm_feed.c */
adm_check_fn adm_tail_check, adm_audit_export_check, adm_export_check_check;
adm_body_fn adm_feed_body, adm_export_check_body;
/* adm_review.c */
adm_check_fn adm_review_check;
adm_body_fn adm_review_body;
/* adm_find.c: the tenant in whose log a call stands: this one, or with "" any.  ERR_NOT_FOUND, in words that have the call's text. */
int adm_find_call(struct db *db, const char *tenant, const uint8_t call[16], const char *text, struct adm_tenant *ret,
		  struct err *err) MUST_CHECK;
/* adm_drill.c, adm_proof.c, adm_sign.c, adm_verify.c */
adm_check_fn adm_audit_drill_check, adm_audit_proof_check, adm_audit_verify_check, adm_audit_keys_check;
adm_body_fn adm_audit_drill_body, adm_audit_proof_body, adm_audit_verify_body, adm_audit_keys_body, adm_audit_checkpoint_body,
	adm_audit_adopt_body;
void adm_audit_checkpoint_gather(struct adm_call *c);
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
adm_check_fn adm_audit_show_check, adm_status_check, adm_backup_check;
adm_body_fn adm_call_body, adm_audit_show_body, adm_status_body, adm_reload_body, adm_backup_body,
	adm_session_list_body, adm_session_kill_body;
adm_check_fn adm_session_kill_check;

#endif
