package cuda

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
)

// Graph is a captured graph: a sequence of launches that a machine keeps ready, whose
// start costs as much as one launch.
type Graph interface {
	// Update gives launch i other arguments, from the next Start on.
	Update(i int, args []byte) error
	// Start runs the launches one after another; it may return before they have run.
	Start() error
	Close() error
}

// Bounds of what is kept.
const (
	shortest   = 8  // launches that are worth a graph
	mostGraphs = 64 // each holds a few kilobytes a launch on the device
)

// graphs runs sequences of launches, those that come again as graphs: one that
// differs in arguments only - a learning rate, a key of random numbers - is the
// same sequence, and the launches whose arguments changed are updated.
type graphs struct {
	machine Machine
	known   map[uint64]*sequence
	clock   int64
}

// sequence is launches that ran. From the second time on they run as one of two
// graphs in turn: one that the GPU may still be at is not changed.
type sequence struct {
	launches []Launch
	graphs   [2]captured
	times    int // that graphs were started
	used     int64
}

// captured is a graph with the arguments that it ran with last.
type captured struct {
	graph Graph
	args  []byte
}

func newGraphs(m Machine) *graphs { return &graphs{machine: m, known: map[uint64]*sequence{}} }

func (g *graphs) run(launches []Launch, args []byte) error {
	if len(launches) < shortest {
		return g.machine.Run(launches, args)
	}
	g.clock++
	key := hash(launches)
	s := g.known[key]
	if s == nil || !slices.Equal(s.launches, launches) {
		g.keep(key, &sequence{launches: slices.Clone(launches), used: g.clock})
		return g.machine.Run(launches, args)
	}
	s.used = g.clock
	k := &s.graphs[s.times%len(s.graphs)]
	s.times++
	if err := k.prepare(g.machine, s.launches, args); err != nil {
		return err
	}
	return k.graph.Start()
}

// prepare makes the graph, or gives it the arguments that changed.
func (k *captured) prepare(m Machine, launches []Launch, args []byte) error {
	if k.graph == nil {
		graph, err := m.Graph(launches, args)
		k.graph, k.args = graph, slices.Clone(args)
		return err
	}
	for i, l := range launches {
		old, now := k.args[l.At:l.At+l.Size], args[l.At:l.At+l.Size]
		if string(old) == string(now) {
			continue
		}
		if err := k.graph.Update(i, now); err != nil {
			return err
		}
		copy(old, now)
	}
	return nil
}

// keep remembers a sequence; the one that was not used for longest makes room.
func (g *graphs) keep(key uint64, s *sequence) {
	if old := g.known[key]; old != nil {
		old.close()
	} else if len(g.known) == mostGraphs {
		oldest := key
		for k, v := range g.known {
			if oldest == key || v.used < g.known[oldest].used {
				oldest = k
			}
		}
		g.known[oldest].close()
		delete(g.known, oldest)
	}
	g.known[key] = s
}

func (s *sequence) close() error {
	var errs []error
	for _, k := range s.graphs {
		if k.graph != nil {
			errs = append(errs, k.graph.Close())
		}
	}
	return errors.Join(errs...)
}

func (g *graphs) close() error {
	var first error
	for _, s := range g.known {
		if err := s.close(); first == nil {
			first = err
		}
	}
	clear(g.known)
	return first
}

// hash is that of everything but the arguments' contents.
func hash(launches []Launch) uint64 {
	h := fnv.New64a()
	var b [20]byte
	for _, l := range launches {
		binary.LittleEndian.PutUint32(b[0:], uint32(l.Kernel))
		binary.LittleEndian.PutUint32(b[4:], uint32(l.Grid))
		binary.LittleEndian.PutUint32(b[8:], uint32(l.Threads))
		binary.LittleEndian.PutUint32(b[12:], uint32(l.Shared))
		binary.LittleEndian.PutUint32(b[16:], uint32(l.At))
		h.Write(b[:])
	}
	return h.Sum64()
}
