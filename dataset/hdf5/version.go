package hdf5

/*
#include <hdf5.h>
#include <libdeflate.h>
*/
import "C"

import "fmt"

// LibraryVersions names the versions of libhdf5, as loaded, and of libdeflate,
// as compiled against.
func LibraryVersions() (hdf5, deflate string, err error) {
	err = withLib(func() error {
		var major, minor, release C.uint
		if C.H5get_libversion(&major, &minor, &release) < 0 {
			return fmt.Errorf("asking libhdf5 for its version: %w", libError())
		}
		hdf5 = fmt.Sprintf("%d.%d.%d", major, minor, release)
		return nil
	})
	return hdf5, C.LIBDEFLATE_VERSION_STRING, err
}
