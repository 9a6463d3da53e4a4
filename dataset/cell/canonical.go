package cell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// canonical is v as JSON with sorted keys, no white space, and numbers exactly
// as encoding/json writes them (the shortest text that reads back equal).
func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("it has no JSON form: %w", err)
	}
	if sorted, ok := sortFlat(b); ok {
		return sorted, nil
	}
	return canonicalJSON(b)
}

// sortFlat is canonicalJSON of what most specs are: an object of numbers and plain texts, as
// encoding/json writes it. Naming a hundred thousand cells takes a fifth of the time so.
func sortFlat(b []byte) (sorted []byte, ok bool) {
	if len(b) < 3 || b[0] != '{' || bytes.ContainsAny(b[1:], `{[\`) {
		return nil, false
	}
	fields := make([][]byte, 0, 1+bytes.Count(b, []byte(",")))
	quoted, from := false, 1
	for i, c := range b {
		if c == '"' {
			quoted = !quoted
		} else if !quoted && (c == ',' || c == '}') {
			fields, from = append(fields, b[from:i]), i+1
		}
	}
	key := func(field []byte) []byte { return field[1 : 1+bytes.IndexByte(field[1:], '"')] }
	slices.SortFunc(fields, func(x, y []byte) int { return bytes.Compare(key(x), key(y)) })
	return append(append([]byte("{"), bytes.Join(fields, []byte(","))...), '}'), true
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
