package collect

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"scalewm/dataset/hdf5"
	"scalewm/envs"

	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
)

// The campaign takes minutes, so it runs only if SCALEWM_CAMPAIGN is set, to the
// number of episodes: `make campaign-collect`. In a process that it starts itself,
// campaignOut is the file to collect, and CAMPAIGN_RUN has task, episodes and
// workers.
const (
	campaignEnv = "SCALEWM_CAMPAIGN"
	campaignOut = "SCALEWM_CAMPAIGN_OUT"
)

// published is what is known of a published set: its size and, for some columns,
// means, deviations and ranges (docs/sources.md#push-t-data,
// docs/sources.md#two-room-data, docs/sources.md#pointmaze-data; NaN if unknown).
type published struct {
	task           string
	episodes, rows int
	columns        []figure
}

// figure is a number of each row for which the published sets have statistics.
type figure struct {
	name               string
	of                 func(row envs.Row) float64
	mean, sd, min, max float64
}

var unknown = math.NaN()

// entry returns a figure that is stored as it is.
func entry(column string, i int, mean, sd, low, high float64) figure {
	return figure{fmt.Sprintf("%s[%d]", column, i), func(row envs.Row) float64 { return row[column][i] }, mean, sd, low, high}
}

var publishedSets = []published{
	{"pusht", 18_685, 2_336_736, []figure{
		entry("action", 0, -0.0087, 0.2019, unknown, unknown), entry("action", 1, 0.0068, 0.2002, unknown, unknown),
		entry("state", 0, 228.81, 103.37, unknown, unknown), entry("state", 1, 292.23, 98.93, unknown, unknown),
		entry("state", 2, 243.61, 71.62, unknown, unknown), entry("state", 3, 275.25, 73.38, unknown, unknown),
		{"cos block angle", func(row envs.Row) float64 { return math.Cos(row["state"][4]) }, 0.393, 0.598, unknown, unknown},
		{"sin block angle", func(row envs.Row) float64 { return math.Sin(row["state"][4]) }, 0.324, 0.618, unknown, unknown},
		{"block within 100 px of (256, 256)", func(row envs.Row) float64 {
			return flag(math.Hypot(row["state"][2]-256, row["state"][3]-256) < 100)
		}, unknown, unknown, unknown, unknown},
	}},
	{"tworoom", 10_000, 920_809, []figure{
		entry("action", 0, unknown, unknown, -1, 1), entry("action", 1, unknown, unknown, -1, 1),
		entry("proprio", 0, unknown, unknown, 14.02, 208.98), entry("proprio", 1, unknown, unknown, 14.02, 208.98),
	}},
	{"pointmaze", 2_000, 200_000, []figure{
		entry("action", 0, 0, 1/math.Sqrt(3), -1, 1), entry("action", 1, 0, 1/math.Sqrt(3), -1, 1),
		entry("state", 0, unknown, 1.0055, 0.342, 3.250), entry("state", 1, unknown, 0.9630, 0.344, 3.257),
		entry("state", 2, unknown, 1.6803, -6.1, 6.1), entry("state", 3, unknown, 1.9319, -6.1, 6.1),
	}},
}

// TestCampaign collects each task with 1 and 2 workers, and prints the rates and how
// the data compare with the published sets, as Markdown.
func TestCampaign(t *testing.T) {
	if out := os.Getenv(campaignOut); out != "" {
		collectInChild(t, out)
		return
	}
	episodes, err := strconv.Atoi(os.Getenv(campaignEnv))
	if err != nil || episodes < 2 {
		t.Skip("campaign: make campaign-collect runs it (minutes)")
	}
	for _, p := range publishedSets {
		t.Run(p.task, func(t *testing.T) {
			dir := t.TempDir()
			one := run{p.task, filepath.Join(dir, "1.h5"), episodes, 1}
			two := one
			two.out, two.workers = filepath.Join(dir, "2.h5"), 2
			f1, f2 := one.mustRun(t), two.mustRun(t)
			if !bytes.Equal(read(t, one.out), read(t, two.out)) {
				t.Error("the bytes depend on the number of workers")
			}
			p.rates(t, one.out, f1, f2)
			p.moments(t, one.out)
		})
	}
}

// run is a collection in a separate process.
type run struct {
	task, out         string
	episodes, workers int
}

func (r run) command() *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestCampaign$", "-test.timeout=0")
	c.Env = append(os.Environ(), campaignOut+"="+r.out, fmt.Sprintf("CAMPAIGN_RUN=%s %d %d", r.task, r.episodes, r.workers))
	return c
}

func collectInChild(t *testing.T, out string) {
	var s Spec
	var workers int
	if _, err := fmt.Sscan(os.Getenv("CAMPAIGN_RUN"), &s.Task, &s.Episodes, &workers); err != nil {
		t.Fatal(err)
	}
	s.Seed = 1
	j, err := Prepare(context.Background(), out, s)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.Spawn = spawn
	if _, err := j.Run(context.Background(), workers, nil); err != nil {
		t.Fatal(err)
	}
}

// cost is the time that a run took.
type cost struct{ clock, processor time.Duration }

func (r run) mustRun(t *testing.T) cost {
	t.Helper()
	began := time.Now()
	c := r.command()
	if msg, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%+v: %v\n%s", r, err, msg)
	}
	return cost{time.Since(began), c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
}

// rates prints the rates of the two runs and the time that the published size would
// take: on two idle cores, at twice the rate per second of processor time, and on
// this machine as measured.
func (p published) rates(t *testing.T, path string, one, two cost) {
	f, err := hdf5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	episodes, rows, mb := float64(len(f.Episodes())), float64(f.Rows()), float64(st.Size())/1e6
	line := func(what string, seconds float64) {
		t.Logf("| %s | %s | %.1f | %.0f | %.1f |", p.task, what, episodes/seconds, rows/seconds, mb/seconds)
	}
	t.Log("| task | | episodes/s | rows/s | MB/s |")
	line("1 worker", one.clock.Seconds())
	line("2 workers", two.clock.Seconds())
	line("a second of one processor", two.processor.Seconds())
	times := float64(p.rows) / rows
	t.Logf("published size: %d episodes, %d rows: %.2f h on two idle cores, %.2f h as measured, %.1f GB", p.episodes, p.rows,
		times*two.processor.Seconds()/2/3600, times*two.clock.Seconds()/3600, times*mb/1000)
	sum, squares, solved := 0.0, 0.0, 0.0
	for _, e := range f.Episodes() {
		n := float64(e.Len)
		sum, squares = sum+n, squares+n*n
		end, err := f.Read("terminated", e.Offset+e.Len-1, e.Offset+e.Len)
		if err != nil {
			t.Fatal(err)
		}
		solved += end[0]
	}
	mean := sum / episodes
	sd := math.Sqrt((squares/episodes - mean*mean) / (episodes - 1))
	t.Logf("mean length %.2f ± %.2f (published %.2f), %.1f %% of the episodes end by success", mean, sd, float64(p.rows)/float64(p.episodes), 100*solved/episodes)
}

// moments compares the rows with the published figures. Rows of an episode are
// correlated, so the standard error of a mean is that of a ratio of two sums over
// episodes.
func (p published) moments(t *testing.T, path string) {
	f, err := hdf5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	columns := map[string]int{"action": 0, "state": 0, "proprio": 0}
	all := envs.Row{}
	for _, c := range f.Columns() {
		if _, ok := columns[c.Name]; ok {
			columns[c.Name] = c.Width
			if all[c.Name], err = f.Read(c.Name, 0, f.Rows()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log("| | mean | published | SD | published | range | published |")
	for _, fig := range p.columns {
		var m tally
		row := envs.Row{}
		for _, e := range f.Episodes() {
			for i := e.Offset; i < e.Offset+e.Len; i++ {
				for name, v := range all {
					row[name] = v[i*columns[name] : (i+1)*columns[name]]
				}
				m.add(fig.of(row))
			}
			m.endEpisode()
		}
		mean, sd, se := m.moments()
		span := known(fig.min)
		if !math.IsNaN(fig.max) {
			span += " to " + known(fig.max)
		}
		t.Logf("| %s | %.4g ± %.2g | %s | %.4g | %s | %.4g to %.4g | %s |", fig.name, mean, se, known(fig.mean), sd, known(fig.sd), m.low, m.high, span)
	}
}

func known(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.4g", v)
}

// tally accumulates a figure, row by row and episode by episode. NaN is skipped: the
// last row of an episode has no action.
type tally struct {
	n, sum, squares, low, high float64
	before                     [2]float64   // n and sum at the end of the last episode
	episodes                   [][2]float64 // n and sum of each
}

func (m *tally) add(v float64) {
	if math.IsNaN(v) {
		return
	}
	if m.n == 0 {
		m.low, m.high = v, v
	}
	m.n, m.sum, m.squares = m.n+1, m.sum+v, m.squares+v*v
	m.low, m.high = min(m.low, v), max(m.high, v)
}

func (m *tally) endEpisode() {
	m.episodes = append(m.episodes, [2]float64{m.n - m.before[0], m.sum - m.before[1]})
	m.before = [2]float64{m.n, m.sum}
}

func (m *tally) moments() (mean, sd, se float64) {
	mean = m.sum / m.n
	sd = math.Sqrt(m.squares/m.n - mean*mean)
	for _, e := range m.episodes {
		d := e[1] - mean*e[0]
		se += d * d
	}
	return mean, sd, math.Sqrt(se) / m.n
}
