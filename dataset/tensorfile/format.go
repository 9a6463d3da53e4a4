package tensorfile

import (
	"bytes"
	"errors"
	"fmt"

	"scalewm/dataset/safefile"
)

// formatHead is the number of bytes from which formatOf determines a file's format.
const formatHead = 64

// legacyMagic is the pickle, after its header, of the number that begins files of
// torch.save before PyTorch 1.6.
const legacyMagic = "\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."

// formatOf determines the format of a file by its first bytes: a zip archive of
// torch.save (pt), or safetensors, whose JSON header begins after 8 bytes. The name of a
// file says nothing about its format.
func formatOf(head []byte) (pt bool, err error) {
	head = head[:min(formatHead, len(head))]
	switch {
	case bytes.HasPrefix(head, []byte(zipMagic)):
		return true, nil
	case len(head) > 8 && head[8] == '{':
		return false, nil
	case bytes.Contains(head, []byte(legacyMagic)):
		return false, errors.New(`torch.save of PyTorch before 1.6 wrote it, in a format that is not read (hint: in Python, torch.save(torch.load(p, weights_only=True), "weights.pt") writes today's)`)
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return false, errors.New("it is a pointer of Git LFS, not the file itself (hint: git lfs pull)")
	}
	return false, errors.New("it is neither a zip archive of torch.save nor safetensors (hint: the file is torn, or no checkpoint)")
}

// ErrDamaged is wrapped by errors about files whose contents are not as they were
// written.
var ErrDamaged = errors.New("damaged")

// Check returns an error, which wraps ErrDamaged, if a large file's header does not
// account for its size. Callers use it before they allocate memory for the contents.
// I/O errors are ignored, since reading the file reports them.
func Check(path string) error {
	const small = 64 << 20 // a smaller file may be read first and checked then
	f, err := safefile.Open(path, safefile.MaxWeights)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= small {
		return nil
	}
	// Of a zip archive only the directory is read, of a safetensors file only the
	// header. Both state the sizes of all contents.
	head := make([]byte, formatHead)
	if _, err = f.ReadAt(head, 0); err != nil {
		return nil
	}
	pt, err := formatOf(head)
	switch {
	case err != nil:
	case pt:
		_, err = openZip(f, st.Size())
	default:
		head = make([]byte, min(headerEnd(head), st.Size()))
		if _, err = f.ReadAt(head, 0); err == nil {
			_, _, err = parseHeader(head, st.Size())
		}
	}
	if err != nil {
		return fmt.Errorf("reading weights %s: %w: %w", path, ErrDamaged, err)
	}
	return nil
}

// ParseFile parses and checks the bytes of a file with a single state dict. path appears
// in errors.
func ParseFile(path string, b []byte) (*File, error) {
	f, err := ParseStates(path, b)
	if err != nil {
		return nil, err
	}
	if err := f.selectOnly(); err != nil {
		return nil, fmt.Errorf("reading weights %s: %w", path, err)
	}
	return f, nil
}

// ParseStates parses the bytes of a file of either format. Of several state dicts none
// is selected yet.
func ParseStates(path string, b []byte) (f *File, err error) {
	pt, err := formatOf(b)
	switch {
	case err != nil:
	case pt:
		f, err = openPT(b)
	default:
		f, err = Parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("reading weights %s: %w", path, err)
	}
	return f, nil
}
