package libscalewm

import (
	"strings"
	"testing"

	"scalewm/eval/external"
	"scalewm/eval/results"
	thirdparty "scalewm/third_party"
)

// Python's keywords are the settings that have a flag, with the flag's default, and an
// evaluation accepts each of them.
func TestSettingsAreKeywords(t *testing.T) {
	keywords := must(t, "open", 0, map[string]any{"home": thirdparty.Home})["rules"].(map[string]any)
	request := func(rules map[string]any) map[string]any {
		return map[string]any{"model": external.Description{Name: "mine", Weights: "ab", Kind: results.PythonPolicy, FrameSize: 28}, "rules": rules,
			"task": "tworoom", "data": "nosuch.h5", "out": t.TempDir(), "solver": "cem", "tier": "T5", "sets": "s101", "episodes": 2}
	}
	for _, s := range results.Settings {
		if s.Flag == "" {
			continue
		}
		if keywords[s.Keyword()] != s.Default() {
			t.Errorf("%s is %v by default in Python, want the flag's %s", s.Keyword(), keywords[s.Keyword()], s.Default())
		}
		t.Logf("keyword %s, by default %s", s.Keyword(), s.Default())
		delete(keywords, s.Keyword())
		handle := uint64(must(t, "evaluate.new", 0, request(map[string]any{s.Keyword(): s.Default()}))["handle"].(float64))
		must(t, "close", handle, nil)
	}
	if len(keywords) > 0 {
		t.Errorf("keywords without a flag: %v", keywords)
	}
	if _, err := try("evaluate.new", 0, request(map[string]any{"horizon": "5"})); err == nil || !strings.Contains(err.Error(), "there is no setting horizon (hint: ") {
		t.Errorf("a setting without a flag: %v", err)
	}
}
