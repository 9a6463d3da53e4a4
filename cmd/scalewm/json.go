package main

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// printJSON prints v as one line, the last line of stdout under --json. Nil slices
// and maps are printed as [] and {}, so that readers need not handle null.
func (c *command) printJSON(v any) error {
	b, err := json.Marshal(withoutNil(reflect.ValueOf(v)).Interface())
	if err != nil {
		return fmt.Errorf("writing the JSON result: %w", err)
	}
	_, err = fmt.Fprintf(c.stdout, "%s\n", b)
	return err
}

// marshaler is the type of values that produce their own JSON.
var marshaler = reflect.TypeFor[json.Marshaler]()

// withoutNil returns a deep copy of v in which nil slices and maps are empty, in all
// fields that JSON shows. Values with their own MarshalJSON are returned unchanged.
func withoutNil(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() { // null is the right JSON for an absent value
			return v
		}
	case reflect.Struct, reflect.Slice, reflect.Map:
	default:
		return v
	}
	// The method set of the pointer type includes that of the type itself.
	if reflect.PointerTo(v.Type()).Implements(marshaler) {
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
