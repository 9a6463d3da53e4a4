package export

import (
	"fmt"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// statNames are the names of statistics in LeRobot, in the order of stats.named.
var statNames = append([]string{"min", "max", "mean", "std"}, quantileNames[:]...)

// named returns the statistics in the order of statNames.
func (s *stats) named() [][]float64 {
	return append([][]float64{s.min, s.max, s.mean, s.std}, s.quantiles[:]...)
}

// feature returns the name of feature i: a column, or after these the frames.
func (l *leRobot) feature(i int) string {
	if i < len(l.columns) {
		return l.columns[i].theirs
	}
	return l.set.pixels
}

// features returns the number of features.
func (l *leRobot) features() int {
	if l.set.edge > 0 {
		return len(l.columns) + 1
	}
	return len(l.columns)
}

// episodeFields returns the columns of the table of episodes: where each is, and its
// statistics.
func (l *leRobot) episodeFields() []field {
	integer, double := parquet.Int(64), parquet.Leaf(parquet.DoubleType)
	var fields []field
	for _, name := range []string{"episode_index", "length", "data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index", "meta/episodes/chunk_index", "meta/episodes/file_index"} {
		fields = append(fields, field{path: []string{name}, leaf: integer})
	}
	fields = append(fields, field{path: []string{"tasks"}, leaf: parquet.String(), shape: []int{1}})
	for i := range l.features() {
		// Statistics of frames are those of each colour.
		shape := []int{3, 1, 1}
		if i < len(l.columns) {
			shape = []int{l.columns[i].Width}
		}
		for _, name := range statNames {
			fields = append(fields, field{path: []string{"stats/" + l.feature(i) + "/" + name}, leaf: double, shape: shape})
		}
		fields = append(fields, field{path: []string{"stats/" + l.feature(i) + "/count"}, leaf: integer, shape: []int{1}})
	}
	return fields
}

// addEpisode adds an episode, which is in the current table of rows.
func (l *leRobot) addEpisode(e *episode, values [][]byte) error {
	var row [][]parquet.Value
	for _, n := range []int{e.index, e.rows, l.file / leRobotChunk, l.file % leRobotChunk, e.first, e.first + e.rows, 0, 0} {
		row = append(row, []parquet.Value{parquet.Int64Value(int64(n))})
	}
	row = append(row, text(l.set.task))
	for i := range l.features() {
		var s stats
		if i < len(l.columns) {
			s = describe(numbers(l.columns[i].DType, values[i]), l.columns[i].Width)
		} else {
			s = describeFrames(e.frames, e.rows)
		}
		for _, of := range s.named() {
			var cells []parquet.Value
			for _, v := range of {
				cells = append(cells, parquet.DoubleValue(v))
			}
			row = append(row, cells)
		}
		row = append(row, []parquet.Value{parquet.Int64Value(int64(s.count))})
		l.total[i].add(s)
	}
	return l.episodes.add(row)
}

// pandasIndex says that a table of tasks is indexed by their texts. LeRobot reads it
// with pandas.
const pandasIndex = `{"index_columns": ["__index_level_0__"], "column_indexes": [], "columns": [
{"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": null},
{"name": null, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object", "metadata": null}]}`

// writeMeta writes the files that describe the set.
func (l *leRobot) writeMeta() error {
	tasks, err := createTable(filepath.Join(l.dir, "meta/tasks.parquet"), []field{{path: []string{"task_index"}, leaf: parquet.Int(64)}, {path: []string{"__index_level_0__"}, leaf: parquet.String()}}, pandasIndex)
	if err != nil {
		return err
	}
	err = tasks.add([][]parquet.Value{{parquet.Int64Value(0)}, text(l.set.task)})
	if err == nil {
		err = tasks.close()
	}
	if err != nil {
		return err
	}
	type feature struct {
		Type  string   `json:"dtype"`
		Shape []int    `json:"shape"`
		Names []string `json:"names"`
	}
	features, total := map[string]feature{}, map[string]map[string]any{}
	for i := range l.features() {
		of := map[string]any{"count": []int{l.total[i].count}}
		if i < len(l.columns) {
			features[l.feature(i)] = feature{l.columns[i].DType, []int{l.columns[i].Width}, nil}
		} else {
			features[l.feature(i)] = feature{"image", []int{l.set.edge, l.set.edge, 3}, []string{"height", "width", "channels"}}
		}
		for k, values := range l.total[i].named() {
			of[statNames[k]] = values
			if i == len(l.columns) {
				of[statNames[k]] = [][][]float64{{{values[0]}}, {{values[1]}}, {{values[2]}}}
			}
		}
		total[l.feature(i)] = of
	}
	if err := writeJSON(filepath.Join(l.dir, "meta/stats.json"), total); err != nil {
		return err
	}
	return writeJSON(filepath.Join(l.dir, "meta/info.json"), map[string]any{
		"codebase_version":      "v3.0",
		"robot_type":            nil,
		"total_episodes":        l.set.episodes,
		"total_frames":          l.set.rows,
		"total_tasks":           1,
		"chunks_size":           leRobotChunk,
		"data_files_size_in_mb": leRobotFile >> 20,
		// LeRobot's own default. There are no films.
		"video_files_size_in_mb": 200,
		"fps":                    l.set.fps,
		"splits":                 map[string]string{"train": fmt.Sprintf("0:%d", l.set.episodes)},
		"data_path":              "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
		"video_path":             nil,
		"features":               features,
	})
}
