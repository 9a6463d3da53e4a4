// Internal declarations of the C files of this package that need MuJoCo's headers.
#ifndef MJC_API_H_
#define MJC_API_H_

#include "mjc.h"

// Included by relative path, so that headers installed on the system are never used.
#if __has_include("../../../third_party/fetched/mujoco/include/mujoco/mujoco.h")
#undef __SANITIZE_ADDRESS__  // the library is not instrumented, even if this code is
#include <mujoco/mujoco.h>
#include <mujoco/mjxmacro.h>
#if mjVERSION_HEADER == MJC_VERSION
#define MJC_BUILT 1
#endif
#endif

#ifdef MJC_BUILT
#include <setjmp.h>

// Every function of MuJoCo that this package calls.
#define MJC_FUNCTIONS(F)                                                          \
  F(mj_version) F(mju_setLogHandler) F(mju_warningText) F(mju_error)              \
  F(mj_defaultVFS) F(mj_deleteVFS) F(mj_addBufferVFS) F(mj_parseXMLString)        \
  F(mj_compile) F(mj_deleteSpec) F(mjs_getError) F(mj_deleteModel)                \
  F(mj_name2id) F(mj_stateSize) F(mj_getState) F(mj_setState) F(mj_makeData)      \
  F(mj_deleteData) F(mj_resetData) F(mj_step) F(mj_step1) F(mj_step2)             \
  F(mj_forward) F(mj_kinematics) F(mj_comPos) F(mj_rnePostConstraint)             \
  F(mj_fwdPosition) F(mj_jacSite) F(mjv_defaultScene) F(mjv_makeScene)            \
  F(mjv_freeScene) F(mjv_updateScene) F(mjv_defaultOption)                        \
  F(mjv_defaultCamera) F(mjr_defaultContext) F(mjr_makeContext)                   \
  F(mjr_freeContext) F(mjr_resizeOffscreen) F(mjr_setBuffer) F(mjr_render)        \
  F(mjr_readPixels)

// The function table, filled once by mjc_open.
typedef struct {
#define F(name) __typeof__(name)* name;
  MJC_FUNCTIONS(F)
#undef F
} mjc_api;
extern mjc_api mjc;

// MJC_TRY(text) { calls } MJC_CAUGHT { ... }
// runs the calls. If MuJoCo raises an error in one of them, its message is written to
// text, the rest of the block is skipped, and the MJC_CAUGHT block runs.
//
// MuJoCo's error handler must not return, so it leaves MuJoCo with longjmp. The jump
// target is the C function that contains MJC_TRY, so it never unwinds a Go frame, which
// the Go runtime would not survive. Rules for the block: do not return from it, because
// the guard would stay set; and declare locals volatile if the block changes them and
// code after it reads them, since setjmp does not preserve registers.
void mjc_guard_enter(jmp_buf* here, char* text);
void mjc_guard_leave(void);
#define MJC_TRY(text)                           \
  jmp_buf mjc_here;                             \
  mjc_guard_enter(&mjc_here, (text));           \
  for (int mjc_raised = setjmp(mjc_here), mjc_once = 1; mjc_once; mjc_once = 0, mjc_guard_leave()) \
    if (!mjc_raised)
#define MJC_CAUGHT else

#endif
#endif
