/* The terminal of `toolcrib top`, by its own sequences: a screen beside the one that was there, keys as they are typed.
 * Whatever ends or stops the process puts back the old one first: what is in the handlers may be done there. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "top/top.h"

#define ENTER "\x1b[?1049h\x1b[?25l"    /* the other screen, no cursor */
#define LEAVE "\x1b[?25h\x1b[?1049l"
#define HOME "\x1b[H"
#define REST_OF_LINE "\x1b[K"
#define REST_OF_SCREEN "\x1b[J"
#define COLUMNS_DEFAULT 80
#define LINES_DEFAULT 24
#define CELLS_MAX 4096

static struct termios before, while_open;
static volatile sig_atomic_t is_open, changed;

static void say(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return;         /* nobody sees it any more */
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void put_back(void)
{
	int saved_errno = errno;

	if (is_open) {
		is_open = 0;
		say(LEAVE, sizeof(LEAVE) - 1);
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
	}
	errno = saved_errno;
}

static void take(void)
{
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &while_open);
	say(ENTER, sizeof(ENTER) - 1);
	is_open = 1;
	changed = 1;
}

static void on_end(int signo)
{
	put_back();
	(void)signal(signo, SIG_DFL);
	(void)raise(signo);             /* it comes when this returns */
}

static void handle(int signo, void (*fn)(int))
{
	const struct sigaction act = { .sa_handler = fn };

	(void)sigaction(signo, &act, NULL);
}

static void on_stop(int signo)
{
	sigset_t set;
	int saved_errno = errno;

	put_back();
	handle(signo, SIG_DFL);
	(void)raise(signo);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, signo);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);     /* here it stops, and goes on */
	handle(signo, on_stop);
	take();
	errno = saved_errno;
}

static void on_size(int signo)
{
	changed = 1;
}

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

int top_screen_open(struct err *err)
{
	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
		return err_set(err, ERR_IO, "", "standard input and output are no terminal");
	while_open = before;
	while_open.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	while_open.c_cc[VMIN] = 0;
	while_open.c_cc[VTIME] = 0;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		handle(ends[i], on_end);
	handle(SIGTSTP, on_stop);
	handle(SIGWINCH, on_size);
	take();
	return 0;
}

void top_screen_close(void)
{
	put_back();
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		handle(ends[i], SIG_DFL);
	handle(SIGTSTP, SIG_DFL);
	handle(SIGWINCH, SIG_DFL);
}

struct top_size top_screen_size(void)
{
	struct winsize w = { 0 };

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
	return (struct top_size){ w.ws_col > 0 && w.ws_col <= CELLS_MAX ? w.ws_col : COLUMNS_DEFAULT,
				  w.ws_row > 0 && w.ws_row <= CELLS_MAX ? w.ws_row : LINES_DEFAULT };
}

bool top_screen_key(char *ret)
{
	return read(STDIN_FILENO, ret, 1) == 1;
}

bool top_screen_changed(void)
{
	bool was = changed;

	changed = 0;
	return was;
}

void top_screen_show(const struct str *lines)
{
	struct str out = STR_INIT;
	const char *p = str_text(lines), *nl;

	str_puts(&out, HOME);
	for (; (nl = strchr(p, '\n')); p = nl + 1) {
		str_put(&out, p, (size_t)(nl - p));
		str_puts(&out, REST_OF_LINE "\n");
	}
	str_puts(&out, p);
	str_puts(&out, REST_OF_LINE REST_OF_SCREEN);
	say(out.p, out.len);
	str_fini(&out);
}
