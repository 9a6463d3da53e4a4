//go:build imitated

// With the build tag imitated, the paths for AVX-512 run on any machine with AVX2
// (imitated.h), for tests.

package cpu

// #cgo CFLAGS: -DIMITATED=1 -Wno-psabi
import "C"
