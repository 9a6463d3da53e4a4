package main

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// printJSON writes v as one line, the last line of stdout under --json. Lists and maps without entries
// are [] and {}, so that readers need not expect null.
func (c *command) printJSON(v any) error {
	b, err := json.Marshal(withoutNil(reflect.ValueOf(v)).Interface())
	if err != nil {
		return fmt.Errorf("writing the JSON result: %w", err)
	}
	_, err = fmt.Fprintf(c.stdout, "%s\n", b)
	return err
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// withoutNil is v with empty slices and maps in place of nil ones, in all that JSON shows of it. What writes its
// own JSON is left as it is.
func withoutNil(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v
		}
	case reflect.Struct, reflect.Slice, reflect.Map:
	default:
		return v
	}
	if reflect.PointerTo(v.Type()).Implements(marshaler) { // or the type itself
		return v
	}
	switch v.Kind() {
	case reflect.Interface:
		return withoutNil(v.Elem())
	case reflect.Pointer:
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(withoutNil(v.Elem()))
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(withoutNil(v.Field(i)))
			}
		}
		return out
	case reflect.Slice:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(withoutNil(v.Index(i)))
		}
		return out
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		out.SetMapIndex(entries.Key(), withoutNil(entries.Value()))
	}
	return out
}
