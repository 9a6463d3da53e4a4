package safefile

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"", "s101", "scale", "dinowm-random", "scale@half", "scale@w=0.3", "T2p", "mppi_stock", strings.Repeat("a", 64)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	for _, name := range []string{"../../tmp/x", "a/b", ".hidden", "..", "-rf", "=cmd|' /C calc'!A0", "@x", "a b", "<script>", "a\n", "a\x00",
		"é", "a\u202eb", "a|b", "a`b", "a$b", `a\b`, strings.Repeat("a", 65)} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%q: %v, want a refusal with a hint", name, err)
		}
	}
}

// Every string field of a struct must be a name, fields of named string types
// included, unless its tag says otherwise.
func TestCheckNames(t *testing.T) {
	type rules string
	type read struct {
		Method string `json:"method"`
		Rules  rules  `json:"rules"`
		Device string `json:"device" text:"free"`
		Seed   int    `json:"seed"`
	}
	if err := CheckNames(&read{"scale", "paper", "a / b", 1}); err != nil {
		t.Error(err)
	}
	for want, v := range map[string]read{"its method": {Method: "../x"}, "its rules": {Rules: "<b>"}} {
		if err := CheckNames(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", v, err, want)
		}
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 模型\n\tlines": "plain é 模型\n\tlines",
		"\x1b[2J\x07":         `\u001b[2J\u0007`,
		"a\rb":                `a\u000db`,
		"\u009b31m":           `\u009b31m`,
		"\u202egpj.exe":       `\u202egpj.exe`,
		"\u2028":              `\u2028`,
		"\U000e0041":          `\udb40\udc41`,
		"raw \x9b":            `raw \ufffd`,
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
