package tensorfile

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
)

// zipMagic is the beginning of files that torch.save of PyTorch 1.6 or later wrote.
// Such a file is a zip archive of one folder. data.pkl in it is a pickle of the
// object without its numbers, and data/KEY, uncompressed, holds the numbers of each
// storage.
const zipMagic = "PK\x03\x04"

// maxPickle bounds the size of data.pkl. That of the published model has 44 kB.
const maxPickle = 64 << 20

// archive is an opened file of torch.save.
type archive struct {
	entries  map[string]*zip.File // by name within the folder
	bytes    []byte               // of the entire file
	storages map[string][]byte    // storages read so far, by key
	read     int                  // total size of the entries read so far
}

// ParsePT parses a file that torch.save wrote from a state dict, or from a dict in which
// there is one. It executes no code from the file. It checks that every tensor of the
// state dict lies within its storage, and that the tensors together are not much larger
// than the file. Values outside the state dict are not checked.
func ParsePT(b []byte) (*File, error) {
	f, err := openPT(b)
	if err == nil {
		err = f.selectOnly()
	}
	return f, err
}

// openPT returns a file whose state dicts are not selected yet.
func openPT(b []byte) (*File, error) {
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
	u := unpickler{r: bytes.NewReader(pickle)}
	top, err := u.run()
	if err != nil {
		return nil, err
	}
	f := &File{PT: true, archive: a}
	if d, ok := top.(*dict); ok {
		f.search(d)
	}
	if len(f.states) == 0 {
		return nil, noState(top)
	}
	return f, nil
}

// bounded returns an error if the tensors claim to be more than four times as large
// as the file. Tied weights share a storage, but a state dict has few of them,
// whereas a malicious file could let many tensors share one.
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

// newArchive reads the directory of the archive and checks the byte order.
func newArchive(b []byte) (*archive, error) {
	z, err := openZip(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	a := &archive{entries: map[string]*zip.File{}, bytes: b, storages: map[string][]byte{}}
	// The name of the folder depends on that of the file, so only the rest of a name
	// counts.
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

// openZip reads the directory of a file of torch.save. It returns an error if the
// entries account for too few of the file's bytes, which means that a directory was
// attached to unrelated data.
func openZip(r io.ReaderAt, size int64) (*zip.Reader, error) {
	const hint = "(hint: save model.state_dict() with torch.save of PyTorch 1.6 or later)"
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not a complete file of torch.save: %v %s", err, hint)
	}
	// 1 MiB for the directory and 1 KiB per entry for its headers and its padding:
	// torch.save aligns storages to 64 bytes. float64 cannot overflow.
	most := float64(1 << 20)
	for _, f := range z.File {
		most += 1<<10 + float64(f.CompressedSize64)
	}
	if float64(size) > most {
		return nil, fmt.Errorf("it has %d bytes, and its entries only %.0f %s", size, most, hint)
	}
	return z, nil
}

// entry returns the bytes of an uncompressed entry, after checking its position, its
// size and its CRC-32. It counts the bytes that it returns, since entries that
// overlap could otherwise make the work much larger than the file.
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
		return nil, fmt.Errorf("the archive's entry %.40q extends beyond the end of the file (hint: the file is torn)", name)
	}
	if a.read += int(n); a.read > len(a.bytes) {
		return nil, fmt.Errorf("the archive's entry %.40q overlaps another one (hint: the file is torn; fetch it again)", name)
	}
	b := a.bytes[at : at+int64(n)]
	if crc32.ChecksumIEEE(b) != f.CRC32 {
		return nil, fmt.Errorf("the archive's entry %.40q has changed since it was written (hint: the file is torn; fetch it again)", name)
	}
	return b, nil
}

// storageTypes maps PyTorch's storage classes to data types.
var storageTypes = map[global]string{
	"torch.DoubleStorage": "F64", "torch.FloatStorage": "F32", "torch.HalfStorage": "F16", "torch.BFloat16Storage": "BF16",
	"torch.LongStorage": "I64", "torch.IntStorage": "I32", "torch.ShortStorage": "I16",
	"torch.ByteStorage": "U8", "torch.CharStorage": "I8", "torch.BoolStorage": "BOOL",
}

// maxDims is PyTorch's limit on the number of dimensions.
const maxDims = 64

// tensor constructs a tensor from the arguments of _rebuild_tensor_v2.
func (a *archive) tensor(t tensor) (view, error) {
	dtype, storage, err := a.storage(t[0])
	if err != nil {
		return view{}, err
	}
	offset, ok := t[1].(int64)
	shape, isShape := integers(t[2])
	strides, isStrides := integers(t[3])
	if !ok || !isShape || !isStrides || len(shape) != len(strides) || len(shape) > maxDims {
		return view{}, errPickle
	}
	v := view{dtype: dtype, shape: shape, strides: strides}
	return v, v.place(storage, offset)
}

// place sets the tensor's data to the part of storage from element offset on, after
// checking that the last element lies within the storage. The checks are ordered so
// that no product overflows.
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
	// last becomes the index of the tensor's last element, at which all indices have
	// their maximum, because strides are not negative.
	last := int(offset)
	for i, d := range v.shape {
		// n <= total bounds d, and total bounds the stride.
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

// storage resolves a persistent id, the tuple ("storage", TYPE, key, device, number
// of elements), and returns the storage's data type and bytes.
func (a *archive) storage(v any) (dtype string, b []byte, err error) {
	p, _ := v.(persistent)
	id, _ := p.id.(tuple)
	if len(id) != 5 || id[0] != any("storage") {
		return "", nil, errPickle
	}
	typ, isType := id[1].(global)
	key, isKey := id[2].(string)
	count, isCount := id[4].(int64)
	if !isType || !isKey || !isCount {
		return "", nil, errPickle
	}
	if dtype = storageTypes[typ]; dtype == "" {
		return "", nil, fmt.Errorf("its storage is a %.80q (hint: convert it to float32)", string(typ))
	}
	b, ok := a.storages[key]
	if !ok { // the first of the tensors that share this storage
		if b, err = a.entry("data/" + key); err != nil {
			return "", nil, err
		}
		a.storages[key] = b
	}
	// A storage has exactly as many bytes as its pickle states. The division comes
	// first, since the product could overflow.
	if size := int64(dtypes[dtype].size); count < 0 || count > int64(len(b))/size || count*size != int64(len(b)) {
		return "", nil, fmt.Errorf("storage %.40q has %d bytes for %d numbers of %s (hint: the file is torn)", key, len(b), count, dtype)
	}
	return dtype, b, nil
}

// integers converts a tuple of integers.
func integers(v any) ([]int, bool) {
	t, ok := v.(tuple)
	out := make([]int, len(t))
	for i, x := range t {
		n, isInt := x.(int64)
		out[i], ok = int(n), ok && isInt
	}
	return out, ok
}
