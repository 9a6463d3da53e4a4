package infer

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// seedScores are the successes of three training seeds (rows) at T1, T3 and T5, in percent.
var seedScores = [][]float64{{80, 55, 15}, {95, 50, 30}, {60, 65, 5}}

// middle returns the interquartile mean that the table has for cells with these scores. Each
// is the mean of two sets, which differ.
func middle(t *testing.T) float64 {
	t.Helper()
	var cells []results.Cell
	for seed, scores := range seedScores {
		var plans []plan
		for i, tier := range []string{"T1", "T3", "T5"} {
			hits := int(scores[i] / 5) // in two sets of ten episodes
			plans = append(plans, p(lewm, tier, hits-hits/3, hits/3))
		}
		cells = append(cells, resultstest.Cells(t, plans, ofSeed(seed))...)
	}
	return *find(t, ofCells(t, cells), Number{What: Aggregates[1], Source: Ours, Of: arm(lewm)}).Value
}

// By hand: of nine scores two are removed at each end, which leaves 30, 50, 55, 60 and 65.
func TestInterquartileMeanOverSeeds(t *testing.T) {
	near(t, "interquartile mean", middle(t), 52, 1e-12)
}

// The same scores as a matrix of runs and tasks, in rliable.
func TestPeersInterquartileMean(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with rliable")
	}
	if exec.Command(python, "-c", "import rliable").Run() != nil {
		t.Skip("peers: the Python of SCALEWM_PEERS has no rliable (hint: make setup-peers)")
	}
	scores, err := json.Marshal(seedScores)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-B", "-c", "import json, sys, numpy; from rliable import metrics; print(metrics.aggregate_iqm(numpy.array(json.load(sys.stdin))))")
	cmd.Stdin = strings.NewReader(string(scores))
	var want float64
	if b, err := cmd.Output(); err != nil {
		t.Fatal(err)
	} else if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	near(t, "interquartile mean", middle(t), want, 1e-12)
}
