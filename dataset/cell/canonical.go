package cell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// canonical returns v as JSON with sorted keys, no white space, and numbers as
// encoding/json writes them (the shortest text that parses to the same float64). Ids
// and checksums are hashes of this form, so it must not change.
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

// sortFlat is canonicalJSON for the common form of a spec, one object of numbers and
// plain strings as encoding/json writes it: it sorts the text of the fields instead
// of decoding and encoding them. A grid names a hundred thousand cells, and this
// takes a fifth of the time. ok is false if b has another form: nested values, or a
// backslash, behind which a quote would not end a string.
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
	// Compare keys without their quotes, as encoding/json sorts them. With them, the
	// quote would take part in the order: "a" would come after "a!".
	key := func(field []byte) []byte { return field[1 : 1+bytes.IndexByte(field[1:], '"')] }
	slices.SortFunc(fields, func(x, y []byte) int { return bytes.Compare(key(x), key(y)) })
	return append(append([]byte("{"), bytes.Join(fields, []byte(","))...), '}'), true
}

// canonicalJSON sorts the keys of a JSON text and keeps its numbers literally, since
// decoding them to float64 would round large integers. It does not escape <, > and &,
// which are plain text in a file.
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
