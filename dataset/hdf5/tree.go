package hdf5

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
)

// Limits on a file of another layout: entries of a group, which are episodes in some
// layouts, and groups that are open at a time, which end the walk through links that
// form a cycle.
const (
	maxEntries = 1 << 17
	maxOpen    = 1 << 10
)

// damaged is the hint for errors about structures that contradict the format.
const damaged = "the file is damaged, fetch or make it again"

// Tree is an open HDF5 file of any layout: a root group with data sets and further
// groups. It is for readers of other programs' files; [Open] opens those of ours. The
// metadata of each group are verified before libhdf5 reads them, as by Open.
type Tree struct {
	*Group
	f    *os.File
	in   io.ReaderAt
	size int64
	// open is the number of open groups.
	open int
}

// Group is an open group of a Tree.
type Group struct {
	tree *Tree
	list *listing
	// cache has decoded chunks of the group's data sets.
	cache chunkCache
	sets  map[string]*Set
	// parent is nil for the root group.
	parent *Group
	// children are the open groups that were opened from this one.
	children []*Group
}

// OpenTree opens a file and lists its root group. Errors name the file.
func OpenTree(path string) (*Tree, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, fmt.Errorf("opening the file: %w (hint: is the path right?)", err)
	}
	t := &Tree{f: f}
	if err := t.openRoot(path); err != nil {
		f.Close()
		return nil, fmt.Errorf("opening %s: %w", path, hinted(err, "is it a complete HDF5 file? Fetch or make it again"))
	}
	return t, nil
}

// openRoot verifies the file's superblock and root group and lists the latter.
func (t *Tree) openRoot(path string) error {
	st, err := t.f.Stat()
	if err != nil {
		return err
	}
	super, err := readSuperblock(t.f, st.Size())
	if err != nil {
		return err
	}
	t.size = st.Size() - super.base
	t.in = io.NewSectionReader(t.f, super.base, t.size)
	l, err := openListing(path, super, newCursor(t.in, t.size), maxEntries)
	if err == nil {
		t.Group = t.group(l)
	}
	return err
}

// group returns a listed group.
func (t *Tree) group(l *listing) *Group {
	g := &Group{tree: t, list: l, sets: map[string]*Set{}}
	for _, d := range l.sets {
		g.sets[d.name] = &Set{description: d, group: g, fault: d.fault()}
	}
	return g
}

// Close closes the file and all groups.
func (t *Tree) Close() error { return errors.Join(t.list.close(), t.f.Close()) }

// Groups returns the names of the groups in the group, in alphabetical order. Soft
// links to groups are included.
func (g *Group) Groups() []string { return slices.Sorted(maps.Keys(g.list.groups)) }

// Sets returns the data sets of the group by name. The caller must not change the map.
func (g *Group) Sets() map[string]*Set { return g.sets }

// Others returns what is neither a group nor a data set, such as links to other files,
// which are never followed, with what it is.
func (g *Group) Others() map[string]string {
	others := map[string]string{}
	for name, what := range g.list.nonColumns {
		if _, ok := g.list.groups[name]; !ok && !strings.HasPrefix(name, "attribute ") {
			others[name] = what
		}
	}
	return others
}

// Contents lists the groups and data sets of the group for messages.
func (g *Group) Contents() string { return g.list.contents() }

// Attr returns an attribute that is a single string or a single number, as text.
func (g *Group) Attr(name string) (string, bool) {
	if v, ok := g.list.attrs[name]; ok {
		return v, true
	}
	v, ok := g.list.numbers[name]
	return v, ok
}

// Attrs returns the attributes that are single strings. The caller must not change the
// map.
func (g *Group) Attrs() map[string]string { return g.list.attrs }

// Group opens a group in the group. The caller closes it, or the group that has it.
func (g *Group) Group(name string) (*Group, error) {
	header, ok := g.list.groups[name]
	if !ok {
		return nil, fmt.Errorf("it has no group %q", name)
	}
	t := g.tree
	if t.open >= maxOpen {
		return nil, fmt.Errorf("more than %d groups are in one another (hint: its links form a cycle; is it what you want to read?)", maxOpen)
	}
	if g.list.parsable {
		if err := verifyObject(newCursor(t.in, t.size), header); err != nil {
			return nil, fmt.Errorf("its group %s: %w", name, hinted(err, damaged))
		}
	}
	l, err := g.list.openGroup(header, maxEntries)
	if err != nil {
		return nil, fmt.Errorf("its group %s: %w", name, hinted(err, damaged))
	}
	child := t.group(l)
	child.parent = g
	g.children = append(g.children, child)
	t.open++
	return child, nil
}

// Close closes a group that Group.Group opened, and those that were opened from it.
func (g *Group) Close() {
	for _, child := range slices.Clone(g.children) {
		child.Close()
	}
	if g.parent != nil && slices.Contains(g.parent.children, g) {
		g.parent.children = slices.DeleteFunc(g.parent.children, func(child *Group) bool { return child == g })
		_ = withLib(func() error { g.list.release(); return nil })
		g.tree.open--
	}
}
