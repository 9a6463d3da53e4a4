// Package weights reads and writes checkpoints: a file of tensors (package tensorfile)
// and the JSON sidecar that describes it. Load and Save handle both together.
package weights

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/dataset/tensorfile"
)

// Names of a checkpoint's files in its folder. A published one consists of HydraName and
// a file of tensors of any name, PTName if stable-worldmodel wrote it. One that `weights
// convert` wrote has a sidecar too.
const (
	FileName    = "weights.safetensors"
	SidecarName = "weights.json"
	PTName      = "weights.pt"
	HydraName   = "config.json"
	// ResumeName is the resume point of an unfinished training, which is no checkpoint.
	ResumeName = "resume.safetensors"
)

// Published is the kind of the sidecar that Load creates for a file without one.
// Its Config is the HydraName file in the same folder. model.Read determines the
// family and completes the sidecar.
const Published = "published"

// Load reads a checkpoint's tensors and its sidecar, and checks that they belong
// together. path is the checkpoint's folder, or its file of tensors. If that has several
// state dicts, none is selected yet.
func Load(path string) (*tensorfile.File, *Sidecar, error) {
	path, err := locate(path)
	if err != nil {
		return nil, nil, err
	}
	// The size is checked before the file is read, and the checksum of its bytes
	// before they are parsed.
	if err := tensorfile.Check(path); err != nil {
		return nil, nil, err
	}
	b, err := safefile.Read(path, safefile.MaxWeights)
	if err != nil {
		return nil, nil, fmt.Errorf("opening weights: %w %s", err, whereHint)
	}
	s, missing := sidecarOf(path, digest(b))
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return nil, nil, missing
	}
	// A file that is no checkpoint needs no config.json.
	f, err := tensorfile.ParseStates(path, b)
	if err = cmp.Or(err, missing); err != nil {
		return nil, nil, err
	}
	if states := f.States(); len(states) == 1 {
		err = f.Select(states[0])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading weights %s: %w", path, err)
	}
	return f, s, nil
}

// whereHint is appended to errors about a missing checkpoint.
const whereHint = "(hint: give the folder that train --out wrote, or one with weights.pt and config.json; the same train command restores lost files)"

// againHint is appended to errors about damaged files.
const againHint = "(hint: run the command that wrote it again)"

// endings are those of the names of published files of tensors. The format is determined
// by the contents.
var endings = []string{".pt", ".pth", ".pth.tar", ".ckpt", ".bin", ".safetensors"}

// locate returns the path of the file of tensors. In a folder that is FileName with its
// sidecar, or else the only file with one of the endings. Other weights of a training,
// safetensors files with a sidecar, do not count: an unfinished training has them too.
func locate(path string) (string, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return path, nil // a file, or nothing, which Load reports
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", fmt.Errorf("opening weights: %w %s", err, whereHint)
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	var found []string
	for _, e := range entries {
		name := e.Name()
		ours := name == ResumeName || name != FileName && filepath.Ext(name) == filepath.Ext(FileName) && there[SidecarOf(name)]
		if !ours && !e.IsDir() && slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(name, end) }) {
			found = append(found, name)
		}
	}
	switch {
	case there[FileName] && there[SidecarName], len(found) == 0: // Load reports that it is missing
		return filepath.Join(path, FileName), nil
	case len(found) == 1:
		return filepath.Join(path, found[0]), nil
	}
	return "", fmt.Errorf("the folder %s has %d files of weights: %s (hint: give the path of one)", path, len(found), tensorfile.Listed(found))
}

// sidecarOf reads the sidecar of a file of tensors whose SHA-256 is sum, or creates
// that of a published file.
func sidecarOf(path, sum string) (*Sidecar, error) {
	s, err := ReadSidecar(SidecarOf(path))
	if errors.Is(err, fs.ErrNotExist) {
		return published(path, sum)
	}
	if err != nil {
		return nil, err
	}
	if s.SHA256 != sum {
		return nil, fmt.Errorf("weights %s are %w: their checksum differs from that in their sidecar %s", path, tensorfile.ErrDamaged, againHint)
	}
	return s, nil
}

// SidecarOf returns the path of the sidecar of a file of tensors.
func SidecarOf(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".json" }

// published creates the sidecar of a published file from the config.json in its folder.
func published(path, sum string) (*Sidecar, error) {
	config := filepath.Join(filepath.Dir(path), HydraName)
	b, err := safefile.Read(config, safefile.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has neither a sidecar %s of scalewm nor a %s in its folder: %w "+
			"(hint: put the config.json that was published with the weights into the same folder; the same train command restores a lost sidecar)", path, filepath.Base(SidecarOf(path)), HydraName, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the config of %s: %w (hint: put the config.json that was published with it into the same folder)", path, err)
	}
	if !json.Valid(b) {
		return nil, fmt.Errorf("%s is not JSON (hint: fetch the config.json of %s again)", config, filepath.Base(path))
	}
	return &Sidecar{Kind: Published, Config: b, SHA256: sum}, nil
}

// ReadSidecar reads and checks a sidecar file.
func ReadSidecar(path string) (*Sidecar, error) {
	b, err := safefile.Read(path, safefile.MaxRecord)
	if err != nil {
		return nil, fmt.Errorf("opening the sidecar of a checkpoint: %w (hint: give the folder that train --out wrote)", err)
	}
	s, err := ParseSidecar(b)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return s, nil
}

// ParseSidecar parses a sidecar and checks its names and its digest.
func ParseSidecar(b []byte) (*Sidecar, error) {
	var s Sidecar
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w, not a sidecar: %v %s", tensorfile.ErrDamaged, err, againHint)
	}
	if s.Kind == "" || s.SHA256 == "" {
		return nil, fmt.Errorf("not a sidecar: kind or sha256 is missing (hint: is this the weights.json that train wrote?)")
	}
	if err := safefile.CheckNames(s); err != nil {
		return nil, fmt.Errorf("not a sidecar that train wrote: %w", err)
	}
	if s.Digest != "" && s.Digest != digest(bytes.Replace(b, digestLine(s.Digest), digestLine(""), 1)) {
		return nil, fmt.Errorf("%w: the digest of the sidecar does not match its contents %s", tensorfile.ErrDamaged, againHint)
	}
	return &s, nil
}

// Encode returns the bytes of the sidecar. It sets Digest to the SHA-256 of these
// bytes with an empty digest, which ParseSidecar can recompute. Digest is the last
// field, so that the last occurrence of its line is the field itself and not part of
// a text.
func (s *Sidecar) Encode() ([]byte, error) {
	s.Digest = ""
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	s.Digest = digest(b)
	at := bytes.LastIndex(b, digestLine(""))
	return slices.Concat(b[:at], bytes.Replace(b[at:], digestLine(""), digestLine(s.Digest), 1)), nil
}

// digest returns the SHA-256 of b in hexadecimal.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// digestLine returns the JSON member for a digest.
func digestLine(of string) []byte { return fmt.Appendf(nil, "\"digest\": %q", of) }

// Save writes tensors, as a .pt or a safetensors file by the path's extension, and
// then the sidecar s, whose SHA256 it sets. Each of the two files is replaced
// atomically. The sidecar is last, so that a checkpoint with a valid sidecar is
// complete.
func Save(path string, tensors []tensorfile.Tensor, s *Sidecar) error {
	sum := sha256.New()
	err := safefile.Write(path, func(w io.Writer) error {
		w = io.MultiWriter(w, sum)
		if filepath.Ext(path) == ".pt" {
			return tensorfile.WritePT(w, tensors)
		}
		return tensorfile.Write(w, nil, tensors)
	})
	if err != nil {
		return err
	}
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	side, err := s.Encode()
	if err != nil {
		return fmt.Errorf("writing the sidecar of %s: %w", path, err)
	}
	return safefile.Write(SidecarOf(path), func(w io.Writer) error { _, err := w.Write(side); return err })
}
