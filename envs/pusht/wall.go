package pusht

// wallRadius is half the thickness of a wall, and wallCount how many there are.
const (
	wallRadius = 2
	wallCount  = 4
)

// Numbers of the shapes in the order in which the original makes them: walls,
// agent, bar, stem.
const firstPart = wallCount + 1

// wall is a side of the arena.
type wall struct {
	end    [2]vec
	normal vec
	box    box
}

func newWall(a, b vec) wall {
	return wall{end: [2]vec{a, b}, normal: b.sub(a).unit().right(),
		box: box{lesser(a.x, b.x) - wallRadius, lesser(a.y, b.y) - wallRadius, larger(a.x, b.x) + wallRadius, larger(a.y, b.y) + wallRadius}}
}

var walls = [wallCount]wall{
	newWall(vec{5, 506}, vec{5, 5}), newWall(vec{5, 5}, vec{506, 5}),
	newWall(vec{506, 5}, vec{506, 506}), newWall(vec{5, 506}, vec{506, 506}),
}

// edge is the wall's side that looks along n.
func (s *wall) edge(id int, n vec) edge {
	first, second := name(uint64(id), 0), name(uint64(id), 1)
	if s.normal.dot(n) > 0 {
		return edge{s.end[0], s.end[1], first, second, wallRadius}
	}
	return edge{s.end[1], s.end[0], second, first, wallRadius}
}
