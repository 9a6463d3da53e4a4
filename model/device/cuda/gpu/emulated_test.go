//go:build gpu

package gpu

import (
	"math"
	"os"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	"scalewm/model/device/cuda/emu/driver"
)

// TestEmulatedDriver checks that the emulated driver, on which other tests rely, delays
// work and rejects mistakes as a real driver may.
func TestEmulatedDriver(t *testing.T) {
	if os.Getenv(driver.Variable) == "" {
		t.Skip("there is a real driver")
	}
	m := open(t).(*machine)
	defer m.Close()
	release, err := m.enter()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	const n = 512
	p, err := m.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free(p, n)
	host, err := m.AllocHost(8)
	if err != nil {
		t.Fatal(err)
	}
	defer m.FreeHost(host, 8)
	there := func() (v uint64) { // by a copy that does not wait for the stream
		if err := cu.MemcpyDtoH(unsafe.Pointer(&v), cu.DevicePtr(p), 8); err != nil {
			t.Fatal(err)
		}
		return v
	}
	*(*uint64)(host) = 1
	if err := cu.MemcpyHtoDAsync(cu.DevicePtr(p), host, 8, m.stream); err != nil {
		t.Fatal(err)
	}
	*(*uint64)(host) = 2
	if v := there(); v != math.MaxUint64 {
		t.Errorf("before any wait memory holds %d, not NaN", v)
	}
	if err := m.Sync(); err != nil || there() != 2 {
		t.Errorf("a source that changed too early arrived as %d (%v)", there(), err)
	}
	pageable := make([]byte, 2*n)
	at := unsafe.Pointer(&pageable[0])
	for what, err := range map[string]error{
		"an asynchronous copy from pageable memory": cu.MemcpyHtoDAsync(cu.DevicePtr(p), at, 8, m.stream),
		"a copy over the end":                       cu.MemcpyHtoD(cu.DevicePtr(p), at, 2*n),
		"memory freed that was not allocated":       cu.MemFree(cu.DevicePtr(p + 8)),
		"a function that is not emulated":           cu.MemsetD32(cu.DevicePtr(p), 0, 1),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}
