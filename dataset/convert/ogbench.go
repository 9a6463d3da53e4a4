package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
)

// ogbench is a data set of OGBench: .npz files with the rows of all episodes, of which
// terminals marks the last ones (docs/sources.md#ogbench-files). Files are larger than
// the memory, so the rows of each array are decompressed in order.
type ogbench struct {
	job   *Job
	files []*ogbenchFile
	// all are the episodes of all files.
	all []struct {
		file *ogbenchFile
		span
	}
}

// ogbenchFile is one file. Its arrays are open from its first episode to its last.
type ogbenchFile struct {
	path   string
	z      *npzArchive
	rows   int
	camera string
	arrays map[string]*npyRows
	open   []io.Closer
	// leftOut are messages about arrays that are not columns.
	leftOut []string
}

// isOGBench reports whether .npz files have the rows of many episodes.
func isOGBench(in *input) bool {
	return in.member("terminals") && (in.member("observations") || in.member("actions"))
}

func openOGBench(_ context.Context, in *input, j *Job) (recording, error) {
	o := &ogbench{job: j}
	for _, path := range in.npz() {
		f := &ogbenchFile{path: path, arrays: map[string]*npyRows{}}
		o.files = append(o.files, f)
		spans, err := f.list(j)
		if err != nil {
			o.close()
			return nil, fmt.Errorf("the file %s: %w", filepath.Base(path), err)
		}
		for _, s := range spans {
			o.all = append(o.all, struct {
				file *ogbenchFile
				span
			}{f, s})
		}
	}
	return o, nil
}

// list opens a file, finds its episodes and chooses its camera. The flags of all rows
// are read; they are small.
func (f *ogbenchFile) list(j *Job) ([]span, error) {
	z, err := openArchive(f.path, maxArchive)
	if err != nil {
		return nil, err
	}
	f.z, f.leftOut = z, z.leftOut
	flags, err := z.read(func(name string) bool { return name == "terminals" || name == "timeouts" })
	if err != nil {
		return nil, err
	}
	terminals, ok := flags["terminals"]
	if !ok {
		return nil, errors.New("it has no terminals, which the other files have (hint: convert it alone)")
	}
	f.rows = terminals.rows()
	var cameras []string
	for _, name := range slices.Sorted(maps.Keys(z.members)) {
		n, r, err := z.open(name)
		if err != nil {
			f.leftOut = append(f.leftOut, fmt.Sprintf("the array %s is left out: %v", name, err))
			continue
		}
		f.open = append(f.open, r)
		f.arrays[name] = n
		if n.rows() != f.rows {
			f.leftOut = append(f.leftOut, fmt.Sprintf("the array %s has the shape %v and is left out: there are %d rows", name, n.shape, f.rows))
			delete(f.arrays, name)
		} else if (array{dtype: dtypes[n.name], shape: n.shape}).isCamera() || name == j.Frames {
			cameras = append(cameras, name)
		}
	}
	if f.camera, err = j.camera(cameras); err != nil {
		return nil, err
	}
	for _, name := range cameras {
		if name != f.camera {
			delete(f.arrays, name)
		}
	}
	return cutAtEnds(f.rows, slices.Collect(maps.Values(flags))...)
}

func (o *ogbench) episodes() int { return len(o.all) }

func (o *ogbench) close() {
	for _, f := range o.files {
		f.close()
	}
}

func (f *ogbenchFile) close() {
	for _, r := range f.open {
		r.Close()
	}
	if f.z != nil {
		f.z.f.Close()
	}
	f.open, f.z = nil, nil
}

// episode reads the next rows of each array. The last action of an episode leads
// nowhere: OGBench's own loader does not use it.
func (o *ogbench) episode(i int) (r rows, err error) {
	at := o.all[i]
	f := at.file
	r = rows{source: fmt.Sprintf("%d of %s", i, f.path), arrays: map[string]array{}, leftOut: slices.Clone(f.leftOut)}
	for name, n := range f.arrays {
		target := name
		if name == f.camera {
			target = "pixels"
		}
		if r.arrays[target], err = n.next(at.to - at.from); err == nil && at.to == f.rows {
			err = n.end()
		}
		if err != nil {
			return r, fmt.Errorf("its array %s: %w", name, err)
		}
	}
	if at.to == f.rows {
		f.close()
	}
	return r, r.dropLastAction()
}
