#ifndef BASE_SERVED_H
#define BASE_SERVED_H

#include <stdbool.h>
#include <stdint.h>

/* What programs say of themselves, and those that the server starts: they speak to it over a socket, descriptor 0. */

struct str;
/* For --version (SEC S-931, S-346): "toolcribd 0.1.0", the build, a line for each library that is loaded.  The id of a
 * build is what the linker made of its bytes: debuggers and packages of symbols know it by that; "none" without one. */
void served_version(const char *name, struct str *ret);
void served_put_version(const char *name);      /* on standard output */

enum { SERVED_DONE = 0, SERVED_FAILED = 1, SERVED_USAGE = 2, SERVED_BY_HAND = 126 };      /* exit statuses */
struct served {
	const char *name;
	const char *does, *page;        /* for --help: a sentence, and where the manual has more */
	int (*serve)(void);             /* gives the exit status */
};
/* What words of the command line ask for, else serve(), where descriptor 0 is a socket.  The exit status. */
int served_main(const struct served *s, int argc, char **argv);

/* --- for serve(): what a program gives up that reads what others wrote; one thread so far */

/* First, before a byte is read: it ends with who started it, gets no new privileges, and has descriptor 0 and at most
 * nfiles others, of which none is inherited; standard error is the server's log and is closed.  False: errno. */
bool served_shut(unsigned nfiles);
/* Who has use for the disk or the processor is given way to, as far as the system lets it: by an idle one always, by a
 * batch with nice 15, by one that makes pages always with the processor and like a batch with the disk; whoever is
 * short of memory ends this process first. */
enum served_class { SERVED_IDLE, SERVED_BATCH, SERVED_NORMAL, SERVED_PAGE };
void served_step_back(enum served_class class);
/* Nobody of its user looks into it, its addresses take at most so many bytes, and so does a file that it writes.  A
 * build with a sanitizer bounds the file alone.  False: errno. */
bool served_bound(uint64_t memory, uint64_t file);

#endif
