package tensorfile

import (
	"maps"
	"slices"
	"strings"
)

// Limits of the search for state dicts: the number of keys that lead to one, and the
// length of a key. They bound the size of paths.
const (
	maxKeys = 4
	maxKey  = 200
)

// holder is a container within the value of a pickle.
type holder struct {
	path  []string
	value any // *dict or *list
}

// search sets states and holders to those within a dict, in the order of their depth.
func (f *File) search(top *dict) {
	visited := map[any]bool{}
	for queue := []holder{{nil, top}}; len(queue) > 0; queue = queue[1:] {
		h := queue[0]
		if visited[h.value] {
			continue
		}
		visited[h.value] = true
		path := strings.Join(h.path, ".")
		switch v := h.value.(type) {
		case *dict:
			if names := tensorNames(v); len(names) > 0 {
				f.states = append(f.states, State{path, names, v})
			}
			if slices.ContainsFunc(v.values, isLarge) {
				f.holders = append(f.holders, path)
			}
			queue = append(queue, h.within(v)...)
		case *list:
			if slices.ContainsFunc(v.items, isLarge) {
				f.holders = append(f.holders, path)
			}
		}
	}
}

// within returns the containers in a dict.
func (h holder) within(d *dict) (inner []holder) {
	if len(h.path) == maxKeys {
		return nil
	}
	for i, key := range d.keys {
		name, ok := key.(string)
		if !ok || len(name) > maxKey {
			continue
		}
		switch d.values[i].(type) {
		case *dict, *list:
			inner = append(inner, holder{append(slices.Clone(h.path), name), d.values[i]})
		}
	}
	return inner
}

// tensorNames returns the sorted names of the tensors in a dict.
func tensorNames(d *dict) []string {
	names := map[string]bool{}
	for i, key := range d.keys {
		name, ok := key.(string)
		if _, isTensor := d.values[i].(tensor); ok && isTensor {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// isLarge reports whether v describes a tensor of more than one number. Trainers keep
// scores and counters in tensors of one.
func isLarge(v any) bool {
	t, ok := v.(tensor)
	if !ok {
		return false
	}
	shape, _ := t[2].(tuple)
	return len(shape) > maxDims || slices.ContainsFunc(shape, func(d any) bool { return d != any(int64(1)) })
}
