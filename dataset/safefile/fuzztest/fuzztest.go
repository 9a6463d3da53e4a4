// Package fuzztest limits the memory and time that a reader of bytes may use on one
// input. Fuzz targets call [Read] around the reader under test, so that an input of a
// few bytes that makes it allocate gigabytes or loop for ever is found as a failure.
// The package does not know what is read.
package fuzztest

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// Limits for an input of n bytes: perByte*n + fixed bytes allocated in total,
// including memory that was freed again, and a time of patience.
const (
	perByte  = 512
	fixed    = 8 << 20
	patience = 2 * time.Minute
)

// Read calls read, which reads an input of size bytes, and fails the test if that
// allocates more than the limit. If read does not return in time, the process panics
// with the stacks of all goroutines, which is what go test reports for a hanging fuzz
// input.
func Read(t *testing.T, size int, read func()) {
	t.Helper()
	hung := time.AfterFunc(patience, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("an input of %d bytes is still being read after %v", size, patience))
	})
	before := allocated()
	read()
	hung.Stop()
	if n, limit := allocated()-before, uint64(perByte*size+fixed); n > limit {
		t.Errorf("reading %d bytes allocated %d, more than %d", size, n, limit)
	}
}

// allocated returns the number of heap bytes that the process has allocated since it
// started. It counts allocations of other goroutines too.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
