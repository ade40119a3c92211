#ifndef BASE_CRASH_H
#define BASE_CRASH_H

/* Crash points: places at which a test lets the process die as kill -9 would, to prove that the next start finds all that it
 * must (FAULT F2).  They are in builds made with --enable-crash-points only, which are not for use; elsewhere CRASH_AT() is
 * nothing.  The names are those of tests/faults/crash_points, and a check compares the two. */
#ifdef CRASH_POINTS
/* Ends the process at once, status 137, at the n-th passage of the point that TOOLCRIB_CRASH_AT=name[:n] names.  Any thread. */
void crash_at(const char *name);
#define CRASH_AT(name) crash_at(name)
#else
#define CRASH_AT(name) ((void)0)
#endif

#endif
