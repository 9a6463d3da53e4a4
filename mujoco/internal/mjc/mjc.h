// The C interface of package mjc: MuJoCo behind one function table, with its errors
// caught. This header does not include MuJoCo's headers, so the Go code compiles without
// them. Functions marked MJC_WEAK are defined only in a build with the headers; otherwise
// they are NULL. Callers must therefore call mjc_open first, which fails in such a build.
#ifndef MJC_H_
#define MJC_H_

#include <stddef.h>
#include <stdint.h>

#define MJC_VERSION 3011000  // the only accepted version of headers and library

typedef struct mjModel_ mjModel;
typedef struct mjData_ mjData;
typedef struct mjVFS_ mjVFS;

#define MJC_TEXT 1024  // size of the buffers named text, in bytes

// The result of a call on data.
enum {
  MJC_OK,
  MJC_WARNED,    // the engine raised a warning and continued
  MJC_DIVERGED,  // qpos, qvel or qacc was NaN or huge, and the engine reset the state
  MJC_FATAL,     // the engine aborted the call: the data is unusable until a reset
  MJC_UNUSABLE,  // nothing was done, because of an earlier MJC_FATAL
};

// One simulation with the outcome of its last call. Used by one thread at a time. It is
// allocated in C, so that no Go pointer rules apply to it.
typedef struct {
  mjModel* m;
  mjData* d;
  double* time;             // &d->time, for Go code, which does not know the layout of mjData
  int code, fatal;          // code: result of the last call; fatal: unusable until a reset
  int warning, info, step;  // the first warning of the last call and its sub-step
  double when;              // simulated time before that sub-step, in seconds
  char text[MJC_TEXT];      // message of a fatal error
} mjc_data;

// One array or scalar in mjModel or mjData: name, C type, and offset in bytes.
typedef struct {
  const char *name, *type;
  size_t offset;
} mjc_field;

// Tables of fields: see Table in mjc.go.
enum { MJC_SIZES, MJC_INLINE, MJC_MODEL, MJC_DATA, MJC_NTABLE };

// The operations of mjc_run.
enum {
  MJC_STEP, MJC_STEP1, MJC_STEP2, MJC_FORWARD, MJC_KINEMATICS, MJC_COMPOS, MJC_RNEPOST,
  MJC_FWDPOSITION, MJC_RESET,
};

// mjc_headers returns the version of MuJoCo's headers in this build, 0 without headers.
int mjc_headers(void);
// mjc_open returns 0, or -1 with the reason in text.
int mjc_open(const char* path, char* text);

#define MJC_WEAK __attribute__((weak))

MJC_WEAK const mjc_field* mjc_fields(int table, int* n);
MJC_WEAK void mjc_lengths(const mjModel* m, int table, int64_t* out);

// On failure these return NULL or a value other than 0; those with a parameter text
// write the reason to it.
MJC_WEAK mjVFS* mjc_vfs_new(void);
MJC_WEAK void mjc_vfs_free(mjVFS* v);
MJC_WEAK int mjc_vfs_add(mjVFS* v, const char* name, const void* bytes, int n);
MJC_WEAK mjModel* mjc_compile(const char* xml, mjVFS* v, char* text);
MJC_WEAK void mjc_model_free(mjModel* m);
MJC_WEAK int mjc_id(const mjModel* m, int type, const char* name);
MJC_WEAK int mjc_state_size(const mjModel* m, int spec);

MJC_WEAK mjc_data* mjc_data_new(mjModel* m, char* text);
MJC_WEAK void mjc_data_free(mjc_data* c);
// mjc_run executes op n times, or until the data diverges or is unusable. It returns
// c->code.
MJC_WEAK int mjc_run(mjc_data* c, int op, int n);
MJC_WEAK int mjc_get_state(mjc_data* c, double* out, int spec);
MJC_WEAK int mjc_set_state(mjc_data* c, const double* in, int spec);
MJC_WEAK int mjc_jac_site(mjc_data* c, int site, double* jacp, double* jacr);  // 3 x nv each
MJC_WEAK void mjc_warning_text(int warning, int info, char* text);
// mjc_raise raises a MuJoCo error, for tests.
MJC_WEAK int mjc_raise(mjc_data* c, const char* text);

#endif
