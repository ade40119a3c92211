#ifndef EV_AGAIN_H
#define EV_AGAIN_H

#include "ev/ev.h"

/* What is used again and again, so that each use need not ask the system for it.  Loop thread. */

/* Pieces of memory of EV_PIECE bytes, for what is needed for a moment: the last EV_PIECES that were given back stay
 * with the loop, which frees them at its end.  NULL: there is no memory.  What is given back may be read by who takes
 * it next. */
#define EV_PIECE 4096
#define EV_PIECES 64
void *ev_piece_take(struct ev_loop *loop);
void ev_piece_give(struct ev_loop *loop, void *p);
/* A descriptor is another's from now on, who wants what was wanted: as if it had been freed and made anew. */
void ev_io_hand(struct ev_io *io, ev_io_fn *fn, void *arg);

#endif
