// Package fuzztest holds readers of bytes to what an input may cost. It is for
// fuzz targets and knows nothing of what they read.
package fuzztest

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// What reading n bytes may cost, unless a target says otherwise: perByte*n + fixed
// bytes of memory in all, freed ones included, and so much time.
const (
	perByte  = 512
	fixed    = 8 << 20
	patience = 2 * time.Minute
)

// Read runs read on an input of size bytes, and fails where it allocates more
// than a reader may. One that does not return in time ends the process with the
// stacks of all goroutines.
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

// allocated is the memory that the process has allocated since it began.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
