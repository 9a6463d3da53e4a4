package weights

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
)

// zipMagic begins the files of torch.save since PyTorch 1.6: a zip archive of
// one folder with data.pkl, a pickle of the object without the numbers, and
// data/KEY for each storage of numbers, uncompressed.
const zipMagic = "PK\x03\x04"

// maxPickle bounds data.pkl; that of the published model has 44 kB.
const maxPickle = 64 << 20

// archive is an opened file of torch.save.
type archive struct {
	entries  map[string]*zip.File // by their names inside the folder
	bytes    []byte               // of the whole file
	storages map[string][]byte    // that were asked for, by key
	read     int                  // bytes of the entries that were asked for
}

// ParsePT checks the bytes of a file that torch.save wrote from a state dict,
// or from a dict that holds one under "state_dict" or "model". Nothing of it
// is run. Every tensor lies inside its storage, and none is larger.
func ParsePT(b []byte) (*File, error) {
	a, err := newArchive(b)
	if err != nil {
		return nil, err
	}
	pickle, err := a.entry("data.pkl")
	if err != nil {
		return nil, err
	}
	if len(pickle) > maxPickle {
		return nil, fmt.Errorf("the pickle has %d bytes: %w", len(pickle), errPickle)
	}
	u := unpickler{r: bytes.NewReader(pickle), known: knownGlobal, call: a.call}
	top, err := u.run()
	if err != nil {
		return nil, err
	}
	f, err := stateDict(top)
	if err != nil {
		return nil, err
	}
	return f, f.bounded(len(b))
}

// bounded refuses a file whose tensors claim far more numbers than it has
// bytes for: tied weights share a storage, but a state dict has few of them.
func (f *File) bounded(size int) error {
	total := 0
	for _, v := range f.views {
		n, _ := elements(v.shape)
		if total += n * dtypes[v.dtype].size; total > 4*size {
			return fmt.Errorf("the tensors claim more than four times the file's %d bytes: %w", size, errPickle)
		}
	}
	return nil
}

func newArchive(b []byte) (*archive, error) {
	z, err := openZip(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	a := &archive{entries: map[string]*zip.File{}, bytes: b, storages: map[string][]byte{}}
	for _, f := range z.File {
		if _, name, ok := strings.Cut(f.Name, "/"); ok {
			a.entries[name] = f
		}
	}
	if a.entries["byteorder"] != nil {
		if order, err := a.entry("byteorder"); err != nil || string(order) != "little" {
			return nil, fmt.Errorf("numbers of byte order %.10q, %v (hint: save the file on a little-endian machine)", order, err)
		}
	}
	return a, nil
}

// openZip lists the entries of a file of torch.save, which must be most of its bytes.
func openZip(r io.ReaderAt, size int64) (*zip.Reader, error) {
	const hint = "(hint: save model.state_dict() with torch.save of PyTorch 1.6 or later)"
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not a whole file of torch.save: %v %s", err, hint)
	}
	most := float64(1 << 20) // torch.save aligns storages to 64 bytes
	for _, f := range z.File {
		most += 1<<10 + float64(f.CompressedSize64)
	}
	if float64(size) > most {
		return nil, fmt.Errorf("it has %d bytes, and its entries only %.0f %s", size, most, hint)
	}
	return z, nil
}

// entry is the bytes of one uncompressed entry, whose sum must be right.
func (a *archive) entry(name string) ([]byte, error) {
	f := a.entries[name]
	if f == nil {
		return nil, fmt.Errorf("the archive has no %.40q (hint: is this a file of torch.save?)", name)
	}
	at, err := f.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("the archive's entry %.40q: %v (hint: the file is torn)", name, err)
	}
	n := f.UncompressedSize64
	if f.Method != zip.Store || n != f.CompressedSize64 {
		return nil, fmt.Errorf("the archive's entry %.40q is compressed (hint: save it again with torch.save)", name)
	}
	if at < 0 || uint64(at) > uint64(len(a.bytes)) || n > uint64(len(a.bytes))-uint64(at) {
		return nil, fmt.Errorf("the archive's entry %.40q leaves the file (hint: the file is torn)", name)
	}
	if a.read += int(n); a.read > len(a.bytes) {
		return nil, fmt.Errorf("the archive's entry %.40q lies in another one (hint: the file is torn; fetch it again)", name)
	}
	b := a.bytes[at : at+int64(n)]
	if crc32.ChecksumIEEE(b) != f.CRC32 {
		return nil, fmt.Errorf("the archive's entry %.40q has changed since it was written (hint: the file is torn; fetch it again)", name)
	}
	return b, nil
}

// storageTypes are the dtypes of PyTorch's storages.
var storageTypes = map[global]string{
	"torch.DoubleStorage": "F64", "torch.FloatStorage": "F32", "torch.HalfStorage": "F16", "torch.BFloat16Storage": "BF16",
	"torch.LongStorage": "I64", "torch.IntStorage": "I32", "torch.ShortStorage": "I16",
	"torch.ByteStorage": "U8", "torch.CharStorage": "I8", "torch.BoolStorage": "BOOL",
}

// The other names of a state dict.
const (
	orderedDict      = "collections.OrderedDict"
	rebuildTensor    = "torch._utils._rebuild_tensor_v2"
	rebuildParameter = "torch._utils._rebuild_parameter"
)

func knownGlobal(g global) bool {
	return storageTypes[g] != "" || g == orderedDict || g == rebuildTensor || g == rebuildParameter
}

// call builds what the names of a state dict build in Python.
func (a *archive) call(f global, args tuple) (any, error) {
	switch {
	case f == orderedDict && len(args) == 0:
		return &dict{}, nil
	case f == rebuildTensor && len(args) >= 4: // storage, offset, shape, strides, and what gradients need
		return a.tensor(args)
	case f == rebuildParameter && len(args) >= 1:
		if v, ok := args[0].(view); ok {
			return v, nil
		}
	}
	return nil, errPickle
}

func (a *archive) tensor(args tuple) (any, error) {
	dtype, storage, err := a.storage(args[0])
	if err != nil {
		return nil, err
	}
	offset, ok := args[1].(int64)
	shape, isShape := integers(args[2])
	strides, isStrides := integers(args[3])
	const maxDims = 64 // PyTorch's own
	if !ok || !isShape || !isStrides || len(shape) != len(strides) || len(shape) > maxDims {
		return nil, errPickle
	}
	v := view{dtype: dtype, shape: shape, strides: strides}
	return v, v.place(storage, offset)
}

// place sets the tensor's data, if it lies inside its storage.
func (v *view) place(storage []byte, offset int64) error {
	size := dtypes[v.dtype].size
	total := len(storage) / size
	n, ok := elements(v.shape)
	if !ok || n > total || offset < 0 || offset > int64(total) {
		return fmt.Errorf("a tensor of shape %v from number %d on does not lie in its storage of %d: %w", v.shape, offset, total, errPickle)
	}
	if n == 0 {
		return nil
	}
	last := int(offset)
	for i, d := range v.shape {
		// n <= total bounds d; strides are bounded before they are multiplied.
		if v.strides[i] < 0 || v.strides[i] > total {
			return fmt.Errorf("a tensor of strides %v in a storage of %d: %w", v.strides, total, errPickle)
		}
		if d-1 > (math.MaxInt64-last)/max(1, v.strides[i]) {
			return errPickle
		}
		last += (d - 1) * v.strides[i]
	}
	if last >= total {
		return fmt.Errorf("a tensor of shape %v and strides %v from number %d on does not lie in its storage of %d: %w", v.shape, v.strides, offset, total, errPickle)
	}
	v.data = storage[int(offset)*size:]
	return nil
}

// storage resolves ("storage", TYPE, key, device, count of numbers).
func (a *archive) storage(v any) (dtype string, b []byte, err error) {
	p, _ := v.(persistent)
	id, _ := p.id.(tuple)
	if len(id) != 5 || id[0] != any("storage") {
		return "", nil, errPickle
	}
	typ, isType := id[1].(global)
	key, isKey := id[2].(string)
	count, isCount := id[4].(int64)
	dtype = storageTypes[typ]
	if !isType || !isKey || !isCount || dtype == "" {
		return "", nil, errPickle
	}
	b, ok := a.storages[key]
	if !ok { // several tensors may share one
		if b, err = a.entry("data/" + key); err != nil {
			return "", nil, err
		}
		a.storages[key] = b
	}
	if size := int64(dtypes[dtype].size); count < 0 || count > int64(len(b))/size || count*size != int64(len(b)) {
		return "", nil, fmt.Errorf("storage %.40q has %d bytes for %d numbers of %s (hint: the file is torn)", key, len(b), count, dtype)
	}
	return dtype, b, nil
}

// integers reads a tuple of them.
func integers(v any) ([]int, bool) {
	t, ok := v.(tuple)
	out := make([]int, len(t))
	for i, x := range t {
		n, isInt := x.(int64)
		out[i], ok = int(n), ok && isInt
	}
	return out, ok
}

// stateDict takes the tensors from a pickle's value.
func stateDict(v any) (*File, error) {
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("the file holds no dict: %w", errPickle)
	}
	for _, inner := range []string{"state_dict", "model"} { // how trainers wrap one
		if i := slices.Index(d.keys, any(inner)); i >= 0 {
			if in, ok := d.values[i].(*dict); ok {
				d = in
				break
			}
		}
	}
	f := &File{PT: true, views: map[string]view{}}
	for i, key := range d.keys {
		name, ok := key.(string)
		v, isTensor := d.values[i].(view)
		if !ok || !isTensor {
			return nil, fmt.Errorf("the entry %.60q is not a tensor: %w", fmt.Sprint(name), errPickle)
		}
		f.views[name] = v
	}
	return f, nil
}
