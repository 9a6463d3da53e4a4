// What the C files of this package share, compiled against the pinned headers.
#ifndef MJC_API_H_
#define MJC_API_H_

#include "mjc.h"

// By path, so that headers which a system may have for itself are never taken.
#if __has_include("../../../third_party/fetched/mujoco/include/mujoco/mujoco.h")
#undef __SANITIZE_ADDRESS__ // the library is not instrumented, whatever we are
#include <mujoco/mujoco.h>
#include <mujoco/mjxmacro.h>
#if mjVERSION_HEADER == MJC_VERSION
#define MJC_BUILT 1
#endif
#endif

#ifdef MJC_BUILT
#include <setjmp.h>

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

// The one function table; filled once by mjc_open.
typedef struct {
#define F(name) __typeof__(name)* name;
  MJC_FUNCTIONS(F)
#undef F
} mjc_api;
extern mjc_api mjc;

// MJC_TRY(text) { calls } MJC_CAUGHT { ... }
// runs calls; when MuJoCo raises an error in one of them, text says which and
// the second block is entered. The jump lands in the frame of the C function that
// stands here, so it never crosses a Go frame. A block must not return; locals that
// it changes and that are read afterwards must be volatile.
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
