//go:build imitated

// With the build tag imitated, the paths for AVX-512 run on any machine with AVX2
// (imitated.h), for tests. They compile longer than they run, so little is optimised.

package cpu

// #cgo CFLAGS: -DIMITATED=1 -Wno-psabi -O1
import "C"
