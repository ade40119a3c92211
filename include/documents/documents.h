#ifndef DOCUMENTS_DOCUMENTS_H
#define DOCUMENTS_DOCUMENTS_H

#include "base/err.h"
#include "command/command.h"

/* Apply and export: the store from documents and back, as commands. */

/* What each kind of document may say beside `kind`: what is read by it, and the list of toolcrib-tool(5).  value: its
 * placeholder, or NULL; name NULL: of the kind itself.  Ended by kind NULL; the kinds stand together. */
struct document_key { const char *kind, *at, *name, *value, *help; };
extern const struct document_key document_keys[];

/* Pages of own apps (UI-06): what `handler: {type: static, file: NAME}` of a document names is read beside the file
 * that the documents come from, and is its `text` from now on.  For who reads documents from files, to which these are
 * appended; path "-": from none.  ERR_INVALID, ERR_LIMIT, ERR_UNREACHABLE; where = the place in the file. */
#define DOCUMENT_FILE_MAX (512u << 10)  /* bytes: what a definition may have at all */
struct yaml_docs;
int document_take_files(const char *path, const struct yaml_docs *docs, json_t *documents, struct err *err) MUST_CHECK;

/* Its tables of commands, for app/commands.c. */
extern const struct command apply_commands[], export_commands[];

#endif
