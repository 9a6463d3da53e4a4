package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/dataset/tensorfile"
	"scalewm/model/weights"
)

// candidate is a model in a published file: those tensors of a state dict whose names
// begin with a prefix. Trainers add prefixes, and save several models, such as moving
// averages (EMA) of the weights, as state dicts or under several prefixes.
type candidate struct {
	family Family
	state  tensorfile.State
	prefix string // "", or with a dot at its end
	// inner says that the prefix continues that of another candidate in the same state
	// dict. The other one is the model, and this one a module that it does not need.
	inner bool
	name  string // the keys of the state dict and the prefix, joined by dots
}

// String returns the candidate's name for messages.
func (c candidate) String() string { return cmp.Or(c.name, "the model without a prefix") }

// candidates returns the models in a file. They are recognised by the names of two
// tensors: the Mark, and the Root if any candidate with that Mark has one.
func candidates(f *tensorfile.File) (all []candidate) {
	for _, state := range f.States() {
		names := map[string]bool{}
		for _, n := range state.Names {
			names[weights.Unwrapped(n)] = true
		}
		var found []candidate
		for _, fam := range families {
			for _, n := range slices.Sorted(maps.Keys(names)) {
				prefix, ok := strings.CutSuffix(n, fam.Mark)
				if fam.Mark == "" || !ok || prefix != "" && !strings.HasSuffix(prefix, ".") {
					continue
				}
				found = append(found, candidate{family: fam, state: state, prefix: prefix, name: strings.Trim(state.Path+"."+prefix, ".")})
			}
		}
		hasRoot := func(c candidate) bool { return names[c.prefix+c.family.Root] }
		if slices.ContainsFunc(found, hasRoot) {
			found = slices.DeleteFunc(found, func(c candidate) bool { return !hasRoot(c) })
		}
		// Sorted by prefix, those that continue the prefix of another one follow it.
		slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.prefix, b.prefix) })
		outer := 0
		for i := range found {
			if found[i].inner = i > 0 && strings.HasPrefix(found[i].prefix, found[outer].prefix); !found[i].inner {
				outer = i
			}
		}
		// The only model of a state dict is called by the keys that lead there.
		if n := len(slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return c.inner })); n == 1 && state.Path != "" {
			found[0].name = state.Path
		}
		all = append(all, found...)
	}
	return all
}

// choose returns the candidate that key names: in full, or by the last of its keys. For
// "" it returns the only one that is not inner. Which of several models is meant cannot
// be guessed, since their results differ, so that the error lists them.
func choose(all []candidate, key string) (candidate, error) {
	fits := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.inner })
	if key != "" {
		named := func(is func(name string) bool) []candidate {
			return slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return !is(c.name) && !(is(c.state.Path) && !c.inner) })
		}
		if fits = named(func(name string) bool { return name == key }); len(fits) == 0 {
			fits = named(func(name string) bool { return strings.HasSuffix(name, "."+key) })
		}
	}
	switch {
	case len(all) == 0:
		return candidate{}, fmt.Errorf("its tensors match no family of models (hint: this program knows %s)", familyNames())
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) == 0:
		return candidate{}, fmt.Errorf("it has no model under the key %.80q (hint: --key NAME is one of %s)", key, keys(all))
	}
	return candidate{}, fmt.Errorf("it has %d models, whose results differ (hint: choose one with --key NAME: %s)", len(fits), keys(fits))
}

// keys lists the names of candidates for a message.
func keys(all []candidate) string {
	var names []string
	for _, c := range all {
		names = append(names, c.String())
	}
	return tensorfile.Listed(names)
}

// extract reduces a published file to the chosen model, without prefix. It returns the
// model's family, and how many tensors of which modules it left out. It adds to the
// sidecar's notes which other models there are.
func extract(f *tensorfile.File, s *weights.Sidecar, key string) (fam Family, left map[string]int, err error) {
	all := candidates(f)
	c, err := choose(all, key)
	if err != nil {
		return fam, nil, err
	}
	if err := f.Select(c.state); err != nil {
		return fam, nil, err
	}
	var others []candidate // in the same state dict
	for _, o := range all {
		if o.state.Path == c.state.Path && o.prefix != c.prefix {
			others = append(others, o)
		}
	}
	if len(others) > maxModels {
		return fam, nil, fmt.Errorf("it has %d models (hint: save one of them in a file of its own)", len(others)+1)
	}
	var unread []string
	for _, o := range others {
		unread = append(unread, o.String())
	}
	if unread = append(unread, f.Rest(c.state)...); len(unread) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("read %s; not read: %s", c, tensorfile.Listed(unread)))
	}
	// The same file holds other weights under another key, which need another hash.
	if len(all) > 1 {
		sum := sha256.Sum256([]byte(s.SHA256 + " " + c.name))
		s.SHA256 = hex.EncodeToString(sum[:])
	}
	left = map[string]int{}
	err = f.Rename(func(name string) string {
		name = weights.Unwrapped(name)
		rest, ok := strings.CutPrefix(name, c.prefix)
		for _, o := range others {
			if strings.HasPrefix(name, o.prefix) && (!ok || len(o.prefix) > len(c.prefix)) {
				return "" // noted above
			}
		}
		if !ok {
			left[module(name)]++
			return ""
		}
		return rest
	})
	return c.family, left, err
}

// maxModels bounds the number of models in a state dict, and with it the work on each
// name.
const maxModels = 100

// dropModules removes the tensors of modules that none of the named tensors belongs to,
// such as further heads of a training, and adds them to left. An unknown tensor in one of
// the model's own modules stays, since it means another geometry.
func dropModules(f *tensorfile.File, names []string, left map[string]int) {
	own := map[string]bool{}
	for _, n := range names {
		own[module(n)] = true
	}
	f.Rename(func(name string) string { // no error: no name changes
		if !own[module(name)] {
			left[module(name)]++
			return ""
		}
		return name
	})
}

// module returns the first part of a tensor's name.
func module(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// noteLeft adds a note of how many tensors of which modules were left out.
func noteLeft(s *weights.Sidecar, left map[string]int) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(left)) {
		parts = append(parts, fmt.Sprintf("%.40s (%d)", name, left[name]))
	}
	if len(parts) > 0 {
		s.Notes = append(s.Notes, "left out tensors that are not the model's: "+tensorfile.Listed(parts))
	}
}
