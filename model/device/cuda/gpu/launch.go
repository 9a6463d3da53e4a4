//go:build gpu

package gpu

// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"scalewm/model/device/cuda"
)

// nodes converts launches for driver.c.
func (m *machine) nodes(launches []cuda.Launch) []C.Node {
	list := make([]C.Node, len(launches))
	for i, l := range launches {
		list[i] = C.Node{function: m.functions[l.Kernel], grid: C.uint(l.Grid), threads: C.uint(l.Threads),
			shared: C.uint(l.Shared), at: C.uint(l.At)}
	}
	return list
}

// pointers returns the addresses of a list and of the arguments, neither of which may
// be empty. C code uses them only during the call: cgo forbids it to keep them.
func pointers(list []C.Node, args []byte) (*C.Node, *C.char) {
	return unsafe.SliceData(list), (*C.char)(unsafe.Pointer(unsafe.SliceData(args)))
}

// Run launches kernels one by one. If the driver rejects an overlapping launch, gpu_run
// repeats it without and clears m.overlap for all later ones.
func (m *machine) Run(launches []cuda.Launch, args []byte) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	list, data := pointers(m.nodes(launches), args)
	var failed C.int
	code := C.gpu_run(m.handle(), &m.overlap, C.int(len(launches)), list, data, &failed)
	return m.result(code, fmt.Sprintf("launching kernel %s", launches[failed].Kernel))
}

// graph is a CUDA graph: a chain of kernel nodes. It keeps the nodes since an update
// must repeat the grid and the function of a node.
type graph struct {
	machine *machine
	nodes   []C.Node
	chain   *C.Chain
}

// Graph builds the graph node by node, without capturing a stream, and so has the node
// handles that updates need. It falls back to full dependencies if the driver rejects
// programmatic ones.
func (m *machine) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	release, err := m.enter()
	if err != nil {
		return nil, err
	}
	defer release()
	g := &graph{machine: m, nodes: m.nodes(launches)}
	list, data := pointers(g.nodes, args)
	if err := m.result(C.gpu_chain(&g.chain, &m.overlap, C.int(len(launches)), list, data), "making a graph"); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *graph) Update(i int, args []byte) error {
	release, err := g.machine.enter()
	if err != nil {
		return err
	}
	defer release()
	node := g.nodes[i : i+1]
	list, data := pointers(node, args)
	return g.machine.result(C.gpu_chain_update(g.chain, C.int(i), list, data), "updating a graph")
}

func (g *graph) Start() error {
	release, err := g.machine.enter()
	if err != nil {
		return err
	}
	defer release()
	return g.machine.result(C.gpu_chain_start(g.chain, g.machine.handle()), "starting a graph")
}

func (g *graph) Close() error {
	release, err := g.machine.enter()
	if err != nil {
		return err
	}
	defer release()
	return g.machine.result(C.gpu_chain_free(g.chain), "freeing a graph")
}
