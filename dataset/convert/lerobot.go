package convert

import (
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

	"scalewm/dataset/cell"
)

// leRobot is a LeRobot set of version 2 (a table and a film for each episode) or 3 (many episodes
// in each): docs/sources.md#lerobot.
type leRobot struct {
	ctx      context.Context
	path     string
	info     leRobotInfo
	version  int
	camera   string
	leftOut  []string
	located  []leRobotEpisode // of version 3
	table    *table           // that was read last
	film     *film            // that is open
	numbered int              // episodes
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

// leRobotEpisode says where an episode of version 3 lies.
type leRobotEpisode struct {
	index, chunk, file         int
	filmChunk, filmFile, first int // of the camera's film, and the episode's first frame in it
}

// What stable_worldmodel calls the features of a LeRobot set; frames are its pixels.
var leRobotNames = map[string]string{"observation.state": "proprio"}

// leRobotIndices number rows and are made anew.
var leRobotIndices = []string{"index", "episode_index", "frame_index"}

func openLeRobot(ctx context.Context, path, camera string) (*leRobot, error) {
	l := &leRobot{ctx: ctx, path: path}
	b, err := cell.ReadFile(filepath.Join(path, "meta", "info.json"), cell.MaxRecord)
	if err == nil {
		err = l.info.parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("its meta/info.json: %w", err)
	}
	l.version, l.numbered = int(l.info.Version[1]-'0'), l.info.Episodes
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
	}
	return l, err
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

// locate reads where the episodes of version 3 lie.
func (l *leRobot) locate() error {
	files, err := fs.Glob(os.DirFS(l.path), "meta/episodes/chunk-*/file-*.parquet")
	if err != nil {
		return err
	}
	for _, name := range files {
		t, err := openTable(filepath.Join(l.path, name))
		if err != nil {
			return err
		}
		of := func(name string) []float64 {
			var v []float64
			if err == nil {
				v, err = t.numbers(name, 1)
			}
			return v
		}
		index, chunk, file := of("episode_index"), of("data/chunk_index"), of("data/file_index")
		var film [3][]float64
		if l.info.Features[l.camera].Type == "video" {
			for i, name := range []string{"chunk_index", "file_index", "from_timestamp"} {
				film[i] = of("videos/" + l.camera + "/" + name)
			}
		}
		t.close()
		if err != nil {
			return err
		}
		for i := range index {
			e := leRobotEpisode{index: int(index[i]), chunk: int(chunk[i]), file: int(file[i])}
			if film[0] != nil {
				e.filmChunk, e.filmFile, e.first = int(film[0][i]), int(film[1][i]), int(math.Round(film[2][i]*l.info.FPS))
			}
			l.located = append(l.located, e)
		}
	}
	slices.SortFunc(l.located, func(a, b leRobotEpisode) int { return a.index - b.index })
	l.numbered = len(l.located)
	return nil
}

func (l *leRobot) episodes() int { return l.numbered }

func (l *leRobot) close() {
	if l.film != nil {
		l.film.close()
	}
	if l.table != nil {
		l.table.close()
	}
}

func (l *leRobot) episode(i int) (e episode, err error) {
	e.source, e.leftOut = fmt.Sprintf("%d of %s", i, l.path), slices.Clone(l.leftOut)
	at := leRobotEpisode{index: i, chunk: i / max(l.info.ChunkSize, 1)}
	data := fmt.Sprintf("data/chunk-%03d/episode_%06d.parquet", at.chunk, i)
	film := fmt.Sprintf("videos/chunk-%03d/%s/episode_%06d.mp4", at.chunk, l.camera, i)
	if l.version == 3 {
		at = l.located[i]
		data = fmt.Sprintf("data/chunk-%03d/file-%03d.parquet", at.chunk, at.file)
		film = fmt.Sprintf("videos/%s/chunk-%03d/file-%03d.mp4", l.camera, at.filmChunk, at.filmFile)
	}
	if path := filepath.Join(l.path, data); l.table == nil || l.table.path != path {
		if l.table != nil {
			l.table.close()
		}
		if l.table, err = openTable(path); err != nil {
			return e, err
		}
	}
	numbers, err := l.table.numbers("episode_index", 1)
	if err != nil {
		return e, err
	}
	from := slices.Index(numbers, float64(at.index))
	if from < 0 {
		return e, fmt.Errorf("the table %s has no rows of it", data)
	}
	to := from
	for to < len(numbers) && numbers[to] == float64(at.index) {
		to++
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
		arrays["pixels"], err = l.filmed(filepath.Join(l.path, film), at.first, to-from)
	case "image":
		arrays["pixels"], err = l.table.pictures(l.camera, from, to)
	}
	if err != nil {
		return e, err
	}
	return e, e.take(arrays)
}

// filmed are n frames of a film. Episodes follow one another in it, so that it is decoded once.
func (l *leRobot) filmed(path string, first, n int) (a array, err error) {
	if l.film == nil || l.film.path != path || l.film.cmd == nil || l.film.next > first {
		if l.film != nil {
			l.film.close()
			l.film = nil
		}
		if l.film, err = openFilm(l.ctx, path); err != nil {
			return a, err
		}
	}
	return l.film.frames(first, n)
}
