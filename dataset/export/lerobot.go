package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"scalewm/dataset/parallel"
)

// LeRobot's policies take features by these names: the camera, and one state. Package
// convert reads observation.state as proprio.
var leRobotNames = []naming{{"pixels", "observation.image"}, {"proprio", "observation.state"}, {"state", "observation.state"}, {"observation", "observation.state"}}

// leRobotOwn are the features that number rows and episodes.
var leRobotOwn = []string{"timestamp", "frame_index", "episode_index", "index", "task_index"}

const (
	// leRobotFile is the size in bytes at which LeRobot starts another table of rows,
	// and leRobotChunk the number of tables in a folder.
	leRobotFile  = 100 << 20
	leRobotChunk = 1000
	leRobotPath  = "chunk-%03d/file-%03d.parquet"
)

// leRobot writes a set of LeRobot's version 3.0: tables of rows, a table of episodes,
// a table of tasks, and statistics (docs/sources.md#lerobot). Frames are PNG in the
// tables of rows and not films, which would change them.
type leRobot struct {
	dir string
	set *set
	// columns are those of the set and leRobotOwn.
	columns []column
	// rows is the current table of rows, with the number file, or nil. At limit bytes
	// the next one begins.
	rows, episodes *table
	file           int
	limit          int64
	// total has the statistics of each column, and of the frames.
	total []stats
}

func createLeRobot(dir string, s *set) (writer, error) {
	l := &leRobot{dir: dir, set: s, limit: leRobotFile, columns: s.columns[:len(s.columns):len(s.columns)]}
	for _, name := range leRobotOwn {
		c := column{theirs: name}
		if c.DType, c.Width = "int64", 1; name == "timestamp" {
			c.DType = "float32"
		}
		l.columns = append(l.columns, c)
	}
	l.total = make([]stats, len(l.columns)+1)
	var err error
	l.episodes, err = createTable(filepath.Join(dir, "meta/episodes", fmt.Sprintf(leRobotPath, 0, 0)), l.episodeFields(), "")
	return l, err
}

// rowFields returns the columns of the tables of rows.
func (l *leRobot) rowFields() (fields []field) {
	for _, c := range l.columns {
		f := field{path: []string{c.theirs}, leaf: leaf(c.DType)}
		if c.Width > 1 {
			f.shape = []int{c.Width}
		}
		fields = append(fields, f)
	}
	if l.set.edge > 0 {
		fields = append(fields, field{path: []string{l.set.pixels, "bytes"}, leaf: parquet.Leaf(parquet.ByteArrayType)},
			field{path: []string{l.set.pixels, "path"}, leaf: parquet.String()})
	}
	return fields
}

func (l *leRobot) append(ctx context.Context, e *episode) (err error) {
	if l.rows == nil {
		path := filepath.Join(l.dir, "data", fmt.Sprintf(leRobotPath, l.file/leRobotChunk, l.file%leRobotChunk))
		if l.rows, err = createTable(path, l.rowFields(), ""); err != nil {
			return err
		}
	}
	pictures, err := l.pictures(ctx, e)
	if err != nil {
		return err
	}
	values := append(e.values[:len(e.values):len(e.values)], l.indices(e)...)
	for t := range e.rows {
		var row [][]parquet.Value
		for i, c := range l.columns {
			n := c.Width * sizes[c.DType]
			row = append(row, cells(c.DType, values[i][t*n:(t+1)*n]))
		}
		if pictures != nil {
			row = append(row, []parquet.Value{parquet.ByteArrayValue(pictures[t])}, text(fmt.Sprintf("frame-%06d.png", t)))
		}
		if err := l.rows.add(row); err != nil {
			return err
		}
	}
	if err := l.addEpisode(e, values); err != nil {
		return err
	}
	// A row group holds an episode, so that one is in memory.
	size, err := l.rows.flush()
	if err == nil && size >= l.limit {
		err = l.rows.close()
		l.rows, l.file = nil, l.file+1
	}
	return err
}

// indices returns the values of leRobotOwn.
func (l *leRobot) indices(e *episode) [][]byte {
	out := make([][]byte, len(leRobotOwn))
	for t := range e.rows {
		out[0] = binary.LittleEndian.AppendUint32(out[0], math.Float32bits(float32(float64(t)/float64(l.set.fps))))
		for i, n := range []int{t, e.index, e.first + t, 0} {
			out[i+1] = binary.LittleEndian.AppendUint64(out[i+1], uint64(n))
		}
	}
	return out
}

// pictures returns the frames of an episode as PNG, or nil.
func (l *leRobot) pictures(ctx context.Context, e *episode) ([][]byte, error) {
	if l.set.edge == 0 {
		return nil, nil
	}
	out, edge := make([][]byte, e.rows), l.set.edge
	return out, parallel.For(ctx, 0, e.rows, func(_, t int) error {
		img := image.NewRGBA(image.Rect(0, 0, edge, edge))
		for i, v := range e.frame(t) {
			img.Pix[i/3*4+i%3] = v
		}
		for i := 3; i < len(img.Pix); i += 4 {
			img.Pix[i] = 255
		}
		var b bytes.Buffer
		// The fastest level is that of LeRobot's writer too.
		err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
		out[t] = b.Bytes()
		return err
	})
}

func (l *leRobot) close() error {
	if l.rows != nil {
		if err := l.rows.close(); err != nil {
			return err
		}
	}
	if err := l.episodes.close(); err != nil {
		return err
	}
	return l.writeMeta()
}

// abort closes the files after an error. After close it does nothing.
func (l *leRobot) abort() {
	for _, t := range []*table{l.rows, l.episodes} {
		if t != nil {
			t.f.Close()
		}
	}
}
