/* Arrays and attributes of any HDF5 file by path. Functions return a negative
   number, or NULL, on failure. */
#ifndef SCALEWM_HDF5TEST_TREE_H
#define SCALEWM_HDF5TEST_TREE_H

#define H5_USE_110_API
#include <hdf5.h>

#define SW_MAX_DIMS 8

hid_t sw_tree_open(const char *path);
/* sw_tree_names returns the paths of all data sets, each followed by a newline,
   after an empty line. The caller frees the result. */
char *sw_tree_names(hid_t file);
/* sw_tree_shape returns the number of dimensions and fills dims. */
int sw_tree_shape(hid_t file, const char *name, unsigned long long *dims);
/* sw_tree_read reads all n numbers as doubles. */
int sw_tree_read(hid_t file, const char *name, double *dst, size_t n);
/* sw_tree_attr reads a scalar attribute. It returns 0 for a number and 1 for a
   string of fewer than cap bytes. */
int sw_tree_attr(hid_t file, const char *object, const char *name, double *number, char *text, size_t cap);

#endif
