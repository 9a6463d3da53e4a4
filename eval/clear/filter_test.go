package clear

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
	"scalewm/eval/starts"
	"scalewm/eval/success"
)

// memory is a data set in memory with columns of float64.
type memory struct {
	dataset.Source
	episodes []dataset.Episode
	columns  map[string][]float64
	widths   map[string]int
	longest  int // most rows that were read at a time
}

func (m *memory) Rows() int                   { e := m.episodes[len(m.episodes)-1]; return e.Offset + e.Len }
func (m *memory) Episodes() []dataset.Episode { return m.episodes }

func (m *memory) Columns() (out []envs.Column) {
	for name, w := range m.widths {
		out = append(out, envs.Column{Name: name, DType: "float64", Width: w})
	}
	return out
}

func (m *memory) Read(column string, from, to int) ([]float64, error) {
	m.longest = max(m.longest, to-from)
	w := m.widths[column]
	return m.columns[column][from*w : to*w], nil
}

// wanderers is a data set of Two-Room whose agents take steps of up to 6 pixels in any
// direction, through walls or not. Its episodes are in the reverse order of their rows.
func wanderers(rows, length int) *memory {
	r := rand.New(rand.NewPCG(1, 2))
	m := &memory{columns: map[string][]float64{}, widths: map[string]int{"proprio": 2, "ep_idx": 1}}
	place := disc.Point{}
	for i := range rows {
		if i%length == 0 {
			m.episodes = append(m.episodes, dataset.Episode{Offset: i, Len: min(length, rows-i)})
			place = disc.Point{r.Float64()*100 + 62, r.Float64()*80 + 20}
		}
		for k := range place {
			place[k] = min(max(place[k]+12*r.Float64()-6, 18), 206)
		}
		m.columns["proprio"] = append(m.columns["proprio"], place[:]...)
		m.columns["ep_idx"] = append(m.columns["ep_idx"], float64(1000-i/length))
	}
	return m
}

var strictRooms = Filters{
	Offset: 25, ExcludeSolved: true, CrossRoom: true, CleanWindow: true, MinDifficulty: 30,
	Rule: success.Rule{Of: success.Agent, Distance: 8, Hold: 1, Route: true, Side: true},
}

// TestFilter compares the filters with the definition, start by start, on more rows than
// are read at a time.
func TestFilter(t *testing.T) {
	src := wanderers(150_000, 93)
	table, err := Table(src, "")
	if err != nil {
		t.Fatal(err)
	}
	candidates := table.Valid(25)
	floor := disc.Canonical()
	at := func(i int) disc.Point { return disc.Point(src.columns["proprio"][2*i : 2*i+2]) }
	var want []int
	for _, row := range candidates {
		a, b := at(row), at(row+25)
		ok := math.Hypot(a[0]-b[0], a[1]-b[1]) >= 8 && floor.Path(a, b) >= 30
		ok = ok && (a[0] < 112) != (b[0] < 112) && a[0] != 112 && b[0] != 112 && floor.Clear(a) && floor.Clear(b)
		for i := row; i < row+25 && ok; i++ {
			ok = floor.Route(at(i), at(i+1)).Valid
		}
		if ok {
			want = append(want, row)
		}
	}
	got, err := Filter(src, "tworoom", candidates, strictRooms)
	if err != nil || !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("%d starts pass, %v, want %d", len(got), err, len(want))
	}
	if src.longest > 1<<16 {
		t.Errorf("%d rows were read at a time", src.longest)
	}
	// Single candidates, far apart and after each other.
	for _, row := range []int{want[0], want[len(want)-1]} {
		if got, err := Filter(src, "tworoom", []int{row}, strictRooms); err != nil || len(got) != 1 {
			t.Errorf("row %d alone: %v, %v", row, got, err)
		}
	}
}

// Ids are those of the column; without one they count from 0.
func TestTable(t *testing.T) {
	src := wanderers(300, 93)
	if table, err := Table(src, "episode_idx"); err != nil || !slices.Equal(table.IDs, []int64{1000, 999, 998, 997}) {
		t.Errorf("ids %v, %v", table.IDs, err)
	}
	src.columns["ep_idx"][93] = 0.5
	if _, err := Table(src, ""); err == nil {
		t.Error("an id of 0.5 is accepted")
	}
	src.episodes[1].Offset--
	if _, err := Table(src, ""); err == nil || !strings.Contains(err.Error(), "begins before") {
		t.Errorf("overlapping episodes: %v", err)
	}
	src.episodes[1].Offset++
	src.episodes[3].Len = maxRows
	if _, err := Table(src, ""); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many rows: %v", err)
	}
	src.episodes[3].Len = 21
	delete(src.widths, "ep_idx")
	slices.Reverse(src.episodes)
	table, err := Table(src, "ep_idx")
	if err != nil || table.IDs != nil || !slices.Equal(table.Offsets, []int{0, 93, 186, 279}) {
		t.Errorf("table %+v, %v", table, err)
	}
}

func TestBadSources(t *testing.T) {
	for want, c := range map[string]struct {
		task   string
		change func(m *memory, f *Filters)
	}{
		`no column "state"`:          {"tworoom", func(m *memory, _ *Filters) { delete(m.widths, "proprio") }},
		"has 3 numbers a row, not 2": {"tworoom", func(m *memory, _ *Filters) { m.widths["proprio"] = 3 }},
		"only tworoom has rooms":     {"pusht", func(*memory, *Filters) {}},
		"has distances for":          {"pointmaze", func(_ *memory, f *Filters) { *f = Filters{Offset: 25, MinDifficulty: 1} }},
		`no column "qpos"`:           {"reacher", func(_ *memory, f *Filters) { *f = Filters{Offset: 25} }},
		"row 5":                      {"tworoom", func(m *memory, _ *Filters) { m.columns["proprio"][61] = math.NaN() }},
	} {
		src, f := wanderers(93, 93), strictRooms
		c.change(src, &f)
		_, err := Filter(src, c.task, starts.Table{Lengths: []int{93}}.Valid(25), f)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("error %v, want one with %q and a hint", err, want)
		}
	}
}

func TestBadSelections(t *testing.T) {
	src := wanderers(930, 93)
	good := Selection{Split: SplitAll, Filters: Filters{Offset: 25}, Draw: starts.Draw{Sampling: starts.EpisodeBalanced, Pool: starts.Full, N: 3}}
	if rows, st, err := Select(src, "tworoom", good); err != nil || len(rows) != 3 || st.Valid != 680 || st.Unique != 3 {
		t.Fatalf("rows %v, %+v, %v", rows, st, err)
	}
	for want, change := range map[string]func(*Selection){
		"from 0 candidates": func(s *Selection) { s.Filters.Offset = 93 },
		"unknown sampling":  func(s *Selection) { s.Draw.Sampling = "" },
		"held-out fraction": func(s *Selection) { s.Split, s.HeldOut = SplitHeldOut, 1 },
		"a goal 0 rows":     func(s *Selection) { s.Filters.Offset = 0 },
		"unknown split":     func(s *Selection) { s.Split = "held" },
	} {
		s := good
		change(&s)
		if _, _, err := Select(src, "tworoom", s); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("error %v, want one with %q and a hint", err, want)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	src := wanderers(1<<20, 100)
	table, _ := Table(src, "")
	candidates := table.Valid(25)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Filter(src, "tworoom", candidates, strictRooms); err != nil {
			b.Fatal(err)
		}
	}
}
