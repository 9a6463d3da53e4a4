//go:build gpu

package gpu

import (
	"errors"
	"slices"

	"gorgonia.org/cu"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/roofline"
)

// Timed is a GPU that runs launches one by one, without graphs, and measures the time
// of each kernel. Package roofline counts for each the minimum that memory and tensor
// cores need.
type Timed struct {
	*machine
	count   *roofline.Machine
	seconds map[string]float64 // by cuda.Kernel.Label
	events  []cu.Event         // one before the first launch of a chunk, and one after each
	busy    []cuda.Pointer     // two buffers, copied to keep the GPU busy while a chunk is queued
}

// KernelTime is all launches of one kernel and shape: their number, traffic, minimum
// time, and measured time.
type KernelTime struct {
	roofline.Entry
	Seconds float64
}

const (
	chunkLaunches = 64        // launches timed together
	busy          = 256 << 20 // bytes of a buffer: the copies take a millisecond, queueing a chunk less
	copies        = 8         // that precede a chunk
)

// OpenTimed starts GPU 0. c holds the peak rates from which minimum times are computed.
// The caller closes the result, or the device that it makes of it.
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

// prepare creates the events and the buffers.
func (t *Timed) prepare() error {
	release, err := t.enter()
	if err != nil {
		return err
	}
	defer release()
	for range chunkLaunches + 1 {
		e, err := cu.MakeEvent(cu.DefaultEvent)
		if err != nil {
			return t.failed(err)
		}
		t.events = append(t.events, e)
	}
	t.busy, _, err = t.buffers(2, busy)
	return err
}

// Reset discards all measurements.
func (t *Timed) Reset() {
	t.count.Reset()
	clear(t.seconds)
}

// Times returns the kernels that ran since Reset, those with the longest total time
// first.
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

// Run runs launches with an event after each, and waits for them.
func (t *Timed) Run(launches []cuda.Launch, args []byte) error {
	for chunk := range slices.Chunk(launches, chunkLaunches) {
		if err := t.chunk(chunk, args); err != nil {
			return err
		}
	}
	return t.count.Run(launches, args)
}

// chunk queues copies and behind them the launches with their events, and waits for
// all. While the GPU copies, the host queues: the times between events are then those
// of kernels, without gaps in which the GPU waits for the host.
func (t *Timed) chunk(launches []cuda.Launch, args []byte) error {
	release, err := t.enter()
	if err != nil {
		return err
	}
	defer release()
	for range copies {
		if err := cu.MemcpyDtoDAsync(cu.DevicePtr(t.busy[0]), cu.DevicePtr(t.busy[1]), busy, t.stream); err != nil {
			return t.failed(err)
		}
	}
	err = t.events[0].Record(t.stream)
	for i := range launches {
		err = errors.Join(err, t.machine.Run(launches[i:i+1], args), t.events[i+1].Record(t.stream))
	}
	if err = errors.Join(err, t.Sync()); err != nil {
		return t.failed(err)
	}
	for i, l := range launches {
		ms, err := t.events[i].Elapsed(t.events[i+1])
		if err != nil {
			return t.failed(err)
		}
		t.seconds[l.Kernel.Label(args[l.At:l.At+l.Size])] += ms / 1000
	}
	return nil
}

// Graph returns a list of launches with the behavior of a graph: kernels of a real one
// cannot be timed singly.
func (t *Timed) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	return looseGraph{t, slices.Clone(launches), slices.Clone(args)}, nil
}

// Close releases everything.
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

// looseGraph is launches that run one by one in place of a graph.
type looseGraph struct {
	t        *Timed
	launches []cuda.Launch
	args     []byte
}

func (g looseGraph) Update(i int, args []byte) error {
	copy(g.args[g.launches[i].At:], args)
	return nil
}
func (g looseGraph) Start() error { return g.t.Run(g.launches, g.args) }
func (g looseGraph) Close() error { return nil }
