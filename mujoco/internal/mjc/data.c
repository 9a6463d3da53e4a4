// Simulation data: each call is guarded against errors, and warnings become results.
#include "api.h"

#ifdef MJC_BUILT

#include <stdio.h>
#include <stdlib.h>

// mj_makeData can raise an error (out of memory), so d is volatile: see MJC_TRY.
mjc_data* mjc_data_new(mjModel* m, char* text) {
  mjData* volatile d = NULL;
  text[0] = 0;
  MJC_TRY(text) { d = mjc.mj_makeData(m); }
  mjc_data* c = d ? calloc(1, sizeof *c) : NULL;
  if (!c) return NULL;
  c->m = m;
  c->d = d;
  c->time = &c->d->time;
  return c;
}

void mjc_data_free(mjc_data* c) {
  mjc.mj_deleteData(c->d);
  free(c);
}

// begin resets the code of the last outcome and returns whether the data may be used.
static int begin(mjc_data* c) {
  c->code = c->fatal ? MJC_UNUSABLE : MJC_OK;
  return c->code == MJC_OK;
}

// give_up marks data as unusable after MuJoCo aborted a call. Its stack pointers may be
// anywhere, so only a reset can follow.
static void give_up(mjc_data* c) {
  c->fatal = 1;
  c->code = MJC_FATAL;
}

// collect reads the engine's warning counters. It zeroes them after every sub-step, so that
// each outcome reports its own warnings only. The first warning is reported, except that
// divergence replaces an earlier harmless one.
static inline void collect(mjc_data* c, int step, double when) {
  for (int i = 0; i < mjNWARNING; i++) {
    if (!c->d->warning[i].number) continue;
    c->d->warning[i].number = 0;
    int bad = i == mjWARN_BADQPOS || i == mjWARN_BADQVEL || i == mjWARN_BADQACC;
    if (c->code == MJC_OK || (bad && c->code == MJC_WARNED)) {
      c->warning = i;
      c->info = c->d->warning[i].lastinfo;
      c->step = step;
      c->when = when;
      c->code = bad ? MJC_DIVERGED : MJC_WARNED;
    }
  }
}

static void once(mjc_data* c, int op) {
  switch (op) {
    case MJC_STEP: mjc.mj_step(c->m, c->d); break;
    case MJC_STEP1: mjc.mj_step1(c->m, c->d); break;
    case MJC_STEP2: mjc.mj_step2(c->m, c->d); break;
    case MJC_FORWARD: mjc.mj_forward(c->m, c->d); break;
    case MJC_KINEMATICS: mjc.mj_kinematics(c->m, c->d); break;
    case MJC_COMPOS: mjc.mj_comPos(c->m, c->d); break;
    case MJC_RNEPOST: mjc.mj_rnePostConstraint(c->m, c->d); break;
    case MJC_FWDPOSITION: mjc.mj_fwdPosition(c->m, c->d); break;
    case MJC_RESET: mjc.mj_resetData(c->m, c->d); break;
  }
}

// A reset clears fatal, because mj_resetData restores everything, the stack included. The
// loop stops at divergence: the engine has put the data into its initial state, and
// stepping on from there would hide that.
int mjc_run(mjc_data* c, int op, int n) {
  if (op == MJC_RESET) c->fatal = 0;
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) {
    for (int i = 0; i < n && c->code != MJC_DIVERGED; i++) {
      double when = *c->time;
      once(c, op);
      collect(c, i, when);
    }
  }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

// The remaining calls have the same form: refuse unusable data, call under the guard, and
// mark the data if the call was aborted.
int mjc_get_state(mjc_data* c, double* out, int spec) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) { mjc.mj_getState(c->m, c->d, out, spec); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

int mjc_set_state(mjc_data* c, const double* in, int spec) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) { mjc.mj_setState(c->m, c->d, in, spec); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

int mjc_jac_site(mjc_data* c, int site, double* jacp, double* jacr) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) { mjc.mj_jacSite(c->m, c->d, jacp, jacr, site); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

void mjc_warning_text(int warning, int info, char* text) {
  snprintf(text, MJC_TEXT, "%s", mjc.mju_warningText(warning, info));
}

// The message is passed through "%s": it may contain conversion specifiers.
int mjc_raise(mjc_data* c, const char* text) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) { mjc.mju_error("%s", text); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

#endif
