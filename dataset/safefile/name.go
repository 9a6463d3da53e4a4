package safefile

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxName bounds one name in bytes. File names are composed of several of them and
// file systems allow 255 bytes.
const maxName = 64

// CheckName returns an error unless s is a valid name of a task, a method, a set, a
// tier, a solver or the like: at most 64 ASCII letters and digits and the characters
// _ - . @ =, of which the first is a letter or a digit. A name that was read from a
// file can then be part of a path, a table or a page: it cannot be "../x", an option,
// a spreadsheet formula or markup. The empty string is valid and means that there is
// no name.
func CheckName(s string) error {
	if len(s) > maxName {
		return fmt.Errorf("the name %.20q... has %d bytes (hint: a name has at most %d)", s, len(s), maxName)
	}
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '-' || c == '.' || c == '@' || c == '=' || c == '+'):
		default:
			return fmt.Errorf("%q is not a valid name (hint: use letters and digits and, after the first character, _ - . @ = +)", s)
		}
	}
	return nil
}

// CheckNames applies [CheckName] to every string field of a struct, or of a pointer
// to one, that was read from a file. A field that may hold other text says so with
// the tag text:"free".
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

// Visible returns s with control and format characters other than line feeds and tabs
// written as \u001b, and bytes that are not UTF-8 as \ufffd. Names and attributes in
// files from elsewhere could otherwise send escape sequences to a terminal or reverse
// the direction of text on a page.
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
			// Beyond 16 bits: a surrogate pair, as in JSON.
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&w, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&w, `\u%04x`, r)
		}
	}
	return w.String()
}

// hidden reports whether Visible escapes a character.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp))
}
