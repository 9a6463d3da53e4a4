package pusht

// The broad phase is a port of Chipmunk's cpBBTree, the bounding-box tree of the moving
// shapes. It decides the order in which pairs are collided. That order decides the order in
// which impulses are applied, and so the last bits of velocities; a simpler search would
// find the same contacts with other results.
//
// Leaves have enlarged boxes. A leaf whose shape leaves its box is removed and inserted
// again. Each leaf has a list of the pairs it belongs to, as found at its insertion.

// The leaves, in the order in which they are updated.
const (
	barLeaf = iota
	stemLeaf
	agentLeaf
	leaves
)

// The box of a leaf extends its shape's box on each side by slack times the size of the box,
// or by what the shape's velocity covers in slack seconds if that is more (Chipmunk's
// coef, for both).
const slack = 0.1

// A pair is a part of the block and what it can touch, its partner: a wall or the agent.
const (
	withAgent = wallCount
	partners  = wallCount + 1
	pairs     = 2 * partners
)

// pairOf returns the number of a pair.
func pairOf(part, partner int) int { return part*partners + partner }

// none is the index of no node.
const none = -1

// node is a leaf or an inner node with two children.
type node struct {
	box      box
	up, a, b int8            // parent and children, or none
	stamp    uint32          // of a leaf: value of tree.stamp when it was last inserted
	pair     [partners]uint8 // of a leaf: its pairs, most recent first
	listed   int             // length of pair
}

// tree holds the leaves of the moving shapes. The walls are in a second tree in Chipmunk.
// They never move, so only the order of that tree's leaves matters here (wallOrder).
type tree struct {
	node  [leaves + 2]node // leaves, then inner nodes; n leaves need n-1 of them
	root  int8
	free  [2]int8 // unused inner nodes
	spare int     // length of free
	stamp uint32  // counts insertions and steps
	pair  [pairs]listing
}

// listing is a pair in the lists of its leaves.
type listing struct {
	owner int8   // the leaf whose turn collides the pair
	edge  uint32 // warm start of the search for the closest points; 0 for none
}

// wallOrder is the order in which Chipmunk traverses the tree of the walls.
var wallOrder = [wallCount]int{3, 2, 1, 0}

// newTree returns an empty tree. The walls have been inserted before, with one stamp each.
func newTree() tree {
	return tree{root: none, free: [2]int8{leaves, leaves + 1}, spare: 2, stamp: wallCount}
}

// isLeaf reports whether node i is a leaf.
func (t *tree) isLeaf(i int8) bool { return i < leaves }

// join returns a new inner node with the given children (NodeNew in Chipmunk).
func (t *tree) join(a, b int8) int8 {
	t.spare--
	i := t.free[t.spare]
	t.node[i] = node{box: t.node[a].box.merged(&t.node[b].box), up: none, a: a, b: b}
	t.node[a].up, t.node[b].up = i, i
	return i
}

// insertNode adds a leaf next to the leaf that a descent by cost reaches (SubtreeInsert), and
// enlarges the boxes of its ancestors.
func (t *tree) insertNode(leaf int8) {
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

// cheaper returns the child of n to which a leaf with the given box is added: the one for
// which the total area is smaller, or the nearer one if the areas are equal.
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

// replace replaces the child old of up by new.
func (t *tree) replace(up, old, new int8) {
	if t.node[up].a == old {
		t.node[up].a = new
	} else {
		t.node[up].b = new
	}
	t.node[new].up = up
}

// removeNode removes a leaf and its parent (SubtreeRemove), and shrinks the boxes above.
func (t *tree) removeNode(leaf int8) {
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

// prepend adds a pair at the head of a leaf's list.
func (n *node) prepend(p uint8) {
	copy(n.pair[1:n.listed+1], n.pair[:n.listed])
	n.pair[0] = p
	n.listed++
}

// remove removes a pair from a leaf's list and keeps the order of the others.
func (n *node) remove(p uint8) {
	for i, q := range n.pair[:n.listed] {
		if q == p {
			copy(n.pair[i:], n.pair[i+1:n.listed])
			n.listed--
			return
		}
	}
}

// clearPairs removes all pairs of a leaf, also from the lists of their other leaves
// (PairsClear).
func (t *tree) clearPairs(leaf int8) {
	n := &t.node[leaf]
	for _, p := range n.pair[:n.listed] {
		if p%partners != withAgent {
			continue
		}
		other := int8(agentLeaf)
		if leaf == agentLeaf {
			other = int8(p / partners)
		}
		t.node[other].remove(p)
	}
	n.listed = 0
}

// addPair lists a pair of two leaves, or of a part and a wall, with the leaf that collides it
// (PairInsert).
func (t *tree) addPair(pair int, owner int8) {
	t.pair[pair] = listing{owner: owner}
	t.node[pair/partners].prepend(uint8(pair))
	if pair%partners == withAgent {
		t.node[agentLeaf].prepend(uint8(pair))
	}
}

// collider is called for a pair whose boxes may overlap. It receives and returns the warm
// start of the pair's search.
type collider func(pair int, edge uint32) uint32

// collidePairs collides the pairs of the leaves below node i, in the tree's order
// (MarkSubtree).
func (t *tree) collidePairs(i int8, f collider) {
	if t.isLeaf(i) {
		t.markLeaf(i, f)
		return
	}
	t.collidePairs(t.node[i].a, f)
	t.collidePairs(t.node[i].b, f)
}

// markLeaf handles a leaf's turn (MarkLeaf). A leaf inserted in this step has no pairs yet: it
// searches the walls and the tree for them, and collides them. Any other leaf collides the
// pairs that it owns.
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
			if n.box.overlaps(&walls[s].box) {
				t.addPair(pairOf(int(leaf), s), leaf)
				f(pairOf(int(leaf), s), 0)
			}
		}
	}
	for i := leaf; t.node[i].up != none; i = t.node[i].up {
		up := &t.node[t.node[i].up]
		if i == up.a {
			t.query(up.b, leaf, true, f)
		} else {
			t.query(up.a, leaf, false, f)
		}
	}
}

// query finds the pairs of a leaf with the leaves below node i (MarkLeafQuery). later says
// that node i comes later in the tree's order; then its leaf becomes the owner and collides
// the pair at its own turn.
func (t *tree) query(i, leaf int8, later bool, f collider) {
	n := &t.node[i]
	if !n.box.overlaps(&t.node[leaf].box) {
		return
	}
	if !t.isLeaf(i) {
		t.query(n.a, leaf, later, f)
		t.query(n.b, leaf, later, f)
		return
	}
	if i != agentLeaf && leaf != agentLeaf {
		// Bar and stem belong to one body and do not collide.
		return
	}
	pair := pairOf(int(min(i, leaf)), withAgent)
	switch {
	case later:
		t.addPair(pair, i)
	default:
		if n.stamp < t.node[leaf].stamp {
			t.addPair(pair, leaf)
		}
		f(pair, 0)
	}
}

// fattened returns the box of a leaf for a shape's box and velocity (GetBB). The box extends
// in the direction of the velocity, so that a moving shape leaves it later.
func fattened(b *box, v vec) box {
	x, y := float64((b.r-b.l)*slack), float64((b.t-b.b)*slack)
	v = v.mul(slack)
	return box{b.l + lesser(-x, v.x), b.b + lesser(-y, v.y), b.r + larger(x, v.x), b.t + larger(y, v.y)}
}

// insert adds a new shape and lists its pairs without colliding them.
func (t *tree) insert(leaf int8, b *box, v vec) {
	t.node[leaf] = node{box: fattened(b, v), up: none, a: none, b: none, stamp: t.stamp}
	t.insertNode(leaf)
	t.markLeaf(leaf, func(_ int, edge uint32) uint32 { return edge })
	t.stamp++
}

// update inserts a leaf again if its shape has left its box (LeafUpdate).
func (t *tree) update(leaf int8, b *box, v vec) {
	n := &t.node[leaf]
	if n.box.contains(b) {
		return
	}
	n.box = fattened(b, v)
	t.removeNode(leaf)
	t.insertNode(leaf)
	t.clearPairs(leaf)
	n.stamp = t.stamp
}
