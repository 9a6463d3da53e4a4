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

// Names of a checkpoint's files in its folder. A published one has PTName and
// HydraName; what `weights convert` writes has a sidecar besides.
const (
	FileName    = "weights.safetensors"
	SidecarName = "weights.json"
	PTName      = "weights.pt"
	HydraName   = "config.json"
)

// Published is the kind of the sidecar that Load makes up for a .pt file which
// has none: its Config is then the HydraName beside the file, and what the
// weights are is for a model family to say.
const Published = "published"

// Load reads a checkpoint: its tensors and its sidecar, which must belong
// together. path is its folder, or its safetensors or .pt file.
func Load(path string) (*File, *Sidecar, error) {
	path, err := locate(path)
	if err != nil {
		return nil, nil, err
	}
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

const whereHint = "(hint: give the folder that train --out wrote, or one with weights.pt and config.json; what was lost the same train command writes again)"

// ErrDamaged is wrapped by the errors of reading files that are not as they were written.
var ErrDamaged = errors.New("damaged")

const againHint = "(hint: the same command that wrote it makes it again)"

// locate finds the file of tensors in a folder: ours, or else the only .pt file,
// which is the rule of stable-worldmodel.
func locate(path string) (string, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return path, nil // a file, or missing, which Load reports
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

// sidecarOf reads the sidecar of a file of tensors, or makes up that of a
// published one.
func sidecarOf(path, sum string) (*Sidecar, error) {
	s, err := ReadSidecar(SidecarOf(path))
	if errors.Is(err, fs.ErrNotExist) && filepath.Ext(path) == ".pt" {
		return published(path, sum)
	}
	if err != nil {
		return nil, err
	}
	if s.SHA256 != sum {
		return nil, fmt.Errorf("weights %s are %w: they are not those of their sidecar %s", path, ErrDamaged, againHint)
	}
	return s, nil
}

// SidecarOf is the path of the sidecar of a file of tensors.
func SidecarOf(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".json" }

func published(path, sum string) (*Sidecar, error) {
	config := filepath.Join(filepath.Dir(path), HydraName)
	b, err := safefile.Read(config, safefile.MaxRecord)
	if err != nil {
		return nil, fmt.Errorf("opening the config of %s: %w (hint: put the config.json that was published with it beside it)", path, err)
	}
	if !json.Valid(b) {
		return nil, fmt.Errorf("%s is not JSON (hint: fetch the config.json of %s again)", config, filepath.Base(path))
	}
	return &Sidecar{Kind: Published, Config: b, SHA256: sum}, nil
}

// ReadSidecar reads a sidecar file.
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

// ParseSidecar checks the bytes of a sidecar.
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
		return nil, fmt.Errorf("%w: a sidecar that is not as it was written %s", ErrDamaged, againHint)
	}
	return &s, nil
}

// Encode is the sidecar's bytes, with their digest.
func (s *Sidecar) Encode() ([]byte, error) {
	s.Digest = ""
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	s.Digest = digest(b)
	at := bytes.LastIndex(b, digestLine("")) // its last field
	return slices.Concat(b[:at], bytes.Replace(b[at:], digestLine(""), digestLine(s.Digest), 1)), nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func digestLine(of string) []byte { return fmt.Appendf(nil, "\"digest\": %q", of) }

// Save writes tensors, as a .pt or a safetensors file by the path's ending, and
// then the sidecar s, whose SHA256 it sets. Both appear whole or not at all.
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
