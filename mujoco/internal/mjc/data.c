// Data: the calls of a simulation, each guarded, its warnings counted.
#include "api.h"

#ifdef MJC_BUILT

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MJC_NWARNING == mjNWARNING, "warnings");

mjc_data* mjc_data_new(mjModel* m, char* text) {
  mjData* volatile d = NULL;
  text[0] = 0;
  MJC_TRY(text) { d = mjc.mj_makeData(m); }
  mjc_data* c = d ? calloc(1, sizeof *c) : NULL;
  if (!c) return NULL;
  c->m = m;
  c->d = d;
  c->time = &c->d->time;
  c->energy = c->d->energy;
  c->ncon = &c->d->ncon;
  return c;
}

void mjc_data_free(mjc_data* c) {
  mjc.mj_deleteData(c->d);
  free(c);
}

// begin says whether data may be used; the fields of the last outcome start anew.
static int begin(mjc_data* c) {
  c->code = c->fatal ? MJC_UNUSABLE : MJC_OK;
  return c->code == MJC_OK;
}

// give_up marks data whose call was left half-way.
static void give_up(mjc_data* c) {
  c->fatal = 1;
  c->code = MJC_FATAL;
}

// collect moves the engine's warning counters into ours. They are taken out
// after every sub-step because the engine zeroes them when it resets a diverged state,
// which would hide an increase.
static inline void collect(mjc_data* c, int step, double when) {
  for (int i = 0; i < mjNWARNING; i++) {
    int n = c->d->warning[i].number;
    if (!n) continue;
    c->count[i] += n;
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
    case MJC_INVERSE: mjc.mj_inverse(c->m, c->d); break;
    case MJC_KINEMATICS: mjc.mj_kinematics(c->m, c->d); break;
    case MJC_COMPOS: mjc.mj_comPos(c->m, c->d); break;
    case MJC_RNEPOST: mjc.mj_rnePostConstraint(c->m, c->d); break;
    case MJC_FWDPOSITION: mjc.mj_fwdPosition(c->m, c->d); break;
    case MJC_FWDVELOCITY: mjc.mj_fwdVelocity(c->m, c->d); break;
    case MJC_SETCONST: mjc.mj_setConst(c->m, c->d); break;
    case MJC_RESET: mjc.mj_resetData(c->m, c->d); break;
  }
}

int mjc_run(mjc_data* c, int op, int n) {
  if (op == MJC_RESET) {
    c->fatal = 0;
    memset(c->count, 0, sizeof c->count);
  }
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

int mjc_reset_key(mjc_data* c, int key) {
  c->fatal = 0;
  memset(c->count, 0, sizeof c->count);
  begin(c);
  MJC_TRY(c->text) { mjc.mj_resetDataKeyframe(c->m, c->d, key); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

int mjc_data_copy(mjc_data* to, const mjc_data* from) {
  to->fatal = from->fatal;
  memcpy(to->count, from->count, sizeof to->count);
  if (!begin(to)) return to->code;
  MJC_TRY(to->text) { mjc.mj_copyData(to->d, to->m, from->d); }
  MJC_CAUGHT { give_up(to); }
  return to->code;
}

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

int mjc_jac(mjc_data* c, int type, int id, const double* point, double* jacp, double* jacr) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) {
    if (point) {
      mjc.mj_jac(c->m, c->d, jacp, jacr, point, id);
    } else {
      switch (type) {
        case mjOBJ_BODY: mjc.mj_jacBodyCom(c->m, c->d, jacp, jacr, id); break;
        case mjOBJ_XBODY: mjc.mj_jacBody(c->m, c->d, jacp, jacr, id); break;
        case mjOBJ_GEOM: mjc.mj_jacGeom(c->m, c->d, jacp, jacr, id); break;
        case mjOBJ_SITE: mjc.mj_jacSite(c->m, c->d, jacp, jacr, id); break;
      }
    }
  }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

int mjc_contacts(mjc_data* c, mjc_contact* out, int n) {
  int have = c->d->ncon < n ? c->d->ncon : n;
  for (int i = 0; i < have; i++) {
    const mjContact* in = c->d->contact + i;
    out[i].dist = in->dist;
    memcpy(out[i].pos, in->pos, sizeof in->pos);
    memcpy(out[i].frame, in->frame, sizeof in->frame);
    memcpy(out[i].friction, in->friction, sizeof in->friction);
    memcpy(out[i].geom, in->geom, sizeof in->geom);
    out[i].dim = in->dim;
    out[i].exclude = in->exclude;
    out[i].efc_address = in->efc_address;
  }
  return have;
}

int mjc_contact_force(mjc_data* c, int i, double* out) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) { mjc.mj_contactForce(c->m, c->d, i, out); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

void mjc_warning_text(int warning, int info, char* text) {
  snprintf(text, MJC_TEXT, "%s", mjc.mju_warningText(warning, info));
}

int mjc_raise(mjc_data* c, const char* text) {
  if (!begin(c)) return c->code;
  MJC_TRY(c->text) { mjc.mju_error("%s", text); }
  MJC_CAUGHT { give_up(c); }
  return c->code;
}

#endif
