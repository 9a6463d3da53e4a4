package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
)

// leRobot is a LeRobot set of version 2 (a table and a film for each episode) or 3 (many episodes
// in each): docs/sources.md#lerobot.
type leRobot struct {
	ctx     context.Context
	path    string
	note    func(string)
	info    leRobotInfo
	version int
	camera  string
	leftOut []string
	located []leRobotEpisode
	uses    map[string]*leRobotUse // of tables and films, by path
	table   *table                 // that was read last
	film    *film                  // that is open, nil where none is
}

// leRobotUse is what episodes take from a table or film.
type leRobotUse struct {
	episodes int // that are still to be read
	taken    int // rows or frames of those that were read
	end      int // the frame after the last one of these
	last     int // number of the episode that was read last
}

// leRobotInfo is what meta/info.json says.
type leRobotInfo struct {
	Version   string                    `json:"codebase_version"`
	FPS       float64                   `json:"fps"`
	Episodes  int                       `json:"total_episodes"`
	ChunkSize int                       `json:"chunks_size"`
	Features  map[string]leRobotFeature `json:"features"`
}

type leRobotFeature struct {
	Type  string `json:"dtype"`
	Shape []int  `json:"shape"`
}

// isFrames says that a feature is a camera's.
func (f leRobotFeature) isFrames() bool { return f.Type == "video" || f.Type == "image" }

// leRobotEpisode says where an episode is stored.
type leRobotEpisode struct {
	index, rows int    // rows is 0 where the set does not say it
	data, film  string // paths
	first       int    // frame of the film
}

// What stable_worldmodel calls the features of a LeRobot set; frames are its pixels.
var leRobotNames = map[string]string{"observation.state": "proprio"}

// leRobotIndices number rows and are made anew.
var leRobotIndices = []string{"index", "episode_index", "frame_index"}

func openLeRobot(ctx context.Context, path, camera string, note func(string)) (*leRobot, error) {
	l := &leRobot{ctx: ctx, path: path, note: note, uses: map[string]*leRobotUse{}}
	b, err := safefile.Read(filepath.Join(path, "meta", "info.json"), safefile.MaxRecord)
	if err == nil {
		err = l.info.parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("its meta/info.json: %w", err)
	}
	l.version = int(l.info.Version[1] - '0')
	var cameras []string
	for name, f := range l.info.Features {
		if f.isFrames() {
			cameras = append(cameras, name)
		}
	}
	slices.Sort(cameras)
	if l.camera, err = choose(cameras, camera, &l.leftOut); err != nil {
		return nil, err
	}
	if l.version == 3 {
		err = l.locate()
	} else {
		err = l.list()
	}
	if err != nil {
		return nil, err
	}
	return l, l.count()
}

// parse reads and checks info.json. Names of features become parts of paths.
func (i *leRobotInfo) parse(b []byte) error {
	if err := json.Unmarshal(b, i); err != nil {
		return fmt.Errorf("%w (hint: is it a LeRobot set?)", err)
	}
	if !strings.HasPrefix(i.Version, "v2.") && !strings.HasPrefix(i.Version, "v3.") {
		return fmt.Errorf("it has the version %q (hint: versions 2 and 3 are read; lerobot converts older ones)", i.Version)
	}
	if i.Episodes < 0 || i.Episodes > maxEpisode || !(i.FPS > 0) || i.FPS > 1e6 || i.ChunkSize < 1 && i.Version[1] == '2' {
		return fmt.Errorf("it has %d episodes, %d a chunk, at %g frames a second (hint: is the file whole?)", i.Episodes, i.ChunkSize, i.FPS)
	}
	for name, f := range i.Features {
		if !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("it has a feature %q, which is no name", name)
		}
		n := 1
		for _, edge := range f.Shape {
			if edge < 0 || edge > maxRowBytes {
				return fmt.Errorf("its feature %s has the shape %v", name, f.Shape)
			}
			n = min(n*edge, maxRowBytes+1)
		}
	}
	return nil
}

// locate reads where the episodes of version 3 are.
func (l *leRobot) locate() error {
	files, err := fs.Glob(os.DirFS(l.path), "meta/episodes/chunk-*/file-*.parquet")
	if err != nil {
		return err
	}
	columns := []string{"episode_index", "data/chunk_index", "data/file_index", "length"}
	if l.info.Features[l.camera].Type == "video" {
		for _, name := range []string{"chunk_index", "file_index", "from_timestamp", "to_timestamp"} {
			columns = append(columns, "videos/"+l.camera+"/"+name)
		}
	}
	for _, name := range files {
		t, err := openTable(filepath.Join(l.path, name))
		if err != nil {
			return err
		}
		values := map[string][]float64{}
		for _, column := range columns {
			if err == nil && (t.has(column) || column != "length" && !strings.HasSuffix(column, "/to_timestamp")) {
				values[column], err = t.numbers(column, 1)
			}
		}
		t.close()
		if err != nil {
			return err
		}
		for row := range values["episode_index"] {
			at := map[string]float64{}
			for column, v := range values {
				at[column] = v[row]
			}
			e, err := l.info.place(at, l.camera)
			if err != nil {
				return fmt.Errorf("row %d of the table %s: %w (hint: copy the set again)", row, name, err)
			}
			l.located = append(l.located, e)
		}
	}
	return nil
}

// place makes an episode of version 3 of a row of meta/episodes, which has the columns of at.
func (i *leRobotInfo) place(at map[string]float64, camera string) (e leRobotEpisode, err error) {
	whole := func(column string, least int) int {
		v := at[column]
		if !(v >= float64(least) && v <= maxEpisode && v == math.Trunc(v)) {
			err = fmt.Errorf("its %s is %g, not a whole number from %d to %d", column, v, least, maxEpisode)
			return 0
		}
		return int(v)
	}
	e.index = whole("episode_index", 0)
	e.data = fmt.Sprintf("data/chunk-%03d/file-%03d.parquet", whole("data/chunk_index", 0), whole("data/file_index", 0))
	if _, ok := at["length"]; ok {
		e.rows = whole("length", 1)
	}
	film := "videos/" + camera
	if from, ok := at[film+"/from_timestamp"]; ok && err == nil {
		e.film = fmt.Sprintf("%s/chunk-%03d/file-%03d.mp4", film, whole(film+"/chunk_index", 0), whole(film+"/file_index", 0))
		first := math.Round(from * i.FPS)
		if !(first >= 0 && first <= 1<<31 && math.Abs(from*i.FPS-first) <= .25) {
			return e, fmt.Errorf("its %s/from_timestamp is %g s, not the time of a frame at %g frames a second", film, from, i.FPS)
		}
		e.first = int(first)
		if to, ok := at[film+"/to_timestamp"]; ok {
			n := (to - from) * i.FPS
			if e.rows == 0 {
				e.rows = int(math.Round(max(1, min(n, maxEpisode))))
			}
			if !(math.Abs(n-float64(e.rows)) < .5) {
				return e, fmt.Errorf("its film lasts from %g to %g s, not the time of %d rows at %g frames a second", from, to, e.rows, i.FPS)
			}
		}
	}
	return e, err
}

// list makes the episodes of version 2, which are those of meta/episodes.jsonl where it exists.
func (l *leRobot) list() error {
	b, err := safefile.Read(filepath.Join(l.path, "meta", "episodes.jsonl"), safefile.MaxMetrics)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range l.info.Episodes {
			l.located = append(l.located, leRobotEpisode{index: i})
		}
	} else if err != nil {
		return err
	} else if l.located, err = parseEpisodes(b); err != nil {
		return fmt.Errorf("its meta/episodes.jsonl: %w", err)
	}
	for i := range l.located {
		e := &l.located[i]
		chunk := e.index / l.info.ChunkSize
		e.data = fmt.Sprintf("data/chunk-%03d/episode_%06d.parquet", chunk, e.index)
		e.film = fmt.Sprintf("videos/chunk-%03d/%s/episode_%06d.mp4", chunk, l.camera, e.index)
	}
	return nil
}

// parseEpisodes reads meta/episodes.jsonl.
func parseEpisodes(b []byte) (all []leRobotEpisode, err error) {
	for d := json.NewDecoder(bytes.NewReader(b)); d.More(); {
		at := struct {
			Index int `json:"episode_index"`
			Rows  int `json:"length"`
		}{-1, -1}
		if err := d.Decode(&at); err != nil || at.Index < 0 || at.Index > maxEpisode || at.Rows < 1 || at.Rows > maxEpisode {
			return nil, fmt.Errorf("its entry %d has the episode_index %d, the length %d, %v (hint: copy the set again)", len(all), at.Index, at.Rows, err)
		}
		all = append(all, leRobotEpisode{index: at.Index, rows: at.Rows})
	}
	return all, nil
}

// count sorts the episodes and checks that none is missing or listed twice.
func (l *leRobot) count() error {
	slices.SortFunc(l.located, func(a, b leRobotEpisode) int { return a.index - b.index })
	for i, e := range l.located {
		if i > 0 && l.located[i-1].index == e.index {
			return fmt.Errorf("the episode %d is listed twice in meta (hint: copy the set again)", e.index)
		}
		for _, path := range []string{e.data, e.film} {
			if l.uses[path] == nil {
				l.uses[path] = &leRobotUse{}
			}
			l.uses[path].episodes++
		}
	}
	n := len(l.located)
	if n != l.info.Episodes {
		return fmt.Errorf("meta lists %d episodes, and total_episodes of meta/info.json is %d (hint: copy the set again; where episodes were removed on purpose, correct total_episodes)", n, l.info.Episodes)
	}
	if n > 0 && l.located[n-1].index >= n {
		l.leftOut = append(l.leftOut, fmt.Sprintf("%d of the episodes up to number %d are missing", l.located[n-1].index+1-n, l.located[n-1].index))
	}
	return nil
}

func (l *leRobot) episodes() int { return len(l.located) }

func (l *leRobot) close() {
	if l.film != nil {
		l.film.close()
	}
	if l.table != nil {
		l.table.close()
	}
}

func (l *leRobot) episode(i int) (e episode, err error) {
	at := l.located[i]
	e.source, e.leftOut = fmt.Sprintf("%d of %s", at.index, l.path), slices.Clone(l.leftOut)
	if path := filepath.Join(l.path, at.data); l.table == nil || l.table.path != path {
		if l.table != nil {
			l.table.close()
		}
		if l.table, err = openTable(path); err != nil {
			return e, err
		}
	}
	from, to, err := l.rows(at)
	if err != nil {
		return e, fmt.Errorf("the table %s: %w", at.data, err)
	}
	arrays := map[string]array{}
	for name, f := range l.info.Features {
		if f.isFrames() || slices.Contains(leRobotIndices, name) {
			continue
		}
		a, err := l.table.feature(name, f, from, to)
		if errors.Is(err, errNoNumbers) {
			e.leftOut = append(e.leftOut, fmt.Sprintf("the feature %s is left out: %v", name, err))
			continue
		}
		if err != nil {
			return e, err
		}
		if column, ok := leRobotNames[name]; ok {
			name = column
		}
		arrays[name] = a
	}
	slices.Sort(e.leftOut)
	switch l.info.Features[l.camera].Type {
	case "video":
		arrays["pixels"], err = l.filmed(at, to-from)
	case "image":
		arrays["pixels"], err = l.table.pictures(l.camera, from, to)
	}
	if err != nil {
		return e, err
	}
	return e, e.take(arrays)
}

// rows finds those of an episode in its table, which is open.
func (l *leRobot) rows(at leRobotEpisode) (from, to int, err error) {
	var index []float64
	numbers, err := l.table.numbers("episode_index", 1)
	if err == nil && l.table.has("frame_index") {
		index, err = l.table.numbers("frame_index", 1)
	}
	if err != nil {
		return 0, 0, err
	}
	const sorted = "(hint: sort the table by episode_index and frame_index; are rows missing?)"
	n := 0
	for row, number := range numbers {
		if number != float64(at.index) {
			continue
		}
		if n == 0 {
			from = row
		}
		if row != from+n {
			return 0, 0, fmt.Errorf("the rows of the episode do not follow one another: others lie before row %d %s", row, sorted)
		}
		if index != nil && index[row] != float64(n) {
			return 0, 0, fmt.Errorf("row %d has the frame_index %g, which should be %d %s", row, index[row], n, sorted)
		}
		n++
	}
	if n == 0 {
		return 0, 0, errors.New("it has no rows of the episode (hint: is it in another table than meta says? copy the set again)")
	}
	if at.rows > 0 && n != at.rows {
		return 0, 0, fmt.Errorf("it has %d rows of the episode, and meta says %d (hint: copy the set again)", n, at.rows)
	}
	use := l.uses[at.data]
	use.episodes, use.taken = use.episodes-1, use.taken+n
	if use.episodes == 0 && use.taken != len(numbers) {
		err = fmt.Errorf("it has %d rows, and the episodes that meta finds in it have %d (hint: remove rows of other episodes, or copy the set again)", len(numbers), use.taken)
	}
	return from, from + n, err
}

// has says that a table has a column.
func (t *table) has(name string) bool {
	return slices.ContainsFunc(t.file.Schema().Columns(), func(path []string) bool { return path[0] == name })
}

// filmed are the n frames of an episode. Episodes follow one another in a film, which is decoded once
// and to its end.
func (l *leRobot) filmed(at leRobotEpisode, n int) (a array, err error) {
	path, use := filepath.Join(l.path, at.film), l.uses[at.film]
	if at.first < use.end {
		return a, fmt.Errorf("its frames of the film %s begin at %d, and those of the episode %d end at %d (hint: frames belong to one episode, and episodes follow one another in a film; was the set merged wrongly?)", path, at.first, use.last, use.end)
	}
	if l.film != nil && l.film.path != path {
		l.film.close()
		l.film = nil
	}
	if l.film == nil {
		if l.film, err = openFilm(l.ctx, path, l.info.FPS); err != nil {
			return a, err
		}
	}
	if a, err = l.film.frames(at.first, n); err != nil {
		return a, err
	}
	use.episodes, use.taken, use.end, use.last = use.episodes-1, use.taken+n, at.first+n, at.index
	if use.episodes > 0 {
		return a, nil
	}
	if l.version == 2 {
		return a, l.film.finish(n)
	}
	if err = l.film.finish(-1); err == nil && l.film.next != use.taken {
		l.note(fmt.Sprintf("the film %s has %d frames, and its episodes use %d: the others are left out", path, l.film.next, use.taken))
	}
	return a, err
}
