package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

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
