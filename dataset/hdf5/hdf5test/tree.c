#include <stdlib.h>
#include <string.h>

#include "tree.h"

hid_t sw_tree_open(const char *path) {
  H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are not printed */
  return H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

/* names is a growing string. */
typedef struct { char *s; size_t n, cap; } names;

/* append adds a line, and doubles the space if it does not fit. */
static int append(names *o, const char *name) {
  size_t len = strlen(name);
  if (o->n + len + 2 > o->cap) {
    size_t cap = 2 * (o->cap + len + 64);
    char *s = realloc(o->s, cap);
    if (!s) return -1;
    o->s = s;
    o->cap = cap;
  }
  memcpy(o->s + o->n, name, len);
  o->n += len;
  o->s[o->n++] = '\n';
  o->s[o->n] = 0;
  return 0;
}

/* visit appends the path of a link if it leads to a data set. */
static herr_t visit(hid_t root, const char *name, const H5L_info_t *info, void *data) {
  (void)info;
  hid_t o = H5Oopen(root, name, H5P_DEFAULT);
  if (o < 0) return -1;
  int is_set = H5Iget_type(o) == H5I_DATASET;
  H5Oclose(o);
  return is_set ? append(data, name) : 0;
}

char *sw_tree_names(hid_t file) {
  names o = {0};
  if (append(&o, "") < 0 || H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, &o) < 0) {
    free(o.s);
    return NULL;
  }
  return o.s;
}

int sw_tree_shape(hid_t file, const char *name, unsigned long long *dims) {
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  if (d < 0) return -1;
  hid_t space = H5Dget_space(d);
  int n = H5Sget_simple_extent_ndims(space);
  hsize_t h[SW_MAX_DIMS];
  if (n > SW_MAX_DIMS || H5Sget_simple_extent_dims(space, h, NULL) < 0) n = -1;
  for (int i = 0; i < n; i++) dims[i] = h[i];
  H5Sclose(space);
  H5Dclose(d);
  return n;
}

/* HDF5 cannot convert enums (booleans) to double. They are read in their own type,
   of one byte, into the front of the buffer, and widened in place. */
static hid_t memory_type(hid_t file_type, int *one_byte) {
  *one_byte = H5Tget_class(file_type) == H5T_ENUM && H5Tget_size(file_type) == 1;
  return *one_byte ? file_type : H5T_NATIVE_DOUBLE;
}

/* widen converts n bytes to doubles in place, from the last one on, since a double
   overwrites the bytes after its own. */
static void widen(double *dst, size_t n) {
  signed char *b = (signed char *)dst;
  for (size_t i = n; i-- > 0;) dst[i] = b[i];
}

int sw_tree_read(hid_t file, const char *name, double *dst, size_t n) {
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  if (d < 0) return -1;
  hid_t t = H5Dget_type(d);
  int one_byte;
  int r = H5Dread(d, memory_type(t, &one_byte), H5S_ALL, H5S_ALL, H5P_DEFAULT, dst);
  if (r >= 0 && one_byte) widen(dst, n);
  H5Tclose(t);
  H5Dclose(d);
  return r;
}

/* text_attr reads a string attribute of fixed or variable length. */
static int text_attr(hid_t a, hid_t t, char *text, size_t cap) {
  if (H5Tis_variable_str(t) > 0) {
    char *s = NULL;
    hid_t m = H5Tcopy(H5T_C_S1);
    H5Tset_size(m, H5T_VARIABLE);
    H5Tset_cset(m, H5Tget_cset(t));
    int r = H5Aread(a, m, &s);
    if (r >= 0 && s) {
      strncpy(text, s, cap - 1);
      H5free_memory(s);
    }
    H5Tclose(m);
    return r;
  }
  return H5Tget_size(t) < cap ? H5Aread(a, t, text) : -1;
}

int sw_tree_attr(hid_t file, const char *object, const char *name, double *number, char *text, size_t cap) {
  hid_t a = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
  if (a < 0) return -1;
  hid_t t = H5Aget_type(a), space = H5Aget_space(a);
  int one_byte, r = -1, is_text = H5Tget_class(t) == H5T_STRING;
  memset(text, 0, cap);
  if (H5Sget_simple_extent_npoints(space) == 1) {
    r = is_text ? text_attr(a, t, text, cap) : H5Aread(a, memory_type(t, &one_byte), number);
    if (r >= 0 && !is_text && one_byte) widen(number, 1);
  }
  H5Sclose(space);
  H5Tclose(t);
  H5Aclose(a);
  return r < 0 ? -1 : is_text;
}
