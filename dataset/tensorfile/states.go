package tensorfile

import (
	"cmp"
	"fmt"
	"strings"
)

// State is a state dict in a file, that is, a dict of tensors. A file of torch.save can
// have several: a trainer saves a dict of state dicts, of counters and of objects.
type State struct {
	Path  string   // the keys that lead to it, joined by dots; "" for the outermost dict
	Names []string // of its tensors, sorted
	dict  *dict
}

// States returns the state dicts of the file. A safetensors file has one.
func (f *File) States() []State {
	if !f.PT {
		return []State{{Names: f.Names()}}
	}
	return f.states
}

// Select makes the tensors of a state dict those of the file. It returns an error if
// the dict has an entry that is not a tensor, or a tensor that does not lie within its
// storage. Other state dicts are not checked.
func (f *File) Select(s State) error {
	if !f.PT {
		return nil
	}
	f.views = map[string]view{}
	for i, key := range s.dict.keys {
		name, ok := key.(string)
		args, isTensor := s.dict.values[i].(tensor)
		if o, isObject := s.dict.values[i].(object); isObject {
			return fmt.Errorf("the entry %.60q is an object of %.80q, which no state dict needs; nothing was run "+
				"(hint: save model.state_dict() with torch.save, or do not trust the file)", name, o.class)
		}
		if !ok || !isTensor {
			return fmt.Errorf("the entry %.60q is not a tensor: %w", fmt.Sprint(name), errPickle)
		}
		v, err := f.archive.tensor(args)
		if err != nil {
			return fmt.Errorf("tensor %.80q: %w", name, err)
		}
		f.views[name] = v
	}
	return f.bounded(len(f.archive.bytes))
}

// selectOnly selects the only state dict. It returns an error that lists them if there
// are several.
func (f *File) selectOnly() error {
	states := f.States()
	if len(states) == 1 {
		return f.Select(states[0])
	}
	var paths []string
	for _, s := range states {
		paths = append(paths, fmt.Sprintf("%.40q", s.Path))
	}
	return fmt.Errorf("the file has %d state dicts: %s (hint: save one of them with torch.save)", len(states), Listed(paths))
}

// Rest returns the paths of the lists and dicts in the file, other than s, that hold
// tensors of more than one number. Those of optimisers are left out, since no model
// consists of them.
func (f *File) Rest(s State) (paths []string) {
	for _, path := range f.holders {
		if path != s.Path && !strings.Contains(strings.ToLower(path), "optim") {
			paths = append(paths, cmp.Or(path, "tensors of the outermost dict"))
		}
	}
	return paths
}

// Listed joins names for a message. It names the first few of many.
func Listed(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// noState returns the error for a pickle without a state dict. For a pickled module its
// hint is the way to write the state dict.
func noState(top any) error {
	const hint = `nothing was run (hint: in Python, m = torch.load(p, weights_only=False)%s; torch.save(m.state_dict(), "weights.pt"))`
	if o, ok := top.(object); ok {
		return fmt.Errorf("the file is a pickled object of %.80q, not a state dict; "+hint, o.class, "")
	}
	d, ok := top.(*dict)
	if !ok {
		return fmt.Errorf("the file holds no dict: %w", errPickle)
	}
	var modules []string
	first := ""
	for i, key := range d.keys {
		name, isName := key.(string)
		if o, ok := d.values[i].(object); ok && isName && o.module {
			if modules = append(modules, fmt.Sprintf("%.40s of %.80q", name, o.class)); first == "" {
				first = fmt.Sprintf("[%.40q]", name)
			}
		}
	}
	if len(modules) == 0 {
		return fmt.Errorf("the file holds no state dict: %w", errPickle)
	}
	return fmt.Errorf("the file holds pickled modules instead of state dicts: %s; "+hint, Listed(modules), first)
}
