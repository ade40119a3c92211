/* Prints what manual pages have from tables, for contrib/check-man-table.sh: the COMMANDS list of toolcrib(8), or with
 * the word "documents" the keys of documents in toolcrib-tool(5). */

#include "config.h"

#include "app/app.h"
#include "documents/documents.h"

#include "ctl_int.h"

static void put_documents(void)
{
	const struct document_key *of = NULL;

	for (const struct document_key *key = document_keys; key->kind; key++) {
		if (!key->name) {
			printf("%s.It Ic kind : Cm %s\n%s\n.Bl -tag -width Ds -compact\n", of ? ".El\n" : "", key->kind, key->help);
			of = key;
			continue;
		}
		printf(".It Ic %s%s%s%s%s\n%s\n", *key->at ? key->at + 1 : "", *key->at ? "." : "", key->name,
		       key->value ? " : Ar " : "", key->value ? key->value : "", key->help);
	}
	puts(".El");
}

int main(int argc, char **argv)
{
	struct str out = STR_INIT;

	(void)argv;
	if (argc > 1)
		put_documents();
	else
		ctl_man_commands(app_commands, &out);
	fputs(str_text(&out), stdout);
	str_fini(&out);
	return fflush(stdout) == 0 ? 0 : 1;
}
