/* Thin layer over libhdf5. It opens and lists files, writes ours and, if our
   own parser cannot find a chunk, reads one in its stored form.

   The caller holds one lock during every call, because the library is not
   thread-safe as packaged. Functions return a negative number on failure;
   sw_error then returns the reason. */
#ifndef SCALEWM_HDF5_LIB_H
#define SCALEWM_HDF5_LIB_H

#define H5_USE_110_API
#include <hdf5.h>

#define SW_MAX_DIMS 8
#define SW_MAX_FILTERS 8
#define SW_MAX_PARAMS 16

/* sw_dataset describes a data set. Arrays have ndims, nfilters and nparams[i] valid
   elements. */
typedef struct {
  int kind;         /* H5T_class_t of the element, or of the base of an enum */
  int is_bytes;     /* sequence of variable length of unsigned bytes */
  int is_bool;      /* enum with the members FALSE and TRUE */
  int is_signed, big_endian;
  unsigned long long elem; /* bytes of an element */
  int ndims;
  unsigned long long dims[SW_MAX_DIMS], maxdims[SW_MAX_DIMS], chunk[SW_MAX_DIMS];
  int layout;       /* H5D_layout_t */
  int external;     /* number of external files */
  unsigned long long offset;  /* position of contiguous data in the file; all
                                 ones for other layouts and unwritten data */
  unsigned long long header;  /* address of the object header */
  int nfilters;
  int filter[SW_MAX_FILTERS];
  int nparams[SW_MAX_FILTERS];
  unsigned params[SW_MAX_FILTERS][SW_MAX_PARAMS];
  unsigned char fill[64]; /* fill value, zeros if none is defined */
  hid_t id;         /* the open data set, or -1 */
  int group;        /* the entry is a group */
  const char *other; /* what the entry is if it is not a data set */
} sw_dataset;

/* sw_init initialises the library. It must be called once, before all others. */
void sw_init(void);
/* sw_quiet stops the library from printing the errors of the calling thread.
   Builds with thread support have this setting per thread. */
void sw_quiet(void);
/* sw_note saves the reason of the current error for sw_error. Any further call
   of the library clears it, those that clean up after the error included. */
void sw_note(void);
/* sw_error copies the saved or current reason to dst of n bytes, and clears it. */
void sw_error(char *dst, int n);

/* sw_no_locks disables the library's file locks, which fail on read-only and on
   some network file systems. The Go side locks the files that it writes. */
void sw_no_locks(hid_t fapl);

/* sw_open opens a file for reading. */
hid_t sw_open(const char *path);
/* sw_group opens the group whose object header is at an address of the file. */
hid_t sw_group(hid_t file, unsigned long long header);
int sw_close_group(hid_t group);
/* sw_names lists the entries of a group; a file counts as its root group. It
   returns their number and, in *names, their names, each with its NUL, which the
   caller frees. More than most entries, or 64 MB of names, are an error. */
long long sw_names(hid_t group, long long most, char **names);
/* sw_describe describes an entry of a group. It returns 1 for a data set, which
   stays open, and 0 for anything else, with what it is in other. On failure,
   header is set if it is known, and 0 otherwise. Soft links are followed within
   the file. */
int sw_describe(hid_t group, const char *name, sw_dataset *d);
/* sw_attrs returns the number of attributes of a group. */
int sw_attrs(hid_t group);
/* sw_attr copies attribute i of a group. It returns 1 if that is a single string
   and 2 if it is a single number, with the text in *value, which the caller frees;
   0 if it is anything else; SW_UNREADABLE if its value cannot be read; and -1 if
   the library does not know its type. */
#define SW_UNREADABLE (-2)
int sw_attr(hid_t group, int i, char *name, int nname, char **value);

/* sw_chunk_size returns the stored size of the chunk that begins at element at,
   or 0 if it was never written. */
long long sw_chunk_size(hid_t dset, const unsigned long long *at, int ndims);
/* sw_read_chunk reads the stored bytes of a chunk; bit i of mask is set if filter
   i was not applied. */
int sw_read_chunk(hid_t dset, const unsigned long long *at, unsigned *mask, void *dst);
/* sw_read_all reads all elements, in the type of the file. */
int sw_read_all(hid_t dset, void *dst);

/* sw_create creates a file, or truncates an existing one. */
hid_t sw_create(const char *path);
/* sw_create_dataset creates a chunked data set with 0 rows and unlimited growth.
   row_and_chunk is the shape of a chunk, whose axes but the first are those of a
   row. Its filters are filter with parameter level (0: none) and fletcher32. */
hid_t sw_create_dataset(hid_t file, const char *name, hid_t type, int ndims, const unsigned long long *row_and_chunk, int filter, int level);
/* sw_extend changes the shape of a data set. */
int sw_extend(hid_t dset, int ndims, const unsigned long long *dims);
/* sw_write_chunk writes n bytes as the chunk that begins at element at. The bytes
   must have passed the filters already. */
int sw_write_chunk(hid_t dset, int ndims, const unsigned long long *at, const void *src, unsigned long long n);
int sw_write_attr(hid_t file, const char *name, const char *value);
int sw_close_dataset(hid_t dset);
int sw_close(hid_t file);
/* sw_type returns the little-endian file type of a name such as "float32". */
hid_t sw_type(const char *name);

#endif
