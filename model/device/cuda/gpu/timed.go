//go:build gpu

package gpu

import (
	"errors"
	"slices"

	"gorgonia.org/cu"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/roofline"
)

// Timed is a GPU that runs launches one by one, without graphs, and keeps the
// time of each kernel beside what it cannot take less than.
type Timed struct {
	*machine
	count   *roofline.Machine
	seconds map[string]float64 // by cuda.Kernel.Label
	events  []cu.Event
	busy    []cuda.Pointer // what is copied while launches are queued
}

// KernelTime is all launches of a kernel and shape.
type KernelTime struct {
	roofline.Entry
	Seconds float64
}

const (
	queued = 64        // launches timed together
	busy   = 256 << 20 // bytes; eight copies take a millisecond, and queueing less
	copies = 8
)

// OpenTimed starts GPU 0; floors are those of a card as fast as c.
func OpenTimed(c roofline.Card) (*Timed, error) {
	opened, err := Open()
	if err != nil {
		return nil, err
	}
	t := &Timed{machine: opened.(*machine), count: roofline.New(c), seconds: map[string]float64{}}
	if err := t.prepare(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Timed) prepare() error {
	release, err := t.enter()
	if err != nil {
		return err
	}
	defer release()
	for range queued + 1 {
		e, err := cu.MakeEvent(cu.DefaultEvent)
		if err != nil {
			return t.lost(err)
		}
		t.events = append(t.events, e)
	}
	t.busy, _, err = t.buffers(2, busy)
	return err
}

// Reset forgets what was timed.
func (t *Timed) Reset() {
	t.count.Reset()
	clear(t.seconds)
}

// Times are the kernels that ran, those that took longest first.
func (t *Timed) Times() []KernelTime {
	var list []KernelTime
	for _, e := range t.count.Entries() {
		list = append(list, KernelTime{e, t.seconds[e.Kernel]})
	}
	slices.SortStableFunc(list, func(a, b KernelTime) int {
		switch {
		case a.Seconds > b.Seconds:
			return -1
		case a.Seconds < b.Seconds:
			return 1
		}
		return 0
	})
	return list
}

// Run runs launches with an event after each.
func (t *Timed) Run(launches []cuda.Launch, args []byte) error {
	for chunk := range slices.Chunk(launches, queued) {
		if err := t.chunk(chunk, args); err != nil {
			return err
		}
	}
	return t.count.Run(launches, args)
}

// chunk queues launches behind copies, so that the GPU does not wait for the
// program between them, and waits for them.
func (t *Timed) chunk(launches []cuda.Launch, args []byte) error {
	release, err := t.enter()
	if err != nil {
		return err
	}
	defer release()
	for range copies {
		if err := cu.MemcpyDtoDAsync(cu.DevicePtr(t.busy[0]), cu.DevicePtr(t.busy[1]), busy, t.stream); err != nil {
			return t.lost(err)
		}
	}
	err = t.events[0].Record(t.stream)
	for i := range launches {
		err = errors.Join(err, t.machine.Run(launches[i:i+1], args), t.events[i+1].Record(t.stream))
	}
	if err = errors.Join(err, t.Sync()); err != nil {
		return t.lost(err)
	}
	for i, l := range launches {
		ms, err := t.events[i].Elapsed(t.events[i+1])
		if err != nil {
			return t.lost(err)
		}
		t.seconds[l.Kernel.Label(args[l.At:l.At+l.Size])] += ms / 1000
	}
	return nil
}

// Graph is the launches themselves.
func (t *Timed) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	return loose{t, slices.Clone(launches), slices.Clone(args)}, nil
}

// Close gives everything back.
func (t *Timed) Close() error {
	for _, p := range t.busy {
		t.Free(p, busy)
	}
	var err error
	for i := range t.events {
		err = errors.Join(err, cu.DestroyEvent(&t.events[i]))
	}
	return errors.Join(err, t.machine.Close())
}

// loose are launches that stand for a graph.
type loose struct {
	t        *Timed
	launches []cuda.Launch
	args     []byte
}

func (g loose) Update(i int, args []byte) error {
	copy(g.args[g.launches[i].At:], args)
	return nil
}
func (g loose) Start() error { return g.t.Run(g.launches, g.args) }
func (g loose) Close() error { return nil }
