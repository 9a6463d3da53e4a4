package weights

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Names of a checkpoint's files in its folder.
const (
	FileName    = "weights.safetensors"
	SidecarName = "weights.json"
)

// Load reads the checkpoint of a folder, or of the path of its safetensors
// file: its tensors and its sidecar, which must belong together.
func Load(path string) (*File, *Sidecar, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, FileName)
	}
	s, err := ReadSidecar(strings.TrimSuffix(path, filepath.Ext(path)) + ".json")
	if err != nil {
		return nil, nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening weights: %w (hint: give the folder that train --out wrote)", err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, nil, fmt.Errorf("weights %s are not those of their sidecar (hint: the file is torn or was replaced; train again)", path)
	}
	f, err := Parse(b)
	if err != nil {
		return nil, nil, fmt.Errorf("reading weights %s: %w", path, err)
	}
	return f, s, nil
}

// ReadSidecar reads a sidecar file.
func ReadSidecar(path string) (*Sidecar, error) {
	b, err := os.ReadFile(path)
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
		return nil, fmt.Errorf("not a sidecar: %v (hint: is this the weights.json that train wrote?)", err)
	}
	if s.Kind == "" || s.SHA256 == "" {
		return nil, fmt.Errorf("not a sidecar: kind or sha256 is missing (hint: is this the weights.json that train wrote?)")
	}
	return &s, nil
}

// Encode is the sidecar's bytes.
func (s *Sidecar) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// Encode is the bytes of a file of tensors, and their hex SHA-256 for the sidecar.
func Encode(meta map[string]string, tensors []Tensor) ([]byte, string, error) {
	var b bytes.Buffer
	if err := Write(&b, meta, tensors); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), hex.EncodeToString(sum[:]), nil
}
