#include "lib.h"

#include <string.h>

/* Version 1.10 of the format is the oldest with checksums in all metadata. Times
   are not recorded, so that equal data give equal bytes. */
hid_t sw_create(const char *path) {
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
  sw_no_locks(fapl);
  H5Pset_obj_track_times(fcpl, 0);
  hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
  if (f < 0) sw_note();
  H5Pclose(fapl);
  H5Pclose(fcpl);
  return f;
}

hid_t sw_type(const char *name) {
  static const struct { const char *name; hid_t *type; } types[] = {
      {"uint8", &H5T_STD_U8LE_g},    {"int8", &H5T_STD_I8LE_g},     {"uint16", &H5T_STD_U16LE_g},
      {"int16", &H5T_STD_I16LE_g},   {"uint32", &H5T_STD_U32LE_g},  {"int32", &H5T_STD_I32LE_g},
      {"uint64", &H5T_STD_U64LE_g},  {"int64", &H5T_STD_I64LE_g},   {"float32", &H5T_IEEE_F32LE_g},
      {"float64", &H5T_IEEE_F64LE_g},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(name, types[i].name) == 0) return *types[i].type;
  return -1;
}

/* H5D_FILL_TIME_NEVER: every chunk is written completely, so that writing fill
   values first would only double the work. Object times are not recorded. */
hid_t sw_create_dataset(hid_t file, const char *name, hid_t type, int ndims, const unsigned long long *row_and_chunk, int filter, int level) {
  hsize_t dims[SW_MAX_DIMS] = {0}, maxdims[SW_MAX_DIMS], chunk[SW_MAX_DIMS];
  unsigned param = (unsigned)level;
  maxdims[0] = H5S_UNLIMITED;
  for (int i = 0; i < ndims; i++) chunk[i] = row_and_chunk[i];
  for (int i = 1; i < ndims; i++) dims[i] = maxdims[i] = chunk[i];
  hid_t p = H5Pcreate(H5P_DATASET_CREATE), s = H5Screate_simple(ndims, dims, maxdims), d = -1;
  int ok = p >= 0 && s >= 0 && H5Pset_obj_track_times(p, 0) >= 0 && H5Pset_chunk(p, ndims, chunk) >= 0 &&
           H5Pset_fill_time(p, H5D_FILL_TIME_NEVER) >= 0;
  if (ok && filter == H5Z_FILTER_DEFLATE) ok = H5Pset_deflate(p, param) >= 0;
  else if (ok && filter) ok = H5Pset_filter(p, filter, H5Z_FLAG_OPTIONAL, 1, &param) >= 0;
  ok = ok && H5Pset_fletcher32(p) >= 0;
  if (ok) d = H5Dcreate2(file, name, type, s, H5P_DEFAULT, p, H5P_DEFAULT);
  if (d < 0) sw_note();
  if (p >= 0) H5Pclose(p);
  if (s >= 0) H5Sclose(s);
  return d;
}

int sw_extend(hid_t dset, int ndims, const unsigned long long *dims) {
  hsize_t d[SW_MAX_DIMS];
  for (int i = 0; i < ndims; i++) d[i] = dims[i];
  return H5Dset_extent(dset, d);
}

int sw_write_chunk(hid_t dset, int ndims, const unsigned long long *at, const void *src, unsigned long long n) {
  hsize_t o[SW_MAX_DIMS];
  for (int i = 0; i < ndims; i++) o[i] = at[i];
  return H5Dwrite_chunk(dset, H5P_DEFAULT, 0, o, n, src);
}

/* sw_write_attr writes a string of fixed length, which every reader understands
   and which is in the object header, under its checksum; strings of variable
   length would be in the global heap, which has none. */
int sw_write_attr(hid_t file, const char *name, const char *value) {
  int rc = -1;
  size_t n = strlen(value);
  hid_t type = H5Tcopy(H5T_C_S1), s = H5Screate(H5S_SCALAR);
  H5Tset_size(type, n ? n : 1);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  hid_t a = H5Acreate2(file, name, type, s, H5P_DEFAULT, H5P_DEFAULT);
  if (a >= 0) rc = H5Awrite(a, type, value);
  if (rc < 0) sw_note();
  if (a >= 0) H5Aclose(a);
  H5Tclose(type);
  H5Sclose(s);
  return rc;
}

int sw_close_dataset(hid_t dset) { return H5Dclose(dset); }

int sw_close(hid_t file) { return H5Fclose(file); }
