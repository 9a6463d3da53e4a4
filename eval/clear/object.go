package clear

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"scalewm/dataset/safefile"
)

// object is a JSON object that is read key by key. In contrast to a struct, it
// distinguishes keys by case, missing keys from zeros, and null from both, as Python
// does. Its methods record the first error.
type object struct {
	fields map[string]json.RawMessage
	where  string          // what the object is, for errors
	read   map[string]bool // the keys that were read or missing
	err    error
}

// parseObject returns the object in b.
func parseObject(b []byte, where string) *object {
	o := &object{where: where, read: map[string]bool{}}
	if json.Unmarshal(b, &o.fields) != nil || o.fields == nil {
		o.fail(errors.New("it is not an object (hint: fetch the file again)"))
	}
	return o
}

// fail records an error about the object.
func (o *object) fail(err error) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: %w", o.where, err)
	}
}

// unread returns the keys that were not read, sorted.
func (o *object) unread() []string {
	var keys []string
	for key := range o.fields {
		if !o.read[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// need returns the value of a key. A missing key is an error.
func need[T any](o *object, key string) T {
	var v T
	if _, ok := o.fields[key]; !ok && o.err == nil {
		o.fail(fmt.Errorf("it has no %s (hint: fetch the file again)", key))
	}
	return optional(o, key, v)
}

// optional returns the value of a key, or the default if the key is missing. Only a
// pointer accepts null.
func optional[T any](o *object, key string, missing T) T {
	raw, ok := o.fields[key]
	o.read[key] = true
	if !ok {
		return missing
	}
	var v T
	if null := string(raw) == "null" && reflect.TypeFor[T]().Kind() != reflect.Pointer; null || json.Unmarshal(raw, &v) != nil {
		o.fail(fmt.Errorf("its %s is %s, want %s (hint: fetch the file again)", key, shown(raw), kindName(reflect.TypeFor[T]())))
	}
	return v
}

// maxShown is the number of characters that shown returns at most.
const maxShown = 120

// shown returns the beginning of a JSON value on one line, for errors.
func shown(raw json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, raw[:min(len(raw), 1<<16)])
	if b.Len() == 0 {
		return "a long value"
	}
	s := []rune(safefile.Visible(b.String()))
	if len(s) > maxShown {
		return string(s[:maxShown]) + "..."
	}
	return string(s)
}

// kindName describes a type to somebody who reads the JSON.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem()) + " or null"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int64, reflect.Int:
		return "an integer"
	case reflect.Uint64:
		return "an integer from 0 to 2^64 - 1"
	case reflect.Map:
		return "an object"
	}
	return "a list or an object"
}
