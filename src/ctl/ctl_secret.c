/* A value that must not stand in a command line: from a file, from standard input, or typed without echo. */

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/path.h"
#include "base/text.h"

#include "ctl_int.h"

#define VALUE_MAX (64u << 10)           /* what the command takes; the command says so itself */
#define CTRL_C '\003'

static const struct command_arg *secret_arg(const struct command *cmd)
{
	const struct command_arg *arg = cmd->args;

	while (arg && arg->name && arg->type != ARG_SECRET)
		arg++;
	return arg && arg->name ? arg : NULL;
}

bool ctl_takes_secret(const struct command *cmd)
{
	return secret_arg(cmd) != NULL;
}

/* One line; Ctrl-C arrives as a character, so that the terminal is always put right again. */
static int type_line(struct str *ret, struct err *err)
{
	struct termios was, hidden;
	ssize_t n = 0;
	char c = '\0';

	if (tcgetattr(STDIN_FILENO, &was) != 0)
		return err_set(err, ERR_IO, "", "cannot read from the terminal: %s", strerror(errno));
	hidden = was;
	hidden.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG);
	hidden.c_cc[VMIN] = 1;
	hidden.c_cc[VTIME] = 0;
	fputs("Value (not shown): ", stderr);
	fflush(stderr);
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) != 0)
		return err_set(err, ERR_IO, "", "cannot turn off echo: %s", strerror(errno));
	while ((n = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n' && c != '\r' && c != CTRL_C && c != was.c_cc[VEOF]) {
		if (c == (char)was.c_cc[VERASE] || c == '\b')
			ret->len -= ret->len > 0;
		else if (c == (char)was.c_cc[VKILL])
			ret->len = 0;
		else
			str_putc(ret, c);
	}
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &was);         /* there is nothing better to do about it */
	fputs("\n", stderr);
	if (n < 0)
		return err_set(err, ERR_IO, "", "cannot read from the terminal: %s", strerror(errno));
	return c == CTRL_C ? err_set(err, ERR_CANCELLED, "", "nothing was done") : 0;
}

static int read_value(const char *path, struct str *ret, struct err *err)
{
	int rc;

	if (!path && isatty(STDIN_FILENO))
		return type_line(ret, err);
	rc = path_read_input(path ? path : "-", VALUE_MAX + 2, ret, err);
	if (rc == ERR_LIMIT)
		return err_set(err, ERR_LIMIT, "", "the value is longer than %u bytes", VALUE_MAX);
	if (rc < 0) {
		err->where[0] = '\0';   /* the message names the file */
		return rc;
	}
	if (ret->len > 0 && ret->p[ret->len - 1] == '\n')
		ret->len--;
	if (ret->len > 0 && ret->p[ret->len - 1] == '\r')
		ret->len--;
	return 0;
}

int ctl_secret_read(struct ctl_line *line, struct err *err)
{
	const struct command_arg *arg = secret_arg(line->cmd);
	const char *path = json_string_value(json_object_get(line->args, arg->name));
	struct str value;
	int rc;

	str_init(&value, VALUE_MAX + 2);
	value.secret = true;
	rc = read_value(path, &value, err);
	if (rc == 0 && (!text_utf8_valid(str_text(&value), value.len) || memchr(str_text(&value), '\0', value.len))) {
		rc = err_set(err, ERR_INVALID, "", "the value is not UTF-8 text without NUL");
		err_hint(err, "store bytes as base64, and let the tool decode them");
	}
	if (rc == 0) {
		(void)json_object_del(line->args, arg->name);
		(void)json_object_set_new(line->args, "value", json_stringn(str_text(&value), value.len));
	}
	str_wipe(&value);
	return rc;
}
