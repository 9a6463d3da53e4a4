package cell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// canonical is v as JSON with sorted keys, no white space, and numbers exactly
// as encoding/json writes them (the shortest text that reads back equal).
func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("it has no JSON form: %w", err)
	}
	return canonicalJSON(b)
}

// canonicalJSON sorts the keys of a JSON text and keeps its numbers literally.
func canonicalJSON(b []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the JSON value")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
