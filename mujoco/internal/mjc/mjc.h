// The C side of package mjc: MuJoCo behind one function table, its errors
// caught. Nothing here needs MuJoCo's headers, so that Go code is compiled
// without them; what is weak is absent from such a build, and mjc_open, which
// must succeed first, says so.
#ifndef MJC_H_
#define MJC_H_

#include <stddef.h>
#include <stdint.h>

#define MJC_VERSION 3011000  // of the headers and of the library, no other

typedef struct mjModel_ mjModel;
typedef struct mjData_ mjData;
typedef struct mjVFS_ mjVFS;

#define MJC_TEXT 1024

// What a call on data ended with.
enum {
  MJC_OK,
  MJC_WARNED,    // the engine raised a warning and went on
  MJC_DIVERGED,  // qpos, qvel or qacc went bad and the engine reset the state
  MJC_FATAL,     // the engine gave up half-way: only a reset makes the data usable
  MJC_UNUSABLE,  // nothing was done, because of an earlier MJC_FATAL
};

// Data of one simulation, with the outcome of the last call. One thread at a time.
typedef struct {
  mjModel* m;
  mjData* d;
  double* time;    // into d
  int code, fatal;
  int warning, info, step;  // the first warning of the last call, its sub-step
  double when;              // time before that sub-step
  char text[MJC_TEXT];
} mjc_data;

// One array or scalar inside mjModel or mjData.
typedef struct {
  const char *name, *type;
  size_t offset;
} mjc_field;

enum { MJC_SIZES, MJC_INLINE, MJC_MODEL, MJC_DATA, MJC_NTABLE };

// What mjc_run does.
enum {
  MJC_STEP, MJC_STEP1, MJC_STEP2, MJC_FORWARD, MJC_KINEMATICS, MJC_COMPOS, MJC_RNEPOST,
  MJC_FWDPOSITION, MJC_RESET,
};

int mjc_headers(void);  // version of the headers this was built with, 0: none
int mjc_open(const char* path, char* text);

#define MJC_WEAK __attribute__((weak))

MJC_WEAK const mjc_field* mjc_fields(int table, int* n);
MJC_WEAK void mjc_lengths(const mjModel* m, int table, int64_t* out);

// Each returns NULL, or not 0, with the reason in text.
MJC_WEAK mjVFS* mjc_vfs_new(void);
MJC_WEAK void mjc_vfs_free(mjVFS* v);
MJC_WEAK int mjc_vfs_add(mjVFS* v, const char* name, const void* bytes, int n);
MJC_WEAK mjModel* mjc_compile(const char* xml, mjVFS* v, char* text);
MJC_WEAK void mjc_model_free(mjModel* m);
MJC_WEAK int mjc_id(const mjModel* m, int type, const char* name);
MJC_WEAK int mjc_state_size(const mjModel* m, int spec);

MJC_WEAK mjc_data* mjc_data_new(mjModel* m, char* text);
MJC_WEAK void mjc_data_free(mjc_data* c);
// mjc_run does op n times, or until the data are not usable; returns c->code.
MJC_WEAK int mjc_run(mjc_data* c, int op, int n);
MJC_WEAK int mjc_get_state(mjc_data* c, double* out, int spec);
MJC_WEAK int mjc_set_state(mjc_data* c, const double* in, int spec);
MJC_WEAK int mjc_jac_site(mjc_data* c, int site, double* jacp, double* jacr);  // 3 x nv each
MJC_WEAK void mjc_warning_text(int warning, int info, char* text);
// mjc_raise raises an error of MuJoCo's own kind, for the tests.
MJC_WEAK int mjc_raise(mjc_data* c, const char* text);

#endif
