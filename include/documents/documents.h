#ifndef DOCUMENTS_DOCUMENTS_H
#define DOCUMENTS_DOCUMENTS_H

#include "command/command.h"

/* Apply and export: the store from documents and back, as commands. */

/* What each kind of document may say beside `kind`: what is read by it, and the list of toolcrib-tool(5).  value: its
 * placeholder, or NULL; name NULL: of the kind itself.  Ended by kind NULL; the kinds stand together. */
struct document_key { const char *kind, *at, *name, *value, *help; };
extern const struct document_key document_keys[];

/* Its tables of commands, for app/commands.c. */
extern const struct command apply_commands[], export_commands[];

#endif
