// The first draw of a picture, kept while nothing of it changes: see first.c.
#ifndef MJC_FIRST_H_
#define MJC_FIRST_H_

#include "shadow.h"

mjc_procedure mjc_first_wrap(const char* name, mjc_procedure real);

typedef struct mjc_first mjc_first;

// mjc_first_new keeps what the first draw leaves in two renderbuffers of width x height points, in the context that is
// current. NULL where this OpenGL cannot.
mjc_first* mjc_first_new(mjc_procedure (*proc)(const char*), unsigned colour, unsigned depth, int width, int height);
void mjc_first_free(mjc_first* f);  // in the same context

// mjc_first_begin says whose frame this thread draws from now on; NULL for one of which nothing is kept. same says that
// the lists' places and the view apart, all that the first draw of this frame depends on is as in the frame before.
void mjc_first_begin(mjc_first* f, int same);

#endif
