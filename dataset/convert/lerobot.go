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

// leRobot is a LeRobot data set of version 2, with a table and a film for each
// episode, or of version 3, with many episodes in each (docs/sources.md#lerobot).
// Tables and films are opened one at a time, in the order of the episodes.
type leRobot struct {
	ctx     context.Context
	path    string
	job     *Job
	info    leRobotInfo
	version int
	// camera is the feature whose frames are read, or "".
	camera  string
	leftOut []string
	// located are the episodes, sorted by number.
	located []leRobotEpisode
	// uses counts what episodes have taken from tables and films, by path.
	uses map[string]*leRobotUse
	// table is the open table, or nil.
	table *table
	// film is the open film, or nil.
	film *film
}

// leRobotUse is what episodes have taken from one table or film. When the last of
// them was read, every row and frame must be accounted for.
type leRobotUse struct {
	// episodes is the number of episodes still to be read.
	episodes int
	// taken is the number of rows or frames taken so far.
	taken int
	// end is the frame after the last one taken.
	end int
	// last is the number of the episode that was read last.
	last int
}

// leRobotInfo is the content of meta/info.json.
type leRobotInfo struct {
	Version   string                    `json:"codebase_version"`
	FPS       float64                   `json:"fps"`
	Episodes  int                       `json:"total_episodes"`
	ChunkSize int                       `json:"chunks_size"`
	Features  map[string]leRobotFeature `json:"features"`
}

// leRobotFeature is the type and the shape of a row of a feature.
type leRobotFeature struct {
	Type  string `json:"dtype"`
	Shape []int  `json:"shape"`
	Info  struct {
		Depth bool `json:"video.is_depth_map"`
	} `json:"info"`
}

// isFrames reports whether a feature is a camera.
func (f leRobotFeature) isFrames() bool { return f.Type == "video" || f.Type == "image" }

// leRobotEpisode says where an episode is stored.
type leRobotEpisode struct {
	// index is the episode's number, and rows its length, or 0 if that is not
	// declared.
	index, rows int
	// data and film are paths below the folder.
	data, film string
	// first is the episode's first frame in the film.
	first int
}

// leRobotIndices are features that number rows. The writer makes its own.
var leRobotIndices = []string{"index", "episode_index", "frame_index"}

// openLeRobot reads the metadata of a data set and finds its episodes.
func openLeRobot(ctx context.Context, in *input, j *Job) (recording, error) {
	path := in.path()
	l := &leRobot{ctx: ctx, path: path, job: j, uses: map[string]*leRobotUse{}}
	b, err := safefile.Read(filepath.Join(path, "meta", "info.json"), safefile.MaxRecord)
	if err == nil {
		err = l.info.parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("its meta/info.json: %w", err)
	}
	// parse has made sure that the version begins with v2. or v3.
	l.version = int(l.info.Version[1] - '0')
	var cameras []string
	for name, f := range l.info.Features {
		switch {
		case f.isFrames() && f.Info.Depth && name != j.Frames:
			l.leftOut = append(l.leftOut, fmt.Sprintf("the frames %s are left out: they are of a depth camera", name))
		case f.isFrames():
			cameras = append(cameras, name)
		}
	}
	slices.Sort(cameras)
	if l.camera, err = j.camera(cameras); err != nil {
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

// parse parses and checks info.json. Names of features become parts of paths, so they
// must not lead out of the folder.
func (i *leRobotInfo) parse(b []byte) error {
	if err := json.Unmarshal(b, i); err != nil {
		return fmt.Errorf("%w (hint: is it a LeRobot set?)", err)
	}
	if !strings.HasPrefix(i.Version, "v2.") && !strings.HasPrefix(i.Version, "v3.") {
		return fmt.Errorf("it has the version %q (hint: versions 2 and 3 are read; lerobot converts older ones)", i.Version)
	}
	if i.Episodes < 0 || i.Episodes > maxEpisode || !(i.FPS > 0) || i.FPS > 1e6 || i.ChunkSize < 1 && i.Version[1] == '2' {
		return fmt.Errorf("it has %d episodes, %d per chunk, at %g frames per second (hint: is the file complete?)", i.Episodes, i.ChunkSize, i.FPS)
	}
	for name, f := range i.Features {
		if !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("it has a feature %q, which is not a valid name", name)
		}
		// A row of a vector has at most maxRowBytes numbers. The shape of a camera is
		// not used: some sets have (3, H, W) and call it height, width, channel.
		n := 1
		for _, edge := range f.Shape {
			if n *= edge; !f.isFrames() && (n < 0 || n > maxRowBytes || len(f.Shape) > maxAxes) {
				return fmt.Errorf("its feature %s has the shape %v (hint: is it a camera of the type video or image?)", name, f.Shape)
			}
			n = min(n, maxRowBytes+1)
		}
	}
	return nil
}

// locate reads from meta/episodes where the episodes of version 3 are.
func (l *leRobot) locate() error {
	files, err := l.glob("meta/episodes/chunk-*/file-*.parquet")
	if err != nil {
		return err
	}
	// The columns of meta/episodes that say where an episode is. A film may have the
	// frames of many episodes, of which this one's are the times from from_timestamp
	// to to_timestamp.
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
			// Length and end are missing in some data sets. If present they are
			// checked.
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

// glob returns the files of the set that match a pattern, in the order of their
// numbers.
func (l *leRobot) glob(pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(l.path), pattern)
	slices.SortFunc(names, natural)
	return names, err
}

// place returns the episode of version 3 that a row of meta/episodes describes; at
// has the columns of the row. Times must be those of frames, since rounding a wrong
// time would shift frames against rows.
func (i *leRobotInfo) place(at map[string]float64, camera string) (e leRobotEpisode, err error) {
	integer := func(column string, least int) int {
		v := at[column]
		if !(v >= float64(least) && v <= maxEpisode && v == math.Trunc(v)) {
			err = fmt.Errorf("its %s is %g, not a whole number from %d to %d", column, v, least, maxEpisode)
			return 0
		}
		return int(v)
	}
	e.index = integer("episode_index", 0)
	e.data = fmt.Sprintf("data/chunk-%03d/file-%03d.parquet", integer("data/chunk_index", 0), integer("data/file_index", 0))
	if _, ok := at["length"]; ok {
		e.rows = integer("length", 1)
	}
	film := "videos/" + camera
	if from, ok := at[film+"/from_timestamp"]; ok && err == nil {
		e.film = fmt.Sprintf("%s/chunk-%03d/file-%03d.mp4", film, integer(film+"/chunk_index", 0), integer(film+"/file_index", 0))
		// Timestamps are float64 seconds, so allow for rounding, but not for a time
		// between two frames.
		first := math.Round(from * i.FPS)
		if !(first >= 0 && first <= 1<<31 && math.Abs(from*i.FPS-first) <= .25) {
			return e, fmt.Errorf("its %s/from_timestamp is %g s, not the time of a frame at %g frames per second", film, from, i.FPS)
		}
		e.first = int(first)
		if to, ok := at[film+"/to_timestamp"]; ok {
			// The duration must be that of the rows, to within half a frame.
			n := (to - from) * i.FPS
			if e.rows == 0 {
				e.rows = int(math.Round(max(1, min(n, maxEpisode))))
			}
			if !(math.Abs(n-float64(e.rows)) < .5) {
				return e, fmt.Errorf("its film lasts from %g to %g s, not the time of %d rows at %g frames per second", from, to, e.rows, i.FPS)
			}
		}
	}
	return e, err
}

// list finds the episodes of version 2: those in meta/episodes.jsonl, or, without that
// file, those that have tables. Numbers may have gaps where episodes were removed.
func (l *leRobot) list() error {
	b, err := safefile.Read(filepath.Join(l.path, "meta", "episodes.jsonl"), safefile.MaxMetrics)
	if errors.Is(err, fs.ErrNotExist) {
		tables, err := l.glob("data/chunk-*/episode_*.parquet")
		if err != nil {
			return err
		}
		for _, name := range tables {
			var chunk, index int
			if _, err := fmt.Sscanf(name, "data/chunk-%d/episode_%d.parquet", &chunk, &index); err == nil && index >= 0 && index <= maxEpisode {
				l.located = append(l.located, leRobotEpisode{index: index})
			}
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

// parseEpisodes parses meta/episodes.jsonl.
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

// count sorts the episodes, and checks that none is listed twice and that there are no
// more than declared. Fewer are a note: where episodes were removed, total_episodes is
// the number before or after.
func (l *leRobot) count() error {
	slices.SortFunc(l.located, func(a, b leRobotEpisode) int { return a.index - b.index })
	for i, e := range l.located {
		if i > 0 && l.located[i-1].index == e.index {
			return fmt.Errorf("the episode %d is listed twice in meta (hint: copy the set again)", e.index)
		}
		for _, path := range []string{e.data, e.film} {
			l.use(path).episodes++
		}
	}
	n := len(l.located)
	if n > l.info.Episodes {
		return fmt.Errorf("meta lists %d episodes, and total_episodes of meta/info.json is %d (hint: copy the set again, or correct total_episodes)", n, l.info.Episodes)
	}
	if n == 0 {
		return nil
	}
	if all := max(l.located[n-1].index+1, l.info.Episodes); n < all {
		l.leftOut = append(l.leftOut, fmt.Sprintf("%d of the %d episodes are missing: the set has %d, up to number %d", all-n, all, n, l.located[n-1].index))
	}
	return nil
}

// use returns what episodes have taken from a table or a film.
func (l *leRobot) use(path string) *leRobotUse {
	if l.uses[path] == nil {
		l.uses[path] = &leRobotUse{}
	}
	return l.uses[path]
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

// episode reads the features and the frames of an episode.
func (l *leRobot) episode(i int) (e rows, err error) {
	at := l.located[i]
	e.source, e.leftOut = fmt.Sprintf("%d of %s", at.index, l.path), slices.Clone(l.leftOut)
	from, to, err := l.find(&at)
	if err != nil {
		return e, fmt.Errorf("the table %s: %w", at.data, err)
	}
	if at.data != l.located[i].data {
		e.leftOut = append(e.leftOut, fmt.Sprintf("the rows of episode %d are in %s, and meta says %s", at.index, at.data, l.located[i].data))
	}
	e.arrays = map[string]array{}
	for name, f := range l.info.Features {
		if f.isFrames() || slices.Contains(leRobotIndices, name) {
			continue
		}
		a, err := l.table.feature(name, f, from, to)
		if errors.Is(err, errNotNumeric) {
			e.leftOut = append(e.leftOut, fmt.Sprintf("the feature %s is left out: %v", name, err))
			continue
		}
		if err != nil {
			return e, err
		}
		e.arrays[name] = a
	}
	slices.Sort(e.leftOut)
	switch l.info.Features[l.camera].Type {
	case "video":
		e.arrays["pixels"], err = l.videoFrames(at, to-from)
	case "image":
		e.arrays["pixels"], err = l.table.pictures(l.camera, from, to, l.job.fit)
	}
	return e, err
}

// openTable makes a table of the set the open one.
func (l *leRobot) openTable(name string) (err error) {
	path := filepath.Join(l.path, name)
	if l.table != nil && l.table.path == path {
		return nil
	}
	if l.table != nil {
		l.table.close()
	}
	l.table, err = openTable(path)
	return err
}

// errNoRows is returned for a table without rows of an episode.
var errNoRows = errors.New("it has no rows of the episode, and the next table neither (hint: data/file_index of meta/episodes is wrong: convert the set again, or copy it again)")

// find opens the table of an episode and finds its rows. lerobot's converter to
// version 3 wrote a file_index that is one too small for the first episode of a table
// (huggingface/lerobot, issue 2401), so the next table may have the rows; find then
// corrects at.
func (l *leRobot) find(at *leRobotEpisode) (from, to int, err error) {
	if err := l.openTable(at.data); err != nil {
		return 0, 0, err
	}
	if from, to, err = l.rows(*at); !errors.Is(err, errNoRows) || l.version == 2 {
		return from, to, err
	}
	tables, err := l.glob("data/chunk-*/file-*.parquet")
	if err != nil {
		return 0, 0, err
	}
	next := slices.Index(tables, at.data) + 1
	if next == 0 || next == len(tables) {
		return 0, 0, errNoRows
	}
	if err := l.openTable(tables[next]); err != nil {
		return 0, 0, err
	}
	// The episode counts for the other table.
	l.use(at.data).episodes--
	at.data = tables[next]
	l.use(at.data).episodes++
	return l.rows(*at)
}

// rows finds the rows [from, to) of an episode in the open table. They must be
// consecutive, in the order of frame_index, and as many as declared.
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
	// The table may have rows of other episodes before and after.
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
		return 0, 0, errNoRows
	}
	if at.rows > 0 && n != at.rows {
		return 0, 0, fmt.Errorf("it has %d rows of the episode, and meta says %d (hint: copy the set again)", n, at.rows)
	}
	// When the last episode of the table was read, all its rows must have been taken:
	// others would be rows that metadata do not mention.
	use := l.uses[at.data]
	use.episodes, use.taken = use.episodes-1, use.taken+n
	if use.episodes == 0 && use.taken != len(numbers) {
		err = fmt.Errorf("it has %d rows, and the episodes that meta finds in it have %d (hint: remove rows of other episodes, or copy the set again)", len(numbers), use.taken)
	}
	return from, from + n, err
}

// has reports whether a table has a column.
func (t *table) has(name string) bool {
	return slices.ContainsFunc(t.file.Schema().Columns(), func(path []string) bool { return path[0] == name })
}

// videoFrames returns the n frames of an episode from its film. Episodes follow one
// another in a film, which is decoded once, to its end.
func (l *leRobot) videoFrames(at leRobotEpisode, n int) (a array, err error) {
	path, use := filepath.Join(l.path, at.film), l.uses[at.film]
	// The film is decoded forwards only, and two episodes cannot share a frame.
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
	if a, err = l.film.frames(at.first, n, l.job.fit); err != nil {
		return a, err
	}
	use.episodes, use.taken, use.end, use.last = use.episodes-1, use.taken+n, at.first+n, at.index
	if use.episodes > 0 {
		return a, nil
	}
	// In version 2 a film has exactly the frames of its episode. In version 3 it may
	// have frames that no episode uses; they are reported.
	if l.version == 2 {
		return a, l.film.finish(n)
	}
	if err = l.film.finish(-1); err == nil && l.film.next != use.taken {
		l.job.Note(fmt.Sprintf("the film %s has %d frames, and its episodes use %d: the others are left out", path, l.film.next, use.taken))
	}
	return a, err
}
