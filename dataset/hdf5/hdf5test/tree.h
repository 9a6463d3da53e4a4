/* Arrays and attributes of any HDF5 file by path. Functions return a negative number, or NULL, on failure. */
#ifndef SCALEWM_HDF5TEST_TREE_H
#define SCALEWM_HDF5TEST_TREE_H

#define H5_USE_110_API
#include <hdf5.h>

#define SW_MAX_DIMS 8

hid_t sw_tree_open(const char *path);
/* Paths of all data sets, each followed by a newline, after an empty line; to be freed. */
char *sw_tree_names(hid_t file);
/* Number of dimensions. */
int sw_tree_shape(hid_t file, const char *name, unsigned long long *dims);
/* All n numbers, as doubles. */
int sw_tree_read(hid_t file, const char *name, double *dst, size_t n);
/* A scalar attribute: 0 a number, 1 a text of less than cap bytes. */
int sw_tree_attr(hid_t file, const char *object, const char *name, double *number, char *text, size_t cap);

#endif
