package convert

import (
	"bytes"
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
