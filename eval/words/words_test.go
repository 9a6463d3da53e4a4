package words

import (
	"math"
	"testing"

	_ "scalewm/envs/tworoom"
	"scalewm/eval/results"
)

func TestWords(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ got, want string }{
		{Signed(3.14), "+3.1"}, {Signed(-3.14), "−3.1"}, {Signed(-0.04), "0.0"}, {Signed(nan), "–"}, {Interval(-1, 2.5), "−1.0 to +2.5"},
		{Points(99.95), "100.0"}, {Points(-0.01), "0.0"}, {Points(nan), "–"}, {Decimal(-0.125, 2), "−0.12"}, {Decimal(-0.001, 2), "0.00"}, {Spread(83.33, 8.16), "83.3 ± 8.2"}, {Spread(80, nan), "80.0"},
		{P(0.0312), "0.031"}, {P(0.0001), "< 0.001"}, {P(1), "1.000"}, {P(nan), "–"}, {Equals(0.5), "= 0.500"}, {Equals(1e-5), "< 0.001"}, {Equals(nan), "–"},
		{Thousands(9000), "9,000"}, {Thousands(1234567), "1,234,567"}, {Thousands(30), "30"},
		{Count(1, "cell"), "1 cell"}, {Count(0, "cell"), "0 cells"},
		{Duration(59), "59.0 s"}, {Duration(600), "10.0 min"}, {Duration(9000), "2.5 h"},
		{Listing(nil), ""}, {Listing([]string{"T1"}), "T1"}, {Listing([]string{"T1", "T3", "T5"}), "T1, T3 and T5"},
		{When("2026-01-02T03:04:05Z", "2026-01-02T03:04:55Z"), "2026-01-02 03:04 UTC"},
		{When("2026-01-02T03:04:05+01:00", "2026-01-02T05:00:00Z"), "2026-01-02 02:04 to 05:00 UTC"},
		{When("2026-01-02T03:04:05Z", "2026-01-03T05:00:00Z"), "2026-01-02 03:04 to 2026-01-03 05:00 UTC"},
		{When("then", "now"), "then to now"},
		{Arm(results.Arm{Wrappers: "probe", Method: "scale", Variants: "half"}), "probe@SCALE@half"}, {Arm(results.Arm{Method: "mine"}), "mine"},
		{Minus(results.Arm{Method: "scale"}, results.Arm{Method: "lewm"}), "SCALE − LeWM"},
		{Task("tworoom"), "Two-Room"}, {Task("none"), "none"}, {Solvers([]string{"cem", "mppi-stock", "other"}), "CEM, MPPI at stock temperature, other"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
