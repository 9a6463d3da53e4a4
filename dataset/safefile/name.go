package safefile

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxName bounds a name: files are named by several of them.
const maxName = 64

// CheckName refuses what is no name of a task, a method, a set, a tier, a solver
// or the like: at most 64 letters and digits of ASCII and the characters
// _ - . @ =, of which a letter or a digit comes first. Such a name can be a part
// of a path, a table or a page without being "../x", a formula or a script there.
// The empty name says that there is none.
func CheckName(s string) error {
	if len(s) > maxName {
		return fmt.Errorf("the name %.20q... has %d bytes (hint: a name has at most %d)", s, len(s), maxName)
	}
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '-' || c == '.' || c == '@' || c == '='):
		default:
			return fmt.Errorf("%q is no name (hint: letters and digits, and behind the first one also _ - . @ =)", s)
		}
	}
	return nil
}

// CheckNames refuses a struct that was read from bytes unless the text in each of
// its fields is a name. A field that holds other text says so by the tag
// text:"free".
func CheckNames(v any) error {
	s := reflect.Indirect(reflect.ValueOf(v))
	for _, f := range reflect.VisibleFields(s.Type()) {
		if f.Type.Kind() != reflect.String || f.Tag.Get("text") == "free" {
			continue
		}
		if err := CheckName(s.FieldByIndex(f.Index).String()); err != nil {
			return fmt.Errorf("its %s: %w", strings.ToLower(f.Name), err)
		}
	}
	return nil
}

// Visible shows control and format characters, but for line feeds and tabs, as \u001b, and bytes that are no UTF-8
// as \ufffd. Names and attributes of files that others made could else steer a terminal, or turn around what a page says.
func Visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var w strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			w.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r) // as JSON has it
			fmt.Fprintf(&w, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&w, `\u%04x`, r)
		}
	}
	return w.String()
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp))
}
