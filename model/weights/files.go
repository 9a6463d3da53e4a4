package weights

import (
	"bytes"
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
)

// Names of a checkpoint's files in its folder. A published one consists of PTName and
// HydraName. One that `weights convert` wrote has a sidecar too.
const (
	FileName    = "weights.safetensors"
	SidecarName = "weights.json"
	PTName      = "weights.pt"
	HydraName   = "config.json"
)

// Published is the kind of the sidecar that Load creates for a .pt file without one.
// Its Config is the HydraName file in the same folder. model.Read determines the
// family and completes the sidecar.
const Published = "published"

// Load reads a checkpoint's tensors and its sidecar, and checks that they belong
// together. path is the checkpoint's folder, or its safetensors or .pt file.
func Load(path string) (*File, *Sidecar, error) {
	path, err := locate(path)
	if err != nil {
		return nil, nil, err
	}
	// The size is checked before the file is read, and the checksum of its bytes
	// before they are parsed.
	if err := Check(path); err != nil {
		return nil, nil, err
	}
	b, err := safefile.Read(path, safefile.MaxWeights)
	if err != nil {
		return nil, nil, fmt.Errorf("opening weights: %w %s", err, whereHint)
	}
	s, err := sidecarOf(path, digest(b))
	if err != nil {
		return nil, nil, err
	}
	f, err := ParseFile(path, b)
	return f, s, err
}

// whereHint is appended to errors about a missing checkpoint.
const whereHint = "(hint: give the folder that train --out wrote, or one with weights.pt and config.json; the same train command restores lost files)"

// ErrDamaged is wrapped by errors about files whose contents are not as they were
// written.
var ErrDamaged = errors.New("damaged")

// againHint is appended to errors about damaged files.
const againHint = "(hint: run the command that wrote it again)"

// locate returns the path of the file of tensors. In a folder that is FileName, or
// else the only .pt file, which is the rule of stable-worldmodel.
func locate(path string) (string, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return path, nil // a file, or nothing, which Load reports
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", fmt.Errorf("opening weights: %w %s", err, whereHint)
	}
	var pts []string
	for _, e := range entries {
		if e.Name() == FileName {
			return filepath.Join(path, FileName), nil
		}
		if filepath.Ext(e.Name()) == ".pt" {
			pts = append(pts, e.Name())
		}
	}
	switch len(pts) {
	case 0:
		return filepath.Join(path, FileName), nil // missing, which Load reports
	case 1:
		return filepath.Join(path, pts[0]), nil
	}
	return "", fmt.Errorf("the folder %s holds %d .pt files (hint: give the path of one)", path, len(pts))
}

// sidecarOf reads the sidecar of a file of tensors whose SHA-256 is sum, or creates
// that of a published file.
func sidecarOf(path, sum string) (*Sidecar, error) {
	s, err := ReadSidecar(SidecarOf(path))
	if errors.Is(err, fs.ErrNotExist) && filepath.Ext(path) == ".pt" {
		return published(path, sum)
	}
	if err != nil {
		return nil, err
	}
	if s.SHA256 != sum {
		return nil, fmt.Errorf("weights %s are %w: their checksum differs from that in their sidecar %s", path, ErrDamaged, againHint)
	}
	return s, nil
}

// SidecarOf returns the path of the sidecar of a file of tensors.
func SidecarOf(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".json" }

// published creates the sidecar of a published .pt file from the config.json in its
// folder.
func published(path, sum string) (*Sidecar, error) {
	config := filepath.Join(filepath.Dir(path), HydraName)
	b, err := safefile.Read(config, safefile.MaxRecord)
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
		return nil, fmt.Errorf("%w, not a sidecar: %v %s", ErrDamaged, err, againHint)
	}
	if s.Kind == "" || s.SHA256 == "" {
		return nil, fmt.Errorf("not a sidecar: kind or sha256 is missing (hint: is this the weights.json that train wrote?)")
	}
	if err := safefile.CheckNames(s); err != nil {
		return nil, fmt.Errorf("not a sidecar that train wrote: %w", err)
	}
	if s.Digest != "" && s.Digest != digest(bytes.Replace(b, digestLine(s.Digest), digestLine(""), 1)) {
		return nil, fmt.Errorf("%w: the digest of the sidecar does not match its contents %s", ErrDamaged, againHint)
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
func Save(path string, tensors []Tensor, s *Sidecar) error {
	sum := sha256.New()
	err := safefile.Write(path, func(w io.Writer) error {
		w = io.MultiWriter(w, sum)
		if filepath.Ext(path) == ".pt" {
			return WritePT(w, tensors)
		}
		return Write(w, nil, tensors)
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
