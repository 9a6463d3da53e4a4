// Names, types, offsets and lengths of all arrays in mjModel and mjData. They come from
// MuJoCo's X macros (mjxmacro.h), so they follow the headers without a list to maintain.
#include "api.h"

#ifdef MJC_BUILT

static const mjc_field sizes[] = {
#define X(name) {#name, "mjtSize", offsetof(mjModel, name)},
    MJMODEL_SIZES
#undef X
};

// The macros mark vectors (XVEC) and fields that no mjvScene needs (XNV). Here they are
// fields like any other.
#undef XNV
#define XNV X
#define XVEC X

// Structs inside mjModel: opt, stat and vis.
static const mjc_field inlined[] = {
#define X(type, name, n) {"opt." #name, #type, offsetof(mjModel, opt.name)},
    MJOPTION_FIELDS
#undef X
#define X(name, n) {"stat." #name, "mjtNum", offsetof(mjModel, stat.name)},
    MJSTATISTIC_FIELDS
#undef X
#define X(type, name, n) {"vis.global." #name, #type, offsetof(mjModel, vis.global.name)},
    MJVISUAL_GLOBAL_FIELDS
#undef X
#define X(type, name, n) {"vis.quality." #name, #type, offsetof(mjModel, vis.quality.name)},
    MJVISUAL_QUALITY_FIELDS
#undef X
#define X(type, name, n) {"vis.headlight." #name, #type, offsetof(mjModel, vis.headlight.name)},
    MJVISUAL_HEADLIGHT_FIELDS
#undef X
#define X(type, name, n) {"vis.map." #name, #type, offsetof(mjModel, vis.map.name)},
    MJVISUAL_MAP_FIELDS
#undef X
};

static const mjc_field model[] = {
#define X(type, name, nr, nc) {#name, #type, offsetof(mjModel, name)},
    MJMODEL_POINTERS
#undef X
};

static const mjc_field data[] = {
#define X(type, name, nr, nc) {#name, #type, offsetof(mjData, name)},
    MJDATA_POINTERS
#undef X
};

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

const mjc_field* mjc_fields(int table, int* n) {
  switch (table) {
    case MJC_SIZES: *n = COUNT(sizes); return sizes;
    case MJC_INLINE: *n = COUNT(inlined); return inlined;
    case MJC_MODEL: *n = COUNT(model); return model;
    default: *n = COUNT(data); return data;
  }
}

// mjc_lengths writes one number per field, in the order of mjc_fields: the values of the
// sizes, or the element counts of another table. The preamble defines the locals that
// the macros use as column counts; the casts to void silence warnings about the others.
void mjc_lengths(const mjModel* m, int table, int64_t* out) {
  MJMODEL_POINTERS_PREAMBLE(m)
  (void)nuser_body, (void)nuser_jnt, (void)nuser_geom, (void)nuser_site, (void)nuser_cam, (void)nuser_tendon,
      (void)nuser_actuator, (void)nuser_sensor, (void)nq, (void)nv, (void)na, (void)nu, (void)nmocap;
  switch (table) {
    case MJC_SIZES:
#define X(name) *out++ = m->name;
      MJMODEL_SIZES
#undef X
      break;
    case MJC_INLINE:
#define X(type, name, n) *out++ = n;
      MJOPTION_FIELDS
#undef X
#define X(name, n) *out++ = n;
      MJSTATISTIC_FIELDS
#undef X
#define X(type, name, n) *out++ = n;
      MJVISUAL_GLOBAL_FIELDS
      MJVISUAL_QUALITY_FIELDS
      MJVISUAL_HEADLIGHT_FIELDS
      MJVISUAL_MAP_FIELDS
#undef X
      break;
    case MJC_MODEL:
#define X(type, name, nr, nc) *out++ = (int64_t)m->nr * (nc);
      MJMODEL_POINTERS
      break;
    case MJC_DATA:
      MJDATA_POINTERS
#undef X
      break;
  }
}

#endif
