package convert

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"scalewm/dataset/safefile/fuzztest"
)

// Rows of a table without frame_index and with it.
type (
	plainRow struct {
		Episode int64     `parquet:"episode_index"`
		Action  []float32 `parquet:"action,list"`
		Camera  cell      `parquet:"camera"`
	}
	leRobotRow struct {
		Episode int64     `parquet:"episode_index"`
		Frame   int64     `parquet:"frame_index"`
		Action  []float32 `parquet:"action,list"`
		Camera  cell      `parquet:"camera"`
	}
	// cell is a picture in a table.
	cell struct {
		Bytes []byte `parquet:"bytes"`
	}
	leRobotPlace struct {
		Episode   float64 `parquet:"episode_index"`
		Length    float64 `parquet:"length"`
		Chunk     float64 `parquet:"data/chunk_index"`
		File      float64 `parquet:"data/file_index"`
		FilmChunk float64 `parquet:"videos/camera/chunk_index"`
		FilmFile  float64 `parquet:"videos/camera/file_index"`
		From      float64 `parquet:"videos/camera/from_timestamp"`
		To        float64 `parquet:"videos/camera/to_timestamp"`
	}
)

// dot is a picture of one pixel, and tableCamera the camera that has it.
var dot = cell{dotPNG()}

const tableCamera = `, "camera": {"dtype": "image", "shape": [1, 1, 3]}`

func dotPNG() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func writeTable[T any](t *testing.T, path string, rows []T) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), parquet.WriteFile(path, rows)); err != nil {
		t.Fatal(err)
	}
}

// writeInfo writes meta/info.json of a data set at 10 frames per second, and
// meta/episodes.jsonl if that is not empty.
func writeInfo(t *testing.T, set, version string, episodes int, camera, jsonl string) {
	t.Helper()
	text := fmt.Sprintf(`{"codebase_version": %q, "fps": 10, "total_episodes": %d, "chunks_size": 1000, "features": {"action": {"dtype": "float32", "shape": [2]}%s}}`, version, episodes, camera)
	err := errors.Join(os.MkdirAll(filepath.Join(set, "meta"), 0o777), os.WriteFile(filepath.Join(set, "meta/info.json"), []byte(text), 0o666))
	if jsonl != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(set, "meta/episodes.jsonl"), []byte(jsonl), 0o666))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// leRobotRows returns rows of the given episode and frame_index, with actions that
// identify them.
func leRobotRows(at ...[2]int64) (rows []leRobotRow) {
	for _, v := range at {
		rows = append(rows, leRobotRow{v[0], v[1], []float32{float32(v[0]), float32(v[1])}, dot})
	}
	return rows
}

// The rows of an episode must be all of those in its table, in the order of
// frame_index. want is "" if they are.
func TestRowsOfLeRobot(t *testing.T) {
	one := `{"episode_index": 0, "length": 3}` + "\n"
	for name, is := range map[string]struct {
		rows  []leRobotRow
		jsonl string
		want  string
	}{
		"whole":             {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), one, ""},
		"without a list":    {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), "", ""},
		"two pieces":        {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{1, 0}, [2]int64{0, 2}), one, "do not follow one another: others lie before row 3"},
		"another episode":   {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}, [2]int64{1, 0}), one, "it has 4 rows, and the episodes that meta finds in it have 3"},
		"out of order":      {leRobotRows([2]int64{0, 0}, [2]int64{0, 2}, [2]int64{0, 1}), one, "row 1 has the frame_index 2"},
		"a gap":             {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 3}), one, "row 2 has the frame_index 3"},
		"twice":             {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 1}), one, "row 2 has the frame_index 1"},
		"the end only":      {leRobotRows([2]int64{0, 1}, [2]int64{0, 2}), "", "row 0 has the frame_index 1"},
		"fewer than listed": {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}), one, "2 rows of the episode, and meta says 3"},
		"listed twice":      {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), one + one, "the episode 0 is listed twice"},
		"one more listed":   {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), one + `{"episode_index": 1, "length": 3}`, "lists 2 episodes, and total_episodes"},
		"no number":         {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), `{"length": 3}`, "its entry 0 has the episode_index -1"},
		"half a number":     {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), `{"episode_index": 0.5, "length": 3}`, "its entry 0 "},
		"a list cut off":    {leRobotRows([2]int64{0, 0}, [2]int64{0, 1}, [2]int64{0, 2}), `{"episode_index": 0, "len`, "its entry 0 "},
	} {
		t.Run(name, func(t *testing.T) {
			set := t.TempDir()
			writeInfo(t, set, "v2.1", 1, tableCamera, is.jsonl)
			writeTable(t, filepath.Join(set, "data/chunk-000/episode_000000.parquet"), is.rows)
			f, notes, err := run(t, set)
			if is.want != "" {
				if err == nil || !strings.Contains(err.Error(), is.want) || !strings.Contains(err.Error(), "(hint: ") {
					t.Errorf("%v, want %q and a hint", err, is.want)
				}
				return
			}
			if err != nil || len(notes) != 0 {
				t.Fatalf("notes %q, %v", notes, err)
			}
			v, err := f.Read("action", 0, 3)
			for i, x := range v {
				if x != float64(i%2*(i/2)) {
					t.Errorf("actions %v, %v", v, err)
				}
			}
		})
	}
}

// Without frame_index the rows are used in their order, and an episode in several
// pieces is still an error. Episode numbers may have gaps.
func TestPlainRowsOfLeRobot(t *testing.T) {
	set := t.TempDir()
	writeInfo(t, set, "v2.1", 2, tableCamera, `{"episode_index": 2, "length": 1}{"episode_index": 0, "length": 2}`)
	writeTable(t, filepath.Join(set, "data/chunk-000/episode_000000.parquet"), []plainRow{{0, []float32{1, 2}, dot}, {0, []float32{3, 4}, dot}})
	last := filepath.Join(set, "data/chunk-000/episode_000002.parquet")
	writeTable(t, last, []plainRow{{2, []float32{5, 6}, dot}})
	f, notes, err := run(t, set)
	if err != nil || f.Rows() != 3 || !strings.Contains(strings.Join(notes, "\n"), "1 of the 3 episodes are missing: the set has 2, up to number 2") {
		t.Errorf("notes %q, %v", notes, err)
	}
	writeTable(t, last, []plainRow{{2, []float32{5, 6}, dot}, {1, []float32{5, 6}, dot}, {2, []float32{5, 6}, dot}})
	if _, _, err := run(t, set); err == nil || !strings.Contains(err.Error(), "do not follow one another") {
		t.Error(err)
	}
}

// The first episode of a table may be listed in the table before (huggingface/lerobot,
// issue 2401). In a table further away, or in none, it is an error.
func TestStaleTableOfLeRobot(t *testing.T) {
	for name, is := range map[string]struct {
		file float64
		want string
	}{"right": {1, ""}, "one too small": {0, ""}, "too large": {2, "no rows of the episode"}} {
		set := t.TempDir()
		writeInfo(t, set, "v3.0", 2, tableCamera, "")
		for file, rows := range [][]leRobotRow{leRobotRows([2]int64{0, 0}, [2]int64{0, 1}), leRobotRows([2]int64{1, 0}, [2]int64{1, 1}), leRobotRows([2]int64{2, 0})} {
			writeTable(t, filepath.Join(set, fmt.Sprintf("data/chunk-000/file-%03d.parquet", file)), rows)
		}
		writeTable(t, filepath.Join(set, "meta/episodes/chunk-000/file-000.parquet"), []leRobotPlace{{Length: 2}, {Episode: 1, File: is.file, Length: 2}})
		f, notes, err := run(t, set)
		if is.want != "" {
			if err == nil || !strings.Contains(err.Error(), is.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %q, %v", name, notes, err)
			continue
		}
		if v, err := f.Read("action", 2, 4); err != nil || !slices.Equal(v, []float64{1, 0, 1, 1}) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

// Recorders after Gymnasium's convention write no action in the last row: a null in
// place of the list, or a list of nulls. A null elsewhere is an error.
func TestNullActionOfLeRobot(t *testing.T) {
	null, one := []*float32(nil), float32(1)
	for name, is := range map[string]struct {
		actions [][]*float32
		want    string
	}{
		"no list":       {[][]*float32{{&one, &one}, null}, ""},
		"list of nulls": {[][]*float32{{&one, &one}, {nil, nil}}, ""},
		"half a list":   {[][]*float32{{&one, &one}, {nil, &one}}, "row 1 has no value (null)"},
		"the other":     {[][]*float32{{&one, &one}, {&one, nil}}, "row 1 has no value (null)"},
		"not the last":  {[][]*float32{null, {&one, &one}}, "row 0 has no value (null)"},
	} {
		set := t.TempDir()
		writeInfo(t, set, "v2.1", 1, tableCamera, `{"episode_index": 0, "length": 2}`)
		type row struct {
			Episode int64      `parquet:"episode_index"`
			Action  []*float32 `parquet:"action,optional,list" parquet-element:",optional"`
			Camera  cell       `parquet:"camera"`
		}
		var rows []row
		for _, a := range is.actions {
			rows = append(rows, row{0, a, dot})
		}
		writeTable(t, filepath.Join(set, "data/chunk-000/episode_000000.parquet"), rows)
		f, _, err := run(t, set)
		if is.want != "" {
			if err == nil || !strings.Contains(err.Error(), is.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%s: %v, want %q and a hint", name, err, is.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v, err := f.Read("action", 0, 2); err != nil || v[0] != 1 || v[1] != 1 || !math.IsNaN(v[2]) || !math.IsNaN(v[3]) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

// The header of a page has statistics, which contain entire pictures in tables of some
// writers.
func TestLongPageHeaders(t *testing.T) {
	set := t.TempDir()
	writeInfo(t, set, "v2.1", 1, tableCamera, `{"episode_index": 0, "length": 2}`)
	noise := image.NewGray(image.Rect(0, 0, 200, 200))
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise.Pix); i++ {
		noise.Pix[i] = byte(r.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, noise); err != nil {
		t.Fatal(err)
	}
	rows := leRobotRows([2]int64{0, 0}, [2]int64{0, 1})
	for i := range rows {
		rows[i].Camera = cell{b.Bytes()}
	}
	path := filepath.Join(set, "data/chunk-000/episode_000000.parquet")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), parquet.WriteFile(path, rows, parquet.DataPageStatistics(true))); err != nil {
		t.Fatal(err)
	}
	if f, _, err := run(t, set); err != nil || f.FrameSize() != 200 {
		t.Error(err)
	}
}

// Where the episodes of version 3 are: invalid numbers, times of no frame, and
// lengths that differ.
func TestPlacesOfLeRobot(t *testing.T) {
	right := leRobotPlace{Length: 3, From: .3, To: .6}
	for name, is := range map[string]struct {
		change func(*leRobotPlace)
		want   string
	}{
		"before the film": {func(p *leRobotPlace) { p.From, p.To = -.3, 0 }, "from_timestamp is -0.3 s"},
		"NaN":             {func(p *leRobotPlace) { p.From = math.NaN() }, "from_timestamp is NaN s"},
		"infinite":        {func(p *leRobotPlace) { p.From = math.Inf(1) }, "from_timestamp is +Inf s"},
		"minus infinite":  {func(p *leRobotPlace) { p.From = math.Inf(-1) }, "from_timestamp is -Inf s"},
		"1e300":           {func(p *leRobotPlace) { p.From, p.To = 1e300, 1e300 }, "from_timestamp is 1e+300 s"},
		"between frames":  {func(p *leRobotPlace) { p.From, p.To = .35, .65 }, "from_timestamp is 0.35 s"},
		"shorter":         {func(p *leRobotPlace) { p.To = .5 }, "from 0.3 to 0.5 s, not the time of 3 rows"},
		"longer":          {func(p *leRobotPlace) { p.To = .7 }, "from 0.3 to 0.7 s, not the time of 3 rows"},
		"ends at NaN":     {func(p *leRobotPlace) { p.To = math.NaN() }, "from 0.3 to NaN s"},
		"half an episode": {func(p *leRobotPlace) { p.Episode = .5 }, "its episode_index is 0.5"},
		"minus one":       {func(p *leRobotPlace) { p.Episode = -1 }, "its episode_index is -1"},
		"a chunk of NaN":  {func(p *leRobotPlace) { p.Chunk = math.NaN() }, "its data/chunk_index is NaN"},
		"a file of 1e300": {func(p *leRobotPlace) { p.File = 1e300 }, "its data/file_index is 1e+300"},
		"a film's chunk":  {func(p *leRobotPlace) { p.FilmChunk = -2 }, "its videos/camera/chunk_index is -2"},
		"a film's file":   {func(p *leRobotPlace) { p.FilmFile = 1.5 }, "its videos/camera/file_index is 1.5"},
		"no rows":         {func(p *leRobotPlace) { p.Length, p.To = 0, .3 }, "its length is 0"},
	} {
		set := t.TempDir()
		writeInfo(t, set, "v3.0", 2, `, "camera": {"dtype": "video", "shape": [8, 8, 3]}`, "")
		p := right
		is.change(&p)
		writeTable(t, filepath.Join(set, "meta/episodes/chunk-000/file-000.parquet"), []leRobotPlace{p})
		if _, _, err := run(t, set); err == nil || !strings.Contains(err.Error(), is.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, want %q and a hint", name, err, is.want)
		}
	}
}

// Each frame of the film belongs to one episode. Its seven frames are those of the
// two episodes of 3 and 4 rows.
func TestRangesOfLeRobot(t *testing.T) {
	needsFFmpeg(t)
	set := filepath.Join(t.TempDir(), "set")
	if err := os.CopyFS(set, os.DirFS("testdata/lerobot3")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(set, "videos/observation.image"), filepath.Join(set, "videos/camera")); err != nil {
		t.Fatal(err)
	}
	writeInfo(t, set, "v3.0", 2, `, "camera": {"dtype": "video", "shape": [32, 32, 3]}`, "")
	for want, starts := range map[string][2]float64{
		"":                                {0, .3},
		"those of the episode 0 end at 3": {0, .2},
		"those of the episode 0 end at 7": {.4, 0},
		"the film ends there":             {0, .4},
	} {
		writeTable(t, filepath.Join(set, "meta/episodes/chunk-000/file-000.parquet"), []leRobotPlace{
			{Length: 3, From: starts[0], To: starts[0] + .3},
			{Episode: 1, Length: 4, From: starts[1], To: starts[1] + .4},
		})
		_, _, err := run(t, set)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ")) {
			t.Errorf("%v: %v", starts, err)
		}
	}
}

// A camera's folder may be a link. It must have as many pictures as there are rows.
func TestCameraOfFolder(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set")
	if err := os.CopyFS(set, os.DirFS("testdata/pictures")); err != nil {
		t.Fatal(err)
	}
	pixels, moved := filepath.Join(set, "pixels"), filepath.Join(t.TempDir(), "moved")
	if err := errors.Join(os.Rename(pixels, moved), os.Symlink(moved, pixels)); err != nil {
		t.Fatal(err)
	}
	if f, notes, err := run(t, set); err != nil || f.FrameSize() != 32 || len(notes) > 0 {
		t.Errorf("notes %q, %v", notes, err)
	}
	b, err := os.ReadFile(filepath.Join(moved, "ep_0_step_2.jpeg"))
	if err == nil {
		err = os.WriteFile(filepath.Join(moved, "ep_0_step_3.png"), b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, set); err == nil || !strings.Contains(err.Error(), "there are 3 rows, and the picture ") || !strings.Contains(err.Error(), "(hint: ") {
		t.Error(err)
	}
	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, set); err == nil || !strings.Contains(err.Error(), pixels) || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("a link to nothing: %v", err)
	}
}

// An episode is accepted only if its numbers are integers and its frames are within a
// film.
func FuzzLeRobotEpisodes(f *testing.F) {
	f.Add([]byte(`{"episode_index": 0, "length": 3}{"episode_index": 1, "length": 4}`), 10., 1., 0., 0., 4., .3, .7)
	f.Fuzz(func(t *testing.T, b []byte, fps, index, chunk, file, length, from, to float64) {
		check := func(e leRobotEpisode, least int) {
			if e.index < 0 || e.index > maxEpisode || e.rows < least || e.rows > maxEpisode || e.first < 0 || !filepath.IsLocal("x/"+e.data) || !filepath.IsLocal("x/"+e.film) {
				t.Errorf("%+v", e)
			}
		}
		fuzztest.Read(t, len(b), func() {
			if all, err := parseEpisodes(b); err == nil {
				for _, e := range all {
					check(e, 1)
				}
			}
			at := map[string]float64{"episode_index": index, "data/chunk_index": chunk, "data/file_index": file, "length": length,
				"videos/top/chunk_index": chunk, "videos/top/file_index": file, "videos/top/from_timestamp": from, "videos/top/to_timestamp": to}
			info := leRobotInfo{FPS: fps}
			if e, err := info.place(at, "top"); err == nil {
				check(e, 1)
			}
			delete(at, "length")
			if e, err := info.place(at, "top"); err == nil {
				check(e, 0)
			}
		})
	})
}
