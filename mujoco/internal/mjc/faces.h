// Display lists of which only the visible faces are drawn. See faces.c.
#ifndef MJC_FACES_H_
#define MJC_FACES_H_

#include "shadow.h"

// mjc_faces_wrap returns the function that MuJoCo should call for an OpenGL function:
// ours, which calls real, or real itself.
mjc_procedure mjc_faces_wrap(const char* name, mjc_procedure real);

typedef struct mjc_faces mjc_faces;

// mjc_faces_new returns an empty set. It records the display lists that are compiled
// between mjc_faces_begin(f) and mjc_faces_begin(NULL). Returns NULL if this OpenGL lacks
// a function; all faces are then drawn.
mjc_faces* mjc_faces_new(mjc_procedure (*proc)(const char*));
void mjc_faces_free(mjc_faces* f);  // with the same context current

// mjc_faces_begin starts a frame: from here on, this thread records and draws lists of f.
// NULL ends it.
void mjc_faces_begin(mjc_faces* f);

// mjc_faces_touched writes left, bottom, right and top of a rectangle to out, clipped to a
// square of size pixels. The lists drawn since the last call have written nothing outside
// of it.
void mjc_faces_touched(int size, int* out);

#endif
