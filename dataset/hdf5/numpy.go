package hdf5

/*
#include <stdlib.h>
#include "lib.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// Schema returns the type of a data set's elements in the words of NumPy, str(dtype)
// as h5py reports it, and the data set's shape. Examples are "float32", ">f4", "bool"
// (an enum of FALSE and TRUE), "|S12" (text of fixed length) and "object" (of variable
// length). Records and arrays in an element are not supported and an error.
func (s *Set) Schema() (dtype string, shape []uint64, err error) {
	if s.id >= 0 {
		err = withLib(func() error { dtype, err = numpyType(s.id); return err })
	} else {
		dtype, err = s.numpyName()
	}
	return dtype, slices.Clone(s.dims), err
}

var errNumpyType = errors.New("its type has no name here (hint: numbers, booleans and text have one)")

// Classes of elements beyond numbers, as in a header.
const (
	classText     = int(C.H5T_STRING)
	classSequence = int(C.H5T_VLEN)
)

// numpyName is numpyType for a data set that libhdf5 cannot open.
func (d *description) numpyName() (string, error) {
	switch {
	case d.isBool:
		return "bool", nil
	case d.class == classText:
		return fmt.Sprintf("|S%d", d.elem), nil
	case d.class == classSequence:
		return "object", nil
	case d.dtype() == "":
		return "", errNumpyType
	}
	return numberName(d.class == classFloat, d.signed, d.bigEndian, d.elem), nil
}

// numberName returns the name of a number of size bytes. NumPy writes the byte order,
// in a shorter form, only if it is not the machine's.
func numberName(float, signed, bigEndian bool, size int) string {
	kind := "uint"
	switch {
	case float:
		kind = "float"
	case signed:
		kind = "int"
	}
	if bigEndian && size > 1 {
		return fmt.Sprintf(">%c%d", kind[0], size)
	}
	return fmt.Sprintf("%s%d", kind, 8*size)
}

// numpyType returns the type of an open data set. The caller holds the lock.
func numpyType(id C.hid_t) (string, error) {
	space := C.H5Dget_space(id)
	if space < 0 {
		return "", libError()
	}
	empty := C.H5Sget_simple_extent_type(space) == C.H5S_NULL
	C.H5Sclose(space)
	if empty {
		return "", errors.New("it has no shape (hint: it was written without a value)")
	}
	t := C.H5Dget_type(id)
	if t < 0 {
		return "", libError()
	}
	defer C.H5Tclose(t)
	size, bigEndian := int(C.H5Tget_size(t)), C.H5Tget_order(t) == C.H5T_ORDER_BE
	switch C.H5Tget_class(t) {
	case C.H5T_INTEGER, C.H5T_BITFIELD:
		return numberName(false, C.H5Tget_sign(t) == C.H5T_SGN_2, bigEndian, size), nil
	case C.H5T_FLOAT:
		var spos, epos, esize, mpos, msize C.size_t
		exponent := map[int]C.size_t{2: 5, 4: 8, 8: 11}[size]
		if C.H5Tget_fields(t, &spos, &epos, &esize, &mpos, &msize) < 0 || exponent == 0 || esize != exponent || msize != C.size_t(8*size-1)-exponent {
			return "", errNumpyType
		}
		return numberName(true, true, bigEndian, size), nil
	case C.H5T_STRING:
		if C.H5Tis_variable_str(t) > 0 {
			return "object", nil
		}
		return fmt.Sprintf("|S%d", size), nil
	case C.H5T_VLEN, C.H5T_REFERENCE:
		return "object", nil
	case C.H5T_OPAQUE:
		return fmt.Sprintf("|V%d", size), nil
	case C.H5T_ENUM:
		return enumName(t, size, bigEndian)
	}
	return "", errNumpyType
}

// enumName returns "bool" for the enum that h5py writes for booleans, FALSE = 0 and
// TRUE = 1, and the name of its integers for any other.
func enumName(t C.hid_t, size int, bigEndian bool) (string, error) {
	base := C.H5Tget_super(t)
	if base < 0 {
		return "", libError()
	}
	defer C.H5Tclose(base)
	// is reports whether a member exists and has a value below 256.
	is := func(name string, value byte) bool {
		c := C.CString(name)
		defer C.free(unsafe.Pointer(c))
		raw, want := make([]byte, size), make([]byte, size)
		if C.H5Tenum_valueof(t, c, unsafe.Pointer(&raw[0])) < 0 {
			return false
		}
		if bigEndian {
			slices.Reverse(raw)
		}
		want[0] = value
		return bytes.Equal(raw, want)
	}
	if size > 0 && size <= 8 && C.H5Tget_nmembers(t) == 2 && is("FALSE", 0) && is("TRUE", 1) {
		return "bool", nil
	}
	return numberName(false, C.H5Tget_sign(base) == C.H5T_SGN_2, bigEndian, size), nil
}
