#ifndef HOSTILE_REACH_H
#define HOSTILE_REACH_H

/* Ways to reach a file that is not for a tool; the last has no name.  path: of a file that exists. */
struct reach { const char *name; long (*attempt)(const char *path); };
extern const struct reach reaches[];

#endif
