package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
)

// recording is a data set in memory with a state, actions, and frames if size is not 0:
// a disc at the first two numbers of the state, each in [-1, 1].
type recording struct {
	episodes      []Episode
	state, action [][]float64
	size          int
}

func (r *recording) Rows() int           { return len(r.action) }
func (r *recording) Episodes() []Episode { return r.episodes }
func (r *recording) Columns() []envs.Column {
	c := []envs.Column{{Name: "action", DType: "float64", Width: len(r.action[0])}}
	if r.state != nil {
		c = append(c, envs.Column{Name: "state", DType: "float64", Width: len(r.state[0])})
	}
	return c
}

func (r *recording) Read(column string, from, to int) (out []float64, err error) {
	rows := r.action
	if column == "state" {
		rows = r.state
	}
	for _, v := range rows[from:to] {
		out = append(out, v...)
	}
	return out, nil
}

func (r *recording) FrameSize() int               { return r.size }
func (r *recording) Attr(string) (string, bool)   { return "", false }
func (r *recording) Fingerprint() (string, error) { return "", nil }
func (r *recording) Close() error                 { return nil }

func (r *recording) Frame(row int, dst []byte) error {
	at := r.state[row]
	for y := range r.size {
		for x := range r.size {
			scale := float64(r.size) / 2
			d := math.Hypot((at[0]+1)*scale-float64(x)-.5, (at[1]+1)*scale-float64(y)-.5)
			v := byte(40 + 200*min(1, max(0, .15*scale-d+.5)))
			for c := range 3 {
				dst[(y*r.size+x)*3+c] = v
			}
		}
	}
	return nil
}

// world is a synthetic system of two dimensions with the known lag 0.
type world struct {
	name string
	// act returns the action in a row; hidden and seen are the states up to this row.
	act func(g *rand.Rand, t int, hidden, seen [][2][2]float64, past [][2]float64) [2]float64
	// step returns position and velocity after an action. past has the actions before it.
	step func(g *rand.Rand, s [2][2]float64, a [2]float64, past [][2]float64) [2][2]float64
	// show returns the state that is recorded.
	show func(s [2][2]float64, a [2]float64, past [][2]float64) []float64
}

func both(f func(d int) float64) [2]float64 { return [2]float64{f(0), f(1)} }

// Policies.
func white(g *rand.Rand, _ int, _, _ [][2][2]float64, _ [][2]float64) [2]float64 {
	return both(func(int) float64 { return 2*g.Float64() - 1 })
}

func smooth(keep float64) func(*rand.Rand, int, [][2][2]float64, [][2][2]float64, [][2]float64) [2]float64 {
	return func(g *rand.Rand, t int, _, _ [][2][2]float64, past [][2]float64) [2]float64 {
		return both(func(d int) float64 {
			if t == 0 {
				return g.NormFloat64()
			}
			return keep*past[t-1][d] + math.Sqrt(1-keep*keep)*g.NormFloat64()
		})
	}
}

func held(n int) func(*rand.Rand, int, [][2][2]float64, [][2][2]float64, [][2]float64) [2]float64 {
	return func(g *rand.Rand, t int, _, _ [][2][2]float64, past [][2]float64) [2]float64 {
		if t%n != 0 {
			return past[t-1]
		}
		return both(func(int) float64 { return 2*g.Float64() - 1 })
	}
}

// feedback goes to the origin by position and velocity, with noise of its own.
func feedback(p, v, noise float64) func(*rand.Rand, int, [][2][2]float64, [][2][2]float64, [][2]float64) [2]float64 {
	return func(g *rand.Rand, t int, hidden, _ [][2][2]float64, _ [][2]float64) [2]float64 {
		return both(func(d int) float64 { return -p*hidden[t][0][d] - v*hidden[t][1][d] + noise*g.NormFloat64() })
	}
}

// Dynamics. A first-order world moves by the action; noise is its own.
func first(gain, noise float64) func(*rand.Rand, [2][2]float64, [2]float64, [][2]float64) [2][2]float64 {
	return func(g *rand.Rand, s [2][2]float64, a [2]float64, _ [][2]float64) [2][2]float64 {
		move := both(func(d int) float64 { return gain*a[d] + noise*g.NormFloat64() })
		return [2][2]float64{both(func(d int) float64 { return .98*s[0][d] + move[d] }), move}
	}
}

// second is a mass; with explicit steps the action shows in the velocity alone.
func second(keep, noise float64, explicit bool) func(*rand.Rand, [2][2]float64, [2]float64, [][2]float64) [2][2]float64 {
	return func(g *rand.Rand, s [2][2]float64, a [2]float64, _ [][2]float64) [2][2]float64 {
		v := both(func(d int) float64 { return keep*s[1][d] + .1*a[d] + noise*g.NormFloat64() })
		by := v
		if explicit {
			by = s[1]
		}
		return [2][2]float64{both(func(d int) float64 { return .99*s[0][d] + .1*by[d] }), v}
	}
}

// late moves by the action of n rows before.
func late(n int, base func(*rand.Rand, [2][2]float64, [2]float64, [][2]float64) [2][2]float64) func(*rand.Rand, [2][2]float64, [2]float64, [][2]float64) [2][2]float64 {
	return func(g *rand.Rand, s [2][2]float64, _ [2]float64, past [][2]float64) [2][2]float64 {
		var a [2]float64
		if len(past) >= n {
			a = past[len(past)-n]
		}
		return base(g, s, a, past)
	}
}

// follow moves a share of the way to an absolute target.
func follow(share, noise float64) func(*rand.Rand, [2][2]float64, [2]float64, [][2]float64) [2][2]float64 {
	return func(g *rand.Rand, s [2][2]float64, a [2]float64, _ [][2]float64) [2][2]float64 {
		return [2][2]float64{both(func(d int) float64 { return s[0][d] + share*(a[d]-s[0][d]) + noise*g.NormFloat64() }), {}}
	}
}

func position(s [2][2]float64, _ [2]float64, _ [][2]float64) []float64 { return s[0][:] }
func everything(s [2][2]float64, _ [2]float64, _ [][2]float64) []float64 {
	return []float64{s[0][0], s[0][1], s[1][0], s[1][1]}
}

// record plays episodes of a world and shifts the actions by rows: +1 stores each with
// the row that it leads to.
func (w world) record(seed uint64, episodes, rows, shift, size int) *recording {
	g := rand.New(rand.NewPCG(seed, 1))
	r := &recording{size: size}
	for range episodes {
		r.episodes = append(r.episodes, Episode{len(r.action), rows})
		s := [2][2]float64{both(func(int) float64 { return g.NormFloat64() / 3 })}
		var states [][2][2]float64
		var past [][2]float64
		for t := range rows {
			states = append(states, s)
			a := w.act(g, t, states, states, past)
			r.state = append(r.state, append([]float64(nil), w.show(s, a, past)...))
			s = w.step(g, s, a, past)
			past = append(past, a)
		}
		for t := range rows {
			a := []float64{math.NaN(), math.NaN()}
			if from := t - shift; from >= 0 && (t < rows-1 || shift > 0) {
				a = []float64{past[from][0], past[from][1]}
			} else if from < 0 {
				a = []float64{0, 0}
			}
			r.action = append(r.action, a)
		}
	}
	return r
}

// Verdicts: a lag that stands out is a note, with ! it is a problem; ? is undecided.
func verdict(a Alignment) string {
	switch {
	case !a.Found:
		return "?"
	case a.Strong:
		return fmt.Sprintf("%+d!", a.Lag)
	}
	return fmt.Sprintf("%+d", a.Lag)
}

// In every world action[t] leads from row t to row t+1. The expected lag is that by
// which record shifts the actions, and whether the data can show it follows from the
// equations of the world.
func TestAlignment(t *testing.T) {
	withAction := func(lag int) func(s [2][2]float64, a [2]float64, past [][2]float64) []float64 {
		return func(s [2][2]float64, a [2]float64, past [][2]float64) []float64 {
			if lag == 1 {
				a = [2]float64{}
				if len(past) > 0 {
					a = past[len(past)-1]
				}
			}
			return []float64{s[0][0], s[0][1], a[0], a[1]}
		}
	}
	for _, c := range []struct {
		world
		size                 int
		none, leading, later string // at shift 0, +1 and -1
	}{
		{world{"independent actions", white, first(.1, 0), position}, 0, "+0", "+1!", "-1!"},
		{world{"independent actions, frames", white, first(.1, 0), position}, 32, "+0", "+1!", "-1!"},
		{world{"a noisy world", white, first(.1, .1), position}, 0, "+0", "+1", "-1"},
		{world{"all noise", white, first(0, .1), position}, 0, "?", "?", "?"},
		// What is new in an action decides. Delays of real machines look like lag -1 with
		// actions that depend on each other, hence no problem.
		{world{"smooth actions", smooth(.95), first(.1, 0), position}, 0, "+0", "+1!", "-1"},
		{world{"actions held for 5 rows", held(5), first(.1, 0), position}, 0, "+0", "+1!", "-1"},
		{world{"absolute targets", smooth(.98), follow(.5, 0), position}, 0, "+0", "+1!", "-1"},
		{world{"a machine that answers late", smooth(.98), late(1, follow(.5, .01)), position}, 0, "-1", "+0", "?"},
		{world{"later still", smooth(.95), late(2, first(.1, 0)), position}, 0, "?", "-1", "?"},
		// The policy's actions follow from the state that it reads.
		{world{"feedback", feedback(.5, 0, 0), first(.1, 0), position}, 0, "?", "?", "?"},
		{world{"feedback and noise of the world", feedback(.5, 0, 0), first(.1, .1), position}, 0, "?", "?", "+0"},
		{world{"strong feedback and noise", feedback(5, 0, .1), first(.1, .1), position}, 0, "?", "?", "+0"},
		{world{"feedback of velocity", feedback(0, 2, 0), second(.9, .1, false), everything}, 0, "?", "?", "+0"},
		{world{"feedback and its own noise", feedback(2, 2, 1), second(.9, .01, false), everything}, 0, "+0", "+1!", "-1!"},
		// A mass whose velocity is not seen shows actions late.
		{world{"mass", white, second(.95, 0, false), everything}, 0, "+0", "+1!", "-1!"},
		{world{"mass, positions", white, second(.95, 0, false), position}, 0, "?", "+1!", "?"},
		{world{"mass, explicit steps", white, second(.95, 0, true), everything}, 0, "+0", "+1!", "-1!"},
		{world{"mass, explicit steps, positions", white, second(.95, 0, true), position}, 0, "?", "?", "?"},
		// The state has copies of actions.
		{world{"last action in the state", white, first(.1, .1), withAction(1)}, 0, "+0", "+1", "-1!"},
		{world{"own action in the state", white, first(.1, .1), withAction(0)}, 0, "+0", "?", "+0"},
		{world{"action is the next state", smooth(.98), follow(1, 0), position}, 0, "+0", "?", "-1"},
	} {
		for shift, want := range map[int]string{0: c.none, 1: c.leading, -1: c.later} {
			for seed := range uint64(2) {
				a, err := align(t.Context(), c.record(seed, 12, 80, shift, c.size))
				if got := verdict(a); err != nil || got != want {
					t.Errorf("%s, shift %+d, seed %d: %s, not %s (%+v, %v)", c.name, shift, seed, got, want, a, err)
				}
			}
		}
	}
}

// Too little data, or nothing to compare, is undecided and says why.
func TestAlignmentUndecided(t *testing.T) {
	w := world{"", white, first(.1, 0), position}
	constant := w.record(1, 12, 80, 0, 0)
	for i := range constant.action {
		constant.action[i] = []float64{.5, .5}
	}
	wide := w.record(1, 12, 80, 0, 0)
	for i := range wide.action {
		wide.action[i] = make([]float64, alignWidth+1)
	}
	blind := w.record(1, 12, 80, 0, 0)
	blind.state = nil
	gaps := w.record(1, 2, 300, 0, 0)
	for i := range 500 {
		gaps.action[i] = []float64{math.NaN(), 0}
	}
	for why, src := range map[string]*recording{
		"20 rows can be compared, and fewer than 60 decide nothing":                         w.record(1, 5, 8, 0, 0),
		"0 rows can be compared, and fewer than 60 decide nothing":                          w.record(1, 100, 4, 0, 0),
		"the actions are the same in all rows":                                              constant,
		"actions of more than 64 numbers are not compared":                                  wide,
		"there are neither frames nor one of the columns observation, state, proprio, qpos": blind,
		"too many actions are NaN":                                                          gaps,
	} {
		if a, err := align(t.Context(), src); err != nil || a.Found || a.Why != why {
			t.Errorf("%+v, %v, want %q", a, err, why)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := align(ctx, w.record(1, 12, 80, 0, 32)); err == nil {
		t.Error("a cancelled comparison has a result")
	}
}

// Views that disagree accuse nobody, unless one is of frames that show actions late.
func TestJudge(t *testing.T) {
	clear := func(from string, lag int, r2 float64) evidence {
		e := evidence{from: from, lag: lag, best: 10, parts: 10, own: .5}
		e.gain[lag+1], e.two[lag+1] = r2, r2
		return e
	}
	for want, all := range map[string][]evidence{
		"+0":  {clear("state", 0, .4), clear("pixels", -1, .9)},
		"+1!": {clear("state", 1, .9), clear("pixels", 0, .2)},
		"?":   {clear("state", 1, .9), clear("pixels", 0, .8)},
		"-1":  {clear("state", -1, .9), clear("pixels", 0, .05)},
	} {
		slices.Reverse(all)
		if want == "+0" {
			all[0].gain[0] = .3 // the clearer view decides
		}
		if a := judge(all); verdict(a) != want {
			t.Errorf("%+v, not %s", a, want)
		}
	}
}

// A shift is a problem whose hint is the command that moves the actions; the notes say
// the rest.
func TestCheckSaysAlignment(t *testing.T) {
	w := world{"", white, first(.1, 0), position}
	for shift, want := range map[int]string{
		0:  "action[t] leads from row t to row t+1, as it should (of what is new in an action, the next row explains (held out) 0 % at lag -1, 100 % at lag +0, 0 % at lag +1; lag +0 is best in 12 of 12 parts; from state)",
		1:  "actions are shifted by one row: action[t] leads to row t, not from it",
		-1: "actions are shifted by one row: action[t] leads from row t+1, not from row t",
	} {
		r, err := Check(t.Context(), w.record(1, 12, 80, shift, 0), nil)
		if err != nil || r.OK() != (shift == 0) || !strings.Contains(strings.Join(append(r.Problems, r.Notes...), "\n"), want) {
			t.Errorf("shift %+d: %q, %q, %v", shift, r.Problems, r.Notes, err)
		}
		if shift == 1 && !strings.HasSuffix(r.Problems[0], "(hint: `scalewm data convert FILE --actions leading --out NEW.h5` moves them up by a row)") {
			t.Error(r.Problems)
		}
	}
}

// The windows of a large set are bounded in number and length, lie within episodes and
// leave out last rows.
func TestWindows(t *testing.T) {
	var episodes []Episode
	for i := range 10_000 {
		episodes = append(episodes, Episode{100 * i, 100})
	}
	rows := 0
	for i, w := range windowsOf(episodes) {
		if e := (Episode{w.Offset / 100 * 100, 100}); w.Offset+w.Len >= e.Offset+e.Len || e.Offset/100 != 100*i {
			t.Errorf("window %v of episode %v", w, e)
		}
		rows += w.Len
	}
	if rows > alignRows+3*alignWindows {
		t.Errorf("%d rows", rows)
	}
	if one := windowsOf([]Episode{{0, 1_000_000}}); len(one) != 1 || one[0].Len > alignRows+3 {
		t.Errorf("%v", one)
	}
}

// The sums of a frame follow a movement by a fraction of a bin: their first moment is
// that of the pixels. The disc of a 64-pixel frame is moved by one pixel, a ninth of the
// distance between bins.
func TestProfiles(t *testing.T) {
	r := &recording{size: 64, state: [][]float64{{0, 0}, {2. / 64, 0}}}
	var moment [2]float64
	for i := range moment {
		frame := make([]byte, 3*64*64)
		dst := make([]float64, 6*alignBins)
		if err := r.Frame(i, frame); err != nil {
			t.Fatal(err)
		}
		profiles(frame, 64, dst)
		var background, all float64
		for bin := range alignBins {
			at := (float64(bin)*64/(alignBins-1) - .5)
			moment[i] += at * dst[3*bin]
			all += dst[3*bin]
		}
		background = 40 * 64 * 64
		moment[i] = (moment[i] - 31.5*background) / (all - background)
	}
	if d := moment[1] - moment[0]; math.Abs(d-1) > .02 {
		t.Errorf("the disc moved by %.3f pixels, not 1", d)
	}
}
