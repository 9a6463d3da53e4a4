/* Thin layer over libhdf5: it opens and lists files, creates ours and, as a
   last resort, reads one raw chunk. The caller holds one lock around every
   call: the packaged library is not thread-safe. Functions return a negative
   number on failure; sw_error then says why. */
#ifndef SCALEWM_HDF5_LIB_H
#define SCALEWM_HDF5_LIB_H

#define H5_USE_110_API
#include <hdf5.h>

#define SW_MAX_DIMS 8
#define SW_MAX_FILTERS 8
#define SW_MAX_PARAMS 16
#define SW_MAX_NAME 256

typedef struct {
  char name[SW_MAX_NAME];
  int kind;         /* H5T_class_t of the element; of its base for an enum */
  int is_bool;      /* enum of FALSE and TRUE */
  int is_signed, big_endian;
  unsigned long long elem;
  int ndims;
  unsigned long long dims[SW_MAX_DIMS], maxdims[SW_MAX_DIMS], chunk[SW_MAX_DIMS];
  int layout;       /* H5D_layout_t */
  int external;     /* number of external files */
  unsigned long long offset;  /* contiguous data in the file, or all ones */
  unsigned long long header;  /* address of the object header */
  int nfilters;
  int filter[SW_MAX_FILTERS];
  int nparams[SW_MAX_FILTERS];
  unsigned params[SW_MAX_FILTERS][SW_MAX_PARAMS];
  unsigned char fill[64];
  hid_t id;         /* open dataset */
  const char *other; /* what an entry is that is no data set */
} sw_dataset;

void sw_init(void);
/* sw_quiet keeps the calling thread from printing errors; builds of the library
   with thread support keep errors by thread. */
void sw_quiet(void);
/* sw_note keeps the present error for sw_error, before tidying up forgets it. */
void sw_note(void);
void sw_error(char *dst, int n);

/* sw_no_locks leaves locking to the Go side; the library's own locks fail on
   read-only and some network file systems. */
void sw_no_locks(hid_t fapl);

hid_t sw_open(const char *path);
long long sw_links(hid_t file);
/* sw_describe returns 1 for a data set, 0 for anything else, which other names;
   when it fails, name and header are set as far as it came. Soft links are followed
   within the file. */
int sw_describe(hid_t file, long long i, sw_dataset *d);
int sw_attrs(hid_t file);
/* sw_attr copies attribute i of the root group; 1 if it is one string, 0 if not,
   SW_UNREADABLE where its value cannot be read, -1 where the library does not
   know its type. */
#define SW_UNREADABLE (-2)
int sw_attr(hid_t file, int i, char *name, int nname, char **value);

/* sw_chunk_size is the stored size of a chunk, 0 where it was never written. */
long long sw_chunk_size(hid_t dset, const unsigned long long *at, int ndims);
int sw_read_chunk(hid_t dset, const unsigned long long *at, unsigned *mask, void *dst);
int sw_read_all(hid_t dset, void *dst);

hid_t sw_create(const char *path);
/* sw_create_dataset makes a chunked data set with unlimited rows, whose chunks
   end with a fletcher32 checksum; filter 0 for none before it. */
hid_t sw_create_dataset(hid_t file, const char *name, hid_t type, int ndims, const unsigned long long *row_and_chunk, int filter, int level);
int sw_extend(hid_t dset, int ndims, const unsigned long long *dims);
int sw_write_chunk(hid_t dset, int ndims, const unsigned long long *at, const void *src, unsigned long long n);
int sw_write_attr(hid_t file, const char *name, const char *value);
int sw_close_dataset(hid_t dset);
int sw_close(hid_t file);
hid_t sw_type(const char *name);

#endif
