package oracle

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"scalewm/envs"
)

//go:embed testdata/oracles.bin.gz
var oraclesGz []byte

// splitMix is the generator of testdata/make_oracles.py.
type splitMix uint64

func (s *splitMix) Float64() float64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return float64((z^z>>31)>>11) / (1 << 53)
}

func (s *splitMix) NormFloat64() float64 {
	sum := 0.0
	for range 12 {
		sum += s.Float64()
	}
	return sum - 6
}

// events is a reader of the file that testdata/make_oracles.py wrote.
type events struct {
	t *testing.T
	r io.Reader
}

func (e events) read(v any) {
	e.t.Helper()
	if err := binary.Read(e.r, binary.LittleEndian, v); err != nil {
		e.t.Fatal(err)
	}
}

func (e events) observation() *observation {
	var v [15]float32
	e.read(&v)
	at := func(i int) float64 { return float64(v[i]) }
	place := func(i int) vec3 { return vec3{at(i), at(i + 1), at(i + 2)} }
	return &observation{time: at(0), hand: place(1), block: place(4), target: place(7),
		handYaw: at(10), blockYaw: at(11), targetYaw: at(12), opening: at(13), contact: at(14)}
}

// phaseOf names the Markov oracle's phase from the position it moves to and its grip.
func (m *markov) phaseOf(s *observation) string {
	to, _, grip := m.phase(s)
	way := map[vec3]string{
		s.block: "to the block", s.target: "to the target", m.rest: "away", {s.block[0], s.block[1], 2 * highEnough}: "up",
		{s.block[0], s.block[1], 2 * hover}: "lift", {s.block[0], s.block[1], s.block[2] + hover}: "above the block",
		{s.target[0], s.target[1], s.target[2] + hover}: "above the target",
	}[to]
	return fmt.Sprint(way, grip)
}

// tally compares one oracle with OGBench's.
type tally struct {
	oracle              oracle
	count, equal, ended int
	worst               float64
	phases              map[string]int
}

func (c *tally) next(t *testing.T, e events) {
	s := e.observation()
	var want struct {
		Action [actionDim]float64
		Done   bool
	}
	e.read(&want)
	if m, ok := c.oracle.(*markov); ok {
		c.phases[m.phaseOf(s)]++
	}
	got, done := c.oracle.next(s, nil)
	if done != want.Done {
		t.Fatalf("%+v: done %v, the original %v", s, done, want.Done)
	}
	for i := range got {
		c.worst = max(c.worst, math.Abs(got[i]-want.Action[i]))
	}
	c.count++
	if got == want.Action {
		c.equal++
	}
	if done {
		c.ended++
	}
}

// Comparison with the oracles of OGBench 1.2.1, in their own world and in synthetic scenes:
// the same observation gives the same action.
func TestOraclesActAsTheOriginals(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(oraclesGz))
	if err != nil {
		t.Fatal(err)
	}
	e := events{t, z}
	tallies := map[byte]*tally{'p': {}, 'm': {phases: map[string]int{}}}
	var c *tally
	var d splitMix
	for {
		var kind [1]byte
		if _, err := io.ReadFull(z, kind[:]); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch kind[0] {
		case 's':
			var head struct {
				Which byte
				Seed  uint32
			}
			e.read(&head)
			c, d = tallies[head.Which], splitMix(head.Seed)
			c.oracle = map[byte]oracle{'p': &plan{}, 'm': &markov{}}[head.Which]
		case 'b':
			c.oracle.begin(e.observation(), &d)
		case 'n':
			c.next(t, e)
		}
	}
	for which, c := range tallies {
		t.Logf("%c: %d of %d actions equal, the others within %.2g; %d ends", which, c.equal, c.count, c.worst, c.ended)
		if c.count != 1200 || c.ended < 3 || !(c.worst <= 1e-12) { // 3 episodes of 200 steps and 120 scenes of 5
			t.Errorf("%c: %d actions, %d ends, off by up to %g", which, c.count, c.ended, c.worst)
		}
	}
	if phases := tallies['m'].phases; len(phases) != 9 {
		t.Errorf("of nine phases these were met: %v", phases)
	}
}

// table is a world that only has columns.
type table struct {
	envs.Env
	observation
	drawn int
}

func (w *table) Spec() *envs.Spec { return &envs.Spec{Name: "table"} }

func (w *table) Observe(column string, dst []float64) error {
	switch column {
	case "proprio_effector_pos":
		copy(dst, w.hand[:])
	case "privileged_block_0_pos":
		copy(dst, w.block[:])
	case "privileged_target_block_pos":
		copy(dst, w.target[:])
	case "time":
		dst[0] = w.time
	case "proprio_effector_yaw", "privileged_block_0_yaw", "privileged_target_block_yaw", "proprio_gripper_opening", "proprio_gripper_contact":
		dst[0] = 0.25
	default:
		return fmt.Errorf("no column %s", column)
	}
	return nil
}

func (w *table) Retarget(r *rand.Rand) {
	w.drawn++
	w.target[0] = r.Float64()
}

// When an oracle has ended, a new target is drawn and the oracle starts again, in the same
// step.
func TestNewTargets(t *testing.T) {
	for name, c := range map[string]struct {
		policy   envs.Policy
		from, to int // steps to the first end
	}{
		// A plan takes 11 segments of 0.4 s, ± 0.08 s. Markov ends after 200 steps.
		PlanName: {NewPlan(), 87, 91}, MarkovName: {NewMarkov(), 200, 200},
	} {
		w := &table{observation: observation{hand: vec3{0.4, 0, 0.3}, block: vec3{0.5, 0.2, 0.02}, target: vec3{0.3, -0.2, 0.02}}}
		if err := c.policy.Reset(w, rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Fatal(err)
		}
		var ends []int
		action := make([]float64, actionDim)
		for i := 1; i <= 401; i++ {
			before := w.drawn
			if err := c.policy.Act(w, action); err != nil {
				t.Fatal(err)
			}
			for _, a := range action {
				if !(math.Abs(a) <= 1) {
					t.Fatalf("%s: action %v", name, action)
				}
			}
			if w.drawn > before {
				ends = append(ends, i)
			}
			w.time += planStep
		}
		if len(ends) < 2 || ends[0] < c.from || ends[0] > c.to || ends[1] < 2*c.from-2 || ends[1] > 2*c.to {
			t.Errorf("%s: new targets at steps %v", name, ends)
		}
	}
}

// An oracle returns an error if the target cannot be drawn again or a column is missing.
func TestOraclesWantACube(t *testing.T) {
	type blind struct{ envs.Env }
	w := &table{observation: observation{time: 0}}
	p := NewPlan()
	if err := p.Reset(w, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	w.time = 100
	if err := p.Act(blind{w}, make([]float64, actionDim)); err == nil || !strings.Contains(err.Error(), "the target of table cannot be drawn again") {
		t.Errorf("acting in a world without targets: %v", err)
	}
	if err := NewMarkov().Reset(faulty{w}, rand.New(rand.NewPCG(1, 2))); err == nil || !strings.Contains(err.Error(), "observing the world: no columns") {
		t.Errorf("looking at nothing: %v", err)
	}
}

type faulty struct{ *table }

func (faulty) Observe(string, []float64) error { return errors.New("no columns") }

// The size of the noise is the one drawn for the episode; on the gripper it is ten times that
// on the first entry.
func TestMarkovNoise(t *testing.T) {
	n := &noisy{}
	r := rand.New(rand.NewPCG(3, 4))
	s := &observation{hand: vec3{0.4, 0, 0.3}, block: vec3{0.4, 0.05, 0.02}, target: vec3{0.3, -0.2, 0.02}}
	n.begin(s, r)
	size := n.size
	if size <= 0 || size > mostNoise {
		t.Fatalf("noise of %g", size)
	}
	n.begin(s, r)
	if n.size != size {
		t.Error("the noise is drawn anew within the episode")
	}
	var sum, squares [2]float64
	const draws = 20_000
	for range draws {
		a, _ := n.next(s, r)
		for i, v := range [2]float64{a[0], a[3]} {
			sum[i], squares[i] = sum[i]+v, squares[i]+v*v
		}
	}
	for i, shape := range [2]float64{1, 3} {
		mean := sum[i] / draws
		if sd := math.Sqrt(squares[i]/draws - mean*mean); math.Abs(sd/(shape*size)-1) > 0.03 {
			t.Errorf("number %d has a deviation of %g, not %g", i, sd, shape*size)
		}
	}
}
