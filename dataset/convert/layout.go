package convert

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// layout is one way in which programs store recordings.
type layout struct {
	// name is the layout's name in messages.
	name string
	// is reports whether an input has the layout, by the names in it that no other
	// layout has. It reads no data.
	is func(in *input) bool
	// open opens an input of this layout. It is nil for layouts that only other
	// programs read.
	open func(ctx context.Context, in *input, j *Job) (recording, error)
	// instead is the hint for a layout without open: how to convert it elsewhere.
	instead func(path string) string
}

// layouts has all known layouts. The first that matches is used. To add a layout,
// write its reader in a file of its own and add a line here.
var layouts = []layout{
	{name: "LeRobot", is: func(in *input) bool { return in.has("meta/info.json") }, open: openLeRobot},
	{name: "stable-worldmodel's folder", is: func(in *input) bool { return in.has("ep_len.npz") }, open: openFolder},
	{name: "DINO-WM's folder", is: isDINOWM, open: openDINOWM},
	{name: "Zarr", is: isZarr, open: openZarr},
	{name: "Lance", is: func(in *input) bool { return in.has("_versions") || in.any("*.lance") }, instead: insteadOfLance},
	{name: "Minari", is: isMinari, open: openMinari},
	{name: "Minari's Arrow storage", is: isMinariArrow, instead: insteadOfMinariArrow},
	{name: "D4RL", is: isD4RL, open: openD4RL},
	{name: "robomimic", is: isRobomimic, open: openRobomimic},
	{name: "RLDS", is: func(in *input) bool { return in.any("*.tfrecord*") || in.any("*/*.tfrecord*") }, instead: insteadOfRLDS},
	{name: "OGBench", is: isOGBench, open: openOGBench},
	{name: "Dreamer's episodes", is: isDreamer, open: openDreamer},
	{name: "NumPy episodes", is: func(in *input) bool { return in.npz() != nil }, open: openNPZ},
}

// insteadOfLance returns the line of Python that converts a Lance table.
func insteadOfLance(path string) string {
	return fmt.Sprintf("`stable_worldmodel.data.convert(%q, \"out.h5\", dest_format=\"hdf5\")` in Python makes an HDF5 file of it", absolute(path))
}

// insteadOfRLDS returns the lines of Python that write the episodes of an RLDS set as
// NumPy files.
func insteadOfRLDS(path string) string {
	return fmt.Sprintf("in Python: `import os, tensorflow_datasets as tfds, numpy as np; os.makedirs(\"episodes\"); "+
		"[np.savez(f\"episodes/{i}.npz\", pixels=np.stack([s[\"observation\"][\"image\"] for s in e]), action=np.stack([s[\"action\"] for s in e])) "+
		"for i, e in enumerate(list(x[\"steps\"].as_numpy_iterator()) for x in tfds.builder_from_directory(%q).as_dataset(split=\"train\"))]`, then `scalewm data convert episodes/`", absolute(path))
}

// absolute returns an absolute path where possible: Python programs may look for a
// relative one in another folder.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// layoutOf returns the layout of an input, or nil if none matches, as for HDF5 files
// of our own layout.
func layoutOf(in *input) *layout {
	for i := range layouts {
		if layouts[i].is(in) {
			return &layouts[i]
		}
	}
	return nil
}

// layoutNames lists the names of all layouts for messages.
func layoutNames() string {
	var names []string
	for _, l := range layouts {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

// Recognise returns an error that names the layout of an input that is not a data set
// itself, and how to convert it. It returns nil for all others.
func Recognise(path string) error {
	in, err := openInput([]string{path})
	if err != nil {
		return nil
	}
	l := layoutOf(in)
	switch {
	case l == nil:
		return nil
	case l.open == nil:
		return fmt.Errorf("%s has the layout %s (hint: %s)", path, l.name, l.instead(path))
	}
	return fmt.Errorf("%s has the layout %s (hint: `scalewm data convert %q --out NAME.h5` makes a data set of it)", path, l.name, path)
}
