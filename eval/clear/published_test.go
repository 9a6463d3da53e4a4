package clear

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/eval/starts"
	"scalewm/eval/success"
)

// published has counts of the published data sets, from the statistics of CLEAR-LeWM's
// manifests v0.5: rows, episodes, valid starts, the percentage of starts that are solved
// by the upstream rule, and under Moderate and Strict the percentage solved, the starts
// that pass the filters and the episodes that have one. Numbers of episodes are rows
// less valid starts over 25.
var published = map[string]struct {
	file                  string
	rows, episodes, valid int
	print                 string // metadata-sha256
	upstream              float64
	rules                 map[string]publishedRule
}{
	"tworoom": {"tworoom.h5", 920809, 10000, 670809, "1ce8390b591dd31f7c09373448fccf4d40d39cbb27b8a8ccdffb6cb2858722a4", 8.816518561915537, map[string]publishedRule{
		success.Moderate: {8.816518561915537, 8294, 1415}, success.Strict: {2.4386971552260035, 8325, 1421}}},
	"pusht": {"pusht_expert_train.h5", 2336736, 18685, 1869611, "8dabf107816dce322a4afb3f2c80bf2981e399b00bb37c52aac1fd068fa3dd00", .2230410497156895, map[string]publishedRule{
		success.Moderate: {.2230410497156895, 1865441, 18685}, success.Strict: {22.95579133841211, 1440427, 18567}}},
	"reacher": {"reacher.h5", 2010000, 10000, 1760000, "02a3f15bf40ec00db948a0b304c5d853f5f23269eb0b23e1017a4665ef9ba534", .5665340909090909, map[string]publishedRule{
		success.Moderate: {.5665340909090909, 1750029, 10000}, success.Strict: {2.2419318181818184, 1720542, 10000}}},
	"cube": {"cube_single_expert.h5", 2010000, 10000, 1760000, "c0d8515b4f187d792f986e8894618d32e605c6857f629b4f7c7a32f85ded8007", 38.376704545454544, map[string]publishedRule{
		success.Moderate: {38.376704545454544, 1084570, 10000}, success.Strict: {35.833749999999995, 1129326, 10000}}},
}

type publishedRule struct {
	solved         float64
	kept, episodes int
}

// TestPublished checks the filters on the published data sets in the folder
// SCALEWM_PUBLISHED_DIR, or those of them that are there: tworoom.h5,
// pusht_expert_train.h5, reacher.h5 and cube_single_expert.h5. It also draws all
// manifests (*.json) in the subfolder clear-manifests again that are for one of these
// files; the test for a file takes minutes.
func TestPublished(t *testing.T) {
	dir := os.Getenv("SCALEWM_PUBLISHED_DIR")
	if dir == "" {
		t.Skip("SCALEWM_PUBLISHED_DIR names no folder")
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "clear-manifests", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for task, want := range published {
		path := filepath.Join(dir, want.file)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found++
		t.Run(task, func(t *testing.T) {
			src, err := hdf5.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			if print, err := Fingerprint(path); print != want.print || err != nil {
				t.Errorf("fingerprint %s, %v, want %s", print, err, want.print)
			}
			if src.Rows() != want.rows || len(src.Episodes()) != want.episodes {
				t.Errorf("%d rows in %d episodes, want %d in %d", src.Rows(), len(src.Episodes()), want.rows, want.episodes)
			}
			for name, rule := range want.rules {
				checkCounts(t, src, task, name, rule, want.valid, want.upstream)
			}
			for _, m := range manifests {
				redraw(t, m, task, src, path)
			}
		})
	}
	if found == 0 {
		t.Errorf("%s has none of the published data sets", dir)
	}
}

// checkCounts checks the statistics of a protocol.
func checkCounts(t *testing.T, src *hdf5.File, task, name string, want publishedRule, valid int, upstream float64) {
	rule, err := success.Named(name, task)
	if err != nil {
		t.Fatal(err)
	}
	rooms := task == "tworoom"
	_, st, err := Select(src, task, Selection{
		Split:   SplitAll,
		Filters: Filters{Offset: 25, ExcludeSolved: true, Rule: rule, CrossRoom: rooms, CleanWindow: rooms},
		Draw:    starts.Draw{Sampling: starts.EpisodeBalanced, Pool: starts.Full, Seed: 42, N: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if st.Valid != valid || !near(st.UpstreamSuccess, upstream) || !near(st.InitialSuccess, want.solved) || st.AfterFilters != want.kept || st.Eligible != want.episodes {
		t.Errorf("%s: %+v, want %d valid, %g %% solved upstream, %+v", name, st, valid, upstream, want)
	}
}

// redraw draws a manifest again if it is of the task.
func redraw(t *testing.T, path, task string, src *hdf5.File, data string) {
	m, err := Read(path)
	if err != nil {
		t.Error(err)
		return
	}
	if m.Task != task {
		return
	}
	if _, err := m.Check(src, data, false); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	rows, _, err := Select(src, task, m.Selection())
	var want []int
	for _, p := range m.Pairs {
		want = append(want, p.StartRow)
	}
	if err != nil || !slices.Equal(rows, want) {
		t.Errorf("%s: drew %v, %v, want %v", path, rows, err, want)
	}
}
