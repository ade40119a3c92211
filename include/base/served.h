#ifndef BASE_SERVED_H
#define BASE_SERVED_H

/* Programs that the server starts, and that speak to it over a socket, their descriptor 0. */

enum { SERVED_DONE = 0, SERVED_FAILED = 1, SERVED_USAGE = 2, SERVED_BY_HAND = 126 };      /* exit statuses */
struct served {
	const char *name;
	const char *does, *page;        /* for --help: a sentence, and where the manual has more */
	int (*serve)(void);             /* gives the exit status */
};
/* What words of the command line ask for, else serve(), where descriptor 0 is a socket.  The exit status. */
int served_main(const struct served *s, int argc, char **argv);

#endif
