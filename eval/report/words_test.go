package report

import (
	"math"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{signed(3.14), "+3.1"}, {signed(-3.14), "−3.1"}, {signed(-0.04), "0.0"}, {signed(math.NaN()), "–"},
		{points(99.95), "100.0"}, {points(-0.01), "0.0"},
		{pvalue(0.0312), "0.031"}, {pvalue(0.0001), "< 0.001"}, {pvalue(1), "1.000"}, {equals(0.5), "= 0.500"}, {equals(1e-5), "< 0.001"},
		{thousands(9000), "9,000"}, {thousands(1234567), "1,234,567"}, {thousands(30), "30"},
		{count(1, "cell"), "1 cell"}, {count(0, "cell"), "0 cells"},
		{duration(59), "59.0 s"}, {duration(600), "10.0 min"}, {duration(9000), "2.5 h"},
		{listing([]string{"T1"}), "T1"}, {listing([]string{"T1", "T3", "T5"}), "T1, T3 and T5"},
		{when("2026-01-02T03:04:05Z", "2026-01-02T03:04:55Z"), "2026-01-02 03:04 UTC"},
		{when("2026-01-02T03:04:05+01:00", "2026-01-02T05:00:00Z"), "2026-01-02 02:04 to 05:00 UTC"},
		{when("2026-01-02T03:04:05Z", "2026-01-03T05:00:00Z"), "2026-01-02 03:04 to 2026-01-03 05:00 UTC"},
		{when("then", "now"), "then to now"},
		{compact(0), "0"}, {compact(1500), "1.5k"}, {compact(0.02), "0.02"}, {compact(1e-5), "1e-05"},
		{px(1.005), "1"}, {px(2.5), "2.5"}, {px(-0.001), "0"},
		{class("nobody"), "m-other"}, {class(lewm), "m-0"}, {class(scale), "m-1"}, {class(untrained), "m-floor"}, {class(random), "m-random"},
		{texEscape("5 % & a_b −1"), `5 \% \& a\_b $-$1`},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		a    axis
		n    int
		want string
	}{
		{axis{lo: 0, hi: 100}, 5, "0 20 40 60 80 100"},
		{axis{lo: -12, hi: 31}, 6, "−10 0 +10 +20 +30"},
		{axis{lo: 20, hi: 12000, log: true}, 0, "+100 +1000 +10000"},
	} {
		var got []string
		for _, v := range c.a.ticks(c.n) {
			s := strings.TrimSuffix(signed(v), ".0")
			if c.a.lo == 0 {
				s = wholeNumber(v)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("ticks of %v: %s, want %s", c.a, s, c.want)
		}
	}
}

func TestAxis(t *testing.T) {
	lin, log := axis{lo: 0, hi: 10, from: 100, to: 0}, axis{lo: 1, hi: 1000, from: 0, to: 300, log: true}
	near(t, "linear", lin.at(2.5), 75, 1e-12)
	near(t, "logarithmic", log.at(10), 100, 1e-9)
}

func TestSmooth(t *testing.T) {
	steps, values := make([]float64, 240), make([]float64, 240)
	for i := range steps {
		steps[i], values[i] = float64(i), float64(i%2)
	}
	values[1] = math.NaN()
	ps := smooth(steps, values)
	if len(ps) != 120 {
		t.Fatalf("%d points, want 240 steps in pairs", len(ps))
	}
	near(t, "a gap is left out", ps[0].y, 0, 0)
	near(t, "mean of 0 and 1", ps[5].y, 0.5, 0)
	near(t, "middle of steps 10 and 11", ps[5].x, 10.5, 0)
	if got := smooth(steps, nil); got != nil {
		t.Errorf("no values gave %v", got)
	}
}

// Names at the ends of lines never touch, whatever the lines do.
func TestEndLabelsKeepApart(t *testing.T) {
	p := newPanel(300, 200, axis{lo: 1, hi: 10}, axis{lo: 0, hi: 100})
	ends := []endLabel{{y: p.y.from, label: "a"}, {y: p.y.from, label: "b"}, {y: p.y.from - 3, label: "c"}, {y: 60, label: "d"}}
	p.endLabels(ends)
	for i := 1; i < len(ends); i++ {
		if gap := ends[i].y - ends[i-1].y; gap < 15-1e-9 {
			t.Errorf("%s and %s are %v apart", ends[i-1].label, ends[i].label, gap)
		}
	}
	if last := ends[len(ends)-1].y; last > p.y.from {
		t.Errorf("the last name stands at %v, below the plot", last)
	}
}
