#include "lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Errors are collected by sw_error and never printed. The library must not run
   its exit handler: it would try to close a file again whose close has failed. */
void sw_init(void) {
  H5dont_atexit();
  H5open();
}

void sw_quiet(void) { H5Eset_auto2(H5E_DEFAULT, NULL, NULL); }

/* H5Pset_file_locking exists from 1.10.7 and 1.12.1 on. */
void sw_no_locks(hid_t fapl) {
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MINOR == 12 && H5_VERS_RELEASE == 0)
  H5Pset_file_locking(fapl, 0, 1);
#else
  (void)fapl;
#endif
}

typedef struct { char *dst; int n; } text;

/* The walk starts at the outermost function. Each entry with a description
   overwrites the one before, so the innermost remains, which is the cause. */
static herr_t keep_innermost(unsigned n, const H5E_error2_t *e, void *data) {
  text *t = data;
  (void)n;
  if (e->desc && e->desc[0]) {
    strncpy(t->dst, e->desc, t->n - 1);
    t->dst[t->n - 1] = 0;
  }
  return 0;
}

/* The saved reason. The library clears its own at the next call, even if that
   only closes something after the error. */
static char noted[512];

void sw_note(void) {
  text t = {noted, sizeof noted};
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &t);
}

void sw_error(char *dst, int n) {
  if (!noted[0]) sw_note();
  strncpy(dst, noted, n - 1);
  dst[n - 1] = 0;
  noted[0] = 0;
  H5Eclear2(H5E_DEFAULT);
}

/* H5F_CLOSE_STRONG closes the data sets that sw_describe left open with the file. */
hid_t sw_open(const char *path) {
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
  sw_no_locks(fapl);
  hid_t f = H5Fopen(path, H5F_ACC_RDONLY, fapl);
  if (f < 0) sw_note();
  H5Pclose(fapl);
  return f;
}

hid_t sw_group(hid_t file, unsigned long long header) { return H5Oopen_by_addr(file, header); }

int sw_close_group(hid_t group) { return H5Oclose(group); }

typedef struct { char *names; size_t n; long long count, most; } name_list;

/* add_name is called for each link of a group. */
static herr_t add_name(hid_t group, const char *name, const H5L_info_t *link, void *data) {
  name_list *l = data;
  size_t n = strlen(name) + 1;
  (void)group, (void)link;
  if (l->count == l->most || l->n + n > 64 << 20) return -1;
  char *grown = realloc(l->names, l->n + n);
  if (!grown) return -1;
  memcpy(grown + l->n, name, n);
  l->names = grown;
  l->n += n;
  l->count++;
  return 0;
}

long long sw_names(hid_t group, long long most, char **names) {
  name_list l = {NULL, 0, 0, most};
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, add_name, &l) < 0) {
    sw_note();
    free(l.names);
    return -1;
  }
  *names = l.names;
  return l.count;
}

/* describe_type sets class, size, sign and byte order of an element type. Types
   that are not supported get the class H5T_NO_CLASS, or one that is not numeric. */
static int describe_type(hid_t t, sw_dataset *d) {
  d->kind = H5Tget_class(t);
  d->elem = H5Tget_size(t);
  if (d->kind == H5T_ENUM) {
    int no = -1, yes = -1;
    if (H5Tget_nmembers(t) == 2) {
      no = H5Tget_member_index(t, "FALSE");
      yes = H5Tget_member_index(t, "TRUE");
      H5Eclear2(H5E_DEFAULT); /* other members are not an error */
    }
    d->is_bool = no >= 0 && yes >= 0;
    hid_t base = H5Tget_super(t);
    d->kind = base < 0 ? H5T_NO_CLASS : H5Tget_class(base);
    if (base >= 0) {
      d->is_signed = H5Tget_sign(base) == H5T_SGN_2;
      d->big_endian = H5Tget_order(base) == H5T_ORDER_BE;
      H5Tclose(base);
    }
    return 0;
  }
  if (d->kind == H5T_VLEN) {
    hid_t base = H5Tget_super(t);
    d->is_bytes = base >= 0 && H5Tget_class(base) == H5T_INTEGER && H5Tget_size(base) == 1 && H5Tget_sign(base) == H5T_SGN_NONE;
    if (base >= 0) H5Tclose(base);
  }
  if (d->kind == H5T_INTEGER) d->is_signed = H5Tget_sign(t) == H5T_SGN_2;
  if (d->kind == H5T_INTEGER || d->kind == H5T_FLOAT) d->big_endian = H5Tget_order(t) == H5T_ORDER_BE;
  if (d->kind == H5T_FLOAT) {
    /* Accept only IEEE formats: exponent and mantissa must have their widths. */
    size_t spos, epos, esize, mpos, msize;
    if (H5Tget_fields(t, &spos, &epos, &esize, &mpos, &msize) < 0) return -1;
    size_t want = d->elem == 2 ? 5 : d->elem == 4 ? 8 : 11;
    if (esize != want || msize != 8 * d->elem - 1 - want) d->kind = H5T_NO_CLASS;
  }
  return 0;
}

/* describe_filters copies the filter pipeline. */
static int describe_filters(hid_t p, sw_dataset *d) {
  d->nfilters = H5Pget_nfilters(p);
  if (d->nfilters < 0 || d->nfilters > SW_MAX_FILTERS) return -1;
  for (int i = 0; i < d->nfilters; i++) {
    size_t n = SW_MAX_PARAMS;
    unsigned flags;
    d->filter[i] = H5Pget_filter2(p, i, &flags, &n, d->params[i], 0, NULL, NULL);
    if (d->filter[i] < 0) return -1;
    d->nparams[i] = n > SW_MAX_PARAMS ? SW_MAX_PARAMS : (int)n;
  }
  return 0;
}

/* describe_storage sets layout, filters, chunk shape and fill value. */
static int describe_storage(hid_t id, hid_t type, sw_dataset *d) {
  hid_t p = H5Dget_create_plist(id);
  if (p < 0) return -1;
  hsize_t chunk[SW_MAX_DIMS] = {0};
  d->layout = H5Pget_layout(p);
  d->external = H5Pget_external_count(p);
  int rc = describe_filters(p, d);
  if (rc == 0 && d->layout == H5D_CHUNKED && H5Pget_chunk(p, SW_MAX_DIMS, chunk) != d->ndims) rc = -1;
  for (int i = 0; i < d->ndims; i++) d->chunk[i] = chunk[i];
  H5D_fill_value_t defined;
  /* The fill value of other types could have pointers in it. */
  int numeric = d->kind == H5T_INTEGER || d->kind == H5T_FLOAT;
  if (rc == 0 && numeric && d->elem <= sizeof d->fill && H5Pfill_value_defined(p, &defined) >= 0 && defined == H5D_FILL_VALUE_USER_DEFINED)
    rc = H5Pget_fill_value(p, type, d->fill) < 0 ? -1 : 0;
  H5Pclose(p);
  return rc;
}

/* describe_space sets the extents. */
static int describe_space(hid_t id, sw_dataset *d) {
  hsize_t dims[SW_MAX_DIMS], maxdims[SW_MAX_DIMS];
  hid_t s = H5Dget_space(id);
  if (s < 0) return -1;
  d->ndims = H5Sget_simple_extent_ndims(s);
  int ok = d->ndims >= 0 && d->ndims <= SW_MAX_DIMS && H5Sget_simple_extent_dims(s, dims, maxdims) >= 0;
  H5Sclose(s);
  if (!ok) return -1;
  for (int i = 0; i < d->ndims; i++) {
    d->dims[i] = dims[i];
    d->maxdims[i] = maxdims[i];
  }
  return 0;
}

/* refuse is called before an external link is followed. Opening a data set must
   never open another file, not even if a soft link goes through an external one. */
static herr_t refuse(const char *pf, const char *pg, const char *cf, const char *cg, unsigned *flags, hid_t fapl, void *data) {
  (void)pf, (void)pg, (void)cf, (void)cg, (void)flags, (void)fapl, (void)data;
  return -1;
}

/* follow sets the address of the target of a soft link. HDF5 fails on cycles. */
static int follow(hid_t group, const char *name, sw_dataset *d) {
  H5O_info_t info;
  hid_t p = H5Pcreate(H5P_LINK_ACCESS);
  int rc = p >= 0 && H5Pset_elink_cb(p, refuse, NULL) >= 0 ? H5Oget_info_by_name2(group, name, &info, H5O_INFO_BASIC, p) : -1;
  if (p >= 0) H5Pclose(p);
  H5Eclear2(H5E_DEFAULT);
  if (rc >= 0) d->header = info.addr;
  return rc;
}

/* other is set before each step to what the entry is if that step ends here. */
int sw_describe(hid_t group, const char *name, sw_dataset *d) {
  H5L_info_t link;
  H5O_info_t info;
  memset(d, 0, sizeof *d);
  d->id = -1;
  if (H5Lget_info(group, name, &link, H5P_DEFAULT) < 0) return -1;
  d->other = "a link to another file";
  if (link.type != H5L_TYPE_HARD && link.type != H5L_TYPE_SOFT) return 0;
  d->other = "a soft link to nothing in this file";
  if (link.type == H5L_TYPE_SOFT && follow(group, name, d) < 0) return 0;
  if (link.type == H5L_TYPE_HARD) d->header = link.u.address;
  /* Only basic facts: others would be read from structures that are not verified. */
  if (H5Oget_info_by_name2(group, name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return -1;
  d->group = info.type == H5O_TYPE_GROUP;
  d->other = d->group ? "a group" : "not a data set";
  if (info.type != H5O_TYPE_DATASET) return 0;
  d->id = H5Dopen2(group, name, H5P_DEFAULT);
  if (d->id < 0) return -1;
  hid_t type = H5Dget_type(d->id);
  if (type < 0) return -1;
  int rc = describe_type(type, d);
  if (rc == 0) rc = describe_space(d->id, d);
  if (rc == 0) rc = describe_storage(d->id, type, d);
  if (rc < 0) sw_note();
  H5Tclose(type);
  if (rc < 0) return -1;
  d->offset = d->layout == H5D_CONTIGUOUS && !d->external ? H5Dget_offset(d->id) : HADDR_UNDEF;
  H5Eclear2(H5E_DEFAULT);
  return 1;
}

int sw_attrs(hid_t group) {
  H5O_info_t info;
  return H5Oget_info2(group, &info, H5O_INFO_NUM_ATTRS) < 0 ? -1 : (int)info.num_attrs;
}

/* read_string returns a copy of a string attribute, of fixed or variable length,
   as sw_attr does. Strings beyond 1 MiB are not ours and count as another type. */
static int read_string(hid_t a, hid_t type, char **value) {
  if (H5Tis_variable_str(type) > 0) {
    char *s = NULL;
    hid_t mem = H5Tcopy(H5T_C_S1);
    H5Tset_size(mem, H5T_VARIABLE);
    H5Tset_cset(mem, H5Tget_cset(type));
    int rc = H5Aread(a, mem, &s);
    H5Tclose(mem);
    if (rc < 0) return SW_UNREADABLE;
    *value = strdup(s ? s : "");
    if (s) H5free_memory(s);
    return 1;
  }
  size_t n = H5Tget_size(type);
  if (n > 1 << 20) return 0;
  *value = calloc(n + 1, 1);
  if (H5Aread(a, type, *value) < 0) {
    free(*value);
    return SW_UNREADABLE;
  }
  return 1;
}

/* read_number writes a single number as text, as sw_attr does. */
static int read_number(hid_t a, int is_float, char **value) {
  long long whole = 0;
  double real = 0;
  if (H5Aread(a, is_float ? H5T_NATIVE_DOUBLE : H5T_NATIVE_LLONG, is_float ? (void *)&real : (void *)&whole) < 0) return SW_UNREADABLE;
  *value = malloc(32);
  if (is_float)
    snprintf(*value, 32, "%.17g", real);
  else
    snprintf(*value, 32, "%lld", whole);
  return 2;
}

int sw_attr(hid_t group, int i, char *name, int nname, char **value) {
  hid_t a = H5Aopen_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT);
  if (a < 0) {
    sw_note();
    return -1;
  }
  int rc = 0;
  hid_t type = H5Aget_type(a), space = H5Aget_space(a);
  if (H5Aget_name(a, nname, name) < 0 || type < 0 || space < 0)
    rc = -1;
  else if (H5Sget_simple_extent_npoints(space) == 1) {
    H5T_class_t kind = H5Tget_class(type);
    if (kind == H5T_STRING) rc = read_string(a, type, value);
    if (kind == H5T_INTEGER || kind == H5T_FLOAT) rc = read_number(a, kind == H5T_FLOAT, value);
  }
  if (rc < 0) sw_note();
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  H5Aclose(a);
  return rc;
}

static void to_hsize(hsize_t *dst, const unsigned long long *src, int n) {
  for (int i = 0; i < n; i++) dst[i] = src[i];
}

long long sw_chunk_size(hid_t dset, const unsigned long long *at, int ndims) {
  hsize_t o[SW_MAX_DIMS], n = 0;
  to_hsize(o, at, ndims);
  return H5Dget_chunk_storage_size(dset, o, &n) < 0 ? -1 : (long long)n;
}

int sw_read_chunk(hid_t dset, const unsigned long long *at, unsigned *mask, void *dst) {
  hsize_t o[SW_MAX_DIMS];
  hid_t s = H5Dget_space(dset);
  int n = H5Sget_simple_extent_ndims(s);
  H5Sclose(s);
  to_hsize(o, at, n);
  return H5Dread_chunk(dset, H5P_DEFAULT, o, mask, dst);
}

int sw_read_all(hid_t dset, void *dst) {
  hid_t type = H5Dget_type(dset);
  int rc = H5Dread(dset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dst);
  if (rc < 0) sw_note();
  H5Tclose(type);
  return rc;
}
