package cuda

import (
	"errors"
	"slices"
	"testing"
	"unsafe"

	"scalewm/model/device"
)

// recorder is a machine without kernels that records the calls.
type recorder struct {
	log   []string
	room  int // bytes that Alloc has left
	next  Pointer
	freed int
	fail  error // of Run
}

func (r *recorder) note(s string) { r.log = append(r.log, s) }
func (r *recorder) ISA() string   { return "none" }

func (r *recorder) Alloc(n int) (Pointer, error) {
	if n > r.room {
		return 0, errors.New("out of device memory")
	}
	r.room -= n
	r.next += 1 << 20
	return r.next, nil
}

func (r *recorder) Free(_ Pointer, n int) {
	r.room += n
	r.freed++
}

func (r *recorder) Write(Pointer, unsafe.Pointer, int) error { r.note("write"); return nil }
func (r *recorder) Read(unsafe.Pointer, Pointer, int) error  { r.note("read"); return nil }
func (r *recorder) Run([]Launch, []byte) error               { r.note("run"); return r.fail }
func (r *recorder) FreeBytes() (int, error)                  { return r.room, nil }
func (r *recorder) Send(Pointer, unsafe.Pointer, int) error  { r.note("send"); return nil }
func (r *recorder) Await() error                             { r.note("await"); return nil }
func (r *recorder) FreeHost(unsafe.Pointer, int) error       { r.note("free host"); return nil }
func (r *recorder) Sync() error                              { return nil }
func (r *recorder) Close() error                             { r.note("close"); return nil }

func (r *recorder) AllocHost(n int) (unsafe.Pointer, error) {
	return unsafe.Pointer(unsafe.SliceData(make([]byte, n))), nil
}

func (r *recorder) Graph([]Launch, []byte) (Graph, error) { r.note("graph"); return chain{r}, nil }

type chain struct{ r *recorder }

func (c chain) Update(int, []byte) error { c.r.note("update"); return nil }
func (c chain) Start() error             { c.r.note("start"); return nil }
func (c chain) Close() error             { c.r.note("free"); return nil }

// sequenceOf returns n launches with 4 bytes of arguments each, the first of which is
// first.
func sequenceOf(n int, first byte) ([]Launch, []byte) {
	var launches []Launch
	args := make([]byte, 4*n)
	for i := range n {
		launches = append(launches, Launch{Kernel: kCopy, Grid: 1, Threads: 32, At: int32(4 * i), Size: 4})
	}
	args[0] = first
	return launches, args
}

// TestGraphs checks that a sequence runs as it is the first time and as one of two
// alternating graphs from the second time on, and that only launches whose arguments
// changed are updated.
func TestGraphs(t *testing.T) {
	r := &recorder{}
	g := newGraphs(r)
	run := func(n int, first byte) {
		t.Helper()
		if err := g.run(sequenceOf(n, first)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		n     int
		first byte
		want  []string
	}{
		{minGraphLaunches - 1, 0, []string{"run"}},
		{minGraphLaunches - 1, 0, []string{"run"}}, // too short to be kept
		{minGraphLaunches, 0, []string{"run"}},
		{minGraphLaunches, 1, []string{"graph", "start"}},
		{minGraphLaunches, 2, []string{"graph", "start"}}, // the second graph: the first may still run
		{minGraphLaunches, 1, []string{"start"}},
		{minGraphLaunches, 1, []string{"update", "start"}},
		{minGraphLaunches + 1, 2, []string{"run"}}, // another sequence
		{minGraphLaunches, 2, []string{"update", "start"}},
	} {
		r.log = nil
		run(step.n, step.first)
		if !slices.Equal(r.log, step.want) {
			t.Errorf("%d launches with %d: %v, want %v", step.n, step.first, r.log, step.want)
		}
	}
	// The sequence that was not used for longest makes room, and its graph is freed.
	r.log = nil
	for i := range maxGraphs {
		run(minGraphLaunches+2+i, 0)
	}
	if len(g.known) != maxGraphs || !slices.Contains(r.log, "free") {
		t.Errorf("%d sequences are kept, of at most %d; freed: %v", len(g.known), maxGraphs, slices.Contains(r.log, "free"))
	}
}

func newRecorded(t *testing.T, r *recorder) *engine {
	t.Helper()
	e := &engine{machine: r, graphs: newGraphs(r), pool: pool{free: map[int][]Pointer{}, all: map[Pointer]int{}}}
	e.fault = e.alloc(1, 4)
	if e.err != nil {
		t.Fatal(e.err)
	}
	return e
}

// TestPool checks that freed memory is reused, and returned to the machine only when
// that has no other.
func TestPool(t *testing.T) {
	r := &recorder{room: 10 * grain}
	e := newRecorded(t, r) // takes one grain
	a := e.Alloc(grain/4, device.Float32)
	p := a.(*buffer).p
	e.Free(a)
	e.Free(a) // twice does no harm
	if b := e.AllocInts(grain / 4); b.(*ints).p != p {
		t.Error("freed memory was not used again")
	} else {
		e.Free(b)
	}
	e.Alloc(2*grain, device.Float32) // 8 of the 9 left with the machine or the pool
	if e.Err() != nil || r.freed != 0 {
		t.Fatalf("eight grains: %v, %d blocks went back", e.Err(), r.freed)
	}
	e.Alloc(2, device.Float32)
	e.Alloc(grain/4, device.Float32)
	if e.Err() == nil {
		t.Fatal("eleven grains fit into ten")
	}
	if len(r.log) == 0 || e.Alloc(1, device.Float32).Len() != 1 { // after a failure memory has no address, and nothing runs
		t.Error("a device that failed does not answer")
	}
}

// TestPoolOrder checks that the same requests get the same addresses, whatever the
// order of freeing.
func TestPoolOrder(t *testing.T) {
	e := newRecorded(t, &recorder{room: 10 * grain})
	first := []device.Buffer{e.Alloc(1, device.Float32), e.Alloc(1, device.Float32), e.Alloc(1, device.Float32)}
	var want []Pointer
	for _, b := range first {
		want = append(want, b.(*buffer).p)
	}
	for _, i := range []int{1, 2, 0} {
		e.Free(first[i])
	}
	for i, p := range want {
		if got := e.Alloc(1, device.Float32).(*buffer).p; got != p {
			t.Errorf("buffer %d lies at %#x, the first time at %#x", i, got, p)
		}
	}
}

// TestTrim checks that free blocks of other sizes are returned to make room.
func TestTrim(t *testing.T) {
	r := &recorder{room: 4 * grain}
	e := newRecorded(t, r)
	small := e.Alloc(1, device.Float32)
	e.Free(small)
	e.Alloc(3*grain/4, device.Float32)
	if e.Err() != nil || r.freed != 1 {
		t.Errorf("%v, %d blocks went back, want 1", e.Err(), r.freed)
	}
}

// TestFailure checks that after a failed kernel nothing runs, and that the first error
// stays, with the package's name.
func TestFailure(t *testing.T) {
	r := &recorder{room: 1 << 20}
	e := newRecorded(t, r)
	e.Sync()
	r.fail = errors.New("the GPU failed")
	m := e.Alloc(4, device.Float32)
	e.Sync()
	r.fail, r.log = nil, nil
	e.UploadInts(device.NewInts(e, nil), nil)
	e.Free(m)
	e.Sync()
	if err := e.Err(); err == nil || err.Error() != "cuda: the GPU failed" || len(r.log) != 0 {
		t.Errorf("error %v; ran %v", err, r.log)
	}
	if err := e.Close(); err == nil || e.machine.(*recorder).room != 1<<20 {
		t.Errorf("closed with %v; %d bytes were not given back", err, 1<<20-r.room)
	}
}

// TestLongQueue checks that a full queue is submitted without a transfer.
func TestLongQueue(t *testing.T) {
	r := &recorder{room: 1 << 20}
	e := newRecorded(t, r)
	e.Sync()
	r.log = nil
	m := mat{p: 1, rows: 1, cols: 1, stride: 1}
	for range maxQueued {
		e.fill(m, 0)
	}
	if !slices.Equal(r.log, []string{"run"}) || len(e.launches) != 0 {
		t.Errorf("%v, %d launches wait", r.log, len(e.launches))
	}
}
