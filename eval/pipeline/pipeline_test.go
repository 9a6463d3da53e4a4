package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
)

// fakeStep records that it ran.
type fakeStep struct {
	id    string
	needs []string
	cells []int // with cells it is Divisible by way of fakeCells
	err   error
	ran   *[]string
	there map[string]bool // indivisible steps by id, cells by id and number
}

func (s *fakeStep) ID() string      { return s.id }
func (s *fakeStep) Stage() Stage    { return StageEval }
func (s *fakeStep) Needs() []string { return s.needs }
func (s *fakeStep) State(context.Context) (State, error) {
	if s.err != nil {
		return State{}, s.err
	}
	if s.there[s.id] {
		return done, nil
	}
	state := State{Text: "to do", Cells: len(s.cells)}
	for _, c := range s.cells {
		if !s.there[fmt.Sprint(s.id, c)] {
			state.Missing++
		}
	}
	return state, nil
}

func (s *fakeStep) Run(context.Context) (string, error) {
	*s.ran = append(*s.ran, s.id)
	return "did " + s.id, s.err
}

type fakeCells struct{ fakeStep }

func (s *fakeCells) Len() int                                { return len(s.cells) }
func (s *fakeCells) found(context.Context) ([]string, error) { return nil, nil }
func (s *fakeCells) Part(ours func(int) bool) Divisible {
	part := *s
	part.cells = nil
	for i, c := range s.cells {
		if ours(i) {
			part.cells = append(part.cells, c)
		}
	}
	return &part
}

// fakeGraph has two arms of three cells each, computed from one data set, and a
// report. failing are the IDs of steps that fail.
func fakeGraph(ran *[]string, failing ...string) (g Graph) {
	step := func(id string, cells int, needs ...string) {
		s := fakeStep{id: id, needs: needs, ran: ran}
		if slices.Contains(failing, id) {
			s.err = errors.New("no luck")
		}
		for i := range cells {
			s.cells = append(s.cells, i)
		}
		if cells > 0 {
			g = append(g, &fakeCells{s})
		} else {
			g = append(g, &s)
		}
	}
	step("collect", 0)
	for _, arm := range []string{"a", "b"} {
		step("train "+arm, 0, "collect")
		step("eval "+arm+" 1", 2, "train "+arm, "collect")
		step("eval "+arm+" 2", 1, "train "+arm, "collect")
	}
	step("report", 0)
	return g
}

// heard is a Listener that records its calls.
type heard []string

func (h *heard) Begin(id string, i, n int)     { *h = append(*h, fmt.Sprintf("%d/%d", i, n)) }
func (h *heard) Progress(int64, int64, string) {}
func (h *heard) Note(text string)              { *h = append(*h, "note: "+text) }
func (h *heard) End(id, outcome string)        { *h = append(*h, outcome) }
func (h *heard) Failed(id string, err error)   { *h = append(*h, id+" failed") }

// After a failed step, the steps that need it are skipped and no others.
func TestRunLeavesOutWhatNeedsAFailedStep(t *testing.T) {
	for failing, want := range map[string][]string{
		"":         {"collect", "train a", "eval a 1", "eval a 2", "train b", "eval b 1", "eval b 2", "report"},
		"collect":  {"collect", "report"},
		"train a":  {"collect", "train a", "train b", "eval b 1", "eval b 2", "report"},
		"eval a 1": {"collect", "train a", "eval a 1", "eval a 2", "train b", "eval b 1", "eval b 2", "report"},
		"report":   {"collect", "train a", "eval a 1", "eval a 2", "train b", "eval b 1", "eval b 2", "report"},
	} {
		var ran []string
		failed, err := fakeGraph(&ran, failing).Run(t.Context(), &heard{})
		if err != nil || !slices.Equal(ran, want) {
			t.Errorf("%q fails: ran %v, want %v (%v)", failing, ran, want, err)
		}
		if n := min(len(failing), 1); len(failed) != n || n > 0 && failed[0] != failing+": no luck" {
			t.Errorf("%q fails: told of %v", failing, failed)
		}
	}
}

// Run reports each failed part of a step in addition to the step's outcome.
func TestRunTellsOfFailedParts(t *testing.T) {
	var ran []string
	g := Graph{&fakeStep{id: "eval a", ran: &ran, err: Failures{errors.New("set 1"), errors.New("set 2")}},
		&fakeStep{id: "sum", needs: []string{"eval a"}, ran: &ran}}
	var h heard
	failed, err := g.Run(t.Context(), &h)
	if err != nil || !slices.Equal(failed, []string{"eval a: set 1", "eval a: set 2"}) || !slices.Equal(ran, []string{"eval a"}) {
		t.Errorf("%v, %v, ran %v", failed, err, ran)
	}
	if want := (heard{"1/2", "eval a failed", "eval a failed", "did eval a"}); !slices.Equal(h, want) {
		t.Errorf("heard %v, want %v", h, want)
	}
}

// An interrupt ends the run with the context's error and is not a failure of the
// step.
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ran []string
	g := fakeGraph(&ran)
	g[1] = &interrupting{fakeStep{id: "train a", needs: []string{"collect"}, ran: &ran}, cancel}
	failed, err := g.Run(ctx, &heard{})
	if !errors.Is(err, context.Canceled) || len(failed) != 0 || !slices.Equal(ran, []string{"collect", "train a"}) {
		t.Errorf("%v, failed %v, ran %v", err, failed, ran)
	}
}

type interrupting struct {
	fakeStep
	cancel func()
}

func (s *interrupting) Run(ctx context.Context) (string, error) {
	s.cancel()
	_, err := s.fakeStep.Run(ctx)
	return "", errors.Join(err, ctx.Err())
}

// A dry run reads every step's state, counts units by stage, and runs nothing.
func TestDryRun(t *testing.T) {
	var ran, told []string
	f, err := fakeGraph(&ran).DryRun(t.Context(), nil, func(id string, s State) { told = append(told, id+": "+s.Text) })
	want := []Cost{{Stage: StageEval, Units: 10, ToDo: 10}} // 6 cells, and 4 indivisible steps, since all fakes are of this stage
	if err != nil || f.Cells != 6 || f.ToDo != 6 || !slices.Equal(f.Stages, want) || len(ran) != 0 || len(told) != 8 || told[1] != "train a: to do" {
		t.Errorf("%+v, ran %v, told %v, %v", f, ran, told, err)
	}
	if _, err := fakeGraph(&ran, "train b").DryRun(t.Context(), nil, func(string, State) {}); err == nil || err.Error() != "train b: no luck" {
		t.Errorf("a state that cannot be read: %v", err)
	}
}

// Check returns the RequestError of a step, ignores other errors of reading a state,
// and runs nothing.
func TestCheck(t *testing.T) {
	var ran []string
	if err := fakeGraph(&ran, "train b").Check(t.Context()); err != nil {
		t.Errorf("a state that cannot be read: %v", err)
	}
	g := fakeGraph(&ran)
	g[2].(*fakeCells).err = fmt.Errorf("cells: %w", Requestf("another folder"))
	if err := g.Check(t.Context()); err == nil || err.Error() != "another folder" || len(ran) > 0 {
		t.Errorf("%v, ran %v", err, ran)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fakeGraph(&ran).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

// Left returns the shards whose part of the stage is incomplete, for all combinations
// of existing results.
func TestLeft(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var ran []string
		g, there := fakeGraph(&ran), map[string]bool{}
		for _, s := range g {
			if d, ok := s.(*fakeCells); ok {
				d.there = there
				for _, c := range d.cells {
					there[fmt.Sprint(d.id, c)] = random.IntN(3) > 0
				}
			} else {
				s.(*fakeStep).there = there
				there[s.ID()] = random.IntN(6) > 0
			}
		}
		n := 1 + random.IntN(9)
		var want []int
		for i := range n {
			if slices.ContainsFunc(g.Stage(StageEval, cell.Shard{I: i, N: n}), func(s Step) bool {
				state, err := s.State(t.Context())
				_, given := s.(required)
				return err == nil && !given && !state.done()
			}) {
				want = append(want, i)
			}
		}
		if got, err := g.Left(t.Context(), StageEval, n); err != nil || !slices.Equal(got, want) {
			t.Fatalf("of %d shards with %v: %v are left, want %v (%v)", n, there, got, want, err)
		}
	}
}

// For any number of shards, shards are disjoint and complete. Each contains what its
// cells need and nothing else, and only the unsharded graph has a report.
func TestShard(t *testing.T) {
	for n := 1; n <= 9; n++ {
		seen := map[string]int{}
		for i := range n {
			var ran []string
			part := fakeGraph(&ran).Shard(cell.Shard{I: i, N: n})
			inOrder(t, part)
			needed := map[string]bool{}
			for _, s := range part {
				for _, need := range s.Needs() {
					needed[need] = true
				}
				if d, ok := s.(*fakeCells); ok {
					for _, c := range d.cells {
						seen[fmt.Sprint(d.id, " cell ", c)]++
					}
				}
			}
			for _, s := range part {
				_, ok := s.(Divisible)
				if n > 1 && !ok && !needed[s.ID()] || strings.HasPrefix(s.ID(), "eval") && s.(Divisible).Len() == 0 {
					t.Errorf("shard %d of %d has %s, which it does not need", i, n, s.ID())
				}
			}
			if arms := len(StepsOf[*fakeCells](part)); n == 2 && arms != 2 {
				t.Errorf("shard %d of 2 shares its arm: %v", i, names(part))
			}
		}
		if len(seen) != 6 {
			t.Errorf("%d shards have %d of 6 cells", n, len(seen))
		}
		for c, k := range seen {
			if k != 1 {
				t.Errorf("%d shards: %s is there %d times", n, c, k)
			}
		}
	}
}
