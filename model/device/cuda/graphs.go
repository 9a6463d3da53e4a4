package cuda

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
)

// Graph is a CUDA graph: a sequence of launches that the machine keeps ready. Starting
// it costs the host as much as one launch, and the GPU has no gaps between its kernels.
type Graph interface {
	// Update replaces the arguments of launch i from the next Start on. Grid and kernel
	// stay the same.
	Update(i int, args []byte) error
	// Start runs the launches one after another. It may return before they have run.
	Start() error
	// Close releases the graph.
	Close() error
}

const (
	minGraphLaunches = 8  // shorter sequences are not worth a graph
	maxGraphs        = 64 // sequences that are kept: a graph takes a few kilobytes per launch on the device
)

// graphs runs sequences of launches, repeated ones as graphs.
//
// Two sequences are the same if they differ only in the contents of arguments, such as
// a learning rate or the key of a random stream. The launches whose arguments changed
// are then updated. Since the pool hands out the same addresses for the same requests
// (pool.reuse), most launches of a repeated step need no update.
type graphs struct {
	machine Machine
	known   map[uint64]*sequence // by hash
	clock   int64                // counts runs, to find the least recently used sequence
}

// sequence is launches that ran at least once. From the second time on they run as one
// of two graphs, alternating: while the GPU still executes one, the other can be
// updated and started.
type sequence struct {
	launches []Launch
	graphs   [2]captured
	starts   int   // number of starts of its graphs
	lastUsed int64 // graphs.clock at its last run
}

// captured is a graph and the arguments that it currently holds.
type captured struct {
	graph Graph
	args  []byte
}

func newGraphs(m Machine) *graphs { return &graphs{machine: m, known: map[uint64]*sequence{}} }

// run runs a sequence: directly the first time, since most sequences never come again
// and building a graph takes longer than launching it; as a graph from the second time
// on.
func (g *graphs) run(launches []Launch, args []byte) error {
	if len(launches) < minGraphLaunches {
		return g.machine.Run(launches, args)
	}
	g.clock++
	key := hash(launches)
	s := g.known[key] // the launches are compared, too: hashes may collide
	if s == nil || !slices.Equal(s.launches, launches) {
		g.remember(key, &sequence{launches: slices.Clone(launches), lastUsed: g.clock})
		return g.machine.Run(launches, args)
	}
	s.lastUsed = g.clock
	k := &s.graphs[s.starts%len(s.graphs)]
	s.starts++
	if err := k.prepare(g.machine, s.launches, args); err != nil {
		return err
	}
	return k.graph.Start()
}

// prepare builds the graph or updates the launches whose arguments changed.
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

// remember adds a sequence, evicting the least recently used one if there are too many.
func (g *graphs) remember(key uint64, s *sequence) {
	if old := g.known[key]; old != nil {
		old.close()
	} else if len(g.known) == maxGraphs {
		oldest := key
		for k, v := range g.known {
			if oldest == key || v.lastUsed < g.known[oldest].lastUsed {
				oldest = k
			}
		}
		g.known[oldest].close()
		delete(g.known, oldest)
	}
	g.known[key] = s
}

// close releases the sequence's graphs.
func (s *sequence) close() error {
	var errs []error
	for _, k := range s.graphs {
		if k.graph != nil {
			errs = append(errs, k.graph.Close())
		}
	}
	return errors.Join(errs...)
}

// close releases all graphs and returns the first error.
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

// hash returns a hash of the launches, without the contents of their arguments.
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
