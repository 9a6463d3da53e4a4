package pusht

// The bounding-box tree of the moving shapes decides the order in which pairs
// are collided, and that order decides last bits, so it is kept as the original
// keeps it: leaves have generous boxes, a leaf that leaves its box is taken out
// and put in again, and each leaf lists the pairs that were met.

// Leaves in the order in which the original looks through them.
const (
	barLeaf = iota
	stemLeaf
	agentLeaf
	leaves
)

// Of a moving shape's box, this part is added on every side, or what its
// velocity covers in this many seconds.
const slack = 0.1

// A pair is a part of the block and what it may touch, a wall or the agent.
const (
	withAgent = wallCount
	partners  = wallCount + 1
	pairs     = 2 * partners
)

func pairOf(part, partner int) int { return part*partners + partner }

// none is no node.
const none = -1

// node is a leaf or joins two nodes.
type node struct {
	box      box
	up, a, b int8
	stamp    uint32 // of a leaf: when it was put in
	pair     [partners]uint8
	listed   int
}

// tree holds the moving leaves; the walls never move, so of their tree only the
// order of its leaves matters.
type tree struct {
	node  [leaves + 2]node
	root  int8
	free  [2]int8 // joints not in use
	spare int
	stamp uint32
	pair  [pairs]listing
}

// listing is a pair that the tree has met.
type listing struct {
	owner int8   // the leaf that collides the pair
	edge  uint32 // where its last search ended
}

// wallOrder is how the tree of the walls is walked.
var wallOrder = [wallCount]int{3, 2, 1, 0}

// newTree is empty. Walls were put in first, one stamp each.
func newTree() tree {
	return tree{root: none, free: [2]int8{leaves, leaves + 1}, spare: 2, stamp: wallCount}
}

func (t *tree) isLeaf(i int8) bool { return i < leaves }

// join makes a node of two.
func (t *tree) join(a, b int8) int8 {
	t.spare--
	i := t.free[t.spare]
	t.node[i] = node{box: t.node[a].box.merged(&t.node[b].box), up: none, a: a, b: b}
	t.node[a].up, t.node[b].up = i, i
	return i
}

// put adds a leaf beside the one that it enlarges least.
func (t *tree) put(leaf int8) {
	if t.root == none {
		t.root = leaf
		t.node[leaf].up = none
		return
	}
	at := t.root
	for !t.isLeaf(at) {
		at = t.cheaper(&t.node[at], &t.node[leaf].box)
	}
	up := t.node[at].up
	joint := t.join(leaf, at)
	t.node[joint].up = up
	if up == none {
		t.root = joint
		return
	}
	t.replace(up, at, joint)
	for ; up != none; up = t.node[up].up {
		t.node[up].box = t.node[up].box.merged(&t.node[leaf].box)
	}
}

// cheaper is the child of n that a leaf's box is added to.
func (t *tree) cheaper(n *node, leaf *box) int8 {
	a, b := &t.node[n.a].box, &t.node[n.b].box
	withA, withB := a.merged(leaf), b.merged(leaf)
	costA, costB := b.area()+withA.area(), a.area()+withB.area()
	if costA == costB {
		costA, costB = a.distance(leaf), b.distance(leaf)
	}
	if costB < costA {
		return n.b
	}
	return n.a
}

func (t *tree) replace(up, old, new int8) {
	if t.node[up].a == old {
		t.node[up].a = new
	} else {
		t.node[up].b = new
	}
	t.node[new].up = up
}

// take removes a leaf and the joint above it.
func (t *tree) take(leaf int8) {
	joint := t.node[leaf].up
	if joint == none {
		t.root = none
		return
	}
	other, up := t.node[joint].a, t.node[joint].up
	if other == leaf {
		other = t.node[joint].b
	}
	t.free[t.spare] = joint
	t.spare++
	if up == none {
		t.root = other
		t.node[other].up = none
		return
	}
	t.replace(up, joint, other)
	for ; up != none; up = t.node[up].up {
		t.node[up].box = t.node[t.node[up].a].box.merged(&t.node[t.node[up].b].box)
	}
}

// list puts a pair at the head of a leaf's list.
func (n *node) list(p uint8) {
	copy(n.pair[1:n.listed+1], n.pair[:n.listed])
	n.pair[0] = p
	n.listed++
}

func (n *node) unlist(p uint8) {
	for i, q := range n.pair[:n.listed] {
		if q == p {
			copy(n.pair[i:], n.pair[i+1:n.listed])
			n.listed--
			return
		}
	}
}

// forget drops all pairs of a leaf, from the lists of their other leaves too.
func (t *tree) forget(leaf int8) {
	n := &t.node[leaf]
	for _, p := range n.pair[:n.listed] {
		if p%partners != withAgent {
			continue
		}
		other := int8(agentLeaf)
		if leaf == agentLeaf {
			other = int8(p / partners)
		}
		t.node[other].unlist(p)
	}
	n.listed = 0
}

// met lists a pair of two leaves, or of a part and a wall; owner collides it.
func (t *tree) met(pair int, owner int8) {
	t.pair[pair] = listing{owner: owner}
	t.node[pair/partners].list(uint8(pair))
	if pair%partners == withAgent {
		t.node[agentLeaf].list(uint8(pair))
	}
}

// collider is called for a pair whose boxes may meet; it gets and returns the
// edge where the pair's search ended.
type collider func(pair int, edge uint32) uint32

// mark collides the pairs of the leaves below i, in the tree's order.
func (t *tree) mark(i int8, f collider) {
	if t.isLeaf(i) {
		t.markLeaf(i, f)
		return
	}
	t.mark(t.node[i].a, f)
	t.mark(t.node[i].b, f)
}

// markLeaf looks for the pairs of a leaf that was just put in; any other
// collides the pairs that it owns.
func (t *tree) markLeaf(leaf int8, f collider) {
	n := &t.node[leaf]
	if n.stamp != t.stamp {
		for k := 0; k < n.listed; k++ {
			if p := n.pair[k]; t.pair[p].owner == leaf {
				t.pair[p].edge = f(int(p), t.pair[p].edge)
			}
		}
		return
	}
	if leaf != agentLeaf {
		for _, s := range wallOrder {
			if n.box.meets(&walls[s].box) {
				t.met(pairOf(int(leaf), s), leaf)
				f(pairOf(int(leaf), s), 0)
			}
		}
	}
	for i := leaf; t.node[i].up != none; i = t.node[i].up {
		up := &t.node[t.node[i].up]
		if i == up.a {
			t.meet(up.b, leaf, true, f)
		} else {
			t.meet(up.a, leaf, false, f)
		}
	}
}

// meet finds the pairs of a leaf with those below i. One that comes later in
// the tree collides the pair itself when its turn comes.
func (t *tree) meet(i, leaf int8, later bool, f collider) {
	n := &t.node[i]
	if !n.box.meets(&t.node[leaf].box) {
		return
	}
	if !t.isLeaf(i) {
		t.meet(n.a, leaf, later, f)
		t.meet(n.b, leaf, later, f)
		return
	}
	if i != agentLeaf && leaf != agentLeaf {
		return // bar and stem are one body
	}
	pair := pairOf(int(min(i, leaf)), withAgent)
	switch {
	case later:
		t.met(pair, i)
	default:
		if n.stamp < t.node[leaf].stamp {
			t.met(pair, leaf)
		}
		f(pair, 0)
	}
}

// generous is the box of a leaf for a shape's box and velocity.
func generous(b *box, v vec) box {
	x, y := float64((b.r-b.l)*slack), float64((b.t-b.b)*slack)
	v = v.mul(slack)
	return box{b.l + lesser(-x, v.x), b.b + lesser(-y, v.y), b.r + larger(x, v.x), b.t + larger(y, v.y)}
}

// insert puts a new leaf in and lists its pairs.
func (t *tree) insert(leaf int8, b *box, v vec) {
	t.node[leaf] = node{box: generous(b, v), up: none, a: none, b: none, stamp: t.stamp}
	t.put(leaf)
	t.markLeaf(leaf, func(_ int, edge uint32) uint32 { return edge })
	t.stamp++
}

// update puts a leaf anew whose shape has left its box.
func (t *tree) update(leaf int8, b *box, v vec) {
	n := &t.node[leaf]
	if n.box.holds(b) {
		return
	}
	n.box = generous(b, v)
	t.take(leaf)
	t.put(leaf)
	t.forget(leaf)
	n.stamp = t.stamp
}
