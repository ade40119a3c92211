#ifndef DOCUMENTS_DOCUMENTS_H
#define DOCUMENTS_DOCUMENTS_H

#include "command/command.h"

/* Apply and export: the store from documents and back, as commands. */

/* Its tables of commands, for app/commands.c. */
extern const struct command apply_commands[], export_commands[];

#endif
