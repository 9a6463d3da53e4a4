/* Whole arrays and attributes of any HDF5 file; rules as in lib.h. */
#ifndef SCALEWM_HDF5_LIBTREE_H
#define SCALEWM_HDF5_LIBTREE_H

#include "lib.h"

/* Paths of all data sets, each followed by a newline, after an empty line; to be freed. */
char *sw_tree_names(hid_t file);
/* Number of dimensions. */
int sw_tree_shape(hid_t file, const char *name, unsigned long long *dims);
/* All n numbers, as doubles. */
int sw_tree_read(hid_t file, const char *name, double *dst, size_t n);
/* A scalar attribute: 0 a number, 1 a text of less than cap bytes. */
int sw_tree_attr(hid_t file, const char *object, const char *name, double *number, char *text, size_t cap);

#endif
