package dataset

import (
	"strings"
	"testing"
)

// named is a fake with the attribute env.
type named struct {
	*fake
	env      string
	noFrames bool
}

func (n named) Attr(string) (string, bool) { return n.env, n.env != "" }
func (n named) FrameSize() int {
	if n.noFrames {
		return 0
	}
	return n.fake.FrameSize()
}

func TestCheckTask(t *testing.T) {
	f := newFake(t, 3) // its actions have 2 numbers
	for name, c := range map[string]struct {
		src  named
		dim  int
		want string
	}{
		"by name":        {named{fake: f, env: "tworoom"}, 2, ""},
		"by id":          {named{fake: f, env: "swm/TwoRoom-v1"}, 2, ""},
		"says nothing":   {named{fake: f}, 2, ""},
		"another task":   {named{fake: f, env: "pusht"}, 2, `records the task "pusht"`},
		"no frames":      {named{fake: f, noFrames: true}, 2, "no pixels"},
		"another action": {named{fake: f}, 5, "actions have 2 numbers"},
	} {
		err := CheckTask(c.src, "tworoom", "swm/TwoRoom-v1", c.dim)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint:") {
			t.Errorf("%s: %v, want %q and a hint", name, err, c.want)
		}
	}
}
