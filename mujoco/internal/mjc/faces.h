// Display lists of which only the faces that can be seen are drawn: see faces.c.
#ifndef MJC_FACES_H_
#define MJC_FACES_H_

#include "shadow.h"

// mjc_faces_wrap gives what is to be called for a function of OpenGL: real, or ours, which calls real.
mjc_procedure mjc_faces_wrap(const char* name, mjc_procedure real);

typedef struct mjc_faces mjc_faces;

// mjc_faces_new is empty: it learns the display lists that are made between mjc_faces_begin and its end. NULL
// where this OpenGL cannot; then all is drawn plainly.
mjc_faces* mjc_faces_new(mjc_procedure (*proc)(const char*));
void mjc_faces_free(mjc_faces* f);  // in the same context

// mjc_faces_begin says whose lists this thread makes and draws from now on, a new frame; NULL for nobody's.
void mjc_faces_begin(mjc_faces* f);

// mjc_faces_touched gives left, bottom, right and top of a rectangle, in a square of size points, outside of which
// the lists drawn since the last call have written nothing.
void mjc_faces_touched(int size, int* out);

#endif
